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
from resonance.engine.ordering import stable_order

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


class Basins(NamedTuple):
    """The basins of the density, and the passes between them."""

    now: IntArray  # the place of the cluster that a basin belongs to: that of its summit; -1 for none
    peak: FloatArray  # by scale and basin, the density at its summit, and the records that this is of
    peak_records: FloatArray
    pass_: FloatArray  # by scale and two basins, the density at the highest pass, 0 where none is, and its records
    pass_records: FloatArray
    depth: FloatArray  # by two basins, the valley that is clearest beside what it needs, and what that is; 0 for none
    needed: FloatArray


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
    # Of equally dense ones the first column comes first.
    order = stable_order(-logs)
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
def _weigh(rules, errors, basins, u, v):
    """Note the clearest valley between two basins over the scales, and the depth it needs."""
    best, depth, needed = -1.0, 0.0, 1.0
    for scale in range(SCALES):
        lower = u if basins.peak[scale, u] < basins.peak[scale, v] else v
        error = np.sqrt(1.0 / basins.peak_records[scale, lower] + 1.0 / basins.pass_records[scale, u, v])
        need = _need(rules, errors, error, _is_apart(basins.now, u, v))
        found = _depth(basins.peak[scale, lower], basins.pass_[scale, u, v])
        if found / need > best:
            best, depth, needed = found / need, found, need
    basins.depth[u, v] = basins.depth[v, u] = depth
    basins.needed[u, v] = basins.needed[v, u] = needed


@jit
def _look_along(model, rules, errors, basins, u, v, member, mean, mass):
    """Note the valley on the line between two groups where it is clearer than what the balls show; say whether."""
    depth, needed = basins.depth, basins.needed
    found, error2 = measure_slabs(model, member, mean, mass, u, v)
    if error2 <= 0.0:
        return False
    need = _need(rules, errors, np.sqrt(error2), _is_apart(basins.now, u, v))
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
def _number_basins(large, parent):
    """Return the basin of each landmark, -1 for none, and the summit of each basin."""
    count = len(large)
    basin, summit, basins = np.full(count, -1, dtype=np.int64), np.empty(count, dtype=np.int64), 0
    for i in range(count):
        if large[i] and root_of(parent, i) == i:
            basin[i], summit[basins] = basins, i
            basins += 1
    for i in range(count):
        if large[i]:
            basin[i] = basin[root_of(parent, i)]
    return basin, summit[:basins].copy()


@jit
def _measure_basins(model, start, end, basin, summit, density, records):
    """Return the basins with their peaks and passes."""
    count = len(summit)
    now, peak, peak_records = np.empty(count, dtype=np.int64), np.zeros((SCALES, count)), np.ones((SCALES, count))
    for u in range(count):
        now[u] = model.number[PLACE, summit[u]]
    for i in range(len(basin)):
        for scale in range(SCALES):
            if basin[i] >= 0 and density[scale, i] > peak[scale, basin[i]]:
                peak[scale, basin[i]], peak_records[scale, basin[i]] = density[scale, i], records[scale, i]
    pass_, pass_records = np.zeros((SCALES, count, count)), np.ones((SCALES, count, count))
    _passes(start, end, basin, density, records, pass_, pass_records)
    return Basins(
        now, peak, peak_records, pass_, pass_records, np.zeros((count, count)), np.zeros((count, count))
    )  # fmt: skip


