"""A batch through a watch: cumulative sums and blocks of its units, and the baselines that these give."""

import numpy as np
from resonance.engine.drift import layout
from resonance.engine.drift.cells import nearest_cell, vote
from resonance.engine.drift.episode import is_over, is_settling
from resonance.engine.drift.excursions import is_back
from resonance.engine.drift.ranges import LATE, LEAST_VARIANCE, measure_again, measure_range, own_records
from resonance.engine.drift.relations import add_pairs, is_due, relation_unit, rests, set_left
from resonance.engine.drift.shares import close_share_block
from resonance.engine.drift.steps import HELD_STUCK, follow_steps, is_any_stuck, may_be_stuck
from resonance.kernels.arithmetic import correlation_time, inline, jit
from resonance.kernels.borrowed import borrow

_LEAST_SPREAD = 0.04
"""Least variance of the absolute of a clipped value."""
_ERRORS = 3.0
"""Standard errors of the baseline that an allowance carries."""
_SLACK = 1.15
"""What Bennett's exponent is to Bernstein's, within a tenth where it matters."""
_CORRELATED = 0.9
"""Most correlation of two blocks in a row that is known: what goes on for longer than it says may go on for ever."""
_LASTS = (1.0 + _CORRELATED) / (1.0 - _CORRELATED)
"""Blocks in a row that then say as much as one that is independent."""
_LEAST_HALF = 0.1
"""Least half of the way back, in spreads, that is watched for."""


@jit
def _inflation(sums, mean, variance, known, records, late, leaps, whole, rest):
    """Return the long-run variance by the variance, from the means of blocks; infinite where it is not known yet.

    `sums` are those of their squares, and of their products with the one before. `known` is what it was before the last
    change, 0 for nothing, and stays that as long as so few records cannot show it; if it is `late`, it is believed as
    it is. Of the `whole` stream one that is hardly known yet is taken for more, the less it is known.
    """
    most = records / 32.0
    if leaps > 0 and known > most:
        return known
    (total, cross), blocks = sums, records // layout.BLOCK
    of_blocks = total / blocks - mean * mean
    if of_blocks <= 0.0:
        return 1.0
    lasts = correlation_time(of_blocks, cross / (blocks - 1) - mean * mean, _CORRELATED)
    t = (layout.BLOCK * of_blocks / variance) * lasts
    if known > 0.0 and not rest:
        most = min(most, 2.0 * known)
    elif t > most and not late:
        is_about = leaps > 0 and whole and lasts < _LASTS and t < 2.0 * most
        return t * (t / most) ** 2 if is_about else np.inf
    return min(max(t, 1.0), most)


@inline
def _leap(largest, allowed, theta, leaps):
    """Return how many times higher the threshold of a sum is whose largest step is so many deviations.

    A few records of a rare flag, by chance close together, move a sum further than any small steps. By Bernstein's
    inequality it reaches *h* once in e^(h t), t = 2 k / (1 + 2 k b / 3), with largest step *b* and allowance *k*.
    """
    if leaps == 0:
        return 1.0
    return max(theta * (1.0 + 2.0 * allowed * largest / 3.0) / (2.0 * allowed * _SLACK), 1.0)


@jit
def is_partial(x):
    """Whether a record lacks a feature."""
    found = False
    for i in range(len(x)):
        found |= np.isnan(x[i])
    return found


@jit
def _has_lacked(state, k):
    """Whether channels of a unit have numbers of records of their own."""
    found = False
    for i in range(state.mean.shape[1]):
        found |= state.lacked[k, i] > 0.0
    return found


