"""Alarms and episodes: one change is one event, and one more when the units concerned have new baselines.

An episode begins or ends once in many thousands of records: the kernels stop there, and Python does the rest.
"""

import numpy as np
from resonance.engine.base import FloatArray
from resonance.engine.drift import layout
from resonance.engine.drift.changes import (
    CLEAR,
    WIDER,
    ChangedUnit,
    ChangeKind,
    changed_unit,
    ended_unit,
    known_inflation,
    means_of,
    spreads_of,
    strengths,
)
from resonance.engine.drift.excursions import BACK, keep_home, keep_share
from resonance.engine.drift.layout import Rules, WatchState
from resonance.engine.drift.relations import forget_pairs
from resonance.engine.drift.shares import share_evidence
from resonance.engine.drift.steps import (
    concerns_units,
    hold_steps,
    is_any_stuck,
    step_change,
    step_evidence,
    take_steps,
)
from resonance.kernels.arithmetic import jit

_LONGEST = 8
"""Holds after which an episode ends, settled or not."""
_SILENT = 0.1
"""Part of a share below which its cell has gone."""


def restart_features(state: WatchState, k: int, rules: Rules, base: int) -> None:
    """Keep what a unit was like, and begin to learn what it is like now."""
    state.previous[k], state.previous_spread[k] = state.old[k], state.old_spread[k]
    doublings = min(int(state.returns[k]), rules.returning)
    known = known_inflation(state, k, rules)
    # What goes to and fro depends on itself for longer than any of its baselines has shown.
    state.inflation[k], state.size_inflation[k] = known if doublings == 0 else (0.0, 0.0)
    state.old[k], state.old_spread[k], state.old_usual[k] = means_of(state, k), spreads_of(state, k), state.usual[k]
    state.whole[k] = state.power[k] = state.began[k] = state.lacked[k] = 0.0
    for name in layout.CLEARED:
        getattr(state, name)[k] = 0.0
    state.seen[k] = state.watched[k] = 0
    state.check[k], state.flag[k] = base << doublings, 1


def _restart_share(state: WatchState, k: int) -> None:
    """Keep what a share was, and begin to learn what it is now."""
    state.previous_share[k], state.old_share[k] = state.old_share[k], state.share[k]
    for name in layout.SHARE_CLEARED:
        getattr(state, name)[k] = 0.0
    state.share_threshold[k] = np.inf
    state.share_time[k] = 0
    state.blocks[k], state.share_check[k], state.count[k] = 0, layout.FIRST_SHARE, 0
    state.share_flag[k] = 1


def _forget_sums(state: WatchState, stuck: list[int]) -> None:
    """Let the steps alone speak of what is stuck: it has moved sums that hold it, and put records into other cells."""
    forgotten = np.zeros(state.cusum.shape, dtype=np.bool_)
    forgotten[1:] = forgotten[:, stuck] = forgotten[:, len(state.sign) :] = True
    for sums, onsets in ((state.cusum, state.onset), (state.size_cusum, state.size_onset)):
        sums[forgotten] = 0.0
        onsets[:] = np.where(forgotten, state.seen[:, None], onsets)
    state.count[:] = 0


def begin_episode(state: WatchState) -> bool:
    """Open an episode unless one is open; return whether it is new."""
    if state.open:
        return False
    state.open, state.start = 1, state.records - 1
    state.moved_cells = state.moved_shares = state.gone = 0
    state.episodes += 1
    return True


