"""A batch learned, or answered, by one ILDN model: Algorithm 2 of Xing et al., record by record.

Two neighbours become one node when the ellipsoid of both has less volume than the two together. Volumes are taken in
the directions that make up a share `rho` of the variance, (7), (12)-(14), and as logarithms: in 64 dimensions their
product is no number any more.
"""

import numpy as np
from resonance.engine.ildn import reading
from resonance.engine.ildn.ellipsoid import (
    add_record,
    join_covariances,
    join_nodes,
    outside_box,
    squared_distance,
    squared_distances,
)
from resonance.engine.ildn.layout import (
    append_node,
    connect,
    drop_edges,
    move_edges,
    radius_of,
    remove_rows,
    room_for,
    row_of,
)
from resonance.engine.labels import majority_labels
from resonance.engine.matrices import eigenvalues
from resonance.kernels.arithmetic import exp_minus, jit, log, log1p


@jit
def spectrum_of(model, rules, row, room, out):
    """Write the eigenvalues of a node's covariance to `out`, the largest first."""
    d, slot = rules.d, model.slot[row]
    if slot < 0:
        for i in range(d):
            out[i] = rules.sigma
        return
    known = model.spectrum[slot]
    if model.known[row] == 0:
        floor = rules.sigma / model.count[row]
        eigenvalues(model.covariance[slot], d, rules.lanes, floor, room.work, room.off, room.v, room.w, known)
        model.known[row] = 1
    for i in range(d):
        out[i] = known[i]


@jit
def directions(spectrum, d, rho):
    """Return how many of the largest eigenvalues make up `rho` of their sum."""
    total = 0.0
    for i in range(d):
        total += spectrum[i]
    # Equal eigenvalues must not depend on rounding.
    wanted = rho * total * (1.0 - 1e-12)
    reached, count = 0.0, 0
    while count < d and (count == 0 or reached < wanted):
        reached += spectrum[count]
        count += 1
    return count


@jit
def log_volume(spectrum, count, radius):
    """Return the logarithm of the volume in the first `count` directions, but for what depends on `count` alone."""
    total = 0.0
    for i in range(count):
        total += log(spectrum[i])
    return 0.5 * total + 0.5 * count * log(radius)


@jit
def passes(model, rules, a, b, room):
    """Return whether the merge test holds; ``room.joined`` and ``room.both`` are then the new node's."""
    d = rules.d
    join_covariances(model, rules, a, b, room.joined, room.apart)
    count = model.count[a] + model.count[b]
    floor = rules.sigma / count
    eigenvalues(room.joined, d, rules.lanes, floor, room.work, room.off, room.v, room.w, room.both)
    spectrum_of(model, rules, a, room, room.here)
    spectrum_of(model, rules, b, room, room.there)
    t = max(
        directions(room.here, d, rules.rho), directions(room.there, d, rules.rho), directions(room.both, d, rules.rho)
    )
    of_a = log_volume(room.here, t, model.radius[a])
    of_b = log_volume(room.there, t, model.radius[b])
    of_both = log_volume(room.both, t, radius_of(rules.radii, count))
    return max(of_a, of_b) + log1p(exp_minus(abs(of_a - of_b))) > of_both


@jit
def merge(model, rules, a, b, room):
    """Make one node of `a` and `b`, which `passes` has just found; return its row."""
    m = append_node(model, rules, model.centre[:, a])
    cluster = model.cluster[a]
    join_nodes(model, rules, a, b, m, room.joined, room.both[0], room)
    model.cluster[m] = cluster
    model.known[m] = 1
    model.spectrum[model.slot[m], : rules.d] = room.both[: rules.d]
    move_edges(model, a, b, m)
    room.gone[0], room.gone[1] = min(a, b), max(a, b)
    remove_rows(model, room.gone, 2)
    return m - 2


_FAR = 9.0
"""Squared distance in squared radii from which on a record belongs to no cluster."""


