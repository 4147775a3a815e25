"""A batch through a watch: ranges, cumulative sums and blocks of its units, and the baselines that these give."""

import numpy as np
from resonance.engine.drift import layout
from resonance.engine.drift.episode import is_over
from resonance.engine.drift.shares import close_share_block
from resonance.kernels.arithmetic import jit
from resonance.kernels.borrowed import row

_LEAST_VARIANCE, _LEAST_SPREAD = 0.25, 0.04
"""Least variance of a clipped value, and of its absolute value."""
_ERRORS = 3.0
"""Standard errors of the baseline that an allowance carries."""


@jit
def _inflation(total, cross, mean, variance, known, records, late):
    """Return the long-run variance by the variance, from the means of blocks; infinite where it is not known yet.

    `known` is what it was before the last change, 0 for nothing; from `late` records on it is believed as it is.
    """
    blocks = records // layout.BLOCK
    of_blocks = total / blocks - mean * mean
    if of_blocks <= 0.0:
        return 1.0
    r = min(max((cross / (blocks - 1) - mean * mean) / of_blocks, 0.0), 0.9)
    t = (layout.BLOCK * of_blocks / variance) * ((1.0 + r) / (1.0 - r))
    most = records / 32.0
    if known > 0.0:
        most = min(most, 2.0 * known)
    elif t > most and records < late:
        return np.inf
    return min(max(t, 1.0), most)


@jit
def _measure(channel, number, rules, records):
    """Write mean and spread of every channel; return the variances of values and of absolute values.

    A first baseline since a restart also widens the hull of all of them, and counts as a return where it lies inside.
    """
    channels = channel.shape[1]
    variance, variance_q = np.empty(channels), np.empty(channels)
    first, inside = number[layout.WATCHED] == 0, number[layout.BASES] > 0
    for i in range(channels):
        mu, al = channel[layout.SY, i] / records, channel[layout.SA, i] / records
        variance[i] = max(channel[layout.SYY, i] / records - mu * mu, _LEAST_VARIANCE)
        variance_q[i] = max(channel[layout.SYY, i] / records - al * al, _LEAST_SPREAD)
        channel[layout.MU, i], channel[layout.AL, i] = mu, al
        channel[layout.RHO, i], channel[layout.BE, i] = 1.0 / np.sqrt(variance[i]), 1.0 / np.sqrt(variance_q[i])
        if not first:
            continue
        at = channel[layout.C, i] + mu / channel[layout.G, i]
        if number[layout.BASES] == 0:
            channel[layout.LOWEST, i] = channel[layout.HIGHEST, i] = at
        else:
            margin = rules.step / (channel[layout.RHO, i] * channel[layout.G, i])
            if at < channel[layout.LOWEST, i] - margin or at > channel[layout.HIGHEST, i] + margin:
                inside = False
            channel[layout.LOWEST, i] = min(channel[layout.LOWEST, i], at)
            channel[layout.HIGHEST, i] = max(channel[layout.HIGHEST, i], at)
    if first and inside:
        number[layout.RETURNS] += 1
    return variance, variance_q


@jit
def take_baseline(channel, number, rules, records, base):
    """Take the mean of the records since the restart as the baseline; `base` is how many a first one has."""
    variance, variance_q = _measure(channel, number, rules, records)
    first = number[layout.WATCHED] == 0
    far = 0.0
    for i in range(channel.shape[1]):
        up = down = 0.0
        rho, beta = channel[layout.RHO, i], channel[layout.BE, i]
        if number[layout.RETURNS] >= rules.ordinary:
            # All between the places where the unit has been is ordinary.
            if i < rules.d:
                g = channel[layout.G, i]
                at = channel[layout.C, i] + channel[layout.MU, i] / g
                up = max(channel[layout.HIGHEST, i] - at, 0.0) * g
                down = max(at - channel[layout.LOWEST, i], 0.0) * g
                far += max(up, down)
            else:
                up = down = far / rules.root
        t = _inflation(
            channel[layout.BYY, i],
            channel[layout.BYP, i],
            channel[layout.MU, i],
            variance[i],
            channel[layout.TAU_S, i],
            records,
            8 * base,
        )
        if first or channel[layout.HS, i] == np.inf or t == np.inf:
            channel[layout.S, i], channel[layout.OS, i] = 0.0, number[layout.SEEN]
            channel[layout.E, i] = channel[layout.MU, i]
        allowance = rules.step + _ERRORS * np.sqrt(min(t, float(records)) / records)
        channel[layout.KU, i], channel[layout.KD, i] = allowance + up * rho, allowance + down * rho
        channel[layout.HS, i] = rules.threshold / rules.theta * t
        t = _inflation(
            channel[layout.BAA, i],
            channel[layout.BAP, i],
            channel[layout.AL, i],
            variance_q[i],
            channel[layout.TAU_Q, i],
            records,
            8 * base,
        )
        if first or channel[layout.HQ, i] == np.inf or t == np.inf:
            channel[layout.Q, i], channel[layout.OQ, i] = 0.0, number[layout.SEEN]
        allowance = 0.5 * rules.step + _ERRORS * np.sqrt(min(t, float(records)) / records)
        channel[layout.KQ, i] = allowance + max(up, down) * beta
        channel[layout.HQ, i] = rules.threshold / rules.theta_q * t
    if first:
        number[layout.BASES] += 1
    number[layout.WATCHED] = 1


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
