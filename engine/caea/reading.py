"""Clusters read from the nodes of a model, with ids that are carried from reading to reading."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.caea.block import (
    CAPACITY,
    CLUSTER,
    CLUSTER_ID,
    CLUSTER_MADE,
    CLUSTER_NODES,
    CLUSTER_SIZE,
    CLUSTERS,
    COUNT,
    EVENTS,
    LEVEL,
    NEXT_CLUSTER,
    K,
    N,
    at_cluster,
    at_field,
    at_shape,
    at_weight,
)
from resonance.engine.caea.linkage import between, group_by_affinity, group_by_edges
from resonance.engine.caea.valleys import NO_VALLEYS, join_without_valley, valley_between
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

AFFINITY, SIZE, VALLEY = 1, 2, 3
CRITERIA = ("", "affinity", "min_cluster_records", "valley")
"""Names of the reasons of CAEA's events."""


@jit
def _confirm(integers, rules, group, first, nodes, size):
    """Give numbers to the groups that are confirmed clusters, in the order of their first nodes.

    `group` goes from first node to number, -1 for a node of no confirmed cluster; `first` gets the first nodes.
    """
    capacity, k = integers[CAPACITY], integers[K]
    counts = at_field(COUNT, capacity)
    for node in range(k):
        nodes[node] = 0
        size[node] = 0
    for node in range(k):
        # A joined group points to the first node of the one it was joined into, which may have been joined on.
        g = group[node]
        while group[g] != g:
            g = group[g]
        group[node] = g
        nodes[g] += 1
        size[g] += integers[counts + node]
    groups, number = 0, nodes
    for node in range(k):
        confirmed = group[node] == node and nodes[node] >= 2 and size[node] >= rules.min_cluster_records
        number[node] = groups if confirmed else -1
        if confirmed:
            first[groups] = node
            groups += 1
    for node in range(k):
        group[node] = number[group[node]]
    return groups


@jit
def _describe(floats, integers, d, group, groups, ids):
    """Return size, nodes, centre and spread of each group as rows (id, size, nodes, centre, spread)."""
    capacity, k = integers[CAPACITY], integers[K]
    counts = at_field(COUNT, capacity)
    shapes = np.zeros((groups, SHAPE_HEAD + 2 * d))
    for node in range(k):
        if group[node] >= 0:
            row, wins = shapes[group[node]], float(integers[counts + node])
            row[1] += wins
            row[2] += 1.0
            for i in range(d):
                row[SHAPE_HEAD + i] += floats[np.uintp(at_weight(i, capacity) + node)] * wins
    for g in range(groups):
        shapes[g, 0] = ids[g]
        for i in range(SHAPE_HEAD, SHAPE_HEAD + d):
            shapes[g, i] /= shapes[g, 1]
    for node in range(k):
        if group[node] >= 0:
            row, wins = shapes[group[node]], float(integers[counts + node])
            for i in range(d):
                difference = floats[np.uintp(at_weight(i, capacity) + node)] - row[SHAPE_HEAD + i]
                row[SHAPE_HEAD + d + i] += difference * difference * wins
    for g in range(groups):
        for i in range(SHAPE_HEAD + d, SHAPE_HEAD + 2 * d):
            shapes[g, i] = np.sqrt(shapes[g, i] / shapes[g, 1])
    return shapes


@jit
def stored_shapes(floats, integers, rules):
    """Return the clusters as last read, as rows (id, size, nodes, centre, spread)."""
    capacity, clusters, d = integers[CAPACITY], integers[CLUSTERS], rules.d
    shapes = np.empty((clusters, SHAPE_HEAD + 2 * d))
    for c in range(clusters):
        shapes[c, 0] = integers[at_cluster(CLUSTER_ID, capacity) + c]
        shapes[c, 1] = integers[at_cluster(CLUSTER_SIZE, capacity) + c]
        shapes[c, 2] = integers[at_cluster(CLUSTER_NODES, capacity) + c]
        at = at_shape(d, rules.h, capacity, c)
        shapes[c, SHAPE_HEAD:] = floats[at : at + 2 * d]
    return shapes


