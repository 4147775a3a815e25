"""Rows that a watch reports: what changed in a unit, and from when on.

A row has 12 numbers, the first two its kind and the record of the watch. `EVENT`: kind of event, its number, units,
offset, cells. `UNIT`: unit, what changed, evidence, that of its share, share before, offset since, cluster, 1 where it
joined an open episode, share since, time since. `CHANNEL`: channel, change, evidence, before, after as estimated,
spread, ratio, offset and time since. `ENDED`: unit, what changed, 1 where it has a baseline, share before, 1 where its
share has, cluster, share now. `ENDED_CHANNEL`: channel, change, 0, before, after, spread, ratio. Each row of a unit has
its vectors as well: before, now (see `_bounded`) and spread of every feature.
"""

from typing import Final

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.drift import layout
from resonance.engine.drift.shares import share_after

EVENT, UNIT, CHANNEL, ENDED, ENDED_CHANNEL = 1, 2, 3, 4, 5
"""Kinds of rows."""
DRIFT, SETTLED, RECOVERED = 0, 1, 2
"""Kinds of events."""
MOVED, WIDENED, NARROWED = 0, 1, 2
"""Kinds of changes of a channel."""
FEATURES, MORE, FEWER = 1, 2, 4
"""What changed of a unit, as a sum."""
COLUMNS = 12
MOST = 5
"""Most channels of a unit that are reported."""
CLEAR: Final = 0.5
"""Evidence from which a channel, or a share, has part in a change."""
WIDER: Final = 1.33
"""Ratio of spreads from which two baselines differ."""
_OLDEST = 400
"""Records after which the mean of late holds nothing from before."""


@jit
def _write(log, rows, a, b, c=0.0, d=0.0, e=0.0, f=0.0, g=0.0, h=0.0, i=0.0, j=0.0, k=0.0, m=0.0):
    row = log[rows[0]]
    row[0], row[1], row[2], row[3], row[4], row[5] = a, b, c, d, e, f
    row[6], row[7], row[8], row[9], row[10], row[11] = g, h, i, j, k, m
    rows[0] += 1


@jit
def write_event(log, rows, now, kind, head, units, offset):
    """Write the beginning of an event, and count it."""
    _write(log, rows, float(EVENT), now, kind, head[layout.EPISODES], units, offset, head[layout.CELLS])
    head[layout.EPISODES] += 1


@jit
def strengths(channel, i):
    """Return the evidence of the two cumulative sums of a watched channel."""
    q = channel[layout.Q, i] / channel[layout.HQ, i]
    return abs(channel[layout.S, i]) / channel[layout.HS, i], (q if q >= 0.0 else -q / layout.DOWN)


@jit
def evidence(channel, number):
    """Return the evidence that a feature has changed, 1 at the threshold."""
    most = 0.0
    if number[layout.WATCHED]:
        for i in range(channel.shape[1]):
            s, q = strengths(channel, i)
            most = max(most, s, q)
    return most


@jit
def _marked(mark, seen, onset):
    """Return offset and time of the mark at or before a record of the unit."""
    age = seen - onset
    if age <= 112:
        level, at = 0, onset >> 3
    elif age <= 960:
        level, at = 1, onset >> 6
    elif age <= 7600:
        level, at = 2, onset >> 9
    else:
        level, at = 2, max(((seen - 1) >> 9) - 15, 0)
    found = mark[level, at & (layout.KEPT - 1)]
    return found[0], found[1]


@jit
def mean_of(channel, i):
    """Return the mean of a baseline in prepared units."""
    return channel[layout.C, i] + channel[layout.MU, i] / channel[layout.G, i]


@jit
def spread_of(channel, i):
    """Return the spread of a baseline in prepared units."""
    return 1.0 / (channel[layout.RHO, i] * channel[layout.G, i])


@jit
def _mean_since(channel, i, seen, onset):
    """Return the mean of late, freed of what it still holds from before a change."""
    left = 1.0
    for _ in range(min(seen - onset, _OLDEST)):
        left *= 0.9375
    if left == 1.0:
        return mean_of(channel, i)
    mu = channel[layout.MU, i]
    return channel[layout.C, i] + (mu + (channel[layout.E, i] - mu) / (1.0 - left)) / channel[layout.G, i]


@jit
def _bounded(channel, i, seen, moved, after):
    """Return the estimate `after` of the mean since a change, or a mean of what was seen where that contradicts it.

    The estimate assumes that the values before the change were at the baseline. But that is a mean of clipped values,
    so they can have been far beyond: then it is on the wrong side, or too far out. A cumulative sum that left 0 gives
    the exact mean of the clipped values since.
    """
    mu, width = channel[layout.MU, i], 1.0 / channel[layout.RHO, i]
    estimate = (after - channel[layout.C, i]) * channel[layout.G, i] - mu
    late = channel[layout.E, i] - mu
    s, records = channel[layout.S, i], seen - np.int64(channel[layout.OS, i])
    if moved and records > 0 and s != 0.0:
        side = 1.0 if s > 0.0 else -1.0
        excess = abs(s) / records + (channel[layout.KU, i] if s > 0.0 else channel[layout.KD, i])
        # The baseline may have been taken anew since, so that the sum is of two of them.
        mean = min(max(mu + side * excess * width, -layout.CLIP), layout.CLIP)
        far, distance = side * estimate, side * (mean - mu)
        # Where half of the values were clipped, their mean lies further out.
        if 0.0 < far <= distance + width or (far > 0.0 and side * mean >= 0.5 * layout.CLIP):
            return after
        shift = side * (max(distance, side * late) if far > 0.0 else distance)
    elif abs(estimate - late) <= width:
        return after
    else:
        shift = late
    return channel[layout.C, i] + (mu + shift) / channel[layout.G, i]


