"""Clusters read from the nodes of a model, with ids that are carried from reading to reading."""

import numpy as np
from resonance.engine.caea.linkage import (
    NO_VALLEYS,
    between,
    group_by_affinity,
    group_by_edges,
    join_without_valley,
    valley_between,
)
from resonance.engine.events import NO_REASON, SHAPE_HEAD, emit_changes, find_heirs, has_changed
from resonance.kernels.arithmetic import jit
from resonance.kernels.ordering import stable_order

AFFINITY, SIZE, VALLEY = 1, 2, 3
CRITERIA = ("", "affinity", "min_cluster_records", "valley")
"""Names of the reasons of CAEA's events."""


@jit
def _confirm(model, rules, group, first, nodes, size):
    """Give numbers to the groups that are confirmed clusters, in the order of their first nodes.

    `group` goes from first node to number, -1 for a node of no confirmed cluster; `first` gets the first nodes.
    """
    k = model.nodes
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
        size[g] += model.count[node]
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
def _describe(model, d, group, groups, ids):
    """Return size, nodes, centre and spread of each group as rows (id, size, nodes, centre, spread)."""
    k = model.nodes
    shapes = np.zeros((groups, SHAPE_HEAD + 2 * d))
    for node in range(k):
        if group[node] >= 0:
            row, wins = shapes[group[node]], float(model.count[node])
            row[1] += wins
            row[2] += 1.0
            for i in range(d):
                row[SHAPE_HEAD + i] += model.weight[i, node] * wins
    shapes[:, 0] = ids
    shapes[:, SHAPE_HEAD : SHAPE_HEAD + d] /= shapes[:, 1:2]
    for node in range(k):
        if group[node] >= 0:
            row, wins = shapes[group[node]], float(model.count[node])
            for i in range(d):
                difference = model.weight[i, node] - row[SHAPE_HEAD + i]
                row[SHAPE_HEAD + d + i] += difference * difference * wins
    shapes[:, SHAPE_HEAD + d :] = np.sqrt(shapes[:, SHAPE_HEAD + d :] / shapes[:, 1:2])
    return shapes


@jit
def stored_shapes(model):
    """Return the clusters as last read, as rows (id, size, nodes, centre, spread)."""
    c = model.clusters
    shapes = np.empty((c, SHAPE_HEAD + model.shape.shape[1]))
    shapes[:, 0], shapes[:, 1], shapes[:, 2] = model.cluster_id[:c], model.cluster_size[:c], model.cluster_nodes[:c]
    shapes[:, SHAPE_HEAD:] = model.shape[:c]
    return shapes


@jit
def _store(model, shapes, made):
    """Write the clusters of this reading into the model, by id."""
    order = stable_order(shapes[:, 0].copy())
    for c in range(len(shapes)):
        row = shapes[order[c]]
        model.cluster_id[c], model.cluster_size[c] = np.int64(row[0]), np.int64(row[1])
        model.cluster_nodes[c], model.cluster_made[c] = np.int64(row[2]), made[order[c]]
        model.shape[c] = row[SHAPE_HEAD:]
    model.clusters = len(shapes)


@jit
def _places(model, old_ids, place, weight):
    """Write for each node the place of its present cluster, -1 for none, and its records."""
    for node in range(model.nodes):
        weight[node] = model.count[node]
        cluster = model.cluster[node]
        place[node] = np.searchsorted(old_ids, cluster) if cluster >= 0 else -1


@jit
def _name(model, owner, old_ids, old_made, ids, made):
    """Write id and record of emergence of each group: those of the cluster that goes on in it, or new ones."""
    for g in range(len(owner)):
        if owner[g] >= 0:
            ids[g], made[g] = old_ids[owner[g]], old_made[owner[g]]
        else:
            ids[g], made[g] = model.next_cluster, model.learned
            model.next_cluster += 1


@jit
def read_clusters(model, rules, path, record, log):
    """Read the confirmed clusters of a model, carry their ids, and append to `log` what changed at a record."""
    k, old = model.nodes, model.clusters
    group, first, start, length, where, partner, member, why = np.empty((8, k), dtype=np.int64)
    last, w, best, bar = np.empty((4, k))
    bar[:] = rules.tau
    why[:] = AFFINITY if rules.affinity else NO_REASON
    affinity = rules.affinity
    other, excess = member, best
    if affinity:
        other, excess = group_by_affinity(model, rules.tau, group, start, length, where, partner, last, w, best)
    else:
        group_by_edges(model, group)
    valleys = join_without_valley(model, rules, group, last, bar, why, VALLEY) if rules.valleys else NO_VALLEYS
    groups = _confirm(model, rules, group, first, where, partner)
    if rules.valleys and model.level > 0 and groups == 1:
        # The node above is one blob, which its own cluster says.
        groups = 0
        group[:] = -1
    if groups == 0 and old == 0:
        return

    old_ids, old_made = model.cluster_id[:old].copy(), model.cluster_made[:old].copy()
    place, weight = np.empty(k, dtype=np.int64), np.empty(k)
    _places(model, old_ids, place, weight)
    lineage = find_heirs(place, group, weight, old, groups)
    heir, origin, owner = lineage
    ids, made = np.empty((2, groups), dtype=np.int64)
    _name(model, owner, old_ids, old_made, ids, made)
    shapes = _describe(model, rules.d, group, groups, ids)
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
        past = stored_shapes(model)
        own = path[: model.level]
        model.events = emit_changes(model.events, own, record, lineage, past, shapes, lost, new, log)
    for node in range(k):
        model.cluster[node] = ids[group[node]] if group[node] >= 0 else -1
    _store(model, shapes, made)
