"""The clusters of a model, read from its landmarks: ids that last, and an event for every change."""

import numpy as np
from resonance.engine.arithmetic import inline, jit
from resonance.engine.events import (
    ABSORBED,
    E_AFTER,
    E_BEFORE,
    E_CLUSTER,
    E_CRITERION,
    E_HEAD,
    E_KIND,
    E_LEVEL,
    E_NUMBER,
    E_OTHER,
    E_RECORD,
    E_THRESHOLD,
    E_VALUE,
    EMERGED,
    NO_REASON,
    SHAPE_HEAD,
    SPLIT,
    VANISHED,
)
from resonance.engine.modal.basins import find_hills, least_records
from resonance.engine.modal.changes import find_heirs, group_masses, hold_joins, hold_splits
from resonance.engine.modal.density import estimate_densities, fade, measure_balls
from resonance.engine.modal.landmarks import place_landmarks
from resonance.engine.modal.model import (
    CLUSTER_ID,
    CLUSTERS,
    COUNT,
    EVENTS,
    JOINED,
    LANDMARKS,
    LAST,
    MADE,
    MASS,
    NEXT_CLUSTER,
    PLACE,
    READ,
    UNPLACED,
    N,
)
from resonance.engine.modal.outliers import without_outliers

VALLEY, SIZE = 1, 2
CRITERIA = ("", "valley", "size")
"""Names of the reasons of events: a valley's depth, as natural logarithm, and the depth that makes one; records that
a cluster has, and the records that make one."""

_OFTEN, _LATER, _SELDOM = 100, 250, 1000
"""Records from one reading to the next: in the first 1,000, the first 10,000, and then."""


# Inline, as a call for every record would count a reference to every array of the model.
@inline
def is_due(model, rules):
    """Whether the clusters are to be read after the record that was learned last.

    They are read now and then, and soon when as many records as make a cluster are in none.
    """
    n = model.head[N]
    since = n - model.head[READ]
    every = _OFTEN if n <= 1000 else (_LATER if n <= 10_000 else _SELDOM)
    return since >= every or (since >= _OFTEN and model.head[UNPLACED] >= rules.min_cluster_records)


@jit
def describe(model, place, places, shapes):
    """Write the clusters at some places as rows (id, size, nodes, centre, spread).

    Parameters
    ----------
    place : ndarray of int64
        Place of each landmark's cluster.
    places : ndarray of int64
        Those that are described, row by row.
    shapes : ndarray of shape (len(places), 3 + 2 d)
        Written, but for the ids.
    """
    count, d = model.head[LANDMARKS], len(model.at)
    for row in range(len(places)):
        shape = shapes[row]
        shape[1:] = 0.0
        mass = 0.0
        for i in range(count):
            if place[i] == places[row]:
                mass += model.real[MASS, i]
                shape[1] += model.number[COUNT, i]
                shape[2] += 1.0
        for i in range(count):
            if place[i] == places[row]:
                share = model.real[MASS, i] / mass
                for f in range(d):
                    shape[SHAPE_HEAD + f] += share * model.at[f, i]
        for i in range(count):
            if place[i] == places[row]:
                share = model.real[MASS, i] / mass
                for f in range(d):
                    gap = model.at[f, i] - shape[SHAPE_HEAD + f]
                    shape[SHAPE_HEAD + d + f] += share * gap * gap
        for f in range(d):
            shape[SHAPE_HEAD + d + f] = np.sqrt(shape[SHAPE_HEAD + d + f])


@jit
def _emit(model, record, kind, cluster, other, criterion, value, threshold, before, after, log):
    """Append an event to the log; `before` and `after` are rows of clusters."""
    width = before.shape[1]
    row = np.empty(E_HEAD + (len(before) + len(after)) * width)
    row[E_RECORD], row[E_KIND], row[E_LEVEL], row[E_NUMBER] = record, kind, 0, model.head[EVENTS]
    row[E_CLUSTER], row[E_OTHER] = cluster, other
    row[E_CRITERION], row[E_VALUE], row[E_THRESHOLD] = criterion, value, threshold
    row[E_BEFORE], row[E_AFTER] = len(before), len(after)
    at = E_HEAD
    for shapes in (before, after):
        for shape in shapes:
            row[at : at + width] = shape
            at += width
    model.head[EVENTS] += 1
    log.append(row)


