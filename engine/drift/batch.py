"""A batch of records through a watch."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.borrowed import row
from resonance.engine.drift import layout
from resonance.engine.drift.episode import is_over
from resonance.engine.drift.shares import close_share_block
from resonance.engine.drift.unit import check_baseline, learn_record

_MOST_VOTES = 64


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
def learn_batch(state, rules, X, answers, offsets, times, start):
    """Watch a batch from record `start` on, until there is an alarm, an episode is over, or the batch ends.

    Return the first record that was not watched, and whether there is an alarm.
    """
    head, channel, number, mark = state.head, state.channel, state.number, state.mark
    width, cells = channel.shape[2], head[layout.CELLS]
    units = cells + 1 if cells > 1 else 1
    value, clipped = row(state.room, 0), row(state.room, 1)
    sign, centre = row(state.sign, 0), row(state.centre, 0)
    for t in range(start, len(X)):
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
        if alarm or is_over(state, rules, units):
            return t + 1, alarm
    return len(X), False