def raise_alarm(state: WatchState, rules: Rules) -> tuple[bool, list[ChangedUnit]]:
    """Open an episode, or let further units join it; return whether it is new, and what has changed in each unit."""
    opens, found = begin_episode(state), []
    steps = step_evidence(state, 0)[: rules.d] >= CLEAR
    changes = {i: step_change(state, i) for i in np.flatnonzero(steps).tolist()}
    far = next((i for i in changes if changes[i] == "far"), -1)
    if stuck := [i for i in changes if changes[i] == "stuck"]:
        _forget_sums(state, stuck)
    for k in range(state.cells + 1):
        each, share = strengths(state, k), share_evidence(state, k)
        if each.max() < CLEAR and share < CLEAR:
            continue
        found.append(changed_unit(state, rules, k, each, share))
        if opens and k == 0:
            # Steps have a baseline of their own.
            hold_steps(state, steps)
        if each[:, :2].max() >= CLEAR or (k == 0 and far >= 0):
            base = layout.BASE if k else layout.STREAM_BASE
            keep_home(state, k, rules, each, far if k == 0 else -1)
            restart_features(state, k, rules, base)
            if k == 0:
                forget_pairs(state)
            if k == 0:
                state.steady = state.records
                if state.returns[0] == 0:
                    state.bottom[:] = state.top[:] = state.last
            state.moved_cells += k > 0
        if share >= CLEAR:
            keep_share(state, k)
            _restart_share(state, k)
            state.moved_shares += 1
    return opens, found


def _features_are_back(state: WatchState, k: int, rules: Rules) -> bool:
    """Whether a unit's new baseline is the one before the change, or the one before that."""
    if not state.watched[k]:
        return False
    means, spreads, margin = means_of(state, k), spreads_of(state, k), rules.step * state.old_spread[k]

    def is_at(places: FloatArray, widths: FloatArray) -> bool:
        differs = (np.abs(means - places) > margin) | (spreads > WIDER * widths) | (widths > WIDER * spreads)
        return not bool(differs.any())

    if is_at(state.old[k], state.old_spread[k]):
        return True
    return bool(state.bases[k] >= 3) and is_at(state.previous[k], state.previous_spread[k])


def _share_is_back(state: WatchState, k: int) -> bool:
    """Whether a cell's new share is the one before the change, or the one before that."""
    if not state.share_threshold[k] < np.inf:
        return False
    q, old, previous = state.share[k], state.old_share[k], state.previous_share[k]
    again = state.share_bases[k] >= 3 and 0.8 * previous <= q <= 1.25 * previous
    return bool(0.8 * old <= q <= 1.25 * old or again)


@jit
def is_settling(state, rules):
    """Whether an episode is open in which a unit concerned has no new baseline yet, unless it has lasted for long."""
    if state.open == 0 or not concerns_units(state):
        return False
    lasted = state.records - 1 - state.start
    if lasted < rules.hold:
        return True
    for k in range(len(state.seen)):
        features = state.flag[k] == 1 and state.watched[k] == 0
        if features or (state.share_flag[k] == 1 and not state.share_threshold[k] < np.inf):
            return lasted < _LONGEST * rules.hold
    return False


@jit
def is_over(state, rules):
    """Whether an episode is open, has lasted, and waits for nothing: no baseline, and nothing that is stuck or noisy.

    What is noisy beside changes of units, or for long, is usual.
    """
    lasted = state.records - 1 - state.start
    if state.open == 0 or lasted < rules.hold or is_settling(state, rules) or is_any_stuck(state):
        return False
    return lasted >= _LONGEST * rules.hold or concerns_units(state) or not state.held.any()


def end_episode(state: WatchState, rules: Rules) -> tuple[ChangeKind, list[ChangedUnit]]:
    """End the open episode; return how it ended, and what its units are like."""
    # What was noisy for long is usual from now on; what goes on in the next episode is not over.
    back, found = bool(concerns_units(state) or not state.held.any()), list[ChangedUnit]()
    if is_over(state, rules):
        take_steps(state)
    state.open = 0
    state.episodes += 1
    state.outages += int((state.wanted == BACK).any())
    for k in range(len(state.seen)):
        if not (state.flag[k] or state.share_flag[k]):
            continue
        if state.flag[k] and not _features_are_back(state, k, rules):
            back = False
        if state.share_flag[k]:
            records = layout.SHARE_BLOCK * state.blocks[k]
            state.gone += state.inside[k] < _SILENT * state.old_share[k] * records
            back = back and _share_is_back(state, k)
        found.append(ended_unit(state, rules, k))
        state.flag[k] = state.share_flag[k] = 0
        state.wanted[k] = max(state.wanted[k], 0.0)
    if state.gone > 0 or (state.moved_cells > 0 and state.moved_shares > 0):
        state.rebuild = 1
    return "recovered" if back else "settled", found
