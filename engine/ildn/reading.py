"""Clusters of the network: connected components that are large enough, with ids that last.

Between two removals components only grow, so the clusters are read again at every change: nothing is gained by
waiting, and an event names the very record that caused it. All nodes of a component bear the same cluster, none while
it has too few records.
"""

import numpy as np
from resonance.engine.events import ABSORBED, EMERGED, NO_PATH, SHAPE_HEAD, SPLIT, VANISHED, emit, rows_of
from resonance.engine.ildn.layout import nodes_of, spread_from
from resonance.kernels.arithmetic import jit

SIZE, DISTANCE, DENOISING, CROWDED, EXPIRED = 1, 2, 3, 4, 5
CRITERIA = ("", "min_cluster_records", "distance", "denoising", "max_nodes", "expire_records")


@jit
def shape_of(model, rules, cluster):
    """Return a cluster as a row: id, size, nodes, centre, spread.

    The spread is that of the records: of the ellipsoids, and of their centres around that of the cluster.
    """
    d = rules.d
    rows = nodes_of(model, model.nodes, cluster)
    shape = np.zeros(SHAPE_HEAD + 2 * d)
    shape[0], shape[2] = cluster, len(rows)
    for row in rows:
        shape[1] += model.count[row]
    centre, spread = shape[SHAPE_HEAD : SHAPE_HEAD + d], shape[SHAPE_HEAD + d :]
    for row in rows:
        share = model.count[row] / shape[1]
        for i in range(d):
            centre[i] += share * model.centre[i, row]
    for row in rows:
        share, slot = model.count[row] / shape[1], model.slot[row]
        for i in range(d):
            apart = model.centre[i, row] - centre[i]
            own = model.covariance[slot, i, i] if slot >= 0 else rules.sigma
            spread[i] += share * (own + apart * apart)
    spread[:] = np.sqrt(spread)
    return shape


@jit
def shapes_of(model, rules, clusters):
    """Return the clusters of these ids as rows."""
    shapes = np.empty((len(clusters), SHAPE_HEAD + 2 * rules.d))
    for c in range(len(clusters)):
        shapes[c] = shape_of(model, rules, clusters[c])
    return shapes


@jit
def present_clusters(model):
    """Return the ids of the present clusters, ascending."""
    clusters = np.unique(model.cluster[: model.nodes])
    return clusters[clusters >= 0]


@jit
def _new_cluster(model):
    model.next_cluster += 1
    return model.next_cluster - 1


@jit
def clusters_among(model, rows, count):
    """Return the ids of the clusters that the nodes ``rows[:count]`` belong to, ascending."""
    found = np.unique(model.cluster[rows[:count]])
    return found[found >= 0]


@jit
def join_clusters(model, rules, rows, count, record, ratio, log):
    """Read the component that the nodes ``rows[:count]`` are in, now that edges join them, and append what changed.

    All of them hold the record; `ratio` is its squared distance from each node, in squared radii.
    """
    first = model.cluster[rows[0]]
    alike = first >= 0
    for at in range(1, count):
        alike = alike and model.cluster[rows[at]] == first
    if alike:
        return
    nodes = model.nodes
    met = clusters_among(model, rows, count)
    part, reached = np.full(nodes, -1, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    members = spread_from(model, rows[0], part, 0, reached)
    if len(met) == 0:
        size = model.count[reached[:members]].sum()
        if size < rules.min_cluster_records:
            return
        cluster = _new_cluster(model)
        model.cluster[reached[:members]] = cluster
        after = shapes_of(model, rules, np.array([cluster]))
        why = (SIZE, float(size), float(rules.min_cluster_records))
        model.events = emit(model.events, NO_PATH, record, (EMERGED, cluster, -1), why, after[:0], after, log)
        return
    if len(met) == 1:
        model.cluster[reached[:members]] = met[0]
        return
    past = shapes_of(model, rules, met)
    nearest = np.full(len(met), np.inf)
    for at in range(count):
        cluster = model.cluster[rows[at]]
        if cluster >= 0:
            c = np.searchsorted(met, cluster)
            nearest[c] = min(nearest[c], ratio[rows[at]])
    model.cluster[reached[:members]] = met[0]
    after = shapes_of(model, rules, met[:1])
    for c in range(1, len(met)):
        value = np.sqrt(max(nearest[0], nearest[c]))
        what, why = (ABSORBED, met[c], met[0]), (DISTANCE, value, 1.0)
        model.events = emit(model.events, NO_PATH, record, what, why, rows_of(past, c, 0), after, log)


@jit
def _settle(model, rules, affected, part, heir):
    """Give the components that are left of the `affected` clusters their ids; return ids and origins of the new ones.

    `part` is room for a number by node; ``heir[c]`` gets 1 where cluster c goes on.
    """
    nodes = model.nodes
    reached = np.empty(nodes, dtype=np.int64)
    first, origin, size = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64), np.zeros(nodes, np.int64)
    part[:nodes] = -1
    most, best = np.zeros(len(affected), dtype=np.int64), np.full(len(affected), -1, dtype=np.int64)
    groups = 0
    # From the oldest node on: so the groups are in the order of their oldest nodes.
    for row in range(nodes):
        cluster = model.cluster[row]
        if cluster < 0 or part[row] >= 0:
            continue
        c = np.searchsorted(affected, cluster)
        if c == len(affected) or affected[c] != cluster:
            continue
        members = spread_from(model, row, part, groups, reached)
        size[groups] = model.count[reached[:members]].sum()
        first[groups], origin[groups] = row, c
        if size[groups] >= rules.min_cluster_records and size[groups] > most[c]:
            most[c], best[c] = size[groups], groups
        groups += 1
    ids = np.full(groups, -1, dtype=np.int64)
    new = np.empty((groups, 2), dtype=np.int64)
    count = 0
    for g in range(groups):
        if best[origin[g]] == g:
            ids[g] = affected[origin[g]]
            heir[origin[g]] = 1
        elif size[g] >= rules.min_cluster_records:
            ids[g] = _new_cluster(model)
            new[count, 0], new[count, 1] = ids[g], origin[g]
            count += 1
    for row in range(nodes):
        if part[row] >= 0:
            model.cluster[row] = ids[part[row]]
    return new[:count]


@jit
def part_clusters(model, rules, affected, past, record, criterion, values, threshold, log):
    """Read the clusters that have lost nodes, and append what changed.

    `affected` are their ids, ascending, `past` their rows from before, and `values` the values of their reasons.
    """
    if len(affected) == 0:
        return
    heir = np.zeros(len(affected), dtype=np.int64)
    new = _settle(model, rules, affected, np.empty(model.nodes, dtype=np.int64), heir)
    for c in range(len(affected)):
        if heir[c] == 0:
            what, why = (VANISHED, affected[c], -1), (criterion, values[c], threshold)
            model.events = emit(model.events, NO_PATH, record, what, why, past[c : c + 1], past[:0], log)
    for n in range(len(new)):
        c = new[n, 1]
        after = shapes_of(model, rules, np.array([affected[c], new[n, 0]]))
        what, why = (SPLIT, new[n, 0], affected[c]), (criterion, values[c], threshold)
        model.events = emit(model.events, NO_PATH, record, what, why, past[c : c + 1], after, log)
