"""The clusters of a model, read from its landmarks: ids that last, and an event for every change.

Landmarks of a cluster where the stream is so thin that hardly a record lies are outliers. A split or a join is
made once it has lasted.
"""

import numpy as np
from resonance.engine.events import NO_PATH, NO_REASON, SHAPE_HEAD, emit_changes, find_heirs, has_changed
from resonance.engine.modal.answers import measure_ranges, measure_usual
from resonance.engine.modal.basins import count_valleys, find_hills, valley_between
from resonance.engine.modal.counts import is_walk, length, overdispersion
from resonance.engine.modal.density import estimate_densities, fade, measure_balls
from resonance.engine.modal.graph import least_records
from resonance.engine.modal.learn import place_landmarks
from resonance.engine.modal.slabs import group_masses
from resonance.kernels.arithmetic import jit
from resonance.kernels.ordering import stable_order

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


_DEVIATIONS = 2.88
"""Standard deviations of a normal variable beyond which one of 500 lies on one side."""
_MAX = 0.1
"""Share of the records of a group that can be outliers; more of them are a part of it."""
_INSIDE = 2.0
"""How many times as deep below the median a landmark lies that leaves its cluster."""

_LANDMARKS = 64
"""Landmarks that show a hill beside others which touch it: eight balls."""
_RESOLVED = 1.05
"""Hills that would be clusters with smaller errors, in those that are, above which more landmarks show more."""
_TOUCHING = 0.1
"""Valleys between clusters that touch, in their number, above which more landmarks show more."""
_CUT = 0.12
"""Share of the balls that end at a gap, or reach over one, above which clusters have too few landmarks."""
_MOVED = 0.1
"""Share of the landmarks that are in clusters that move, above which there come no more of them."""


@jit
def thinness(dimension):
    """Return the natural logarithm of how many times denser a Gaussian is at its median record than far outside.

    That is where one record of 500 lies farther outside. Squared distances are chi-square; their quantiles are those
    of E. B. Wilson, M. M. Hilferty, "The Distribution of Chi-Square", PNAS 17(12), 1931.
    """
    part = 2.0 / (9.0 * dimension)
    median = 1.0 - part
    far = median + _DEVIATIONS * np.sqrt(part)
    return 0.5 * dimension * (far * far * far - median * median * median)


@jit
def without_outliers(model, logs, dimension, group, groups):
    """Return the groups of landmarks, -1 for none, without those around which there is hardly a record.

    What is in a cluster already, as the rest of one that was absorbed is, leaves it only from twice that depth on.
    `logs` are the logarithms of the density at each landmark.
    """
    count, mass = model.landmarks, model.mass
    whole, passed, thin = group_masses(model, group, groups), np.zeros(groups), np.zeros(groups)
    median = np.full(groups, np.inf)
    for i in stable_order(-logs):
        g = group[i]
        if g < 0:
            continue
        passed[g] += mass[i]
        if median[g] == np.inf and 2.0 * passed[g] >= whole[g]:
            median[g] = logs[i]
    depth = thinness(dimension)
    left = group.copy()
    for i in range(count):
        g = group[i]
        if g >= 0 and logs[i] < median[g] - depth * (1.0 if model.place[i] < 0 else _INSIDE):
            thin[g] += mass[i]
            left[i] = -1
    for i in range(count):
        if group[i] >= 0 and thin[group[i]] > _MAX * whole[group[i]]:
            left[i] = group[i]
    return left


VALLEY, SIZE = 1, 2
CRITERIA = ("", "valley", "size")
"""Names of the reasons of events: a valley's depth, as natural logarithm, and the depth that makes one; records that
a cluster has, and the records that make one."""