@jit
def _ratio(model, rules, row, x, room):
    """Return the squared distance of `x` from a node in squared radii; it is kept in `room`."""
    distance = squared_distance(model, rules, row, x, room.squares, room)
    room.distance[row] = distance
    room.ratio[row] = distance / model.radius[row]
    return room.ratio[row]


@jit
def holders(model, rules, x, room):
    """Find the nodes whose ellipsoid holds `x` (1)-(3); return how many, written to ``room.inside``.

    A node whose largest eigenvalue would have to be exceeded is not measured (exact: its distance would be too large).
    Nor is one beyond whose box `x` lies. Nodes that are not measured have ratio -1.
    """
    squares, near, radius, inside = room.squares, model.near, model.radius, 0
    nodes = model.nodes
    squared_distances(model.centre, nodes, x, squares)
    for row in range(nodes):
        room.ratio[row] = -1.0
        if squares[row] * near[row] < 1.0 and not outside_box(model, rules, row, x, radius[row]):
            _ratio(model, rules, row, x, room)
            if room.distance[row] < radius[row]:
                room.inside[inside] = row
                inside += 1
    return inside


@jit
def nearest(model, rules, x, marks, room):
    """Return the row of the node with the least distance in radii, and its square, among those with marks >= 0.

    -1 where there is none; the oldest at ties. ``room`` is as `holders` left it.
    """
    nodes, squares, near, ratio = model.nodes, room.squares, model.near, room.ratio
    where, best = np.int64(-1), np.inf
    first, lowest = np.int64(-1), np.inf
    for row in range(nodes):
        if marks[row] < 0:
            continue
        if ratio[row] >= 0.0:
            if ratio[row] < best or where < 0:
                where, best = np.int64(row), ratio[row]
        elif first < 0 or squares[row] * near[row] < lowest:
            first, lowest = np.int64(row), squares[row] * near[row]
    if first < 0 or best < 1.0:
        return where, best  # none that was not measured is nearer than 1
    if _ratio(model, rules, first, x, room) < best or where < 0:
        where, best = first, ratio[first]
    for row in range(nodes):
        if marks[row] < 0:
            continue
        if ratio[row] < 0.0 and squares[row] * near[row] <= best:
            if outside_box(model, rules, row, x, best * model.radius[row]):
                continue
            _ratio(model, rules, row, x, room)
        if ratio[row] >= 0.0 and (ratio[row] < best or (ratio[row] == best and row < where)):
            where, best = np.int64(row), ratio[row]
    return where, best


@jit
def _remove(model, rules, gone, count, record, criterion, value, threshold, log):
    """Remove nodes and read their clusters again. `value` is the reason; where it is -1, the most records of a node."""
    affected = reading.clusters_among(model, gone, count)
    past = reading.shapes_of(model, rules, affected)
    values = np.full(len(affected), value)
    for at in range(count):
        cluster = model.cluster[gone[at]]
        if cluster >= 0 and value < 0.0:
            c = np.searchsorted(affected, cluster)
            values[c] = max(values[c], float(model.count[gone[at]]))
    for at in range(count):
        drop_edges(model, gone[at])
    remove_rows(model, gone, count)
    reading.part_clusters(model, rules, affected, past, record, criterion, values, threshold, log)


@jit
def _denoise(model, rules, record, log):
    """Delete the nodes of far fewer records than a node has on average (9)."""
    counts = model.count[: model.nodes]
    fewest = rules.k * (counts.sum() / model.nodes)
    gone = np.flatnonzero(counts < fewest)
    if len(gone) > 0:
        _remove(model, rules, gone, len(gone), record, reading.DENOISING, -1.0, fewest, log)


