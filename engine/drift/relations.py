"""Relations between the features of a stream: what the others, and the hour, say of each, and what is left of it.

A bearing that is warmer at the same load is within all that its temperature has been, as a load by night that is one of
the day. Each feature is compared with its regression on all others (regression-adjusted variables), and on two waves of
a day: what is left of it varies little, so that little is seen.

References
----------
D. M. Hawkins, "Multivariate Quality Control Based on Regression-Adjusted Variables", Technometrics 33(1), 1991.
"""

import numpy as np
from resonance.engine.base import FloatArray
from resonance.engine.drift import layout
from resonance.engine.drift.layout import WatchState
from resonance.engine.matrices import invert
from resonance.kernels.arithmetic import inline, jit

_CUT = 5.0
"""Spreads beyond which a value counts as one at this distance."""
_RIDGE = 1e-4
"""What is added to the variance of each feature, as a part of it: what says the same twice is no exact relation."""
_EXPLAINED = 0.5
"""Part of the variance of a feature that the others leave at most, so that what is left is compared."""
_OFTEN = 0.2
"""Share of the records in which a feature is where it rests."""
_SLIGHT = 0.05
"""Spreads of a feature that one of another moves it at least, or it says nothing."""
_LEAST = 0.1
"""Part of the spread of a feature that the range of what is left of it has at least."""
_REACH = 2.0
"""Spreads within which a feature says what the others are: a machine that rests may follow other rules."""
_DAY = 86_400_000
"""Milliseconds of a day."""
_MOST_OF_DAY = 0.5
"""Spread of a wave of a day of which most has been seen; of a whole one it is 0.7."""
_ABOUT = 1.05
"""How many times what is left with the best relations may be left with those that are known, which then stay."""
_LATEST = 4_096
"""Records after a change, at most, of which new relations are: they go on changing with all that comes."""


@inline
def relation_unit(state):
    """Return the unit of what is left of the features; -1 where relations are not followed."""
    return len(state.seen) - 1 if len(state.level) > 0 else -1


@inline
def _wave(part):
    """Return a wave, about a sine, at a part of it."""
    u = 2.0 * (part - np.floor(part)) - 1.0
    y = 4.0 * u * (1.0 - abs(u))
    return y * (0.775 + 0.225 * abs(y))


@jit
def set_left(state, x, time):
    """Write what is left of each feature of a record, NaN where that is not known; return whether any is known."""
    d, pair, found = len(x), state.pair, False
    part = (time % _DAY) / _DAY
    for i in range(d):
        pair[i] = x[i]
    pair[d], pair[d + 1] = _wave(part), _wave(part + 0.25)
    pair[d + 2], pair[d + 3] = _wave(2.0 * part), _wave(2.0 * part + 0.25)
    for i in range(d):
        state.left[i] = np.nan
        if state.weight[i, i] == 0.0:
            continue
        left, known = x[i] - state.level[i], True
        for j in range(len(pair)):
            weight = state.weight[i, j]
            if i != j and weight != 0.0:
                left -= weight * pair[j]
                known &= (pair[j] >= state.low[j]) & (pair[j] <= state.high[j])
        if known:
            state.left[i], found = left, True
    return found


@jit
def rests(state, x):
    """Whether most features are where they rest: what a machine that is off says is no relation."""
    some = resting = 0
    for i in range(len(x)):
        some += state.rest[i] > -1e300
        resting += x[i] <= state.rest[i]
    return resting > 0 and 2 * resting > some


@jit
def add_pairs(state, d):
    """Add the record of `set_left` to the sums of products, from the first baseline after a change of the stream on."""
    if state.paired == 0:
        if state.watched[0] == 0:
            return
        state.at[:] = 0.0
        state.scale[:] = 1.0
        for i in range(d):
            g = state.gain[0, i]
            state.at[i], state.scale[i] = state.middle[0, i] + state.mean[0, i] / g, g * state.inverse_spread[0, i]
        state.floor[:] = 1e300
        state.sums[:] = state.resting[:] = 0.0
        state.products[:] = 0.0
    state.paired += 1
    z = state.pair
    for i in range(d):
        state.floor[i] = min(state.floor[i], z[i])
        state.resting[i] += (z[i] - state.floor[i]) * state.scale[i] <= _SLIGHT
    for i in range(len(z)):
        z[i] = min(max((z[i] - state.at[i]) * state.scale[i], -_CUT), _CUT)
    for i in range(len(z)):
        state.sums[i] += z[i]
        row, own = state.products[i], z[i]
        for j in range(i + 1):
            row[j] += own * z[j]