@jit
def read_clusters(model, rules, record, log):
    """Read the clusters anew, and append what changed to the log.

    Ids and events are those of all engines: the oldest cluster of which a group holds the largest part gives it its
    id.

    Parameters
    ----------
    record : int
        Index in the batch of the record that the reading follows.
    log : typed list of ndarray
        Rows of events.
    """
    count, head, number = model.head[LANDMARKS], model.head, model.number
    radius2, inside = np.empty(count), np.empty(count, dtype=np.int64)
    dimension = measure_balls(model, rules, radius2, inside)
    model.dimension[0] = dimension
    logs = np.empty(count)
    estimate_densities(model, rules, radius2, inside, dimension, logs)
    hills = find_hills(model, rules, logs, inside, dimension)
    fade(model, rules)
    head[READ], head[UNPLACED] = head[N], 0

    # Groups with records enough, and a recent one, in the order of their first landmarks.
    mass, last = group_masses(model, hills.group, count), np.zeros(count, dtype=np.int64)
    for i in range(count):
        last[hills.group[i]] = max(last[hills.group[i]], number[LAST, i])
    numbered, group = np.full(count, -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    basin_of = np.empty(count, dtype=np.int64)
    groups = 0
    for i in range(count):
        root = hills.group[i]
        if hills.basin[i] < 0 or mass[root] < least_records(model, rules, True):
            continue
        if head[N] - last[root] > rules.expire_records:
            continue
        if numbered[root] < 0:
            numbered[root] = groups
            basin_of[groups] = hills.basin[i]
            groups += 1
        group[i] = numbered[root]

    groups = _drop_small(model, rules, group, groups, basin_of)
    groups = hold_splits(model, rules, group, groups, basin_of)
    groups = hold_joins(model, rules, group, groups, basin_of, hills.lost)
    clusters = head[CLUSTERS]
    heir = np.empty(clusters, dtype=np.int64)
    origin, owner = np.empty(groups, dtype=np.int64), np.empty(groups, dtype=np.int64)
    find_heirs(model, group, heir, origin, owner)
    changed = groups != clusters
    for c in range(clusters):
        changed = changed or heir[c] < 0 or owner[heir[c]] != c
    # After all that: a thin cluster is held, or absorbed, as what it was.
    placed = without_outliers(model, logs, dimension, group, groups)
    if not changed:
        place_landmarks(model, placed, owner)
        return
    _rename(model, rules, group, groups, placed, heir, origin, owner, hills, basin_of, record, log)


@jit
def _drop_small(model, rules, group, groups, basin_of):
    """Leave out the groups that have not the records of a cluster, but for those in which one goes on."""
    clusters = model.head[CLUSTERS]
    heir = np.empty(clusters, dtype=np.int64)
    origin, owner = np.empty(groups, dtype=np.int64), np.empty(groups, dtype=np.int64)
    find_heirs(model, group, heir, origin, owner)
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
def _rename(model, rules, group, groups, placed, heir, origin, owner, hills, basin_of, record, log):
    """Give the groups their ids where clusters have come or gone, and append the events."""
    head, number = model.head, model.number
    clusters, width = head[CLUSTERS], SHAPE_HEAD + 2 * len(model.at)
    before, after = np.empty((clusters, width)), np.empty((groups, width))
    describe(model, number[PLACE], np.arange(clusters), before)
    describe(model, group, np.arange(groups), after)
    cluster = model.cluster[:, :clusters].copy()
    for c in range(clusters):
        before[c, 0] = cluster[CLUSTER_ID, c]
    ids, made = np.empty(groups, dtype=np.int64), np.empty(groups, dtype=np.int64)
    joined = np.zeros(groups, dtype=np.int64)
    for g in range(groups):
        if owner[g] >= 0:
            ids[g], made[g] = cluster[CLUSTER_ID, owner[g]], cluster[MADE, owner[g]]
            joined[g] = cluster[JOINED, owner[g]]
        else:
            ids[g], made[g] = head[NEXT_CLUSTER], head[N]
            head[NEXT_CLUSTER] += 1
        after[g, 0] = ids[g]
    order = np.argsort(ids)
    for place in range(groups):
        model.cluster[CLUSTER_ID, place] = ids[order[place]]
        model.cluster[MADE, place] = made[order[place]]
        model.cluster[JOINED, place] = joined[order[place]]
    place_of = np.empty(groups, dtype=np.int64)
    for place in range(groups):
        place_of[order[place]] = place
    head[CLUSTERS] = groups
    place_landmarks(model, placed, place_of)

    none, pair = np.empty((0, width)), np.empty((2, width))
    for c in range(clusters):
        g, id_ = heir[c], cluster[CLUSTER_ID, c]
        if g < 0:
            _emit(model, record, VANISHED, id_, -1, NO_REASON, 0.0, 0.0, before[c : c + 1], none, log)
        elif owner[g] != c:
            pair[0], pair[1] = before[c], before[owner[g]]
            depth, needed = hills.lost[c]
            why = VALLEY if depth >= 0.0 else NO_REASON
            _emit(model, record, ABSORBED, id_, ids[g], why, depth, needed, pair, after[g : g + 1], log)
    for place in range(groups):
        g = order[place]
        if owner[g] >= 0:
            continue
        c = origin[g]
        if c < 0:
            least = float(rules.min_cluster_records)
            _emit(model, record, EMERGED, ids[g], -1, SIZE, after[g, 1], least, none, after[g : g + 1], log)
            continue
        pair[0], pair[1] = after[heir[c]], after[g]
        u, v = basin_of[heir[c]], basin_of[g]
        depth, needed = hills.depth[u, v], hills.needed[u, v]
        why = VALLEY if needed > 0.0 else NO_REASON
        _emit(model, record, SPLIT, ids[g], ids[heir[c]], why, depth, needed, before[c : c + 1], pair, log)