@jit
def _store(floats, integers, rules, shapes, made):
    """Write the clusters of this reading into the block, by id."""
    capacity, d = integers[CAPACITY], rules.d
    order = np.argsort(shapes[:, 0])
    for c in range(len(shapes)):
        row = shapes[order[c]]
        integers[at_cluster(CLUSTER_ID, capacity) + c] = np.int64(row[0])
        integers[at_cluster(CLUSTER_SIZE, capacity) + c] = np.int64(row[1])
        integers[at_cluster(CLUSTER_NODES, capacity) + c] = np.int64(row[2])
        integers[at_cluster(CLUSTER_MADE, capacity) + c] = made[order[c]]
        at = at_shape(d, rules.h, capacity, c)
        floats[at : at + 2 * d] = row[SHAPE_HEAD:]
    integers[CLUSTERS] = len(shapes)


@jit
def tell(integers, path, record, kind, cluster, other, criterion, value, threshold, before, after, log):
    """Append one event of a model to `log`; `before` and `after` are rows of clusters."""
    level = integers[LEVEL]
    row = np.empty(E_HEAD + level + before.size + after.size)
    row[E_RECORD] = record
    row[E_KIND] = kind
    row[E_LEVEL] = level
    row[E_NUMBER] = integers[EVENTS]
    row[E_CLUSTER] = cluster
    row[E_OTHER] = other
    row[E_CRITERION] = criterion
    row[E_VALUE] = value
    row[E_THRESHOLD] = threshold
    row[E_BEFORE] = len(before)
    row[E_AFTER] = len(after)
    at = E_HEAD
    for i in range(level):
        row[at + i] = path[i]
    at += level
    for shapes in (before, after):
        for r in range(len(shapes)):
            row[at : at + shapes.shape[1]] = shapes[r]
            at += shapes.shape[1]
    integers[EVENTS] += 1
    log.append(row)


@jit
def _rows(shapes, a, b):
    """Return the rows `a` and `b` of `shapes`, without those that are -1."""
    count = (1 if a >= 0 else 0) + (1 if b >= 0 else 0)
    rows = np.empty((count, shapes.shape[1]))
    at = 0
    if a >= 0:
        rows[at] = shapes[a]
        at += 1
    if b >= 0:
        rows[at] = shapes[b]
    return rows