@jit
def _measure(state, k, rules, records):
    """Write mean and spread of every channel; return the variances of values and of absolute values.

    A first baseline since a restart also widens the hull of all of them, and counts as a return where it lies inside.
    """
    channels = state.mean.shape[1]
    variance, variance_q = np.empty(channels), np.empty(channels)
    first, inside = state.watched[k] == 0, state.bases[k] > 0
    for i in range(channels):
        # Of a range that is measured anew there is none yet; where records lack it the last block may be incomplete.
        own = max(own_records(state, k, i, records), 1.0)
        mu, al = (state.total[k, i] + state.block[k, i]) / own, (state.sizes[k, i] + state.size_block[k, i]) / own
        variance[i] = max(state.squares[k, i] / own - mu * mu, LEAST_VARIANCE)
        variance_q[i] = max(state.squares[k, i] / own - al * al, _LEAST_SPREAD)
        state.mean[k, i], state.size[k, i] = mu, al
        state.usual[k, i] = state.middle[k, i] + state.whole[k, i] / (own * state.gain[k, i])
        state.inverse_spread[k, i] = 1.0 / np.sqrt(variance[i])
        state.size_inverse_spread[k, i] = 1.0 / np.sqrt(variance_q[i])
        if not first:
            continue
        at = state.middle[k, i] + mu / state.gain[k, i]
        if state.bases[k] == 0:
            state.lowest[k, i] = state.highest[k, i] = at
        else:
            margin = rules.step / (state.inverse_spread[k, i] * state.gain[k, i])
            if at < state.lowest[k, i] - margin or at > state.highest[k, i] + margin:
                inside = False
            state.lowest[k, i] = min(state.lowest[k, i], at)
            state.highest[k, i] = max(state.highest[k, i], at)
    if first and inside:
        state.returns[k] += 1
    return variance, variance_q


@inline
def _half_back(state, k, i, rules):
    """Return half of the spreads from the mean of a feature back to that of before the last change; 0 where it is far.

    Between two known places the middle is the best allowance: a rate that rose eightfold falls by few of its spreads.
    """
    if rules.leaps == 0 or i >= rules.d or state.old_spread[k, i] == 0.0 or state.returns[k] >= rules.ordinary:
        return 0.0
    g = state.gain[k, i]
    at = state.middle[k, i] + state.mean[k, i] / g
    half = 0.5 * (state.old[k, i] - at) * g * state.inverse_spread[k, i]
    return half if _LEAST_HALF <= abs(half) < rules.step else 0.0


@jit
def take_baseline(state, k, rules, records, base):
    """Take the mean of the records since the restart as the baseline; `base` is how many a first one has."""
    variance, variance_q = _measure(state, k, rules, records)
    first = state.watched[k] == 0
    far, blind, returning = 0.0, False, rules.returning > 0 and state.returns[k] > 0
    rest = k == relation_unit(state)
    for i in range(state.mean.shape[1]):
        up = down = 0.0
        rho, beta = state.inverse_spread[k, i], state.size_inverse_spread[k, i]
        if state.returns[k] >= rules.ordinary:
            # All between the places where the unit has been is ordinary.
            if i < rules.d:
                g = state.gain[k, i]
                at = state.middle[k, i] + state.mean[k, i] / g
                up = max(state.highest[k, i] - at, 0.0) * g
                down = max(at - state.lowest[k, i], 0.0) * g
                far += max(up, down)
            else:
                up = down = far / rules.root
        own, late = own_records(state, k, i, records), records >= LATE * base
        blocks, known = (state.block_squares[k, i], state.block_products[k, i]), state.inflation[k, i]
        t = (
            _inflation(blocks, state.mean[k, i], variance[i], known, own, late, rules.leaps, k == 0, rest)
            if own >= base
            else np.inf
        )
        # Where it is unknown for what goes to and fro, it is for absolute values, and sums that hold the feature.
        blind |= returning and t == np.inf
        t = np.inf if (blind and i >= rules.d) or (rest and t > layout.DEPENDENT) else t
        hidden = (returning or rest) and t == np.inf
        if first or state.threshold[k, i] == np.inf or t == np.inf:
            state.cusum[k, i], state.onset[k, i] = 0.0, state.seen[k]
            state.late[k, i] = state.mean[k, i]
        own = max(own, 1.0)
        errors, largest = _ERRORS * np.sqrt(min(t, own) / own), layout.CLIP + abs(state.mean[k, i])
        half = _half_back(state, k, i, rules)
        state.allowed_up[k, i] = (half if half > 0.0 else rules.step) + errors + up * rho
        state.allowed_down[k, i] = (-half if half < 0.0 else rules.step) + errors + down * rho
        high = rules.threshold / rules.theta * t * _leap(largest * rho, rules.step, rules.theta, rules.leaps)
        state.threshold[k, i], state.back[k, i] = high, np.sign(half)
        if half != 0.0 and high < np.inf:
            least = 2.0 * abs(half)
            back = rules.threshold / least * t * _leap(largest * rho, abs(half), least, rules.leaps)
            state.back[k, i] *= max(back / high, 1.0)
        blocks, known = (state.size_squares[k, i], state.size_products[k, i]), state.size_inflation[k, i]
        t = np.inf
        if not hidden and own >= base:
            t = _inflation(blocks, state.size[k, i], variance_q[i], known, own, late, rules.leaps, k == 0, rest)
            t = np.inf if rest and t > layout.DEPENDENT else t
        if first or state.size_threshold[k, i] == np.inf or t == np.inf:
            state.size_cusum[k, i], state.size_onset[k, i] = 0.0, state.seen[k]
        allowance = 0.5 * rules.step + _ERRORS * np.sqrt(min(t, own) / own)
        state.size_allowed[k, i] = allowance + max(up, down) * beta
        t *= _leap((layout.CLIP - state.size[k, i]) * beta, 0.5 * rules.step, rules.theta_q, rules.leaps)
        state.size_threshold[k, i] = rules.threshold / rules.theta_q * t
    if first:
        state.bases[k] += 1
        state.wanted[k] = 0.0
    state.kept[k] = max(records - state.began[k].min(), base)
    state.watched[k] = 1


