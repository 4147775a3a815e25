"""Clusters read from the nodes of a model, with ids that are carried from reading to reading."""

import numpy as np
from resonance.engine.caea import block
from resonance.engine.caea.block import at_cluster, at_field, at_shape, at_weight
from resonance.engine.caea.linkage import (
    NO_VALLEYS,
    between,
    group_by_affinity,
    group_by_edges,
    join_without_valley,
    valley_between,
)
from resonance.engine.events import NO_REASON, SHAPE_HEAD
from resonance.engine.lineage import emit_changes, find_heirs, has_changed
from resonance.kernels.arithmetic import jit
from resonance.kernels.ordering import stable_order

AFFINITY, SIZE, VALLEY = 1, 2, 3
CRITERIA = ("", "affinity", "min_cluster_records", "valley")
"""Names of the reasons of CAEA's events."""


@jit
def _confirm(integers, rules, group, first, nodes, size):
    """Give numbers to the groups that are confirmed clusters, in the order of their first nodes.

    `group` goes from first node to number, -1 for a node of no confirmed cluster; `first` gets the first nodes.
    """
    capacity, k = integers[block.CAPACITY], integers[block.K]
    counts = at_field(block.COUNT, capacity)
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
    capacity, k = integers[block.CAPACITY], integers[block.K]
    counts = at_field(block.COUNT, capacity)
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
    capacity, clusters, d = integers[block.CAPACITY], integers[block.CLUSTERS], rules.d
    shapes = np.empty((clusters, SHAPE_HEAD + 2 * d))
    for c in range(clusters):
        for field in (block.CLUSTER_ID, block.CLUSTER_SIZE, block.CLUSTER_NODES):
            shapes[c, field] = integers[at_cluster(field, capacity) + c]
        at = at_shape(d, rules.h, capacity, c)
        for i in range(2 * d):
            shapes[c, SHAPE_HEAD + i] = floats[at + i]
    return shapes


@jit
def _store(floats, integers, rules, shapes, made):
    """Write the clusters of this reading into the block, by id."""
    capacity, d = integers[block.CAPACITY], rules.d
    order = stable_order(shapes[:, 0].copy())
    for c in range(len(shapes)):
        row = shapes[order[c]]
        for field in (block.CLUSTER_ID, block.CLUSTER_SIZE, block.CLUSTER_NODES):
            integers[at_cluster(field, capacity) + c] = np.int64(row[field])
        integers[at_cluster(block.CLUSTER_MADE, capacity) + c] = made[order[c]]
        at = at_shape(d, rules.h, capacity, c)
        for i in range(2 * d):
            floats[at + i] = row[SHAPE_HEAD + i]
    integers[block.CLUSTERS] = len(shapes)


@jit
def _places(integers, old_ids, place, weight):
    """Write for each node the place of its present cluster, -1 for none, and its records."""
    capacity = integers[block.CAPACITY]
    clusters, counts = at_field(block.CLUSTER, capacity), at_field(block.COUNT, capacity)
    for node in range(integers[block.K]):
        weight[node] = integers[counts + node]
        cluster = integers[clusters + node]
        place[node] = np.searchsorted(old_ids, cluster) if cluster >= 0 else -1


@jit
def _name(integers, owner, old_ids, old_made, ids, made):
    """Write id and record of emergence of each group: those of the cluster that goes on in it, or new ones."""
    for g in range(len(owner)):
        if owner[g] >= 0:
            ids[g], made[g] = old_ids[owner[g]], old_made[owner[g]]
        else:
            ids[g], made[g] = integers[block.NEXT_CLUSTER], integers[block.N]
            integers[block.NEXT_CLUSTER] += 1


@jit
def read_clusters(floats, integers, rules, path, record, log):
    """Read the confirmed clusters of a model, carry their ids, and append to `log` what changed at a record."""
    capacity, k, old = integers[block.CAPACITY], integers[block.K], integers[block.CLUSTERS]
    group, first, start, length, where, partner, member, why = np.empty((8, k), dtype=np.int64)
    last, w, best, bar = np.empty((4, k))
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
    if rules.valleys and integers[block.LEVEL] > 0 and groups == 1:
        # The node above is one blob, which its own cluster says.
        groups = 0
        group[:] = -1
    if groups == 0 and old == 0:
        return

    at_ids, at_made = at_cluster(block.CLUSTER_ID, capacity), at_cluster(block.CLUSTER_MADE, capacity)
    old_ids, old_made = integers[at_ids : at_ids + old].copy(), integers[at_made : at_made + old].copy()
    place, weight = np.empty(k, dtype=np.int64), np.empty(k)
    _places(integers, old_ids, place, weight)
    lineage = find_heirs(place, group, weight, old, groups)
    heir, origin, owner = lineage
    ids, made = np.empty((2, groups), dtype=np.int64)
    _name(integers, owner, old_ids, old_made, ids, made)
    shapes = _describe(floats, integers, rules.d, group, groups, ids)
    if has_changed(heir, owner):
        lost, new = np.empty((old, 3)), np.empty((groups, 4))
        for c in range(old):
            f = first[heir[c]] if heir[c] >= 0 else 0
            lost[c, 0], lost[c, 1], lost[c, 2] = why[f], last[f], bar[f]
        for g in range(groups):
            c = origin[g]
            if c < 0:
                new[g, 0], new[g, 1], new[g, 2] = SIZE, shapes[g, 1], float(rules.min_cluster_records)
            elif owner[g] < 0:
                criterion, value, threshold = NO_REASON, 0.0, rules.tau
                if rules.valleys:
                    value, threshold = valley_between(valleys, group, heir[c], g)
                    criterion = VALLEY if value >= 0.0 else NO_REASON
                elif affinity:
                    i, j = first[heir[c]], first[g]
                    criterion = AFFINITY
                    value = between(start, length, other, excess, i, j) / np.sqrt(w[i] * w[j])
                new[g, 0], new[g, 1], new[g, 2], new[g, 3] = criterion, value, threshold, old_ids[c]
        past = stored_shapes(floats, integers, rules)
        own = path[: integers[block.LEVEL]]
        number = emit_changes(integers[block.EVENTS], own, record, lineage, past, shapes, lost, new, log)
        integers[block.EVENTS] = number
    node_cluster = at_field(block.CLUSTER, capacity)
    for node in range(k):
        integers[node_cluster + node] = ids[group[node]] if group[node] >= 0 else -1
    _store(floats, integers, rules, shapes, made)