@jit
def _expire(model, rules, record, room, log):
    """Delete the nodes of each cluster that has won no record for long, and such nodes of none."""
    nodes, now, count = model.nodes, model.learned, 0
    affected = reading.clusters_among(model, np.arange(nodes), nodes)
    last = np.zeros(len(affected), dtype=np.int64)
    for row in range(nodes):
        if model.cluster[row] >= 0:
            c = np.searchsorted(affected, model.cluster[row])
            last[c] = max(last[c], model.won[row])
    for row in range(nodes):
        cluster = model.cluster[row]
        won = last[np.searchsorted(affected, cluster)] if cluster >= 0 else model.won[row]
        if now - won >= rules.expire:
            room.gone[count] = row
            count += 1
    if count > 0 and count < nodes:
        bound = float(rules.expire)
        _remove(model, rules, room.gone, count, record, reading.EXPIRED, bound, bound, log)


@jit
def _merge_all(model, rules, winner, room):
    """Merge the winner with its neighbours, the oldest first, as long as one passes the test; return its row."""
    entry = model.first[winner]
    while entry >= 0:
        other = row_of(model, model.edges[entry])
        entry = model.follows[entry]
        if passes(model, rules, winner, other, room):
            winner = merge(model, rules, winner, other, room)
            entry = model.first[winner]
    return winner


@jit
def learn_batch(model, rules, X, labels, start, log, cluster, score, novel, node):
    """Learn the records from `start` on; return how many are learned, and the entries of edges that the next needs.

    It ends early, before a record, where the model has no room for what that record may bring.
    """
    room = room_for(model, rules)
    for t in range(start, len(X)):
        x = X[t]
        inside = holders(model, rules, x, room)
        pairs = inside * (inside - 1)
        if model.nodes == len(model.id) or model.free_slots == 0 or model.entries + pairs > len(model.edges):
            return t, pairs
        where, ratio = nearest(model, rules, x, model.cluster, room)
        cluster[t, 0] = model.cluster[where] if where >= 0 and ratio <= _FAR else -1
        score[t] = 1.0 / (1.0 + ratio) if where >= 0 else np.nan
        model.learned += 1
        novel[t] = inside == 0
        if inside == 0:
            winner = append_node(model, rules, x)
            room.inside[0] = winner
            inside = 1
        else:
            winner = room.inside[0]
            for at in range(1, inside):
                if room.distance[room.inside[at]] < room.distance[winner]:
                    winner = room.inside[at]
            add_record(model, rules, winner, x, room)
            model.won[winner] = model.learned
            if inside > 1:
                connect(model, room.inside, inside)
        if labels[t] >= 0:
            model.labels[winner, labels[t]] += 1
        reading.join_clusters(model, rules, room.inside, inside, t, room.ratio, log)
        if not novel[t]:
            winner = _merge_all(model, rules, winner, room)
        node[t, 0] = model.id[winner]
        if model.nodes > rules.max_nodes:
            room.gone[0] = np.argmin(model.won[: model.nodes])  # that won longest ago
            crowd = float(model.nodes)
            _remove(model, rules, room.gone, 1, t, reading.CROWDED, crowd, float(rules.max_nodes), log)
        if model.learned % rules.interval == 0:
            _denoise(model, rules, t, log)
            if rules.expire > 0:
                _expire(model, rules, t, room, log)
    return len(X), 0


@jit
def predict_batch(model, rules, X, cluster, score, novel, label):
    """Answer for a batch: nearest clustered node within reach, and the majority label of the nearest that has one."""
    room = room_for(model, rules)
    nodes = model.nodes
    majority = majority_labels(model.labels, nodes)
    for t in range(len(X)):
        novel[t] = holders(model, rules, X[t], room) == 0
        where, ratio = nearest(model, rules, X[t], model.cluster, room)
        if where >= 0:
            cluster[t, 0] = model.cluster[where] if ratio <= _FAR else -1
            score[t] = 1.0 / (1.0 + ratio)
        where, _ = nearest(model, rules, X[t], majority, room)
        if where >= 0:
            label[t] = majority[where]
