"""How far a stream goes from record to record: whether a feature is stuck, or noisy, also on a wave.

A wave hides both from sums that know nothing of order: what is stuck stays between its ends, and what is noisy adds
little to its spread.
"""

import numpy as np
from resonance.engine.base import BoolArray, FloatArray
from resonance.engine.drift import layout
from resonance.engine.drift.layout import WatchState
from resonance.kernels.arithmetic import jit

NOISY, STUCK = 2.5, 0.04
"""How many times the largest, and the smallest, mean step there was the present one is of a feature that changed."""
_LATE = 0.125
"""Weight of a block in the mean step of late."""
_EVEN = 4.0
"""How many times the smallest mean step the largest is at most where steps are even: others pause, as switches do."""
_NEVER, _MOST = 1e-300, 10.0
"""A step of nothing, and the most evidence that there is."""
_FOLLOWS = 1.0 / 512.0
"""Part of the way to the mean step of late by which what is usual widens with each block."""
_LASTS = 128
"""Records that a feature is noisy: what goes elsewhere has been reported by then."""
_CHANGES = 30.0
"""Changes that would have come while a feature is stuck: by chance there is none once in e^30."""
_FARTHEST, _FEW = 8.0, 64
"""Mean steps that one step counts at most, and records before which it counts as it is."""


@jit
def _beyond(state, i):
    """Return the mean step of late in bounds of what is noisy, and the bound of what is stuck in it; 0 where uneven."""
    rough, least, most = state.rough[i], state.least[i], state.most[i]
    if not 0.0 < most <= _EVEN * least:
        return 0.0, 0.0
    # A flag does not change for long by chance.
    due = state.changes[i] * (state.records - state.smooth[i]) >= _CHANGES * state.records
    return rough / (NOISY * most), STUCK * least / max(rough, _NEVER) if due else 0.0


@jit
def follow_steps(state, x):
    """Take the step to a record; return whether a feature is stuck or noisy."""
    # After a change of the stream its steps may be other ones, too.
    known, alarm = state.seen[0] > layout.STREAM_BASE, False
    for i in range(len(x)):
        step = abs(x[i] - state.last[i]) if state.records > 1 else 0.0
        state.last[i] = x[i]
        state.changes[i] += step > 0.0
        is_bounded = state.records > _FEW and state.most[i] > 0.0
        state.steps[i] += min(step, _FARTHEST * state.most[i]) if is_bounded else step
    if state.records % layout.BLOCK != 0:
        return False
    for i in range(len(x)):
        step = state.steps[i] / layout.BLOCK
        state.steps[i] = 0.0
        if state.records <= layout.STREAM_BASE // 2:
            # The plain mean as yet.
            state.rough[i] += (step - state.rough[i]) * layout.BLOCK / state.records
            state.least[i] = state.most[i] = state.rough[i]
            continue
        state.rough[i] += (step - state.rough[i]) * _LATE
        rough, part = state.rough[i], _FOLLOWS if known else 1.0
        state.most[i] += max(rough - state.most[i], 0.0) * part
        state.least[i] += min(rough - state.least[i], 0.0) * part
        if not known or state.least[i] <= rough <= state.most[i]:
            state.smooth[i] = state.records
        noisy, stuck = _beyond(state, i)
        lasts = state.records - state.smooth[i] >= _LASTS
        alarm |= known and ((noisy >= 1.0 and lasts) or stuck >= 1.0)
    return alarm


def step_evidence(state: WatchState, k: int) -> FloatArray:
    """Return the evidence that each channel of a unit is noisy or stuck, 1 where it is."""
    found = np.zeros(state.mean.shape[1])
    for i in range(len(state.rough)) if k == 0 else ():
        # What is a quarter short of it has half of the evidence.
        found[i] = min(max(2.0 * max(*_beyond(state, i)) - 1.0, 0.0), _MOST)
    return found


def step_ratio(state: WatchState, channel: int) -> float:
    """Return how many times as long the steps of late are as usual ones."""
    usual = float(np.sqrt(state.least[channel] * state.most[channel]))
    return float(state.rough[channel]) / max(usual, _NEVER)


def take_steps(state: WatchState, changed: BoolArray) -> None:
    """Let the steps of late of the features that changed be usual from now on; what was stuck once may be so again."""
    state.most[changed] = np.maximum(state.most, state.rough)[changed]
    state.least[changed & (state.rough < state.least)] = 0.0
