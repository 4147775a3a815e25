"""How far a record is from the nodes: CIM (1)-(4), for each attribute (28)-(30), and for groups of them (31)-(33)."""

import numpy as np
from resonance.engine.arithmetic import bits_of, exp_minus, float_of, inline, jit, log
from resonance.engine.borrowed import borrow
from resonance.engine.correntropy import FAR, scale_of, squared_cim
from resonance.engine.mlca.layout import GROUPS, TILE, K

SLACK = 1e-9
"""What rounding may add to a mean of similarities, many times over."""

WORTHWHILE = 5
"""A node compared again on its own costs so many times what it costs among all."""


@jit
def scale_by_mean(nodes, rules):
    """Let each group have the mean over the nodes, and over its features, of their bandwidths."""
    k = nodes.head[K]
    if rules.pooled:
        nodes.scale[0] = scale_of(nodes.total[0] / k)
        return
    for g in range(nodes.head[GROUPS]):
        a, b = nodes.starts[g], nodes.starts[g + 1]
        total = 0.0
        for at in range(a, b):
            total += nodes.total[nodes.members[at]]
        nodes.scale[g] = scale_of(total / (k * (b - a)))


@jit
def scale_by_median(nodes):
    """Let the one group have the median of the nodes' bandwidths."""
    k = nodes.head[K]
    upper = nodes.sorted[k // 2]
    lower = upper if k % 2 == 1 else nodes.sorted[k // 2 - 1]
    nodes.scale[0] = scale_of(upper if lower == upper else (lower + upper) / 2.0)


@inline
def _add_roots(row, x, scale, sums, padded):
    """Add the CIM of one feature."""
    for j in range(padded):
        z = x - row[j]
        v = 1.0 - exp_minus(z * z * scale)
        sums[j] += np.sqrt(v if v > 0.0 else 0.0)


@jit
def compare(nodes, rules, x):
    """Write how far `x` is from every node to `far`, as bits in the order of CIM; see `cim_of`."""
    k, d, stride, groups = nodes.head[K], rules.d, len(nodes.id), nodes.head[GROUPS]
    flat = nodes.weights.reshape(-1)
    if groups == 1:
        squared_cim(flat, stride, k, d, nodes.scale[0], x, nodes.sums, nodes.far)
        return
    padded = (k + 7) & ~7
    weights, sums, part = borrow(flat), nodes.sums[:padded], nodes.part[:padded]
    for j in range(padded):
        sums[j] = 0.0
    for g in range(groups):
        a, b, scale = nodes.starts[g], nodes.starts[g + 1], nodes.scale[g]
        if b - a == 1:
            i = nodes.members[a]
            _add_roots(weights[i * stride : i * stride + padded], x[i], scale, sums, padded)
            continue
        for j in range(padded):
            part[j] = 0.0
        for at in range(a, b):
            i = nodes.members[at]
            row, xi = weights[i * stride : i * stride + padded], x[i]
            for j in range(padded):
                z = xi - row[j]
                part[j] += exp_minus(z * z * scale)
        size, share = float(b - a), 1.0 / (b - a)
        for j in range(padded):
            v = (size - part[j]) * share
            sums[j] += np.sqrt(v if v > 0.0 else 0.0)
    far = nodes.far[:padded]
    for j in range(padded):
        far[j] = bits_of(sums[j] / groups)
    for j in range(k, padded):
        far[j] = FAR


@inline
def cim_of(nodes, slot):
    """Return CIM between the compared record and the node of a slot."""
    value = float_of(nodes.far[slot])
    return np.sqrt(value) if nodes.head[GROUPS] == 1 else value


@jit
def _insert_nearest(far, near, count, wanted, slot):
    """Put a slot among the nearest, behind its equals; return how many there are now."""
    at = count if count < wanted else wanted - 1
    count = at + 1
    v = far[slot]
    while at > 0 and far[near[at - 1]] > v:
        near[at] = near[at - 1]
        at -= 1
    near[at] = slot
    return count


@jit
def find_nearest(nodes, wanted):
    """List the nearest `wanted` nodes in `near`, the nearest first, equals by their slots; return how many."""
    far, near = nodes.far, nodes.near
    count, worst = 0, FAR
    for j in range(nodes.head[K]):
        if count < wanted or far[j] < worst:
            count = _insert_nearest(far, near, count, wanted, j)
            worst = far[near[count - 1]] if count == wanted else FAR
    return count


@jit
def _compare_listed(nodes, rules, x, listed, count):
    """Write how far `x` is from the nodes in some slots to `far`: the bits that `compare` would write."""
    d = rules.d
    weights, tile, far = nodes.weights, nodes.tile, nodes.far
    for first in range(0, count, TILE):
        size = min(TILE, count - first)
        for i in range(d):
            for at in range(size):
                tile[i, at] = weights[i, listed[first + at]]
        squared_cim(nodes.tile.reshape(-1), TILE, size, d, nodes.scale[0], x, nodes.tile_sums, nodes.tile_far)
        for at in range(size):
            far[listed[first + at]] = nodes.tile_far[at]


@jit
def find_nearest_again(nodes, rules, x, count, scale):
    """Find the nearest nodes with another common bandwidth than that of a comparison just made; return how many.

    That comparison, with `scale`, put `count` nodes to `near`; the new scale is in `nodes.scale`. Of most nodes it
    tells enough. Let m be the mean similarity of a node then, and m' now. With a narrower bandwidth m' <= m; with a
    wider one, r < 1 being the ratio of the two scales, m' <= m^r, for every similarity becomes its r-th power, and the
    mean of those is at most the power of the mean. A node can only be among the nearest if this bound reaches the least
    m' of the nodes that were the nearest; the others are left out.
    """
    k, far, near, listed = nodes.head[K], nodes.far, nodes.near, nodes.listed
    if nodes.scale[0] == scale:
        return count
    ratio = nodes.scale[0] / scale
    _compare_listed(nodes, rules, x, nodes.near, count)
    least = 1.0
    for at in range(count):
        least = min(least, 1.0 - float_of(far[near[at]]))
    bound = 0.0
    if least > SLACK:
        bound = exp_minus(-log(least) / ratio) if ratio < 1.0 else least
    highest = bits_of(min(1.0 - bound + SLACK, 1.0))
    candidates = 0
    for j in range(k):
        listed[candidates] = j
        candidates += far[j] <= highest
    if candidates * WORTHWHILE > k:
        compare(nodes, rules, x)
        return find_nearest(nodes, rules.neighbours)
    _compare_listed(nodes, rules, x, nodes.listed, candidates)
    count = 0
    for at in range(candidates):
        if count < rules.neighbours or far[listed[at]] < far[near[count - 1]]:
            count = _insert_nearest(far, near, count, rules.neighbours, listed[at])
    return count