@jit
def read_clusters(floats, integers, rules, path, record, log):
    """Read the confirmed clusters of a model, carry their ids, and append what changed to `log`.

    Parameters
    ----------
    path : ndarray of int64
        Node ids that lead to the model.
    record : int
        Index in the batch of the record that causes the reading.
    log : numba list of ndarray
        Receives the events.
    """
    capacity, k, old = integers[CAPACITY], integers[K], integers[CLUSTERS]
    whole, real = np.empty((8, k), dtype=np.int64), np.empty((4, k))
    group, first, start, length, where, partner, member, why = (
        whole[0],
        whole[1],
        whole[2],
        whole[3],
        whole[4],
        whole[5],
        whole[6],
        whole[7],
    )
    last, w, best, bar = real[0], real[1], real[2], real[3]
    bar[:] = rules.tau
    why[:] = AFFINITY if rules.affinity else NO_REASON
    affinity = rules.affinity
    other, excess = member, best
    if affinity:
        other, excess = group_by_affinity(
            integers, rules.tau, group, start, length, where, partner, last, w, best
        )  # fmt: skip
    else:
        group_by_edges(integers, group)
    valleys = join_without_valley(integers, rules, group, last, bar, why, VALLEY) if rules.valleys else NO_VALLEYS
    groups = _confirm(integers, rules, group, first, where, partner)
    if rules.valleys and integers[LEVEL] > 0 and groups == 1:
        # The node above is one blob, which its own cluster says.
        groups = 0
        group[:] = -1
    if groups == 0 and old == 0:
        return

    node_cluster = at_field(CLUSTER, capacity)
    counts = at_field(COUNT, capacity)
    old_ids = integers[at_cluster(CLUSTER_ID, capacity) : at_cluster(CLUSTER_ID, capacity) + old].copy()
    old_made = integers[at_cluster(CLUSTER_MADE, capacity) : at_cluster(CLUSTER_MADE, capacity) + old].copy()
    share = np.zeros((old, groups), dtype=np.int64)
    for node in range(k):
        cluster = integers[node_cluster + node]
        if cluster >= 0 and group[node] >= 0:
            c = 0
            while old_ids[c] != cluster:
                c += 1
            share[c, group[node]] += integers[counts + node]

    ids = np.full(groups, -1, dtype=np.int64)
    made = np.full(groups, integers[N], dtype=np.int64)
    heir = np.full(old, -1, dtype=np.int64)
    for c in range(old):
        most = np.int64(0)
        for g in range(groups):
            if share[c, g] > most:
                most, heir[c] = share[c, g], g
        # Old ids ascend: the first cluster that a group inherits is the oldest.
        if heir[c] >= 0 and ids[heir[c]] < 0:
            ids[heir[c]] = old_ids[c]
            made[heir[c]] = old_made[c]
    next_before = integers[NEXT_CLUSTER]
    parent = np.full(groups, -1, dtype=np.int64)
    changed = False
    for g in range(groups):
        if ids[g] >= 0:
            continue
        changed = True
        most = np.int64(0)
        for c in range(old):
            if share[c, g] > most:
                most, parent[g] = share[c, g], c
        ids[g] = integers[NEXT_CLUSTER]
        integers[NEXT_CLUSTER] += 1
    for c in range(old):
        changed = changed or heir[c] < 0 or ids[heir[c]] != old_ids[c]

    shapes = _describe(floats, integers, rules.d, group, groups, ids)
    if changed:
        past = stored_shapes(floats, integers, rules)
        none = np.empty((0, shapes.shape[1]))
        for c in range(old):
            g = heir[c]
            if g < 0:
                tell(
                    integers, path, record, VANISHED, old_ids[c], -1, NO_REASON, 0.0, 0.0, _rows(past, c, -1), none, log
                )
            elif ids[g] != old_ids[c]:
                survivor = np.searchsorted(old_ids, ids[g])
                tell(
                    integers,
                    path,
                    record,
                    ABSORBED,
                    old_ids[c],
                    ids[g],
                    why[first[g]],
                    last[first[g]],
                    bar[first[g]],
                    _rows(past, c, survivor),
                    _rows(shapes, g, -1),
                    log,
                )
        # New ids were given in the order of the groups: these events stand in the order of their ids.
        for g in range(groups):
            if ids[g] < next_before:
                continue
            if parent[g] < 0:
                tell(
                    integers,
                    path,
                    record,
                    EMERGED,
                    ids[g],
                    -1,
                    SIZE,
                    shapes[g, 1],
                    float(rules.min_cluster_records),
                    none,
                    _rows(shapes, g, -1),
                    log,
                )
            else:
                c = parent[g]
                criterion, value, threshold = NO_REASON, 0.0, rules.tau
                if rules.valleys:
                    value, threshold = valley_between(valleys, group, heir[c], g)
                    criterion = VALLEY if value >= 0.0 else NO_REASON
                elif affinity:
                    i, j = first[heir[c]], first[g]
                    criterion = AFFINITY
                    value = between(start, length, other, excess, i, j) / np.sqrt(w[i] * w[j])
                tell(
                    integers,
                    path,
                    record,
                    SPLIT,
                    ids[g],
                    old_ids[c],
                    criterion,
                    value,
                    threshold,
                    _rows(past, c, -1),
                    _rows(shapes, heir[c], g),
                    log,
                )
    for node in range(k):
        integers[node_cluster + node] = ids[group[node]] if group[node] >= 0 else -1
    _store(floats, integers, rules, shapes, made)
