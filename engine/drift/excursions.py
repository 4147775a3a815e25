"""Excursions: what a unit was like before a change is kept until it has a new baseline, and holds again if it is back.

An outage of some hours is no other state of a stream. Learned as one, or mixed with what follows, it would hide what
happens in the days after it.
"""

import numpy as np
from resonance.engine.base import FloatArray
from resonance.engine.drift import layout
from resonance.engine.drift.changes import CLEAR
from resonance.engine.drift.layout import HOME, HOME_SHARE, HOME_STEPS, Rules, WatchState
from resonance.engine.drift.ranges import begin_sums
from resonance.engine.drift.steps import HELD_STUCK
from resonance.kernels.arithmetic import jit

_RECORDS = 32.0
"""Records at the mean of before, at least, that show that a unit is back, where a threshold does not ask for more."""
_LONGEST = 256
"""Records of a unit after which it is somewhere else rather than away: what lasts is no outage."""
_RARE = 65_536
"""Records for each outage but the first two: what comes more often is a state of the stream, and is learned."""
_SOON = 128.0
"""Records in which it comes: a wave comes slowly."""
_LEAST_WAY = 0.25
"""Least spreads that a unit has gone, for its way back to be followed."""
BACK = -1.0
"""What `wanted` is of a unit that is back, until its episode is over."""


def keep_home(state: WatchState, k: int, rules: Rules, each: FloatArray, far: int) -> None:
    """Keep the baseline of a unit that has changed, and what shows that it is back.

    `each` has the evidence of its channels, `far` is the feature that is far away, or -1. Followed is the channel that
    changed most clearly: its mean, or how much it varies.
    """
    state.wanted[k] = state.nearer[k] = 0.0
    is_rare = (state.outages - 1) * _RARE <= state.records
    if rules.leaps == 0 or not state.watched[k] or state.returns[k] > 0 or not is_rare:
        return
    c, which = divmod(int(each[:, :2].argmax()), 2)
    if far >= 0 and each[c, which] < 1.0:
        c, which = far, 0
        y = min(max((state.last[c] - state.middle[k, c]) * state.gain[k, c], -layout.CLIP), layout.CLIP)
        way = (y - state.mean[k, c]) * state.inverse_spread[k, c]
    elif each[c, which] < CLEAR:
        return
    else:
        s = float((state.cusum, state.size_cusum)[which][k, c])
        onset = float((state.onset, state.size_onset)[which][k, c])
        allowed = state.size_allowed[k, c] if which else state.allowed_up[k, c] if s > 0.0 else state.allowed_down[k, c]
        records = max(state.seen[k] - onset, 1.0)
        way = np.sign(s) * (abs(s) / records + float(allowed)) if records <= _SOON else 0.0
    if abs(way) < _LEAST_WAY:
        return
    if which:
        limit, largest = state.size_threshold[k, c] * rules.theta_q, layout.CLIP - state.size[k, c]
        largest *= state.size_inverse_spread[k, c]
    else:
        limit, largest = state.threshold[k, c] * rules.theta, layout.CLIP + abs(state.mean[k, c])
        largest *= state.inverse_spread[k, c]
    # Between two known places the middle is the best allowance, and the way the difference for which it is made. Where
    # it is now it may vary more, such as a rare flag that is less rare, but no more than values at both ends do.
    least, varies = 0.5 * _RECORDS * abs(way), max(abs(way) * (largest - abs(way)), 1.0)
    state.way[k], state.by[k] = way, c + which * len(each)
    state.wanted[k] = max(limit * varies / abs(way), least) if limit < np.inf else least
    for row, name in enumerate(HOME):
        state.home[k, row] = getattr(state, name)[k]
    for row, name in enumerate(HOME_STEPS if k == 0 else (), start=len(HOME)):
        state.home[0, row, : rules.d] = getattr(state, name)


