"""A record of a unit: its range, the cumulative sums of every channel, and the blocks that a baseline is made of."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.drift import layout
from resonance.engine.drift.baseline import take_baseline


@jit
def _mark_record(mark, seen, offset, time):
    """Note where and when a unit had this number of records."""
    for level in range(layout.LEVELS):
        shift = 3 * (level + 1)
        if seen & ((1 << shift) - 1):
            return
        at = 2 * (layout.KEPT * level + ((seen >> shift) & (layout.KEPT - 1)))
        mark[at], mark[at + 1] = offset, time


@jit
def _measure_range(channel, width, d, seen, x):
    """Take one of the first records into centre and width of every feature's range; the last one ends it."""
    for i in range(d):
        e = x[i] - channel[layout.C * width + i]
        channel[layout.C * width + i] += e / (seen + 1)
        channel[layout.G * width + i] += e * (x[i] - channel[layout.C * width + i])
    if seen == layout.RANGE - 1:
        for i in range(d):
            channel[layout.G * width + i] = 1.0 / max(np.sqrt(channel[layout.G * width + i] / 31), layout.FLOOR)
        for i in range(d, width):
            channel[layout.C * width + i], channel[layout.G * width + i] = 0.0, 1.0


@jit
def _standardise(channel, width, rules, sign, x, value, clipped):
    """Write the value of every channel in widths of its range, and clipped to three of them."""
    d = rules.d
    for i in range(d):
        v = min(
            max((x[i] - channel[layout.C * width + i]) * channel[layout.G * width + i], -layout.FARTHEST),
            layout.FARTHEST,
        )
        value[i] = v
        clipped[i] = min(max(v, -layout.CLIP), layout.CLIP)
    if d >= 2:
        one = other = 0.0
        for i in range(d):
            one += clipped[i]
            other += sign[i] * clipped[i]
        for i, total in ((d, one), (d + 1, other)):
            value[i] = total / rules.root
            clipped[i] = min(max(value[i], -layout.CLIP), layout.CLIP)


@jit
def _sum_up(channel, width, clipped):
    """Add a record to the sums of the present block."""
    for i in range(width):
        y = clipped[i]
        channel[layout.SYY * width + i] += y * y
        channel[layout.BY * width + i] += y
        channel[layout.BA * width + i] += abs(y)


@jit
def _follow(channel, width, seen, value, clipped):
    """Move the cumulative sums of a watched unit; return whether one is beyond its threshold.

    What exceeds the allowance is all that is kept, so that one number is both one-sided sums.
    """
    alarm = False
    now, next_ = float(seen), float(seen + 1)
    for i in range(width):
        y = clipped[i]
        channel[layout.E * width + i] += (value[i] - channel[layout.E * width + i]) * 0.0625
        before, onset = channel[layout.S * width + i], channel[layout.OS * width + i]
        s = before + (y - channel[layout.MU * width + i]) * channel[layout.RHO * width + i]
        s -= min(max(s, -channel[layout.KD * width + i]), channel[layout.KU * width + i])
        channel[layout.S * width + i] = s
        onset = now if s * before < 0.0 else onset
        channel[layout.OS * width + i] = next_ if s == 0.0 else onset
        before, onset = channel[layout.Q * width + i], channel[layout.OQ * width + i]
        q = before + (abs(y) - channel[layout.AL * width + i]) * channel[layout.BE * width + i]
        q -= min(max(q, -channel[layout.KQ * width + i]), channel[layout.KQ * width + i])
        channel[layout.Q * width + i] = q
        onset = now if q * before < 0.0 else onset
        channel[layout.OQ * width + i] = next_ if q == 0.0 else onset
        high = channel[layout.HQ * width + i]
        alarm |= (abs(s) >= channel[layout.HS * width + i]) | (q >= high) | (-q >= high * layout.DOWN)
    return alarm


@jit
def _close_block(channel, width, first):
    """Add the present block to the sums that a baseline is made of."""
    for i in range(width):
        channel[layout.SY * width + i] += channel[layout.BY * width + i]
        channel[layout.SA * width + i] += channel[layout.BA * width + i]
        b, a = channel[layout.BY * width + i] / layout.BLOCK, channel[layout.BA * width + i] / layout.BLOCK
        channel[layout.BYY * width + i] += b * b
        channel[layout.BAA * width + i] += a * a
        if not first:
            channel[layout.BYP * width + i] += b * channel[layout.PY * width + i]
            channel[layout.BAP * width + i] += a * channel[layout.PA * width + i]
        channel[layout.PY * width + i], channel[layout.PA * width + i] = b, a
        channel[layout.BY * width + i] = channel[layout.BA * width + i] = 0.0


@jit
def _is_quiet(channel):
    """Whether no cumulative sum is suspicious."""
    for i in range(channel.shape[1]):
        if abs(channel[layout.S, i]) >= 0.25 * channel[layout.HS, i]:
            return False
        if abs(channel[layout.Q, i]) >= 0.25 * channel[layout.HQ, i]:
            return False
    return True


@jit
def learn_record(channel, number, mark, sign, width, rules, x, offset, time, value, clipped):
    """Let a unit take a record, and return whether one of its `width` channels is beyond its threshold.

    All arrays are pointers; `value` and `clipped` are room for a number of each channel.
    """
    seen = number[layout.SEEN]
    number[layout.SEEN] = seen + 1
    if seen & 7 == 0:
        _mark_record(mark, seen, offset, time)
    if seen < layout.RANGE:
        _measure_range(channel, width, rules.d, seen, x)
        return False
    _standardise(channel, width, rules, sign, x, value, clipped)
    _sum_up(channel, width, clipped)
    alarm = False
    if number[layout.WATCHED]:
        alarm = _follow(channel, width, seen, value, clipped)
    records = seen - (layout.RANGE - 1)
    if records % layout.BLOCK == 0:
        _close_block(channel, width, records == layout.BLOCK)
    return alarm


@jit
def check_baseline(channel, number, rules, base, alarm):
    """Take a unit's baseline where it is due after a record, unless the unit is suspicious."""
    records = number[layout.SEEN] - layout.RANGE
    if not alarm and (not number[layout.WATCHED] or _is_quiet(channel)):
        take_baseline(channel, number, rules, records, base)
    number[layout.CHECK] = 2 * records
