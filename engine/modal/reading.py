"""The clusters of a model, read from its landmarks: ids that last, and an event for every change.

Landmarks of a cluster where the stream is so thin that hardly a record lies are outliers.
"""

import numpy as np
from resonance.engine.events import NO_PATH, NO_REASON, SHAPE_HEAD, emit_changes, find_heirs, has_changed
from resonance.engine.modal.answers import measure_ranges, measure_usual
from resonance.engine.modal.basins import find_hills
from resonance.engine.modal.budget import fit_budget
from resonance.engine.modal.counts import overdispersion
from resonance.engine.modal.density import estimate_densities, fade, measure_balls
from resonance.engine.modal.graph import least_records
from resonance.engine.modal.holding import hold_joins, hold_splits
from resonance.engine.modal.learn import place_landmarks
from resonance.engine.modal.slabs import group_masses
from resonance.engine.modal.valleys import valley_between
from resonance.kernels.arithmetic import jit
from resonance.kernels.ordering import stable_order

_DEVIATIONS = 2.88
"""Standard deviations of a normal variable beyond which one of 500 lies on one side."""
_MAX = 0.1
"""Share of the records of a group that can be outliers; more of them are a part of it."""
_INSIDE = 2.0
"""How many times as deep below the median a landmark lies that leaves its cluster."""


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
    fit_budget(model, rules, cut, hills.basins)


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
            new[g, 0], new[g, 1], new[g, 2] = SIZE, after[g, 1], least_records(model, rules, False)
        elif owner[g] < 0:
            depth, needed = valley_between(hills.basins, basin_of[heir[c]], basin_of[g])
            new[g, 0], new[g, 1], new[g, 2] = VALLEY if needed > 0.0 else NO_REASON, depth, needed
            new[g, 3] = ids[heir[c]]
    model.events = emit_changes(model.events, NO_PATH, record, lineage, before, after, lost, new, log)
