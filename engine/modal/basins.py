"""Which landmarks are of one hill: basins of the density, joined where no valley is between them.

Persistence-based clustering: F. Chazal, L. J. Guibas, S. Y. Oudot, P. Skraba, "Persistence-Based Clustering in
Riemannian Manifolds", Journal of the ACM 60(6), 2013. Ours are the test of a valley against the errors of the counts,
at three scales and along lines, and the hysteresis.
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.arithmetic import inline, jit, log
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.borrowed import borrow
from resonance.engine.forest import root_of
from resonance.engine.modal.layout import CLOCK, LANDMARKS, MASS, PLACE, RADIUS2, N
from resonance.engine.modal.scales import SCALES, measure_scales
from resonance.engine.modal.slabs import group_means, join_means, measure_slabs

_GOES_ON = 0.5
"""Share of the records that a cluster needs with which one goes on."""
_HOLD = 0.7
"""What is apart stays apart until the valley is below this share of what made it one."""
_MAX_ERRORS = 3.5
"""Standard errors above which a valley needs no more."""
_MIN_ERRORS = 0.5
"""Standard errors that a dip between two basins has at least, or they are one from the beginning."""
_EARLY = 300.0
"""Records from which a valley needs more errors with every record."""
_FIRST, _GROWTH = 0.25, 0.7
"""Half the square of the errors that a valley needs is, at the beginning, the first, and grows with the logarithm of
the records by the second."""
_PLANE = 2.0
"""Dimensions below which there are fewer ways around a dip, so that a valley needs more errors."""
_PLAIN = 2.5
"""Dimensions above which valleys are also looked for along lines; below, balls show as much."""
_SMALLEST = 1e-300


class Hills(NamedTuple):
    """What a reading finds."""

    group: IntArray  # by landmark, a landmark of its group that is the same for all of them
    # By cluster that was joined into another, the depth of the valley between them and the depth that it would have
    # needed; the first is -1 where nothing was joined.
    lost: FloatArray
    basin: IntArray  # by landmark, the basin that is left of those that it was joined with; -1 for none
    # Between those: the valley that is clearest beside what it needs; `needed` is 0 where they do not touch.
    depth: FloatArray
    needed: FloatArray


@jit
def _reaches(model, rules):
    """Return the squared reach of every landmark."""
    return rules.squared_reach * model.real[RADIUS2, : model.head[LANDMARKS]]


@inline
def least_records(model, rules, known):
    """Return the records that a group needs: fewer where a cluster goes on in it, whose first ones were halved."""
    faded = model.head[N] > 2 * rules.memory
    return rules.min_cluster_records * (_GOES_ON if known and faded else 1.0)


@jit
def _large_enough(model, rules, inside, reach, large):
    """Say which landmarks are in a part with records enough for a cluster; the others are outliers.

    A part hangs together by landmarks that are within reach of each other.
    """
    count = model.head[LANDMARKS]
    listed, gap = borrow(model.listed), borrow(model.gap)
    parent = np.arange(count)
    for i in range(count):
        for a in range(inside[i]):
            j = listed[i, a]
            if gap[i, a] <= reach[i] and gap[i, a] <= reach[j]:
                one, other = root_of(parent, i), root_of(parent, j)
                if one != other:
                    parent[max(one, other)] = min(one, other)
    mass, known = np.zeros(count), np.zeros(count, dtype=np.bool_)
    for i in range(count):
        root = root_of(parent, i)
        mass[root] += model.real[MASS, i]
        known[root] |= model.number[PLACE, i] >= 0
    for i in range(count):
        root = root_of(parent, i)
        large[i] = mass[root] >= least_records(model, rules, known[root])


@jit
def _adjacency(model, inside, reach, large):
    """Return the edges of the graph of landmarks, both ways, by rows: starts and ends.

    One of the two is within reach of the other: a thin place beside a dense one is its slope.
    """
    count = model.head[LANDMARKS]
    listed, gap = borrow(model.listed), borrow(model.gap)
    start = np.zeros(count + 1, dtype=np.int64)
    for i in range(count):
        for a in range(inside[i]):
            j = listed[i, a]
            if large[i] and large[j] and (gap[i, a] <= reach[i] or gap[i, a] <= reach[j]):
                start[i + 1] += 1
                start[j + 1] += 1
    for i in range(count):
        start[i + 1] += start[i]
    end, filled = np.empty(start[count], dtype=np.int64), start[:count].copy()
    for i in range(count):
        for a in range(inside[i]):
            j = listed[i, a]
            if large[i] and large[j] and (gap[i, a] <= reach[i] or gap[i, a] <= reach[j]):
                end[filled[i]] = j
                end[filled[j]] = i
                filled[i] += 1
                filled[j] += 1
    return start, end


@jit
def _depth(peak, pass_):
    """Return the natural logarithm of how many times denser a peak is than a pass."""
    return log(max(peak, _SMALLEST)) - log(max(pass_, _SMALLEST))


@jit
def _climb(rules, start, end, logs, hits, parent):
    """Let every landmark, the densest first, follow its densest neighbour; join basins that a mere dip divides."""
    # A stable sort: of equally dense ones the first column comes first.
    order = np.argsort(-logs, kind="mergesort")
    rank = np.empty(len(order), dtype=np.int64)
    for at in range(len(order)):
        rank[order[at]] = at
    for at in range(len(order)):
        i, first = order[at], at
        for e in range(start[i], start[i + 1]):
            first = min(first, rank[end[e]])
        if first == at:
            parent[i] = i
            continue
        own = root_of(parent, order[first])
        parent[i] = own
        for e in range(start[i], start[i + 1]):
            j = end[e]
            if (rank[j] > at) | (parent[j] == own):
                continue
            other = root_of(parent, j)
            if other == own:
                continue
            lower, higher = (other, own) if rank[own] < rank[other] else (own, other)
            error = np.sqrt(1.0 / hits[lower] + 1.0 / hits[i])
            if logs[lower] - logs[i] < rules.valley + _MIN_ERRORS * error:
                parent[lower] = higher
                own = higher


@jit
def _passes(start, end, basin, density, records, pass_, pass_records):
    """Write the highest pass between every two basins at every scale, and the records it is of; 0 where none is."""
    for i in range(len(basin)):
        if basin[i] < 0:
            continue
        for e in range(start[i], start[i + 1]):
            j = end[e]
            u, v = basin[i], basin[j]
            if u == v:
                continue
            for scale in range(SCALES):
                low = i if density[scale, i] < density[scale, j] else j
                if density[scale, low] > pass_[scale, u, v]:
                    pass_[scale, u, v] = pass_[scale, v, u] = density[scale, low]
                    pass_records[scale, u, v] = pass_records[scale, v, u] = records[scale, low]


@inline
def _is_apart(now, u, v):
    """Whether two basins are of two clusters now."""
    return now[u] >= 0 and now[v] >= 0 and now[u] != now[v]


@inline
def _need(rules, errors, error, apart):
    """Return the depth that a valley needs, less between clusters that are apart."""
    return max((rules.valley + errors * error) * (_HOLD if apart else 1.0), _SMALLEST)


@jit
def _clearest(rules, errors, u, v, now, peak, peak_records, pass_, pass_records):
    """Return depth of the clearest valley between two basins and the depth it needs, over the scales."""
    best, depth, needed = -1.0, 0.0, 1.0
    for scale in range(SCALES):
        lower = u if peak[scale, u] < peak[scale, v] else v
        error = np.sqrt(1.0 / peak_records[scale, lower] + 1.0 / pass_records[scale, u, v])
        need = _need(rules, errors, error, _is_apart(now, u, v))
        found = _depth(peak[scale, lower], pass_[scale, u, v])
        if found / need > best:
            best, depth, needed = found / need, found, need
    return depth, needed


@jit
def _look_along(model, rules, errors, u, v, now, member, mean, mass, depth, needed):
    """Note the valley on the line between two groups where it is clearer than what the balls show; say whether."""
    found, error2 = measure_slabs(model, member, mean, mass, u, v)
    if error2 <= 0.0:
        return False
    need = _need(rules, errors, np.sqrt(error2), _is_apart(now, u, v))
    if found * needed[u, v] <= depth[u, v] * need:
        return False
    depth[u, v], needed[u, v] = found, need
    depth[v, u], needed[v, u] = found, need
    return True


@jit
def _errors(model, rules, dimension):
    """Return how many standard errors a valley has to be deep."""
    older = log(max(float(model.head[CLOCK]), _EARLY) / _EARLY)
    half_square = _FIRST + _GROWTH * older - log(rules.doubt)
    return min(_MAX_ERRORS, np.sqrt(2.0 * max(0.0, half_square))) * max(1.0, _PLANE / dimension)


@jit
def find_hills(model, rules, logs, inside, dimension):
    """Return the groups of landmarks that no valley divides.

    `logs` are the logarithms of the density at each landmark, `inside` its neighbours in the ball, `dimension` is the
    intrinsic one. Two basins are joined unless the valley between them is deeper than ``valley`` and than what errors
    of the counts explain; the shallowest, beside what it needs, first. A valley needs more errors as the stream goes
    on, because every reading is another chance to err.
    """
    count = model.head[LANDMARKS]
    errors = _errors(model, rules, dimension)
    large = np.empty(count, dtype=np.bool_)
    reach = _reaches(model, rules)
    _large_enough(model, rules, inside, reach, large)
    start, end = _adjacency(model, inside, reach, large)
    density, records = np.empty((SCALES, count)), np.empty((SCALES, count))
    measure_scales(model, dimension, logs, inside, large, density, records)
    parent = np.empty(count, dtype=np.int64)
    _climb(rules, start, end, logs, records[0], parent)

    basin = np.full(count, -1, dtype=np.int64)
    basins = 0
    summit = np.empty(count, dtype=np.int64)
    for i in range(count):
        if large[i] and root_of(parent, i) == i:
            basin[i], summit[basins] = basins, i
            basins += 1
    for i in range(count):
        if large[i]:
            basin[i] = basin[root_of(parent, i)]
    peak, peak_records = np.zeros((SCALES, basins)), np.ones((SCALES, basins))
    for i in range(count):
        for scale in range(SCALES):
            if basin[i] >= 0 and density[scale, i] > peak[scale, basin[i]]:
                peak[scale, basin[i]], peak_records[scale, basin[i]] = density[scale, i], records[scale, i]
    pass_, pass_records = np.zeros((SCALES, basins, basins)), np.ones((SCALES, basins, basins))
    _passes(start, end, basin, density, records, pass_, pass_records)

    # The cluster that a basin belongs to now is that of its summit.
    now = np.empty(basins, dtype=np.int64)
    for u in range(basins):
        now[u] = model.number[PLACE, summit[u]]
    into = np.arange(basins)
    lost = np.full((count + 1, 2), -1.0)
    depth, needed = np.zeros((basins, basins)), np.zeros((basins, basins))
    pair = np.empty((basins * (basins - 1) // 2, 2), dtype=np.int64)
    pairs = 0
    for u in range(basins):
        for v in range(u + 1, basins):
            if pass_[0, u, v] > 0.0:
                pair[pairs, 0], pair[pairs, 1] = u, v
                pairs += 1
                depth[u, v], needed[u, v] = _clearest(rules, errors, u, v, now, peak, peak_records, pass_, pass_records)
                depth[v, u], needed[v, u] = depth[u, v], needed[u, v]
    lines = dimension > _PLAIN
    member, seen = basin.copy(), np.full((basins, basins), not lines)
    mean, mass = group_means(model, member, basins)
    while True:
        least, one, other = 1.0, -1, -1
        for at in range(pairs):
            u, v = pair[at]
            if needed[u, v] > 0.0 and depth[u, v] / needed[u, v] < least:
                least, one, other = depth[u, v] / needed[u, v], u, v
        if one < 0:
            break
        if not seen[one, other]:
            # Only now: what balls divide needs no line.
            seen[one, other] = seen[other, one] = True
            if _look_along(model, rules, errors, one, other, now, member, mean, mass, depth, needed):
                continue
        if peak[0, one] < peak[0, other]:
            one, other = other, one
        if _is_apart(now, one, other):
            lost[now[other], 0], lost[now[other], 1] = depth[one, other], needed[one, other]
        into[other] = one
        if lines:
            join_means(member, mean, mass, one, other)
        parent[summit[other]] = summit[one]
        for scale in range(SCALES):
            if peak[scale, other] > peak[scale, one]:
                peak[scale, one], peak_records[scale, one] = peak[scale, other], peak_records[scale, other]
            for v in range(basins):
                if pass_[scale, other, v] > pass_[scale, one, v]:
                    pass_[scale, one, v] = pass_[scale, v, one] = pass_[scale, other, v]
                    pass_records[scale, one, v] = pass_records[scale, v, one] = pass_records[scale, other, v]
            pass_[scale, one, one] = 0.0
        for v in range(basins):
            needed[other, v] = needed[v, other] = 0.0
            pass_[0, other, v] = pass_[0, v, other] = 0.0
        for at in range(pairs):
            if pair[at, 0] == other:
                pair[at, 0] = one
            if pair[at, 1] == other:
                pair[at, 1] = one
        for v in range(basins):
            if v != one and pass_[0, one, v] > 0.0:
                depth[one, v], needed[one, v] = _clearest(
                    rules, errors, one, v, now, peak, peak_records, pass_, pass_records
                )
                depth[v, one], needed[v, one] = depth[one, v], needed[one, v]
                seen[one, v] = seen[v, one] = not lines
    group = np.empty(count, dtype=np.int64)
    for i in range(count):
        group[i] = root_of(parent, i)
        if basin[i] >= 0:
            u = basin[i]
            while into[u] != u:
                u = into[u]
            basin[i] = u
    return Hills(group, lost, basin, depth, needed)