@jit
def _mark_record(state, k, seen, offset, time):
    """Note where and when a unit had this number of records."""
    for level in range(layout.LEVELS):
        shift = 3 * (level + 1)
        if seen & ((1 << shift) - 1):
            return
        at = (seen >> shift) & (layout.KEPT - 1)
        state.mark[k, level, at], state.mark_time[k, level, at] = offset, time


@jit
def _standardise(state, k, rules, x, value, clipped, size, still, lacks):
    """Write the value of every channel in widths of its range, that cut at three of them, and the absolute of this.

    Of a feature that has been reported as stuck, and of sums that hold one, the means of a watched unit stand for them.
    What a record lacks, and sums that hold it, are NaN: they are as if it had not come.
    """
    d = rules.d
    # Of what is left of features sums say nothing.
    hidden = k == relation_unit(state)
    for i in range(d):
        if lacks and np.isnan(x[i]):
            value[i], clipped[i] = np.nan, 0.0
            # What never comes is in no sum.
            hidden |= state.whole[k, i] != 0.0
            continue
        v = (x[i] - state.middle[k, i]) * state.gain[k, i]
        value[i] = v = min(max(v, -layout.FARTHEST), layout.FARTHEST)
        clipped[i] = v = min(max(v, -layout.CLIP), layout.CLIP)
        size[i] = abs(v)
    if d >= 2:
        one = other = 0.0
        for i in range(d):
            one += clipped[i]
            other += state.sign[i] * clipped[i]
        for i, total in ((d, one), (d + 1, other)):
            value[i] = np.nan if hidden else total / rules.root
            clipped[i] = min(max(value[i], -layout.CLIP), layout.CLIP)
            size[i] = abs(clipped[i])
    for i in range(len(value)) if still and state.watched[k] == 1 else range(0):
        if (i >= d or state.held[i] >= HELD_STUCK) and not np.isnan(value[i]):
            value[i] = clipped[i] = state.mean[k, i]
            size[i] = state.size[k, i]
            state.squares[k, i] += 1.0 / (state.inverse_spread[k, i] * state.inverse_spread[k, i])


@inline
def _close_block(state, k, i, first):
    """Add the present block of a channel to the sums that a baseline is made of."""
    state.total[k, i] += state.block[k, i]
    state.sizes[k, i] += state.size_block[k, i]
    b, a = state.block[k, i] / layout.BLOCK, state.size_block[k, i] / layout.BLOCK
    state.block_squares[k, i] += b * b
    state.size_squares[k, i] += a * a
    if not first:
        state.block_products[k, i] += b * state.before[k, i]
        state.size_products[k, i] += a * state.size_before[k, i]
    state.before[k, i], state.size_before[k, i] = b, a
    state.block[k, i] = state.size_block[k, i] = 0.0


