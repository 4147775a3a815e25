"""How the nodes of a model are put into groups: by average linkage on what co-winning exceeds chance, or by edges.

Rows of the excess B are kept in a sparse table: group `i` has its neighbours in
``other[start[i]:start[i] + length[i]]``, the excess to each of them in `value` beside it, and in `mirror` where the
neighbour's row has the same excess. So a join of two groups costs what their two rows are long.

Groups that no valley of the density divides are one (reading = "valley"). Average linkage cuts every cluster that is
large beside the others: the share of the common wins that crosses a cut falls as nodes become more. So what it leaves
apart is one cluster all the same unless the density, the rate at which records come close to a node, falls between the
two: persistence-based clustering (F. Chazal, L. J. Guibas, S. Y. Oudot, P. Skraba, "Persistence-Based Clustering in
Riemannian Manifolds", Journal of the ACM 60(6), 2013) on the graph of edges. Ours are the test of a valley against the
errors of the counts, and the hysteresis.
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.kernels.arithmetic import jit, log
from resonance.kernels.ordering import root_of, stable_order


@jit
def _volumes(model, start, volume):
    """Write how often each node has won together with another one, and where its row begins; return the sum."""
    total, end = 0.0, 0
    for i in range(model.nodes):
        volume[i] = 0.0
        start[i] = end
        for at in range(model.linked[i]):
            volume[i] += model.wins[i, at]
        total += volume[i]
        end += model.linked[i]
    return total


@jit
def _excess(model, start, length, other, value, mirror, w, volume):
    """Fill the rows of what co-winning exceeds chance: ``other[start:start + length]`` ascending, with `value`.

    `w` gets the sums of the rows, whose bits do not depend on the order in which links came.
    """
    k, total = model.nodes, _volumes(model, start, volume)
    length[:k] = 0
    for i in range(k):  # what is before each group in its row, in ascending order
        for at in range(model.linked[i]):
            j = model.other[i, at]
            if j > i:
                excess = model.wins[i, at] - volume[i] * volume[j] / total
                if excess > 0.0:
                    to = start[j] + length[j]
                    other[to], value[to] = i, excess
                    length[j] += 1
    for j in range(k):  # what is behind it
        for at in range(start[j], start[j] + length[j]):
            i = other[at]
            to = start[i] + length[i]
            other[to], value[to], mirror[to], mirror[at] = j, value[at], at, to
            length[i] += 1
    for i in range(k):
        w[i] = 0.0
        for at in range(start[i], start[i] + length[i]):
            w[i] += value[at]


@jit
def between(start, length, other, value, i, j):
    """Return the excess between the groups `i` and `j`."""
    for at in range(start[i], start[i] + length[i]):
        if other[at] == j:
            return value[at]
    return 0.0


@jit
def _scan_row(start, length, other, value, w, r, best, partner):
    """Find the later group that is nearest to group `r`; the earliest one at ties."""
    best[r] = -1.0
    partner[r] = -1
    for at in range(start[r], start[r] + length[r]):
        j = other[at]
        if j > r:
            s = value[at] / np.sqrt(w[r] * w[j])
            if s > best[r] or (s == best[r] and j < partner[r]):
                best[r] = s
                partner[r] = j


@jit
def _join_rows(start, length, other, value, mirror, end, where, i, j):
    """Write the row of group `i` with that of `j` added to it at `end`, and tell their neighbours; return its length.

    `where` is -1 everywhere before and after.
    """
    count = 0
    for at in range(start[i], start[i] + length[i]):
        n = other[at]
        if n != j:
            to = end + count
            other[to], value[to], mirror[to] = n, value[at], mirror[at]
            mirror[mirror[at]] = to
            where[n] = to
            count += 1
    for at in range(start[j], start[j] + length[j]):
        n, there = other[at], mirror[at]
        if n == i:
            continue
        if where[n] < 0:
            to = end + count
            other[to], value[to], mirror[to] = n, value[at], there
            other[there], mirror[there] = i, to
            count += 1
            continue
        value[where[n]] += value[at]
        value[mirror[where[n]]] = value[where[n]]
        # The last one of the row takes the place of the one that goes.
        last = start[n] + length[n] - 1
        other[there], value[there], mirror[there] = other[last], value[last], mirror[last]
        mirror[mirror[last]] = there
        length[n] -= 1
    for at in range(end, end + count):
        where[other[at]] = -1
    return count


@jit
def _nearest_pair(start, length, other, value, w, best, partner, stale, k):
    """Return the first group of the nearest pair; rows whose best is but a bound are scanned when it is their turn."""
    order = best[:k].view(np.int64)
    while True:
        # The bits of floats that are not negative are in the order of the floats, and -1 is below them all.
        top = np.int64(0)
        for r in range(k):
            top = max(top, order[r])
        i = 0
        while i < k and order[i] != top:
            i += 1
        if i == k or stale[i] == 0:
            return i
        _scan_row(start, length, other, value, w, i, best, partner)
        stale[i] = 0


@jit
def group_by_affinity(model, tau, group, start, length, where, partner, last, w, best):
    """Average linkage on the excess B: join the pair of groups with the largest B_ij / sqrt(w_i w_j) while >= tau.

    `group` gets for each node the first node of its group, `last` for each group the affinity of its last join. What
    is left of B between the groups is returned, as rows.
    """
    k, joined = model.nodes, 0
    for i in range(k):
        joined += model.linked[i]
        group[i] = i
        where[i] = -1
    room = 2 * joined + k
    other, value, mirror = np.empty(room, dtype=np.int64), np.empty(room), np.empty(room, dtype=np.int64)
    stale = np.zeros(k, dtype=np.int64)
    end = joined
    _excess(model, start, length, other, value, mirror, w, best)
    for r in range(k):
        _scan_row(start, length, other, value, w, r, best, partner)
    while True:
        i = _nearest_pair(start, length, other, value, w, best, partner, stale, k)
        if i == k or best[i] < tau:
            break
        j = partner[i]
        last[i] = best[i]
        group[j] = i
        if end + length[i] + length[j] > len(other):
            more = len(other) + k
            other = np.concatenate((other, np.empty(more, dtype=np.int64)))
            value = np.concatenate((value, np.empty(more)))
            mirror = np.concatenate((mirror, np.empty(more, dtype=np.int64)))
        count = _join_rows(start, length, other, value, mirror, end, where, i, j)
        start[i], length[i], length[j] = end, count, 0
        end += count
        w[i] += w[j]
        best[j] = -1.0
        partner[j] = -1
        stale[j] = 0
        _scan_row(start, length, other, value, w, i, best, partner)
        stale[i] = 0
        for at in range(start[i], start[i] + count):
            n = other[at]
            s = value[at] / np.sqrt(w[n] * w[i]) if n < i else -1.0
            if s > best[n]:
                best[n], partner[n], stale[n] = s, i, 0
            elif partner[n] == i or partner[n] == j:
                stale[n] = 1  # what was nearest has moved away, and nothing is nearer than that was
            elif s == best[n] and i < partner[n]:
                partner[n] = i
    return other, value


@jit
def group_by_edges(model, group):
    """Take connected components; `group` gets for each node the first node of its component."""
    k = model.nodes
    stack = np.empty(k, dtype=np.int64)
    group[:k] = -1
    for first in range(k):
        if group[first] >= 0:
            continue
        group[first] = first
        stack[0] = first
        left = 1
        while left > 0:
            left -= 1
            node = stack[left]
            for at in range(model.linked[node]):
                j = model.other[node, at]
                if model.age[node, at] > 0 and group[j] < 0:
                    group[j] = first
                    stack[left] = j
                    left += 1


_ERRORS, _PLANE = 1.0, 2.0
"""Standard errors of the counts that a valley has to be deeper; on a line, where no way leads around, twice as many."""
_HOLD = 0.7
"""What is apart stays apart until the valley is below this share of what made it one."""
_STICK = 1.5
"""What is together stays together until the valley is deeper by this factor."""
_SMALLEST = 1e-300


class Valleys(NamedTuple):
    """The valleys that divide groups: two nodes, one on either side, depth and the depth it needs to be one."""

    ends: IntArray
    depth: FloatArray


NO_VALLEYS = Valleys(np.empty((0, 2), dtype=np.int64), np.empty((0, 2)))
"""Of a reading without."""


@jit
def _edges_between(model, group):
    """Return the edges between groups as rows (node, earlier node), ascending whatever the order of the links."""
    k = model.nodes
    start, ends = np.zeros(k + 1, dtype=np.int64), np.empty((0, 2), dtype=np.int64)
    for step in range(2):
        if step == 1:
            for j in range(k):
                start[j + 1] += start[j]
            ends = np.empty((start[k], 2), dtype=np.int64)
        for i in range(k):
            own = root_of(group, i)
            for at in range(model.linked[i]):
                j = model.other[i, at]
                if j > i and model.age[i, at] > 0 and root_of(group, j) != own:
                    if step == 0:
                        start[j + 1] += 1
                    else:
                        ends[start[j], 0], ends[start[j], 1] = j, i
                        start[j] += 1
    return ends


@jit
def join_without_valley(model, rules, group, last, bar, why, reason):
    """Join the groups that no valley divides, by the highest pass first; return the valleys that are left.

    `group` points from a node to an earlier one of its group. At the first node of a group that is joined, `last` gets
    the depth of the last dip, `bar` the depth that it needed to be a valley, and `why` the reason.
    """
    k, hits = model.nodes, model.hits
    rate, floor, summit = np.empty(k), np.empty(k), np.arange(k)
    for node in range(k):
        age = max(1, model.learned - model.since[node])
        # One record more in a pass: what no record came to, because it is new or small, is no valley.
        rate[node], floor[node] = hits[node] / age, (hits[node] + 1.0) / age
    for node in range(k):
        root = root_of(group, node)
        if rate[node] > rate[summit[root]]:
            summit[root] = node
    errors = _ERRORS * max(1.0, _PLANE / rules.d)
    ends = _edges_between(model, group)
    saddle = np.empty(len(ends))
    for e in range(len(ends)):
        saddle[e] = min(floor[ends[e, 0]], floor[ends[e, 1]])
    left, depths = np.empty((len(ends), 2), dtype=np.int64), np.empty((len(ends), 2))
    valleys = 0
    # Of equally high passes the one between the earlier nodes comes first.
    for e in stable_order(-saddle):
        i, j = ends[e]
        a, b = root_of(group, i), root_of(group, j)
        if a == b:
            continue
        a, b = min(a, b), max(a, b)
        low, high = (a, b) if rate[summit[a]] < rate[summit[b]] else (b, a)
        lower, pass_ = summit[low], i if floor[i] < floor[j] else j
        depth = log(max(rate[lower], _SMALLEST)) - log(max(saddle[e], _SMALLEST))
        need = rules.valley + errors * np.sqrt(1.0 / max(1, hits[lower]) + 1.0 / (1.0 + hits[pass_]))
        one, other = model.cluster[lower], model.cluster[summit[high]]
        if one >= 0 and other >= 0:
            need *= _STICK if one == other else _HOLD
        if depth < need:
            group[b] = a
            summit[a] = summit[high]
            last[a], bar[a], why[a] = depth, need, reason
        else:
            left[valleys, 0], left[valleys, 1] = i, j
            depths[valleys, 0], depths[valleys, 1] = depth, need
            valleys += 1
    return Valleys(left[:valleys], depths[:valleys])


@jit
def valley_between(valleys, group, a, b):
    """Return depth of the highest valley between two groups and the depth it needed; -1 where they do not touch.

    `group` has the number of each node's group.
    """
    for at in range(len(valleys.ends)):
        one, other = group[valleys.ends[at, 0]], group[valleys.ends[at, 1]]
        if (one == a and other == b) or (one == b and other == a):
            return valleys.depth[at, 0], valleys.depth[at, 1]
    return -1.0, 0.0
