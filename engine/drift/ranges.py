"""The ranges in which a unit's values are measured: from its first records, and anew where these were no measure."""

import numpy as np
from resonance.engine.drift import layout
from resonance.engine.drift.relations import relation_unit
from resonance.kernels.arithmetic import inline, jit

LEAST_VARIANCE = 0.25
"""Least variance of a clipped value."""
_TOO_NARROW = 4.0
"""Mean square of clipped values above which their range is measured anew."""
LATE = 8
"""Bases up to which ranges are measured anew, and after which a dependence is believed as it is."""


@inline
def own_records(state, k, i, records):
    """Return how many records of a unit, of so many behind the first 32, the sums of a channel are made of."""
    return records - state.began[k, i] - state.lacked[k, i]


@inline
def _least(state, k, i):
    """Return the least range of a feature of a unit."""
    return max(state.width[i], layout.FLOOR) if k == relation_unit(state) else layout.FLOOR


@jit
def measure_range(state, k, rules, seen, x):
    """Take one of the first records into centre and width of every feature's range; the last one ends it.

    Behind a change no range is narrower than before: a wave goes nowhere in 32 records.
    """
    d = rules.d
    for i in range(d):
        if np.isnan(x[i]):
            state.lacked[k, i] += 1.0
            continue
        e = x[i] - state.middle[k, i]
        state.middle[k, i] += e / (seen + 1 - state.lacked[k, i])
        state.gain[k, i] += e * (x[i] - state.middle[k, i])
    if seen == layout.RANGE - 1:
        for i in range(d):
            least = max(state.old_spread[k, i], _least(state, k, i)) if rules.leaps else layout.FLOOR
            state.gain[k, i] = 1.0 / max(np.sqrt(state.gain[k, i] / max(31 - state.lacked[k, i], 1)), least)
            state.lacked[k, i] = 0.0
        state.middle[k, d:], state.gain[k, d:] = 0.0, 1.0


@jit
def measure_again(state, k, rules, records, base):
    """Measure the ranges anew in which most values were cut, or hardly differ, of features that are not watched yet.

    A wave, or a device that starts, goes far in a day, and nowhere in its first 32 records.
    """
    found = False
    for i in range(rules.d):
        own = own_records(state, k, i, records)
        # Later on only of what has come late.
        if own < layout.RANGE or (records >= LATE * base and 2 * state.lacked[k, i] <= records):
            continue
        if state.watched[k] == 1 and state.threshold[k, i] < np.inf:
            continue
        g, at = state.gain[k, i], state.whole[k, i] / own
        variance, least = max(state.power[k, i] / own - at * at, 0.0), _least(state, k, i)
        is_least = g * least >= 1.0
        # A flag that was not set at first is cut whenever it is.
        is_narrow = state.squares[k, i] > _TOO_NARROW * own or (is_least and variance > _TOO_NARROW)
        if not is_narrow and (variance >= LEAST_VARIANCE or is_least):
            continue
        state.middle[k, i] += at / g
        state.gain[k, i] = 1.0 / max(np.sqrt(variance) / g, least)
        _forget(state, k, i, records)
        found = True
    for i in range(rules.d, state.mean.shape[1]) if found else range(0):
        _forget(state, k, i, records)


@jit
def begin_sums(state, k):
    """Let a unit keep the baseline that it has, if any; the sums for the next one, and all evidence, begin anew."""
    seen = state.seen[k] - (state.seen[k] - layout.RANGE) % layout.BLOCK
    records = max(int(state.kept[k]), layout.BASE if k else layout.STREAM_BASE)
    state.seen[k], state.check[k] = seen, seen - layout.RANGE + records
    for i in range(state.mean.shape[1]):
        begin_channel(state, k, i, seen)


@jit
def begin_channel(state, k, i, seen):
    """Let a channel's sums for the next baseline, and its evidence, begin anew after so many records of its unit."""
    _forget(state, k, i, seen - layout.RANGE)
    state.cusum[k, i] = state.size_cusum[k, i] = 0.0
    state.onset[k, i] = state.size_onset[k, i] = seen
    state.late[k, i] = state.mean[k, i]


@jit
def _forget(state, k, i, records):
    """Let the sums of a channel begin anew."""
    state.began[k, i], state.lacked[k, i] = records, 0.0
    state.block[k, i] = state.size_block[k, i] = 0.0
    state.whole[k, i] = state.power[k, i] = state.total[k, i] = state.squares[k, i] = state.sizes[k, i] = 0.0
    state.before[k, i] = state.size_before[k, i] = state.block_squares[k, i] = state.block_products[k, i] = 0.0
    state.size_squares[k, i] = state.size_products[k, i] = 0.0
