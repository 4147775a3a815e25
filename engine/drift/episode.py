"""Alarms and episodes: one change is one event, and one more when the units concerned have new baselines.

An episode begins or ends once in many thousands of records: the kernels stop there, and Python does the rest.
"""

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.drift import layout
from resonance.engine.drift.changes import (
    CLEAR,
    WIDER,
    ChangedUnit,
    ChangeKind,
    changed_unit,
    ended_unit,
    evidence,
    means_of,
    spreads_of,
)
from resonance.engine.drift.layout import Rules, WatchState
from resonance.engine.drift.shares import share_evidence
from resonance.kernels.arithmetic import jit

_LONGEST = 8
"""Holds after which an episode ends, settled or not."""
_SILENT = 0.1
"""Part of a share below which its cell has gone."""


def _restart_features(channel: FloatArray, number: IntArray, rules: Rules, base: int) -> None:
    """Keep what a unit was like, and begin to learn what it is like now."""
    channel[layout.PREVIOUS], channel[layout.PREVIOUS_SPREAD] = channel[layout.OLD], channel[layout.OLD_SPREAD]
    for known, limit, theta in ((layout.TAU_S, layout.HS, rules.theta), (layout.TAU_Q, layout.HQ, rules.theta_q)):
        channel[known] = np.where(channel[limit] < np.inf, channel[limit] * theta / rules.threshold, 0.0)
    channel[layout.OLD], channel[layout.OLD_SPREAD] = means_of(channel), spreads_of(channel)
    channel[: layout.CLEARED] = 0.0
    number[[layout.SEEN, layout.WATCHED]] = 0
    number[layout.CHECK], number[layout.FLAG] = base, 1


def _restart_share(share: FloatArray, times: IntArray, number: IntArray) -> None:
    """Keep what a share was, and begin to learn what it is now."""
    share[layout.PREVIOUS_SHARE] = share[layout.OLD_SHARE]
    share[layout.OLD_SHARE] = share[layout.P0]
    share[: layout.SHARE_CLEARED] = 0.0
    share[layout.HR] = np.inf
    times[:] = 0
    number[layout.BLOCKS], number[layout.SHARE_CHECK], number[layout.COUNT] = 0, 16, 0
    number[layout.SHARE_FLAG] = 1


def raise_alarm(state: WatchState, rules: Rules, names: IntArray) -> tuple[bool, list[ChangedUnit]]:
    """Open an episode, or let further units join it; return whether it is new, and what has changed in each unit."""
    head, opens, found = state.head, not state.head[layout.OPEN], []
    if opens:
        head[[layout.OPEN, layout.START]] = 1, head[layout.RECORDS] - 1
        head[[layout.MOVED_CELLS, layout.SHARES, layout.GONE]] = 0
        head[layout.EPISODES] += 1
    for k in range(len(names)):
        features, share = evidence(state.channel[k], state.number[k]), share_evidence(state.share[k])
        if features < CLEAR and share < CLEAR:
            continue
        found.append(changed_unit(state, k, int(names[k]), features, share))
        if features >= CLEAR:
            base = layout.BASE if k else layout.STREAM_BASE
            _restart_features(state.channel[k], state.number[k], rules, base)
            head[layout.MOVED_CELLS] += k > 0
        if share >= CLEAR:
            _restart_share(state.share[k], state.share_time[k], state.number[k])
            head[layout.SHARES] += 1
    return opens, found


def _features_are_back(channel: FloatArray, number: IntArray, rules: Rules) -> bool:
    """Whether a unit's new baseline is the one before the change, or the one before that."""
    if not number[layout.WATCHED]:
        return False
    means, spreads, margin = means_of(channel), spreads_of(channel), rules.step * channel[layout.OLD_SPREAD]

    def is_at(places: FloatArray, widths: FloatArray) -> bool:
        differs = (np.abs(means - places) > margin) | (spreads > WIDER * widths) | (widths > WIDER * spreads)
        return not bool(differs.any())

    if is_at(channel[layout.OLD], channel[layout.OLD_SPREAD]):
        return True
    return bool(number[layout.BASES] >= 3) and is_at(channel[layout.PREVIOUS], channel[layout.PREVIOUS_SPREAD])


def _share_is_back(share: FloatArray, number: IntArray) -> bool:
    """Whether a cell's new share is the one before the change, or the one before that."""
    if not share[layout.HR] < np.inf:
        return False
    q, old, previous = share[layout.P0], share[layout.OLD_SHARE], share[layout.PREVIOUS_SHARE]
    again = number[layout.SHARE_BASES] >= 3 and 0.8 * previous <= q <= 1.25 * previous
    return bool(0.8 * old <= q <= 1.25 * old or again)


@jit
def is_over(state, rules, units):
    """Whether an episode is open, and every unit concerned has its new baseline, or it has lasted for long."""
    head = state.head
    lasted = head[layout.RECORDS] - 1 - head[layout.START]
    if head[layout.OPEN] == 0 or lasted < rules.hold:
        return False
    for k in range(units):
        number = state.number[k]
        features = number[layout.FLAG] == 1 and number[layout.WATCHED] == 0
        if features or (number[layout.SHARE_FLAG] == 1 and not state.share[k, layout.HR] < np.inf):
            return lasted >= _LONGEST * rules.hold
    return True


def end_episode(state: WatchState, rules: Rules, names: IntArray) -> tuple[ChangeKind, list[ChangedUnit]]:
    """End the open episode; return how it ended, and what its units are like."""
    head, back, found = state.head, True, []
    head[layout.OPEN] = 0
    head[layout.EPISODES] += 1
    for k in range(len(names)):
        number, share = state.number[k], state.share[k]
        if not (number[layout.FLAG] or number[layout.SHARE_FLAG]):
            continue
        if number[layout.FLAG] and not _features_are_back(state.channel[k], number, rules):
            back = False
        if number[layout.SHARE_FLAG]:
            records = layout.SHARE_BLOCK * number[layout.BLOCKS]
            head[layout.GONE] += share[layout.SN] < _SILENT * share[layout.OLD_SHARE] * records
            back = back and _share_is_back(share, number)
        found.append(ended_unit(state, rules.step, k, int(names[k])))
        number[[layout.FLAG, layout.SHARE_FLAG]] = 0
    if head[layout.GONE] > 0 or (head[layout.MOVED_CELLS] > 0 and head[layout.SHARES] > 0):
        head[layout.REBUILD] = 1
    return "recovered" if back and found else "settled", found
