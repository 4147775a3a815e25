"""How a stream goes from record to record: whether a feature is stuck, noisy or far away, also on a wave.

A wave hides them from sums that know nothing of order: what is stuck stays between its ends, what is noisy adds little
to its spread, and what goes far away might come back, as a wave does.
"""

from typing import Literal

import numpy as np
from resonance.engine.base import BoolArray, FloatArray
from resonance.engine.drift import layout
from resonance.engine.drift.layout import WatchState
from resonance.engine.drift.ranges import begin_sums
from resonance.kernels.arithmetic import inline, jit, log

NOISY = 2.5
"""How many times the most there was the mean step of late is of a feature that is noisy."""
HELD_NOISY, HELD_STUCK = 1.0, 2.0
"""What a feature has been reported as, until it is usual again."""
_USUAL = 1.25
"""The same at which it is no longer."""
_CHANGE = 0.04
"""Part of the least mean step there was from which a step is one, where no rounding hides it."""
_LATE = 0.125
"""Weight of a block in the mean step of late."""
_EVEN = 4.0
"""How many times the smallest mean step the largest is at most where steps are even: others pause, as switches do."""
_MOST = 10.0
"""The most evidence that there is."""
_FOLLOWS, _FORGETS = 1.0 / 512.0, 1.0 / 4096.0
"""Part of the way to the mean step of late by which what is usual widens, and narrows, with each block."""
_RATE = 1.0 / 512.0
"""Weight of a record in the share of those that changed."""
_LASTS, _BEHIND = 128, 48
"""Records that a feature is noisy: what goes elsewhere has been reported by then; and most by which it is seen late."""
_CHANGES = 30.0
"""Changes that would have come while a feature is stuck: by chance there is none once in e^30."""
_SEVERAL = 8.0
"""Changes that there were at least: how often a count of rare events changes, one early event does not say."""
_PAUSES, _KNOWN = 3.0, 1.2
"""How many times as long as any pause before it is, and as one that has been reported: a rest may come each night."""
_UNCLEAR = 0.25
"""Part of what shows that a feature is stuck from which that is waited for: at most four times as long."""
_AWAKE, _WAKES = 0.25, 2.75
"""What a block with a change adds to `held` of what was stuck, and where it is no longer: a glitch is in two blocks."""
_AWAY = 32.0
"""Records in a row further beyond all there was than that is wide, from which on a feature is far away."""
_FARTHEST, _FEW = 8.0, 64
"""Mean steps that one step counts at most, and records before which it counts as it is."""


@inline
def _pause(state, i):
    """Return how many records with a feature it has not changed for."""
    return state.records - state.moved[i] - (state.absent[i] - state.absent_before[i])


@jit
def _beyond(state, i):
    """Return the mean step of late in bounds of what is noisy, and the present pause in those of what is stuck."""
    if not 0.0 < state.most[i] <= _EVEN * state.least[i]:
        return 0.0, 0.0
    pause = _pause(state, i)
    due = min(pause * state.changes[i] / _CHANGES, pause / max(_PAUSES * state.longest[i], 1.0))
    if state.changes[i] * (state.moved[i] - state.absent_before[i]) < _SEVERAL:
        due = 0.0
    return state.rough[i] / (NOISY * state.most[i]), due


@jit
def may_be_stuck(state, channel):
    """Whether a feature, or one of those in a sum, is about to be seen as stuck, or is as soon as baselines are there.

    What is stuck far off moves sums before that: it is one change.
    """
    d = len(state.last)
    for i in range(channel, channel + 1) if channel < d else range(d):
        stuck = _beyond(state, i)[1]
        if state.held[i] < HELD_STUCK and stuck >= _UNCLEAR and (stuck < 1.0 or state.open == 1):
            return True
    return False


@jit
def is_any_stuck(state):
    """Whether any feature has been reported as stuck, and is so still."""
    return state.held.max() >= HELD_STUCK


@jit
def concerns_units(state):
    """Whether features or shares of units changed in the open episode; steps alone have no baseline."""
    return state.flag.any() or state.share_flag.any()


@jit
def _wake(state, i, rules):
    """Let a feature that was stuck be followed again, once it changes in several blocks."""
    if _beyond(state, i)[1] >= 1.0:
        state.held[i] = HELD_STUCK
    elif state.records - state.moved[i] < layout.BLOCK:
        state.held[i] += _AWAKE
    if state.held[i] >= _WAKES:
        state.held[i] = 0.0
        for k in range(len(state.seen)):
            if state.seen[k] >= layout.RANGE:
                # Until it was seen as stuck it was in all sums, and records were in other cells.
                begin_sums(state, k)
            else:
                state.cusum[k, i] = state.size_cusum[k, i] = 0.0
                state.onset[k, i] = state.size_onset[k, i] = state.seen[k]
        if not concerns_units(state):
            # What is over is over at once.
            state.start = max(min(state.start, state.records - 1 - rules.hold), 0)


@jit
def _leave(state, i, x, known):
    """Take a value that may be beyond all before: a feature goes on by ordinary steps, or is away."""
    bottom, top = state.bottom[i], state.top[i]
    beyond = max(bottom - x, x - top)
    if not known or beyond * state.changes[i] <= _FARTHEST * state.most[i]:
        state.bottom[i], state.top[i], state.away[i] = min(bottom, x), max(top, x), 0.0
    elif beyond <= top - bottom:
        state.away[i] = 0.0
    elif state.held[i] < HELD_STUCK:
        state.away[i] += 1.0