@inline
def _add(state, k, i, value, clipped, size):
    """Add a value of a channel to the sums of the present block."""
    y = clipped[i]
    state.whole[k, i] += value[i]
    state.power[k, i] += value[i] * value[i]
    state.squares[k, i] += y * y
    state.block[k, i] += y
    state.size_block[k, i] += size[i]


@jit
def _sum_up(state, k, value, clipped, size, partly):
    """Add a record to the sums of the present blocks."""
    channels = state.mean.shape[1]
    for i in range(0 if partly else channels):
        _add(state, k, i, value, clipped, size)
    for i in range(channels if partly else 0):
        if np.isnan(value[i]):
            state.lacked[k, i] += 1.0
        else:
            _add(state, k, i, value, clipped, size)


@jit
def _close_blocks(state, k, value, records):
    """Close the blocks that a record ends, where channels have numbers of their own."""
    for i in range(state.mean.shape[1]):
        own = own_records(state, k, i, records)
        if own % layout.BLOCK == 0 and not np.isnan(value[i]):
            _close_block(state, k, i, own == layout.BLOCK)


@inline
def _accumulate(before, onset, excess, up, down, now):
    """Return Page's cumulative sum after a value, and since which record of the unit it is not 0.

    What exceeds the allowances is all that is kept, so that one number is both one-sided sums.
    """
    after = before + excess
    after -= min(max(after, -down), up)
    onset = now if after * before < 0.0 else onset
    return after, (now + 1.0 if after == 0.0 else onset)


@inline
def _is_beyond(state, k, i, value, clipped, size, now):
    """Move the cumulative sums of a channel; return whether one is beyond its threshold."""
    y = clipped[i]
    state.late[k, i] += (value[i] - state.late[k, i]) * 0.0625
    excess = (y - state.mean[k, i]) * state.inverse_spread[k, i]
    up, down = state.allowed_up[k, i], state.allowed_down[k, i]
    s, state.onset[k, i] = _accumulate(state.cusum[k, i], state.onset[k, i], excess, up, down, now)
    excess, up = (size[i] - state.size[k, i]) * state.size_inverse_spread[k, i], state.size_allowed[k, i]
    q, state.size_onset[k, i] = _accumulate(state.size_cusum[k, i], state.size_onset[k, i], excess, up, up, now)
    state.cusum[k, i], state.size_cusum[k, i] = s, q
    high, limit = state.size_threshold[k, i], state.threshold[k, i]
    limit *= abs(state.back[k, i]) if s * state.back[k, i] > 0.0 else 1.0
    return (abs(s) >= limit) | (q >= high) | (-q >= high * layout.DOWN)


@jit
def _follow(state, k, seen, value, clipped, size, partly):
    """Move the cumulative sums of a watched unit; return whether one is beyond its threshold."""
    alarm, now, channels = False, float(seen), state.mean.shape[1]
    # In loops of their own: one that asks of each channel whether it is there is slower by half for all records.
    for i in range(0 if partly else channels):
        if _is_beyond(state, k, i, value, clipped, size, now):
            # Until it is clear records may go to other cells, too.
            alarm |= not may_be_stuck(state, i if k == 0 else len(state.last))
    for i in range(channels if partly else 0):
        if not np.isnan(value[i]) and _is_beyond(state, k, i, value, clipped, size, now):
            alarm |= not may_be_stuck(state, i if k == 0 else len(state.last))
    return alarm


@jit
def is_quiet(state, k):
    """Whether no cumulative sum is suspicious."""
    means, sizes = np.abs(state.cusum[k]), np.abs(state.size_cusum[k])
    return not ((means >= 0.25 * state.threshold[k]) | (sizes >= 0.25 * state.size_threshold[k])).any()


