"""Which landmarks are of one hill: basins of the density, joined where no valley is between them.

Persistence-based clustering: F. Chazal, L. J. Guibas, S. Y. Oudot, P. Skraba, "Persistence-Based Clustering in
Riemannian Manifolds", Journal of the ACM 60(6), 2013. Ours are the test of a valley against the errors of the counts,
at three scales and along lines, and the hysteresis.
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.base import BoolArray, FloatArray, IntArray
from resonance.engine.modal.density import SCALES, measure_scales
from resonance.engine.modal.graph import adjacency, large_enough, reaches
from resonance.engine.modal.slabs import group_means, join_means, measure_slabs
from resonance.kernels.arithmetic import inline, jit, log
from resonance.kernels.ordering import root_of, stable_order

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
_FEW_CLUSTERS = 6.0
"""Clusters, there for half of the records learned, above which as many more may be false as there are more, so that the
share of false ones stays: as in Y. Benjamini, Y. Hochberg, "Controlling the False Discovery Rate", Journal of the Royal
Statistical Society B 57(1), 1995, but by clusters found, not by valleys tested."""
_ALIKE = 3.0
"""How many mean clusters two hills are together at most for this: what is larger, as a ring, is likely one."""
_PLANE = 2.0
"""Dimensions below which there are fewer ways around a dip, so that a valley needs more errors."""
_PLAIN = 2.5
"""Dimensions above which valleys are also looked for along lines; below, balls show as much."""
_PIECE, _PIECES = 64.0, 5.0
"""Landmarks from which, and parts of all of them up to which a hill of a plane may be a piece of a band: of its many
balls some are thin by chance, so that single ones do not hold it apart for long."""
_SMALLEST = 1e-300


class Basins(NamedTuple):
    """The basins of the density, and the passes between those that touch: few of all pairs.

    The passes of a basin are a chain, over the sides of pairs: entry ``2 * pair + side`` is followed by ``follows`` of
    it. A pair that has become another one stands there as it was, with no basins.
    """

    now: IntArray  # the place of the cluster that a basin belongs to: that of its summit; -1 for none
    peak: FloatArray  # by scale and basin, the density at its summit, and the records that this is of
    peak_records: FloatArray
    size: FloatArray  # by basin, its landmarks
    uneven: FloatArray  # by scale, squared errors that no record makes smaller: by landmark of a hill, and of all hills
    first: IntArray  # by basin, the first entry of its chain, -1 for none
    follows: IntArray
    sides: IntArray  # by pair, its basins: at first the smaller number before the larger one, in ascending order
    touching: BoolArray  # by pair, whether a pass joined its basins at the first scale at first
    pass_: FloatArray  # by scale and pair, the density at the highest pass, 0 where none is, and its records
    pass_records: FloatArray
    depth: FloatArray  # by pair, the valley that is clearest beside what it needs, and what that is; 0 for none
    needed: FloatArray
    seen: BoolArray  # by pair, whether its line was looked along


class Errors(NamedTuple):
    """How many standard errors a valley has to be deep."""

    large: float
    small: float  # between two hills that have at most so many records together; none where there are few clusters
    records: float
    piece: tuple[float, float]  # least and most landmarks of a hill that only means of balls hold apart


class Hills(NamedTuple):
    """What a reading finds."""

    group: IntArray  # by landmark, a landmark of its group that is the same for all of them
    # By cluster that was joined into another, the depth of the valley between them and the depth that it would have
    # needed; the first is -1 where nothing was joined.
    lost: FloatArray
    basin: IntArray  # by landmark, the basin that is left of those that it was joined with; -1 for none
    basins: Basins


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
def _pairs(start, end, basin, count):
    """Return the pairs of basins between which the graph has an edge, ascending: ``u * count + v`` with u < v."""
    key, found = np.empty(len(end) // 2, dtype=np.int64), 0
    for i in range(len(basin)):
        for e in range(start[i], start[i + 1]):
            u, v = basin[i], basin[end[e]]
            if 0 <= u < v:
                key[found] = u * count + v
                found += 1
    return np.unique(key[:found])


@jit
def _passes(start, end, basin, density, records, key, count, pass_, pass_records):
    """Write the highest pass of every pair of basins at every scale, and the records it is of."""
    for i in range(len(basin)):
        if basin[i] < 0:
            continue
        for e in range(start[i], start[i + 1]):
            j = end[e]
            u, v = basin[i], basin[j]
            if u == v:
                continue
            pair = np.searchsorted(key, min(u, v) * count + max(u, v))
            for scale in range(SCALES):
                low = i if density[scale, i] < density[scale, j] else j
                if density[scale, low] > pass_[scale, pair]:
                    pass_[scale, pair] = density[scale, low]
                    pass_records[scale, pair] = records[scale, low]


@inline
def _is_apart(now, u, v):
    """Whether two basins are of two clusters now."""
    return now[u] >= 0 and now[v] >= 0 and now[u] != now[v]


@inline
def _need(rules, errors, error, small, apart):
    """Return the depth that a valley needs: less between hills as small as most are, and clusters that are apart."""
    chance = errors.large * error
    depth = rules.valley + chance
    if small:
        # Of many small hills most are clusters. There either is proof: fewer errors, or all of them, that add up with
        # the dip that one cluster may have as what is independent does.
        depth = min(rules.valley + errors.small * error, np.sqrt(rules.valley * rules.valley + chance * chance))
    return max(depth * (_HOLD if apart else 1.0), _SMALLEST)


@inline
def _is_small(errors, mass, u, v):
    """Whether two hills together are as small as most are."""
    return mass[u] + mass[v] <= errors.records


@inline
def _left_of_excess(model, apart):
    """Return the share of the dispersion that is left: less between clusters apart, which have bursts of their own."""
    return 1.0 / np.sqrt(model.dispersion[0]) if apart else 1.0


@jit
def _weigh(model, rules, errors, basins, mass, pair, u, v):
    """Note the clearest valley between the basins of a pair over the scales, and the depth it needs."""
    best, depth, needed, small = -1.0, 0.0, 1.0, _is_small(errors, mass, u, v)
    size = min(basins.size[u], basins.size[v])
    apart = _is_apart(basins.now, u, v)
    part = _left_of_excess(model, apart)
    for scale in range(SCALES):
        lower = u if basins.peak[scale, u] < basins.peak[scale, v] else v
        least = basins.uneven[0, scale] * size + basins.uneven[1, scale]
        peak, pass_ = part / basins.peak_records[scale, lower], part / basins.pass_records[scale, pair]
        error = np.sqrt(max(least, peak) + max(least, pass_))
        lasts = apart and (scale > 0 or small or not errors.piece[0] <= size <= errors.piece[1])
        need = _need(rules, errors, error, small, lasts)
        found = _depth(basins.peak[scale, lower], basins.pass_[scale, pair])
        if found / need > best:
            best, depth, needed = found / need, found, need
    basins.depth[pair], basins.needed[pair] = depth, needed


@jit
def _look_along(model, rules, errors, basins, pair, member, mean, mass):
    """Note the valley on the line between two groups where it is clearer than what the balls show; say whether."""
    depth, needed, u, v = basins.depth, basins.needed, basins.sides[pair, 0], basins.sides[pair, 1]
    found, error2 = measure_slabs(model, member, mean, mass, u, v)
    if error2 <= 0.0:
        return False
    apart = _is_apart(basins.now, u, v)
    error = np.sqrt(model.dispersion[0] * _left_of_excess(model, apart) * error2)
    need = _need(rules, errors, error, _is_small(errors, mass, u, v), apart)
    if found * needed[pair] <= depth[pair] * need:
        return False
    depth[pair], needed[pair] = found, need
    return True


@jit
def _errors(model, rules, dimension):
    """Return how many standard errors a valley has to be deep."""
    lasting = 0
    for c in range(model.clusters):
        lasting += 2 * model.made[c] <= model.learned
    growth = model.budget / rules.landmarks
    older = _FIRST + _GROWTH * log(max(float(model.clock), _EARLY) / _EARLY)
    # Of more hills as large a share may be false.
    half = older - log(rules.doubt * growth), older - log(rules.doubt * max(growth, lasting / _FEW_CLUSTERS))
    most, fewest = np.sqrt(2.0 * max(0.0, half[0])), np.sqrt(2.0 * max(0.0, half[1]))
    wider = max(1.0, _PLANE / dimension)
    many = lasting > _FEW_CLUSTERS * growth
    records = _ALIKE * model.mass[: model.landmarks].sum() / lasting if many else 0.0
    piece = (_PIECE if dimension <= _PLAIN else np.inf, model.landmarks / _PIECES)
    return Errors(min(_MAX_ERRORS, most) * wider, min(_MAX_ERRORS, fewest) * wider, records, piece)


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
def _measure_basins(model, start, end, basin, summit, density, records, uneven):
    """Return the basins with their peaks and passes."""
    count = len(summit)
    now, peak, peak_records = np.empty(count, dtype=np.int64), np.zeros((SCALES, count)), np.ones((SCALES, count))
    for u in range(count):
        now[u] = model.place[summit[u]]
    for i in range(len(basin)):
        for scale in range(SCALES):
            if basin[i] >= 0 and density[scale, i] > peak[scale, basin[i]]:
                peak[scale, basin[i]], peak_records[scale, basin[i]] = density[scale, i], records[scale, i]
    size = np.zeros(count)
    for i in range(len(basin)):
        if basin[i] >= 0:
            size[basin[i]] += 1.0
    key = _pairs(start, end, basin, count)
    pairs = len(key)
    pass_, pass_records = np.zeros((SCALES, pairs)), np.ones((SCALES, pairs))
    _passes(start, end, basin, density, records, key, count, pass_, pass_records)
    first, follows = np.full(count, -1, dtype=np.int64), np.empty(2 * pairs, dtype=np.int64)
    sides, touching = np.empty((pairs, 2), dtype=np.int64), np.empty(pairs, dtype=np.bool_)
    for pair in range(pairs):
        sides[pair, 0], sides[pair, 1] = key[pair] // count, key[pair] % count
        touching[pair] = pass_[0, pair] > 0.0
        for side in range(2):
            follows[2 * pair + side] = first[sides[pair, side]]
            first[sides[pair, side]] = 2 * pair + side
    return Basins(
        now, peak, peak_records, size, uneven, first, follows, sides, touching, pass_, pass_records, np.zeros(pairs),
        np.zeros(pairs), np.zeros(pairs, dtype=np.bool_),
    )  # fmt: skip


@jit
def _shallowest(basins):
    """Return the pair with the shallowest valley beside what it needs; -1 where every valley is deep enough."""
    least, found = 1.0, -1
    for pair in range(len(basins.needed)):
        if basins.needed[pair] > 0.0 and basins.depth[pair] / basins.needed[pair] < least:
            least, found = basins.depth[pair] / basins.needed[pair], pair
    return found


@jit
def _end_pair(basins, pair):
    """Let a pair be none any more."""
    basins.sides[pair, :] = -1
    basins.needed[pair] = basins.pass_[0, pair] = 0.0


@jit
def _give(basins, entry, basin):
    """Make a side of a pair, which is in no chain, one of a basin."""
    basins.sides[entry // 2, entry % 2] = basin
    basins.follows[entry] = basins.first[basin]
    basins.first[basin] = entry


@jit
def _join(basins, where, unseen, one, other):
    """Make the basin `other` a part of the basin `one`.

    Of two pairs that become one, the earlier one that touches is kept. `where` is -1 everywhere before and after;
    `unseen` is whether lines are to be looked along.
    """
    peak, peak_records, pass_, pass_records = basins.peak, basins.peak_records, basins.pass_, basins.pass_records
    sides, follows = basins.sides, basins.follows
    for scale in range(SCALES):
        if peak[scale, other] > peak[scale, one]:
            peak[scale, one], peak_records[scale, one] = peak[scale, other], peak_records[scale, other]
    basins.size[one] += basins.size[other]
    entry = basins.first[one]
    while entry >= 0:
        if sides[entry // 2, entry % 2] == one:
            where[sides[entry // 2, 1 - entry % 2]] = entry
        entry = follows[entry]
    entry = basins.first[other]
    basins.first[other] = -1
    while entry >= 0:
        pair, following = entry // 2, follows[entry]
        v = sides[pair, 1 - entry % 2]
        if sides[pair, entry % 2] != other:
            pass
        elif v == one:
            _end_pair(basins, pair)
        elif where[v] < 0:
            basins.depth[pair] = basins.needed[pair] = 0.0
            basins.seen[pair] = not unseen
            _give(basins, entry, one)
            where[v] = entry
        else:
            known = where[v] // 2
            kept = basins.touching[known] and (known < pair or not basins.touching[pair])
            to, gone = (known, pair) if kept else (pair, known)
            for scale in range(SCALES):
                a = pair if pass_[scale, pair] > pass_[scale, known] else known
                pass_[scale, to], pass_records[scale, to] = pass_[scale, a], pass_records[scale, a]
            basins.depth[to], basins.needed[to] = basins.depth[known], basins.needed[known]
            basins.seen[to] = basins.seen[known]
            _end_pair(basins, gone)
            if not kept:
                _give(basins, entry, one)
                where[v] = entry
        entry = following
    entry = basins.first[one]
    while entry >= 0:
        if sides[entry // 2, entry % 2] == one:
            where[sides[entry // 2, 1 - entry % 2]] = -1
        entry = follows[entry]


@jit
def _join_shallow(model, rules, dimension, basins, member, parent, summit, lost):
    """Join basins, the shallowest valley first, until all that are left are deep enough; return what each is part of.

    `member` gets the basins that are left, `lost` the valleys of clusters that are joined.
    """
    count, sides = len(summit), basins.sides
    mean, mass = group_means(model, member, count)
    errors = _errors(model, rules, dimension)
    for pair in range(len(sides)):
        if basins.touching[pair]:
            _weigh(model, rules, errors, basins, mass, pair, sides[pair, 0], sides[pair, 1])
    lines, into, where = dimension > _PLAIN, np.arange(count), np.full(count, -1, dtype=np.int64)
    basins.seen[:] = not lines
    while True:
        pair = _shallowest(basins)
        if pair < 0:
            return into
        if not basins.seen[pair]:
            # Only now: what balls divide needs no line.
            basins.seen[pair] = True
            if _look_along(model, rules, errors, basins, pair, member, mean, mass):
                continue
        one, other = sides[pair, 0], sides[pair, 1]
        if basins.peak[0, one] < basins.peak[0, other]:
            one, other = other, one
        if _is_apart(basins.now, one, other):
            lost[basins.now[other], 0] = basins.depth[pair]
            lost[basins.now[other], 1] = basins.needed[pair]
        into[other] = one
        if lines:
            join_means(member, mean, mass, one, other)
        else:
            mass[one] += mass[other]
        parent[summit[other]] = summit[one]
        _join(basins, where, lines, one, other)
        entry = basins.first[one]
        while entry >= 0:
            pair, side = entry // 2, entry % 2
            if sides[pair, side] == one and basins.pass_[0, pair] > 0.0:
                _weigh(model, rules, errors, basins, mass, pair, one, sides[pair, 1 - side])
                basins.seen[pair] = not lines
            entry = basins.follows[entry]


@jit
def count_valleys(basins):
    """Return how many pairs of basins that are left touch."""
    found = 0
    for pair in range(len(basins.touching)):
        found += basins.touching[pair] and basins.sides[pair, 0] >= 0
    return found


@jit
def valley_between(basins, u, v):
    """Return the valley between two basins that are left, and what it needs; zeros where they do not touch."""
    entry = basins.first[u]
    while entry >= 0:
        pair, side = entry // 2, entry % 2
        if basins.sides[pair, side] == u and basins.sides[pair, 1 - side] == v:
            return basins.depth[pair], basins.needed[pair]
        entry = basins.follows[entry]
    return 0.0, 0.0


@jit
def find_hills(model, rules, logs, inside, dimension):
    """Return the groups of landmarks that no valley divides.

    `logs` are the logarithms of the density at each landmark, `inside` its neighbours in the ball, `dimension` is the
    intrinsic one. Two basins are joined unless the valley between them is deeper than ``valley`` and than what errors
    of the counts explain; the shallowest, beside what it needs, first. A valley needs more errors as the stream goes
    on, because every reading is another chance to err.
    """
    count = model.landmarks
    large, reach = np.empty(count, dtype=np.bool_), reaches(model, rules)
    large_enough(model, rules, inside, reach, large)
    start, end = adjacency(model, inside, reach, large)
    density, records = np.empty((SCALES, count)), np.empty((SCALES, count))
    uneven = measure_scales(model, dimension, logs, inside, large, density, records)
    parent = np.empty(count, dtype=np.int64)
    _climb(rules, start, end, logs, records[0], parent)
    basin, summit = _number_basins(large, parent)
    basins = _measure_basins(model, start, end, basin, summit, density, records, uneven)
    lost = np.full((count + 1, 2), -1.0)
    into = _join_shallow(model, rules, dimension, basins, basin.copy(), parent, summit, lost)
    group = np.empty(count, dtype=np.int64)
    for i in range(count):
        group[i] = root_of(parent, i)
        if basin[i] >= 0:
            u = basin[i]
            while into[u] != u:
                u = into[u]
            basin[i] = u
    return Hills(group, lost, basin, basins)
