"""A batch of records through a watch."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.borrowed import row
from resonance.engine.drift import layout
from resonance.engine.drift.episode import end_episode, raise_alarm
from resonance.engine.drift.report import MOST
from resonance.engine.drift.shares import close_share_block
from resonance.engine.drift.unit import check_baseline, learn_record

_MOST_VOTES = 64


def rows_of(units: int) -> int:
    """Return the rows that a record can take at most: an event, a row for each unit and its channels, and the end."""
    return 2 + 2 * units * (1 + MOST)


@jit
def _nearest(centre, cells, d, x):
    """Return the cell whose centre is nearest, the first of equally near ones."""
    best, found = np.inf, 0
    for c in range(cells):
        total = 0.0
        for i in range(d):
            e = x[i] - centre[c * d + i]
            total += e * e
        if total < best:
            best, found = total, c
    return found


@jit
def _vote(number, answer):
    """Let a record's cluster vote for the name of its cell."""
    if answer == number[layout.NAME]:
        number[layout.VOTE] = min(number[layout.VOTE] + 1, _MOST_VOTES)
    elif number[layout.VOTE] > 0:
        number[layout.VOTE] -= 1
    else:
        number[layout.NAME], number[layout.VOTE] = answer, 1


@jit
def learn_batch(state, rules, X, answers, offsets, times, start, log, rows, vectors, room):
    """Watch a batch from record `start` on, until it ends or `log` has no room for another record's `room` rows.

    Returns
    -------
    int
        The first record that was not watched.
    """
    head, channel, number, mark = state.head, state.channel, state.number, state.mark
    width, cells = channel.shape[2], head[layout.CELLS]
    units = cells + 1 if cells > 1 else 1
    value, clipped = row(state.room, 0), row(state.room, 1)
    sign, centre = row(state.sign, 0), row(state.centre, 0)
    for t in range(start, len(X)):
        if rows[0] + room > len(log):
            return t
        now = head[layout.RECORDS]
        head[layout.RECORDS] = now + 1
        x, offset, time = row(X, t), offsets[t], times[t]
        own = row(number, 0)
        alarm = learn_record(row(channel, 0), own, row(mark, 0), sign, width, rules, x, offset, time, value, clipped)
        if own[layout.SEEN] - layout.RANGE == own[layout.CHECK]:
            check_baseline(channel[0], number[0], rules, layout.STREAM_BASE, alarm)
        if units > 1:
            k = _nearest(centre, cells, rules.d, x) + 1
            own = row(number, k)
            own[layout.COUNT] += 1
            _vote(own, answers[t])
            alone = learn_record(
                row(channel, k), own, row(mark, k), sign, width, rules, x, offset, time, value, clipped
            )
            if own[layout.SEEN] - layout.RANGE == own[layout.CHECK]:
                check_baseline(channel[k], number[k], rules, layout.BASE, alone)
            alarm |= alone
            if (now + 1) % layout.SHARE_BLOCK == 0:
                for k in range(1, units):
                    alarm |= close_share_block(state.share[k], state.share_time[k], number[k], rules, offset, time)
        if alarm:
            raise_alarm(state, rules, units, now, offset, log, rows, vectors)
        if head[layout.OPEN] and now - head[layout.START] >= rules.hold:
            end_episode(state, rules, units, now, offset, log, rows, vectors)
    return len(X)