@jit
def learn_record(state, k, rules, x, offset, time, still, lacks):
    """Let a unit take a record, and return whether one of its channels is beyond its threshold, or it is back.

    `still` is whether any feature has been reported as stuck, `lacks` whether the record lacks one.
    """
    seen = state.seen[k]
    state.seen[k] = seen + 1
    if seen & 7 == 0:
        _mark_record(state, k, seen, offset, time)
    alarm = state.watched[k] == 0 and state.wanted[k] > 0.0 and is_back(state, k, rules, x)
    if seen < layout.RANGE:
        measure_range(state, k, rules, seen, x)
        return alarm
    value, clipped, size = state.room[0], state.room[1], state.room[2]
    _standardise(state, k, rules, x, value, clipped, size, still, lacks)
    records = seen - (layout.RANGE - 1)
    _sum_up(state, k, value, clipped, size, lacks)
    if state.watched[k]:
        alarm = _follow(state, k, seen, value, clipped, size, lacks)
    if lacks or _has_lacked(state, k):
        _close_blocks(state, k, value, records)
    elif records % layout.BLOCK == 0:
        for i in range(state.mean.shape[1]):
            _close_block(state, k, i, records == layout.BLOCK)
    if records == state.check[k]:
        _check_baseline(state, k, rules, alarm)
    return alarm


@jit
def _check_baseline(state, k, rules, alarm):
    """Take a unit's baseline, which is due after a record, unless the unit is suspicious."""
    records, base = state.seen[k] - layout.RANGE, layout.BASE if k else layout.STREAM_BASE
    if k > 0 and state.wanted[0] > 0.0 and state.flag[k] == 0:
        # The stream may be back soon: a cell that has not changed need not learn where it is.
        state.check[k] = records + base
        return
    if not alarm and (not state.watched[k] or is_quiet(state, k)):
        if rules.leaps > 0:
            measure_again(state, k, rules, records, base)
        take_baseline(state, k, rules, records, base)
    state.check[k] = 2 * records


@jit
def _learn_relations(state, rules, x, offset, time):
    """Let the unit of what is left of the features take a record; return whether relations are to be looked at.

    That is where a feature may be apart from the others, where that has become clear, or where relations are due.
    """
    if rests(state, x):
        return False
    k, alarm = len(state.seen) - 1, False
    if set_left(state, x, time):
        alarm = learn_record(state, k, rules, state.left, offset, time, False, True)
    add_pairs(state, rules.d)
    if state.apart:
        return state.apart <= state.seen[k]
    return alarm or is_due(state)


@jit
def learn_batch(state, rules, X, answers, offsets, times, grain, start):
    """Watch a batch from record `start` on, until there is an alarm, an episode is over, or the batch ends.

    Return the first record that was not watched, whether there is an alarm, and whether to look at relations.
    """
    cells, batch = state.cells, borrow(X)
    units, still = cells + 1 if cells > 1 else 1, is_any_stuck(state)
    for t in range(start, len(batch)):
        state.records += 1
        x, offset, time = batch[t], offsets[t], times[t]
        lacks = is_partial(x)
        rough = rules.leaps > 0 and follow_steps(state, rules, x, grain[t % len(grain)], lacks)
        # While baselines are new ones a change of steps waits: their end would say nothing of it.
        rough = rough and state.watched[0] == 1 and not is_settling(state, rules)
        if state.records % layout.BLOCK == 0:
            still = is_any_stuck(state)
        alarm, is_apart = learn_record(state, 0, rules, x, offset, time, still, lacks) | rough, False
        if len(state.level) > 0 and not (lacks or still):
            is_apart = _learn_relations(state, rules, x, offset, time)
        if units > 1:
            k = nearest_cell(state, cells, x, still, lacks) + 1
            if k > 0:
                state.count[k] += 1
                vote(state, k, answers[t])
                alarm |= learn_record(state, k, rules, x, offset, time, still, lacks)
        if units > 1 and state.records % layout.SHARE_BLOCK == 0:
            # While a feature is stuck, or may be, records go to other cells, or to none.
            is_known = state.count.sum() == layout.SHARE_BLOCK and not may_be_stuck(state, rules.d)
            for k in range(1, units) if is_known or rules.leaps == 0 else range(0):
                alarm |= close_share_block(state, k, rules, offset, time)
            state.count[:] = 0
        if alarm or is_apart or is_over(state, rules):
            return t + 1, alarm, is_apart
    return len(batch), False, False
