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
from resonance.engine.modal.slabs import group_means, join_means
from resonance.engine.modal.valleys import PLAIN, errors_of, is_apart, look_along, shallowest, weigh
from resonance.kernels.arithmetic import jit
from resonance.kernels.ordering import root_of, stable_order

_BLURRED = 0.5
"""Part of `valley` below which a dip is a mere one, where there are many clusters and lines to look along."""
_MIN_ERRORS = 0.5
"""Standard errors that a dip between two basins has at least, or they are one from the beginning."""


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


class Hills(NamedTuple):
    """What a reading finds."""

    group: IntArray  # by landmark, a landmark of its group that is the same for all of them
    # By cluster that was joined into another, the depth of the valley between them and the depth that it would have
    # needed; the first is -1 where nothing was joined.
    lost: FloatArray
    basin: IntArray  # by landmark, the basin that is left of those that it was joined with; -1 for none
    basins: Basins


@jit
def _climb(least, start, end, logs, hits, parent):
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
            if logs[lower] - logs[i] < least + _MIN_ERRORS * error:
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
def _join_shallow(model, rules, errors, lines, basins, member, parent, summit, lost):
    """Join basins, the shallowest valley first, until all that are left are deep enough; return what each is part of.

    `member` gets the basins that are left, `lost` the valleys of clusters that are joined.
    """
    count, sides = len(summit), basins.sides
    mean, mass = group_means(model, member, count)
    for pair in range(len(sides)):
        if basins.touching[pair]:
            weigh(model, rules, errors, basins, mass, pair, sides[pair, 0], sides[pair, 1])
    into, where = np.arange(count), np.full(count, -1, dtype=np.int64)
    basins.seen[:] = not lines
    while True:
        pair = shallowest(basins)
        if pair < 0:
            return into
        if not basins.seen[pair]:
            # Only now: what balls divide needs no line.
            basins.seen[pair] = True
            if look_along(model, rules, errors, basins, pair, member, mean, mass):
                continue
        one, other = sides[pair, 0], sides[pair, 1]
        if basins.peak[0, one] < basins.peak[0, other]:
            one, other = other, one
        if is_apart(basins.now, one, other):
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
                weigh(model, rules, errors, basins, mass, pair, one, sides[pair, 1 - side])
                basins.seen[pair] = not lines
            entry = basins.follows[entry]


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
    errors, lines = errors_of(model, rules, dimension), dimension > PLAIN
    # What a ball shows of a dip is blurred, and lines show the rest.
    _climb(rules.valley * (_BLURRED if errors.many and lines else 1.0), start, end, logs, records[0], parent)
    basin, summit = _number_basins(large, parent)
    basins = _measure_basins(model, start, end, basin, summit, density, records, uneven)
    lost = np.full((count + 1, 2), -1.0)
    into = _join_shallow(model, rules, errors, lines, basins, basin.copy(), parent, summit, lost)
    group = np.empty(count, dtype=np.int64)
    for i in range(count):
        group[i] = root_of(parent, i)
        if basin[i] >= 0:
            u = basin[i]
            while into[u] != u:
                u = into[u]
            basin[i] = u
    return Hills(group, lost, basin, basins)
