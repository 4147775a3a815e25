"""When two neighbours become one node: when the ellipsoid of both has less volume than the two together.

Volumes are taken in the directions that make up a share `rho` of the variance, (7), (12)-(14), and as logarithms: in
64 dimensions their product is no number any more.
"""

from resonance.engine.arithmetic import exp_minus, jit, log, log1p
from resonance.engine.ildn.eigenvalues import eigenvalues
from resonance.engine.ildn.ellipsoid import join_covariances, join_nodes
from resonance.engine.ildn.graph import move_edges
from resonance.engine.ildn.layout import CLUSTER, COUNT, KNOWN, RADIUS, SLOT, append_node, radius_of, remove_rows


@jit
def spectrum_of(model, rules, row, room, out):
    """Write the eigenvalues of a node's covariance to `out`, the largest first."""
    d, slot = rules.d, model.fields[SLOT, row]
    if slot < 0:
        for i in range(d):
            out[i] = rules.sigma
        return
    known = model.spectrum[slot]
    if model.fields[KNOWN, row] == 0:
        floor = rules.sigma / model.fields[COUNT, row]
        eigenvalues(model.covariance[slot], d, rules.lanes, floor, room.work, room.off, room.v, room.w, known)
        model.fields[KNOWN, row] = 1
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
    count = model.fields[COUNT, a] + model.fields[COUNT, b]
    floor = rules.sigma / count
    eigenvalues(room.joined, d, rules.lanes, floor, room.work, room.off, room.v, room.w, room.both)
    spectrum_of(model, rules, a, room, room.here)
    spectrum_of(model, rules, b, room, room.there)
    t = max(
        directions(room.here, d, rules.rho), directions(room.there, d, rules.rho), directions(room.both, d, rules.rho)
    )
    of_a = log_volume(room.here, t, model.values[RADIUS, a])
    of_b = log_volume(room.there, t, model.values[RADIUS, b])
    of_both = log_volume(room.both, t, radius_of(rules.radii, count))
    return max(of_a, of_b) + log1p(exp_minus(abs(of_a - of_b))) > of_both


@jit
def merge(model, rules, a, b, room):
    """Make one node of `a` and `b`, which `passes` has just found; return its row."""
    m = append_node(model, rules, model.centre[:, a])
    cluster = model.fields[CLUSTER, a]
    join_nodes(model, rules, a, b, m, room.joined, room.both[0], room)
    model.fields[CLUSTER, m] = cluster
    model.fields[KNOWN, m] = 1
    slot = model.fields[SLOT, m]
    for i in range(rules.d):
        model.spectrum[slot, i] = room.both[i]
    move_edges(model, a, b, m)
    room.gone[0], room.gone[1] = min(a, b), max(a, b)
    remove_rows(model, room.gone, 2)
    return m - 2