def keep_share(state: WatchState, k: int) -> None:
    """Keep the share of a cell that has changed."""
    state.home_share[k] = [*(getattr(state, name)[k] for name in HOME_SHARE), state.share_check[k] // 2]


@jit
def is_back(state, k, rules, x):
    """Take a record of a unit that has no baseline since a change; return whether it is as before that."""
    channels = state.mean.shape[1]
    if state.seen[k] > _LONGEST:
        state.wanted[k] = 0.0
        return False
    c, y = int(state.by[k]) % channels, 0.0
    for i in range(c, c + 1) if c < rules.d else range(rules.d):
        v = (x[i] - state.home[k, 0, i]) * state.home[k, 1, i]
        y += (state.sign[i] if c > rules.d else 1.0) * min(max(v, -layout.CLIP), layout.CLIP)
        if np.isnan(v) or state.held[i] >= HELD_STUCK:
            return False
    y = y if c < rules.d else min(max(y / rules.root, -layout.CLIP), layout.CLIP)
    z = (y - state.home[k, 2, c]) * state.home[k, 3, c]
    if state.by[k] >= channels:
        z = (abs(y) - state.home[k, 4, c]) * state.home[k, 5, c]
    way = state.way[k]
    state.nearer[k] = max(state.nearer[k] + np.sign(way) * (0.5 * way - z), 0.0)
    if state.nearer[k] < state.wanted[k] or state.seen[k] < layout.RANGE:
        return False
    state.wanted[k] = BACK
    return True


def _restore(state: WatchState, k: int, rules: Rules) -> None:
    """Let the baseline of before hold again; a unit that has been at that place before has returned once more."""
    place = state.home[k]
    c, is_known = int(state.by[k]), bool(state.by[k] < state.mean.shape[1])
    for row, name in enumerate(HOME):
        getattr(state, name)[k] = place[row]
    for row, name in enumerate(HOME_STEPS if k == 0 else (), start=len(HOME)):
        getattr(state, name)[:] = place[row, : rules.d]
    c %= state.mean.shape[1]
    spread = 1.0 / (state.inverse_spread[k, c] * state.gain[k, c])
    at = state.middle[k, c] + state.mean[k, c] / state.gain[k, c] + state.way[k] * spread
    margin = rules.step * spread
    if is_known and state.lowest[k, c] - margin <= at <= state.highest[k, c] + margin:
        state.returns[k] += 1
    elif is_known:
        state.lowest[k, c], state.highest[k, c] = min(state.lowest[k, c], at), max(state.highest[k, c], at)
    state.wanted[k], state.watched[k] = BACK, 1
    state.seen[k] = max(state.seen[k], layout.RANGE)
    begin_sums(state, k)
    if k == 0:
        state.steady = 0


def _begin_anew(state: WatchState, k: int) -> None:
    """Let a cell that has no baseline yet learn none of what is over."""
    for name in (*layout.CLEARED, "whole", "power", "began", "lacked"):
        getattr(state, name)[k] = 0.0
    state.seen[k], state.check[k] = 0, layout.BASE


def is_any_back(state: WatchState) -> bool:
    """Return whether a unit has been seen to be back, and does not go on yet."""
    return bool(((state.wanted == BACK) & (state.watched == 0)).any())


def come_back(state: WatchState, rules: Rules) -> bool:
    """Let units go on that are back, of the stream with all its cells; return whether all of the episode are."""
    whole = state.wanted[0] == BACK and not state.watched[0]
    for k in range(len(state.seen)):
        if (state.wanted[k] > 0.0 and whole) or (state.wanted[k] == BACK and not state.watched[k]):
            _restore(state, k, rules)
        elif state.watched[k] and (whole or k == 0):
            begin_sums(state, k)
        elif whole and not state.watched[k]:
            _begin_anew(state, k)
        if whole and state.share_flag[k] and state.home_share[k, -2] > 0.0:
            for name, value in zip(HOME_SHARE, state.home_share[k], strict=False):
                getattr(state, name)[k] = value
            state.share_check[k] = int(state.home_share[k, -1])
            state.share_flag[k] = 0
        if whole:
            state.rise[k] = state.fall[k] = 0.0
    state.count[:] = 0
    return bool((state.wanted[state.flag == 1] == BACK).all() and not state.share_flag.any() and not state.held.any())