@jit
def _touching(basins):
    """Return the pairs of basins that a pass joins."""
    count, pairs = len(basins.now), 0
    pair = np.empty((count * (count - 1) // 2, 2), dtype=np.int64)
    for u in range(count):
        for v in range(u + 1, count):
            if basins.pass_[0, u, v] > 0.0:
                pair[pairs, 0], pair[pairs, 1] = u, v
                pairs += 1
    return pair[:pairs].copy()


@jit
def _shallowest(basins, pair):
    """Return the two basins with the shallowest valley beside what it needs; -1 where every valley is deep enough."""
    least, one, other = 1.0, -1, -1
    for at in range(len(pair)):
        u, v = pair[at]
        if basins.needed[u, v] > 0.0 and basins.depth[u, v] / basins.needed[u, v] < least:
            least, one, other = basins.depth[u, v] / basins.needed[u, v], u, v
    return one, other


@jit
def _join(basins, pair, one, other):
    """Make the basin `other` a part of the basin `one`."""
    peak, peak_records, pass_, pass_records = basins.peak, basins.peak_records, basins.pass_, basins.pass_records
    for scale in range(SCALES):
        if peak[scale, other] > peak[scale, one]:
            peak[scale, one], peak_records[scale, one] = peak[scale, other], peak_records[scale, other]
        for v in range(len(basins.now)):
            if pass_[scale, other, v] > pass_[scale, one, v]:
                pass_[scale, one, v] = pass_[scale, v, one] = pass_[scale, other, v]
                pass_records[scale, one, v] = pass_records[scale, v, one] = pass_records[scale, other, v]
        pass_[scale, one, one] = 0.0
    for v in range(len(basins.now)):
        basins.needed[other, v] = basins.needed[v, other] = 0.0
        pass_[0, other, v] = pass_[0, v, other] = 0.0
    for at in range(len(pair)):
        for side in range(2):
            if pair[at, side] == other:
                pair[at, side] = one


@jit
def _join_shallow(model, rules, errors, dimension, basins, member, parent, summit, lost):
    """Join basins, the shallowest valley first, until all that are left are deep enough; return what each is part of.

    `member` gets the basins that are left, `lost` the valleys of clusters that are joined.
    """
    count, pair = len(summit), _touching(basins)
    for u, v in pair:
        _weigh(rules, errors, basins, u, v)
    lines, into = dimension > _PLAIN, np.arange(count)
    seen = np.full((count, count), not lines)
    mean, mass = group_means(model, member, count)
    while True:
        one, other = _shallowest(basins, pair)
        if one < 0:
            return into
        if not seen[one, other]:
            # Only now: what balls divide needs no line.
            seen[one, other] = seen[other, one] = True
            if _look_along(model, rules, errors, basins, one, other, member, mean, mass):
                continue
        if basins.peak[0, one] < basins.peak[0, other]:
            one, other = other, one
        if _is_apart(basins.now, one, other):
            lost[basins.now[other], 0] = basins.depth[one, other]
            lost[basins.now[other], 1] = basins.needed[one, other]
        into[other] = one
        if lines:
            join_means(member, mean, mass, one, other)
        parent[summit[other]] = summit[one]
        _join(basins, pair, one, other)
        for v in range(count):
            if v != one and basins.pass_[0, one, v] > 0.0:
                _weigh(rules, errors, basins, one, v)
                seen[one, v] = seen[v, one] = not lines


@jit
def find_hills(model, rules, logs, inside, dimension):
    """Return the groups of landmarks that no valley divides.

    `logs` are the logarithms of the density at each landmark, `inside` its neighbours in the ball, `dimension` is the
    intrinsic one. Two basins are joined unless the valley between them is deeper than ``valley`` and than what errors
    of the counts explain; the shallowest, beside what it needs, first. A valley needs more errors as the stream goes
    on, because every reading is another chance to err.
    """
    count = model.head[LANDMARKS]
    large, reach = np.empty(count, dtype=np.bool_), _reaches(model, rules)
    _large_enough(model, rules, inside, reach, large)
    start, end = _adjacency(model, inside, reach, large)
    density, records = np.empty((SCALES, count)), np.empty((SCALES, count))
    measure_scales(model, dimension, logs, inside, large, density, records)
    parent = np.empty(count, dtype=np.int64)
    _climb(rules, start, end, logs, records[0], parent)
    basin, summit = _number_basins(large, parent)
    basins = _measure_basins(model, start, end, basin, summit, density, records)
    lost, errors = np.full((count + 1, 2), -1.0), _errors(model, rules, dimension)
    into = _join_shallow(model, rules, errors, dimension, basins, basin.copy(), parent, summit, lost)
    group = np.empty(count, dtype=np.int64)
    for i in range(count):
        group[i] = root_of(parent, i)
        if basin[i] >= 0:
            u = basin[i]
            while into[u] != u:
                u = into[u]
            basin[i] = u
    return Hills(group, lost, basin, basins.depth, basins.needed)
