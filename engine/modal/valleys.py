"""Which valleys divide two basins of the density: deeper than the errors of the counts explain.

They are measured at three scales and along lines, and a valley between two clusters holds them apart for longer.
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.modal.density import SCALES
from resonance.engine.modal.slabs import measure_slabs
from resonance.kernels.arithmetic import inline, jit, log

_HOLD = 0.7
"""What is apart stays apart until the valley is below this share of what made it one."""
_MAX_ERRORS = 3.5
"""Standard errors above which a valley needs no more."""
_EARLY = 300.0
"""Records from which a valley needs more errors with every record."""
_FIRST, _GROWTH = 0.25, 0.7
"""Half the square of the errors that a valley needs is, at the beginning, the first, and grows with the logarithm of
the records by the second."""
_FEW_CLUSTERS = 6.0
"""Clusters, there for half of the records learned, above which as many more may be false as there are more, so that the
share of false ones stays: as in Y. Benjamini, Y. Hochberg, "Controlling the False Discovery Rate", Journal of the Royal
Statistical Society B 57(1), 1995, but by clusters found, not by valleys tested."""
_MANY_CLUSTERS = 30.0
"""Such clusters above which that holds however many landmarks there are, and small hills are clusters by far."""
_ALONG = 0.25
"""Part of the squared error along a line that then is left between small hills."""
_ALIKE = 3.0
"""How many mean clusters two hills are together at most for this: what is larger, as a ring, is likely one."""
_PLANE = 2.0
"""Dimensions below which there are fewer ways around a dip, so that a valley needs more errors."""
PLAIN = 2.5
"""Dimensions above which valleys are also looked for along lines; below, balls show as much."""
_PIECE, _PIECES = 64.0, 5.0
"""Landmarks from which, and parts of all of them up to which a hill of a plane may be a piece of a band: of its many
balls some are thin by chance, so that single ones do not hold it apart for long."""
_SMALLEST = 1e-300


class Errors(NamedTuple):
    """How many standard errors a valley has to be deep."""

    large: float
    small: float  # between two hills that have at most so many records together; none where there are few clusters
    records: float
    many: bool  # whether there are so many clusters that a dip between small hills is hardly one of chance
    piece: tuple[float, float]  # least and most landmarks of a hill that only means of balls hold apart


@jit
def _depth(peak, pass_):
    """Return the natural logarithm of how many times denser a peak is than a pass."""
    return log(max(peak, _SMALLEST)) - log(max(pass_, _SMALLEST))


@inline
def is_apart(now, u, v):
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
def weigh(model, rules, errors, basins, mass, pair, u, v):
    """Note the clearest valley between the basins of a pair over the scales, and the depth it needs."""
    best, depth, needed, small = -1.0, 0.0, 1.0, _is_small(errors, mass, u, v)
    size = min(basins.size[u], basins.size[v])
    apart = is_apart(basins.now, u, v)
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
def look_along(model, rules, errors, basins, pair, member, mean, mass):
    """Note the valley on the line between two groups where it is clearer than what the balls show; say whether."""
    depth, needed, u, v = basins.depth, basins.needed, basins.sides[pair, 0], basins.sides[pair, 1]
    found, error2 = measure_slabs(model, member, mean, mass, u, v)
    if error2 <= 0.0:
        return False
    apart = is_apart(basins.now, u, v)
    small = _is_small(errors, mass, u, v)
    error2 *= _ALONG if small and errors.many else 1.0
    error = np.sqrt(model.dispersion[0] * _left_of_excess(model, apart) * error2)
    need = _need(rules, errors, error, small, apart)
    if found * needed[pair] <= depth[pair] * need:
        return False
    depth[pair], needed[pair] = found, need
    return True


@jit
def errors_of(model, rules, dimension):
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
    many = growth > 1.0 and lasting > _MANY_CLUSTERS
    some = many or lasting > _FEW_CLUSTERS * growth
    records = _ALIKE * model.mass[: model.landmarks].sum() / lasting if some else 0.0
    piece = (_PIECE if dimension <= PLAIN else np.inf, model.landmarks / _PIECES)
    return Errors(min(_MAX_ERRORS, most) * wider, min(_MAX_ERRORS, fewest) * wider, records, many, piece)


@jit
def shallowest(basins):
    """Return the pair with the shallowest valley beside what it needs; -1 where every valley is deep enough."""
    least, found = 1.0, -1
    for pair in range(len(basins.needed)):
        if basins.needed[pair] > 0.0 and basins.depth[pair] / basins.needed[pair] < least:
            least, found = basins.depth[pair] / basins.needed[pair], pair
    return found


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
