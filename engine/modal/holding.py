"""A split or a join that a reading shows is made once it has lasted."""

import numpy as np
from resonance.engine.events import find_heirs
from resonance.engine.modal.counts import is_walk
from resonance.engine.modal.slabs import group_masses
from resonance.engine.modal.valleys import valley_between
from resonance.kernels.arithmetic import jit

SPLIT_SHARE, _JOIN_SHARE = 0.25, 0.1
"""Shares of the records learned that a valley is there, or is not, at every reading before a split, or a join."""
LONGEST = 2000.0
"""The most of these records."""
_LONGER_SHARE = 0.75
"""The most of that share before a split where records come in bursts."""
_BURSTS, _LONGEST_BURSTS = 2.0, 4
"""Dispersion from which a join, too, waits for more records, and the most of them, in memories: between what comes in
turns there is no valley while one of them has not come for long."""
_NO_VALLEY = 0.7
"""A valley that is shallower than this share of what it needs is none: a cluster that rests is joined at once."""


@jit
def _find_cores(model, group, origin, core):
    """Write, by place of a cluster, the group that goes on while others are held; -1 for none.

    It has the most of the landmarks that no valley divided from the cluster: of two halves, always the same one.
    """
    part = np.zeros((2, len(origin)))
    for i in range(model.landmarks):
        g = group[i]
        if g >= 0 and model.place[i] == origin[g]:
            part[1 if model.apart[i] > 0 else 0, g] += model.mass[i]
    core[:] = -1
    for g in range(len(origin)):
        c = origin[g]
        if c < 0:
            continue
        best = core[c]
        if best < 0 or part[0, g] > part[0, best] or (part[0, g] == part[0, best] and part[1, g] > part[1, best]):
            core[c] = g


@jit
def hold_splits(model, rules, group, groups, basin_of, basins):
    """Leave a cluster whole until a valley within it has lasted; return how many groups are left.

    A part is split off when most of it was behind a valley at every reading, over a quarter of the records learned, and
    records still come to it. Where records come in bursts a part that touches the other waits for more of them: what
    lies in between may be still to come. One that is held becomes one with the group that goes on in `group`, which has
    the group of each landmark or -1; `basin_of` has the basin of each group.
    """
    count, clusters, n = model.landmarks, model.clusters, model.learned
    core = np.empty(clusters, dtype=np.int64)
    heir, origin, _ = find_heirs(model.place, group, model.mass, clusters, groups)
    _find_cores(model, group, origin, core)
    over, needed = model.dispersion[0], np.int64(min(SPLIT_SHARE * n, LONGEST))
    # Landmarks must live as long: where a cluster moves they are of two memories.
    most = min(LONGEST * over, float(max(needed, rules.memory)))
    longer = np.int64(min(min(SPLIT_SHARE * over, _LONGER_SHARE) * n, most))
    waits = np.full(groups, needed)
    for g in range(groups):
        if origin[g] >= 0 and core[origin[g]] != g:
            _, depth = valley_between(basins, basin_of[core[origin[g]]], basin_of[g])
            waits[g] = longer if depth > 0.0 or is_walk(model) else needed
    mass, lasting = group_masses(model, group, groups), np.zeros(groups)
    last = np.zeros(groups, dtype=np.int64)
    for i in range(count):
        g = group[i]
        if g >= 0:
            last[g] = max(last[g], model.last[i])
            if model.apart[i] > 0 and n - model.apart[i] >= waits[g]:
                lasting[g] += model.mass[i]
    held = np.zeros(groups, dtype=np.bool_)
    for g in range(groups):
        if origin[g] >= 0 and core[origin[g]] != g:
            held[g] = 2.0 * lasting[g] < mass[g] or n - last[g] > needed
    # What another cluster goes on in is no part of this one.
    for c in range(clusters):
        if heir[c] >= 0 and origin[heir[c]] != c:
            held[heir[c]] = False
    into, left = np.empty(groups, dtype=np.int64), 0
    for g in range(groups):
        if not held[g]:
            into[g], basin_of[left] = left, basin_of[g]
            left += 1
    for i in range(count):
        g = group[i]
        if g < 0 or not held[g]:
            model.apart[i] = 0
        elif model.apart[i] == 0:
            model.apart[i] = n
        if g >= 0:
            group[i] = into[core[origin[g]] if held[g] else g]
    return left


@jit
def hold_joins(model, rules, group, groups, basin_of, lost):
    """Leave two clusters apart until no valley was between them at every reading, over a tenth of the records learned.

    One that moves, or comes in turns, does not end before this was so for as long as it was there, to a bound. What is
    left of a cluster that is held becomes a group of its own in `group`, the group of each landmark or -1, and in
    `basin_of`, the basin of each group. `lost` has, by cluster, depth of the valley that is none and the depth that it
    needs, -1 where nothing was measured. Return how many groups there are then.
    """
    count, clusters, n = model.landmarks, model.clusters, model.learned
    heir, _, owner = find_heirs(model.place, group, model.mass, clusters, groups)
    needed, longer = np.int64(min(_JOIN_SHARE * n, LONGEST)), np.int64(0)
    if model.dispersion[0] > _BURSTS:
        share = min(_JOIN_SHARE * model.dispersion[0], _LONGER_SHARE)
        longer = np.int64(min(share * n, float(_LONGEST_BURSTS * rules.memory)))
    for c in range(clusters):
        g = heir[c]
        if g < 0 or owner[g] == c:
            model.joined[c] = 0
            continue
        if model.joined[c] == 0:
            model.joined[c] = n
        rests = model.rest[c] > 0
        none = rests and 0.0 <= lost[c, 0] < _NO_VALLEY * lost[c, 1]
        # What moves may be about to pass by, and what comes in turns to come again.
        known = model.joined[c] - model.made[c]
        waits = max(needed, min(longer if rests else max(longer, rules.memory), known))
        if none or n - model.joined[c] >= waits:
            continue
        mass, last = 0.0, 0
        for i in range(count):
            if group[i] == g and model.place[i] == c:
                mass += model.mass[i]
                last = max(last, model.last[i])
        if mass < rules.min_cluster_records or n - last > rules.expire_records:
            continue
        for i in range(count):
            if group[i] == g and model.place[i] == c:
                group[i] = groups
        basin_of[groups] = basin_of[g]
        groups += 1
    return groups