@jit
def describe(model, place, places, shapes):
    """Write the clusters at `places` as rows (id, size, nodes, centre, spread) to `shapes`, but for the ids.

    `place` is that of each landmark's cluster.
    """
    count, d = model.landmarks, len(model.at)
    for row in range(len(places)):
        shape = shapes[row]
        shape[1:] = 0.0
        mass = 0.0
        for i in range(count):
            if place[i] == places[row]:
                mass += model.mass[i]
                shape[1] += model.count[i]
                shape[2] += 1.0
        for i in range(count):
            if place[i] == places[row]:
                share = model.mass[i] / mass
                for f in range(d):
                    shape[SHAPE_HEAD + f] += share * model.at[f, i]
        for i in range(count):
            if place[i] == places[row]:
                share = model.mass[i] / mass
                for f in range(d):
                    gap = model.at[f, i] - shape[SHAPE_HEAD + f]
                    shape[SHAPE_HEAD + d + f] += share * gap * gap
        for f in range(d):
            shape[SHAPE_HEAD + d + f] = np.sqrt(shape[SHAPE_HEAD + d + f])


@jit
def read_clusters(model, rules, record, log):
    """Read the clusters anew after a record, and append what changed to the log.

    Ids and events are those of all engines: the oldest cluster of which a group holds the largest part gives it its id.
    """
    count = model.landmarks
    radius2, inside = np.empty(count), np.empty(count, dtype=np.int64)
    dimension, cut = measure_balls(model, rules, radius2, inside)
    model.dimension[0] = dimension
    logs = np.empty(count)
    model.dispersion[0] = overdispersion(model)
    estimate_densities(model, rules, radius2, inside, dimension, logs)
    hills = find_hills(model, rules, logs, inside, dimension)
    fade(model, rules)
    model.read, model.unplaced = model.learned, 0

    # Groups with records enough, and a recent one, in the order of their first landmarks.
    mass, last = group_masses(model, hills.group, count), np.zeros(count, dtype=np.int64)
    for i in range(count):
        last[hills.group[i]] = max(last[hills.group[i]], model.last[i])
    numbered, group = np.full(count, -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    basin_of = np.empty(count, dtype=np.int64)
    groups = 0
    for i in range(count):
        root = hills.group[i]
        if hills.basin[i] < 0 or mass[root] < least_records(model, rules, True):
            continue
        if model.learned - last[root] > rules.expire_records:
            continue
        if numbered[root] < 0:
            numbered[root] = groups
            basin_of[groups] = hills.basin[i]
            groups += 1
        group[i] = numbered[root]

    groups = _drop_small(model, rules, group, groups, basin_of)
    groups = hold_splits(model, rules, group, groups, basin_of, hills.basins)
    groups = hold_joins(model, rules, group, groups, basin_of, hills.lost)
    lineage = find_heirs(model.place, group, model.mass, model.clusters, groups)
    # After all that: a thin cluster is held, or absorbed, as what it was.
    placed = without_outliers(model, logs, dimension, group, groups)
    if has_changed(lineage[0], lineage[2]):
        _rename(model, rules, group, groups, placed, lineage, hills, basin_of, record, log)
    else:
        place_landmarks(model, rules, placed, lineage[2])
    measure_ranges(model)
    measure_usual(model)
    _enlarge(model, rules, _needs_more(model, rules, cut, hills.basins))


@jit
def _needs_more(model, rules, cut, basins):
    """Whether hills have too few landmarks.

    So it is where an eighth of the balls, `cut` of them, meet a gap: a cluster has hardly as many landmarks as a ball.
    So it is, too, where more than the clusters would be hills if errors were small, or clusters touch, and each has few
    landmarks; but not before the errors are those of counts that have lasted.
    """
    # Not before the landmarks are a sample, nor while clusters move: what is between them then is no gap.
    if model.landmarks < model.budget or model.clock <= 2 * model.budget:
        return False
    moving, lasting = 0, 0
    for i in range(model.landmarks):
        moving += model.place[i] >= 0 and model.rest[model.place[i]] == 0
        lasting += length(model, i, model.clock) > rules.memory
    if moving > _MOVED * model.landmarks:
        return False
    hills = len(basins.now)
    dense = max(hills / _RESOLVED, count_valleys(basins) / _TOUCHING) > model.clusters
    few = _LANDMARKS * hills > model.budget
    return cut > _CUT * model.budget or (dense and few and 2 * lasting > model.landmarks)


@jit
def _enlarge(model, rules, needed):
    """Let there be twice as many landmarks where more were needed at every reading for long, to the most."""
    if not needed:
        model.enough = model.learned
    # As long as a valley is there before a split.
    lasts = model.learned - model.enough >= min(SPLIT_SHARE * model.learned, LONGEST)
    may = 2 * model.budget <= rules.max_landmarks
    model.crowded = needed and lasts and not may
    if needed and lasts and may:
        model.budget, model.enough = 2 * model.budget, model.learned


@jit
def _drop_small(model, rules, group, groups, basin_of):
    """Leave out the groups that have not the records of a cluster, but for those in which one goes on."""
    _, _, owner = find_heirs(model.place, group, model.mass, model.clusters, groups)
    mass = group_masses(model, group, groups)
    into, left = np.full(groups, -1, dtype=np.int64), 0
    for g in range(groups):
        if mass[g] >= least_records(model, rules, owner[g] >= 0):
            into[g], basin_of[left] = left, basin_of[g]
            left += 1
    for i in range(len(group)):
        if group[i] >= 0:
            group[i] = into[group[i]]
    return left


@jit
def _rename(model, rules, group, groups, placed, lineage, hills, basin_of, record, log):
    """Give the groups their ids where clusters have come or gone, and append the events."""
    heir, origin, owner = lineage
    clusters, width = model.clusters, SHAPE_HEAD + 2 * len(model.at)
    before, after = np.empty((clusters, width)), np.empty((groups, width))
    describe(model, model.place, np.arange(clusters), before)
    describe(model, group, np.arange(groups), after)
    old_ids, old_made, old_joined = model.cluster_id.copy(), model.made.copy(), model.joined.copy()
    for c in range(clusters):
        before[c, 0] = old_ids[c]
    ids, made = np.empty(groups, dtype=np.int64), np.empty(groups, dtype=np.int64)
    joined = np.zeros(groups, dtype=np.int64)
    for g in range(groups):
        if owner[g] >= 0:
            ids[g], made[g] = old_ids[owner[g]], old_made[owner[g]]
            joined[g] = old_joined[owner[g]]
        else:
            ids[g], made[g] = model.next_cluster, model.learned
            model.next_cluster += 1
        after[g, 0] = ids[g]
    order = stable_order(ids)
    for place in range(groups):
        model.cluster_id[place] = ids[order[place]]
        model.made[place] = made[order[place]]
        model.joined[place] = joined[order[place]]
    place_of = np.empty(groups, dtype=np.int64)
    for place in range(groups):
        place_of[order[place]] = place
    model.clusters = groups
    place_landmarks(model, rules, placed, place_of)

    lost, new = np.empty((clusters, 3)), np.empty((groups, 4))
    for c in range(clusters):
        depth, needed = hills.lost[c]
        lost[c, 0], lost[c, 1], lost[c, 2] = VALLEY if depth >= 0.0 else NO_REASON, depth, needed
    for g in range(groups):
        c = origin[g]
        if c < 0:
            new[g, 0], new[g, 1], new[g, 2] = SIZE, after[g, 1], float(rules.min_cluster_records)
        elif owner[g] < 0:
            depth, needed = valley_between(hills.basins, basin_of[heir[c]], basin_of[g])
            new[g, 0], new[g, 1], new[g, 2] = VALLEY if needed > 0.0 else NO_REASON, depth, needed
            new[g, 3] = ids[heir[c]]
    model.events = emit_changes(model.events, NO_PATH, record, lineage, before, after, lost, new, log)
