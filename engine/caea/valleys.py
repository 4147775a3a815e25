"""Groups of nodes that no valley of the density divides are one (reading = "valley").

Average linkage cuts every cluster that is large beside the others: the share of the common wins that crosses a cut
falls as nodes become more. So what it leaves apart is one cluster all the same unless the density, the rate at which
records come close to a node, falls between the two: persistence-based clustering (F. Chazal, L. J. Guibas,
S. Y. Oudot, P. Skraba, "Persistence-Based Clustering in Riemannian Manifolds", Journal of the ACM 60(6), 2013) on the
graph of edges. Ours are the test of a valley against the errors of the counts, and the hysteresis.
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.arithmetic import jit, log
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.caea import block
from resonance.engine.caea.block import at_field, at_link
from resonance.engine.ordering import root_of, stable_order

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
def _edges_between(integers, group):
    """Return the edges between groups as rows (node, earlier node), ascending whatever the order of the links."""
    capacity, links, k = integers[block.CAPACITY], integers[block.LINKS], integers[block.K]
    linked = at_field(block.LINKED, capacity)
    start, ends = np.zeros(k + 1, dtype=np.int64), np.empty((0, 2), dtype=np.int64)
    for step in range(2):
        if step == 1:
            for j in range(k):
                start[j + 1] += start[j]
            ends = np.empty((start[k], 2), dtype=np.int64)
        for i in range(k):
            row, own = at_link(i, block.OTHER, capacity, links), root_of(group, i)
            for at in range(integers[linked + i]):
                j = integers[row + at]
                if j > i and integers[row + links + at] > 0 and root_of(group, j) != own:
                    if step == 0:
                        start[j + 1] += 1
                    else:
                        ends[start[j], 0], ends[start[j], 1] = j, i
                        start[j] += 1
    return ends


@jit
def join_without_valley(integers, rules, group, last, bar, why, reason):
    """Join the groups that no valley divides, by the highest pass first; return the valleys that are left.

    `group` points from a node to an earlier one of its group. At the first node of a group that is joined, `last` gets
    the depth of the last dip, `bar` the depth that it needed to be a valley, and `why` the reason.
    """
    capacity, k, n = integers[block.CAPACITY], integers[block.K], integers[block.N]
    hits = integers[at_field(block.HITS, capacity) : at_field(block.HITS, capacity) + k]
    since, cluster = at_field(block.SINCE, capacity), at_field(block.CLUSTER, capacity)
    rate, floor, summit = np.empty(k), np.empty(k), np.arange(k)
    for node in range(k):
        age = max(1, n - integers[since + node])
        # One record more in a pass: what no record came to, because it is new or small, is no valley.
        rate[node], floor[node] = hits[node] / age, (hits[node] + 1.0) / age
    for node in range(k):
        root = root_of(group, node)
        if rate[node] > rate[summit[root]]:
            summit[root] = node
    errors = _ERRORS * max(1.0, _PLANE / rules.d)
    ends = _edges_between(integers, group)
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
        one, other = integers[cluster + lower], integers[cluster + summit[high]]
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
