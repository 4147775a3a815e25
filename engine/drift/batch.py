"""A batch of records through a watch."""

import numpy as np
from resonance.engine.arithmetic import inline, jit
from resonance.engine.borrowed import borrow
from resonance.engine.drift import layout
from resonance.engine.drift.episode import end_episode, raise_alarm
from resonance.engine.drift.layout import WatchState
from resonance.engine.drift.report import MOST
from resonance.engine.drift.shares import close_share_block
from resonance.engine.drift.unit import learn_record

_MOST_VOTES = 64


def rows_of(units: int) -> int:
    """Return the rows that a record can take at most: an event, a row for each unit and its channels, and the end."""
    return 2 + 2 * units * (1 + MOST)


@inline
def _nearest(centre, cells, x):
    """Return the cell whose centre is nearest, the first of equally near ones."""
    best, found = np.inf, 0
    for c in range(cells):
        total = 0.0
        for i in range(len(x)):
            e = x[i] - centre[c, i]
            total += e * e
        if total < best:
            best, found = total, c
    return found


@inline
def _vote(number, answer):
    """Let a record's cluster vote for the name of its cell."""
    if answer == number[layout.NAME]:
        number[layout.VOTE] = min(number[layout.VOTE] + 1, _MOST_VOTES)
    elif number[layout.VOTE] > 0:
        number[layout.VOTE] -= 1
    else:
        number[layout.NAME], number[layout.VOTE] = answer, 1


@inline
def _borrowed(state):
    """Return the same state without the owners of its arrays, which the caller holds."""
    return WatchState(
        borrow(state.head),
        borrow(state.channel),
        borrow(state.number),
        borrow(state.share),
        borrow(state.share_time),
        borrow(state.mark),
        borrow(state.centre),
        borrow(state.sign),
    )


@jit
def learn_batch(held, rules, X, answers, offsets, times, start, log, rows, vectors, room):
    """Watch a batch from record `start` on, until it ends or `log` has no room for another record's `room` rows.

    Returns
    -------
    int
        The first record that was not watched.
    """
    state, records = _borrowed(held), borrow(X)
    head, number, centre = state.head, state.number, state.centre
    channels = state.channel.shape[2]
    value, clipped = np.empty(channels), np.empty(channels)
    for t in range(start, len(X)):
        if rows[0] + room > len(log):
            return t
        now = head[layout.RECORDS]
        head[layout.RECORDS] = now + 1
        x, offset, time = records[t], offsets[t], times[t]
        alarm = learn_record(
            state.channel[0],
            number[0],
            state.mark[0],
            state.sign,
            rules,
            layout.STREAM_BASE,
            x,
            offset,
            time,
            value,
            clipped,
        )
        cells = head[layout.CELLS]
        units = 1
        if cells > 1:
            units = cells + 1
            k = _nearest(centre, cells, x) + 1
            number[k, layout.COUNT] += 1
            _vote(number[k], answers[t])
            alarm |= learn_record(
                state.channel[k],
                number[k],
                state.mark[k],
                state.sign,
                rules,
                layout.BASE,
                x,
                offset,
                time,
                value,
                clipped,
            )
            if (now + 1) % layout.SHARE_BLOCK == 0:
                for k in range(1, units):
                    alarm |= close_share_block(state.share[k], state.share_time[k], number[k], rules, offset, time)
        if alarm:
            raise_alarm(state, rules, units, now, offset, log, rows, vectors)
        if head[layout.OPEN] and now - head[layout.START] >= rules.hold:
            end_episode(state, rules, units, now, offset, log, rows, vectors)
    return len(X)