@jit
def follow_steps(state, rules, x, grain, lacks):
    """Take the step to a record; return whether a feature is stuck or noisy.

    `grain` is how far apart values of a feature may be that were one before they were spread over their rounding. Where
    a record `lacks` a feature, as NaN, it is for this one as if it had not come.
    """
    # After a change of the stream its steps may be other ones, too.
    alarm, records = False, state.records
    known, rate = records - state.steady > layout.STREAM_BASE, max(_RATE, 1.0 / records)
    leaves = False
    for i in range(len(x)):
        if lacks and np.isnan(x[i]):
            state.absent[i] += 1.0
            state.steps[i] += state.rough[i]
            continue
        if state.absent[i] == records - 1:
            state.bottom[i] = state.top[i] = state.last[i] = x[i]
        leaves |= (x[i] < state.bottom[i]) | (x[i] > state.top[i]) | (state.away[i] > 0.0)
        step = abs(x[i] - state.last[i])
        state.last[i] = x[i]
        is_change = step > max(_CHANGE * state.least[i], grain[i])
        if is_change:
            pause = _pause(state, i)
            state.moved[i], state.absent_before[i] = records, state.absent[i]
            # The share stands still while nothing changes.
            state.changes[i] += (1.0 / pause - state.changes[i]) * min(pause * rate, 1.0)
            part = _KNOWN / _PAUSES if state.held[i] >= HELD_STUCK else 1.0
            state.longest[i] = max(state.longest[i], pause * part)
        is_bounded = records > _FEW and state.most[i] > 0.0
        state.steps[i] += min(step, _FARTHEST * state.most[i]) if is_bounded else step
    for i in range(len(x)) if leaves else range(0):
        if not (lacks and np.isnan(x[i])):
            _leave(state, i, x[i], known)
    if records % layout.BLOCK != 0:
        return False
    for i in range(len(x)):
        step = state.steps[i] / layout.BLOCK
        state.steps[i] = 0.0
        if records <= layout.STREAM_BASE // 2:
            # The plain mean as yet.
            state.rough[i] += (step - state.rough[i]) * layout.BLOCK / records
            state.least[i] = state.most[i] = state.rough[i]
            continue
        state.rough[i] += (step - state.rough[i]) * _LATE
        rough, most, least = state.rough[i], state.most[i], state.least[i]
        if state.held[i] == HELD_NOISY and rough <= _USUAL * state.smooth[i]:
            state.held[i], state.smooth[i] = 0.0, records
        if state.held[i] >= HELD_STUCK:
            _wake(state, i, rules)
        # What is stuck is not usual, also before it can be reported.
        if state.held[i] < HELD_STUCK and _beyond(state, i)[1] < 1.0:
            widens, narrows = (_FOLLOWS, _FORGETS) if known else (1.0, 0.0)
            state.most[i] += max(rough - most, 0.0) * widens + min(rough - most, 0.0) * narrows
            state.least[i] += min(rough - least, 0.0) * widens + max(rough - least, 0.0) * narrows
        noisy, stuck = _beyond(state, i)
        if noisy < 1.0 and state.held[i] != HELD_NOISY:
            state.smooth[i] = records
        alarm |= known and state.held[i] == 0.0 and (records - state.smooth[i] >= _LASTS or stuck >= 1.0)
        alarm |= state.away[i] >= _AWAY and not may_be_stuck(state, i)
    return alarm


def step_evidence(state: WatchState, k: int) -> FloatArray:
    """Return the evidence that each channel of a unit is noisy, stuck or far away, 1 where it is and was not before."""
    found = np.zeros(state.mean.shape[1])
    for i in np.flatnonzero(state.held < HELD_STUCK) if k == 0 else ():
        # What is a quarter short of it has half of the evidence.
        found[i] = min(max(2.0 * max(*_beyond(state, i), state.away[i] / _AWAY) - 1.0, 0.0), _MOST)
    return found


def step_change(state: WatchState, channel: int) -> Literal["stuck", "noisy", "far"]:
    """Return which of these a feature is that is one."""
    noisy, stuck = _beyond(state, channel)
    far = state.away[channel] / _AWAY
    return "stuck" if stuck >= max(noisy, min(far, 1.0)) else "noisy" if noisy > far else "far"


def steps_since(state: WatchState, channel: int) -> int:
    """Return the record of the stream since which a feature is stuck or far, or about since which it is noisy."""
    change = step_change(state, channel)
    if change != "noisy":
        return int(state.moved[channel] if change == "stuck" else state.records - state.away[channel])
    # The mean of late comes to the bound the sooner the noisier a feature is.
    beyond = (NOISY - 1.0) / max(state.rough[channel] / state.most[channel] - 1.0, NOISY - 1.0)
    behind = layout.BLOCK * log(max(1.0 - beyond, 1e-9)) / log(1.0 - _LATE)
    return int(state.smooth[channel] - min(behind, _BEHIND))


def step_ratio(state: WatchState, channel: int) -> float:
    """Return how many times as long the steps of late are as usual ones; 0 of what is stuck, 1 of what is far."""
    change = step_change(state, channel)
    if change != "noisy":
        return 0.0 if change == "stuck" else 1.0
    return float(state.rough[channel] / (np.sqrt(state.least[channel]) * np.sqrt(state.most[channel])))


def hold_steps(state: WatchState, changed: BoolArray) -> None:
    """Report the features that changed no more until they are usual again; what is noisy is known from now on."""
    for i in np.flatnonzero(changed).tolist():
        change = step_change(state, i)
        if change == "stuck":
            state.held[i], state.away[i] = HELD_STUCK, 0.0
        elif change == "noisy" and state.held[i] == 0.0:
            # Until it is no noisier than before.
            state.held[i], state.smooth[i] = HELD_NOISY, state.most[i]
            state.most[i] = max(state.most[i], state.rough[i])


def take_steps(state: WatchState) -> None:
    """Let the features that are still noisy be usual."""
    noisy = state.held == HELD_NOISY
    state.held[noisy], state.smooth[noisy] = 0.0, state.records