@jit
def _ratio_since(channel, i, seen):
    """Return how many times as much a channel varies since it began to vary otherwise."""
    records = seen - np.int64(channel[layout.OQ, i])
    q, al = channel[layout.Q, i], channel[layout.AL, i]
    if records == 0 or q == 0.0 or al == 0.0:
        return 1.0
    excess = q / records + (channel[layout.KQ, i] if q > 0.0 else -channel[layout.KQ, i])
    return max((al + excess / channel[layout.BE, i]) / al, 0.0)


@jit
def describe_unit(state, k, features, share, now, joined, log, rows, vectors):
    """Write what has changed in a unit, and its strongest channels."""
    channel, number, own, mark = state.channel[k], state.number[k], state.share[k], state.mark[k]
    seen = number[layout.SEEN]
    rises = own[layout.WU] >= own[layout.WD]
    what = (FEATURES if features >= CLEAR else 0) + (0 if share < CLEAR else MORE if rises else FEWER)
    side = 0 if rises else 1
    offset, time = np.int64(own[layout.OU + side]), state.share_time[k, side]
    if features >= CLEAR:
        best, onset = 0.0, 0
        for i in range(channel.shape[1]):
            s, q = strengths(channel, i)
            if s > best:
                best, onset = s, np.int64(channel[layout.OS, i])
            if q > best:
                best, onset = q, np.int64(channel[layout.OQ, i])
        offset, time = _marked(mark, seen, onset)
    for i in range(vectors.shape[2]):
        watched = number[layout.WATCHED] == 1
        vectors[rows[0], 0, i] = vectors[rows[0], 1, i] = mean_of(channel, i) if watched else 0.0
        vectors[rows[0], 2, i] = spread_of(channel, i) if watched else 0.0
    first = rows[0]
    _write(
        log, rows, float(UNIT), now, k, what, features, share, own[layout.P0], offset, number[layout.NAME], joined,
        share_after(own), time,
    )  # fmt: skip
    if features < CLEAR:
        return
    written = np.zeros(channel.shape[1], dtype=np.bool_)
    for _ in range(MOST):
        top, c = 0.0, -1
        for i in range(channel.shape[1]):
            s, q = strengths(channel, i)
            if max(s, q) >= CLEAR and max(s, q) > top and not written[i]:
                top, c = max(s, q), i
        if c < 0:
            return
        written[c] = True
        s, q = strengths(channel, c)
        moved = s >= CLEAR or s >= q
        change = MOVED if moved else WIDENED if channel[layout.Q, c] > 0.0 else NARROWED
        onset = np.int64(channel[layout.OS, c] if moved else channel[layout.OQ, c])
        after = _mean_since(channel, c, seen, onset)
        if c < vectors.shape[2]:
            vectors[first, 1, c] = _bounded(channel, c, seen, moved, after)
        offset, time = _marked(mark, seen, onset)
        _write(
            log, rows, float(CHANNEL), now, c, change, top, mean_of(channel, c), after, spread_of(channel, c),
            _ratio_since(channel, c, seen), offset, time,
        )  # fmt: skip


@jit
def _difference(rules, channel, i):
    """Return by how many spreads two baselines of a channel differ, and by which ratio of spreads; 0 for no more."""
    old = channel[layout.OLD_SPREAD, i]
    shift, ratio = abs(mean_of(channel, i) - channel[layout.OLD, i]) / old, spread_of(channel, i) / old
    return (shift if shift >= rules.step else 0.0), (ratio if ratio > WIDER or ratio * WIDER < 1.0 else 0.0)


@jit
def describe_ended(state, rules, k, now, log, rows, vectors):
    """Write what a unit of an episode is like at its end, beside what it was like before."""
    channel, number, own = state.channel[k], state.number[k], state.share[k]
    features, watched = number[layout.FLAG] == 1, number[layout.WATCHED] == 1
    what = FEATURES if features else 0
    if number[layout.SHARE_FLAG]:
        what += MORE if own[layout.P0] >= own[layout.OLD_SHARE] else FEWER
    compared = features and watched
    for i in range(vectors.shape[2]):
        vectors[rows[0], 0, i] = channel[layout.OLD, i] if compared else 0.0
        vectors[rows[0], 1, i] = mean_of(channel, i) if compared else 0.0
        vectors[rows[0], 2, i] = channel[layout.OLD_SPREAD, i] if compared else 0.0
    _write(
        log, rows, float(ENDED), now, k, what, 1.0 if watched else 0.0, own[layout.OLD_SHARE],
        1.0 if own[layout.HR] < np.inf else 0.0, number[layout.NAME], own[layout.P0],
    )  # fmt: skip
    if not compared:
        return
    written = np.zeros(channel.shape[1], dtype=np.bool_)
    for _ in range(MOST):
        top, c = -1.0, -1
        for i in range(channel.shape[1]):
            shift, ratio = _difference(rules, channel, i)
            if (shift > 0.0 or ratio > 0.0) and shift > top and not written[i]:
                top, c = shift, i
        if c < 0:
            return
        written[c] = True
        shift, ratio = _difference(rules, channel, c)
        change = MOVED if shift > 0.0 else WIDENED if ratio > 1.0 else NARROWED
        old = channel[layout.OLD_SPREAD, c]
        _write(
            log, rows, float(ENDED_CHANNEL), now, c, change, 0.0, channel[layout.OLD, c], mean_of(channel, c), old,
            spread_of(channel, c) / old,
        )  # fmt: skip