@jit
def is_due(state):
    """Whether there are as many records as the next relations are of."""
    return state.paired >= state.refit and state.open == 0 and state.apart == 0


def forget_pairs(state: WatchState) -> None:
    """Let the next relations be of later records alone; those that are known stay until then."""
    if state.paired:
        state.refit = max(min(state.refit // 2, _LATEST), layout.FIRST_PAIRS)
    state.paired = 0


def fit_relations(state: WatchState) -> bool:
    """Take what the features of late records say of each other; return whether that is something else than before."""
    n = float(state.paired)
    means = state.sums / n
    products = np.tril(state.products) + np.tril(state.products, -1).T
    covariance = products / n - means[:, None] * means
    spreads = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    d = len(spreads) - layout.HOURS
    is_rest = (state.resting >= _OFTEN * n) & (state.rest <= -1e300) & (spreads > _SLIGHT)
    if is_rest[:d].any():
        # Of a machine that works relations are of other records.
        state.rest[:d] = np.where(is_rest, state.floor + _SLIGHT / state.scale, state.rest)[:d]
        state.paired, state.refit = 0, max(state.paired, layout.FIRST_PAIRS)
        return False
    # Of the waves of a day little is known before most of one.
    varies = spreads > np.where(np.arange(len(spreads)) < d, layout.FLOOR * state.scale, _MOST_OF_DAY)
    covariance = np.where(varies[:, None] & varies, covariance, 0.0)
    ridged = covariance.copy()
    np.fill_diagonal(ridged, np.where(varies, spreads * spreads * (1.0 + _RIDGE), 1.0))
    precision = inverse(ridged)
    left = 1.0 / np.diagonal(precision)
    followed = varies & (np.arange(len(spreads)) < d) & (left <= _EXPLAINED * spreads * spreads)
    at, reach = state.at + means / state.scale, _REACH * spreads / state.scale
    state.low[:], state.high[:] = at - reach, at + reach
    known = np.diagonal(state.weight) > 0.0
    own = -state.weight * state.scale[:, None] / state.scale
    np.fill_diagonal(own, 1.0)
    kept = np.array([sum((row[:, None] * row * covariance).ravel().tolist()) for row in own])
    least = np.maximum(left, _LEAST * _LEAST * spreads * spreads)
    if known.any() and (known == followed).all() and (kept <= _ABOUT * least)[known].all():
        return False  # A watch that begins anew sees nothing for a while.
    weight = -precision * left[:, None]
    says = np.abs(weight) * spreads >= _SLIGHT * spreads[:, None]
    weight = np.where(followed[:, None] & varies & says, weight * state.scale / state.scale[:, None], 0.0)
    np.fill_diagonal(weight, 0.0)
    state.level[:] = [each - sum((row * at).tolist()) for each, row in zip(at.tolist(), weight, strict=True)]
    np.fill_diagonal(weight, followed.astype(np.float64))
    state.weight[:], state.width[:] = weight, _LEAST * spreads / state.scale
    return True


def rescale_relations(state: WatchState, factor: FloatArray, shift: FloatArray) -> None:
    """Go on with records in other units: what was x of a feature is ``factor * x + shift``."""
    own, waves = np.diagonal(state.weight).copy(), len(state.level) - len(factor)
    factor, shift = np.append(factor, np.ones(waves)), np.append(shift, np.zeros(waves))
    state.weight[:] = state.weight * factor[:, None] / factor
    np.fill_diagonal(state.weight, 0.0)
    moved = [sum((row * shift).tolist()) for row in state.weight]
    state.level[:] = state.level * factor + shift - moved
    np.fill_diagonal(state.weight, own)
    for place in (state.low, state.high, state.at):
        place[:] = place * factor + shift
    for place in (state.floor, state.rest):
        place[:] = np.where(np.abs(place) < 1e300, place * factor + shift, place)
    state.width[:], state.scale[:] = state.width * factor, state.scale / factor


def inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a covariance."""
    room, found = np.empty((3, *matrix.shape)), np.empty_like(matrix)
    invert(matrix, len(matrix), room[2, 0], room[0], room[1], found)
    return found
