"""How dense the stream is around each landmark: records counted in a ball, by the ball's volume."""

import numpy as np
from resonance.engine.modal.counts import begin_pauses, counted, is_walk, keep_variation, length, variation
from resonance.engine.modal.graph import is_young
from resonance.kernels.arithmetic import exp_minus, fma, inline, jit, log
from resonance.kernels.ordering import put_in_order

_JUMP = 3.3
"""Logarithm of the growth in volume from one neighbour to the next that ends a ball: beyond it lies something else.

In a place of even density the growth at the third neighbour exceeds it once in 20,000 landmarks (e**-9.9).
"""
_MIN_JUMP = 2.25
"""The least such growth in squared distance, in many dimensions."""
_FIRST_GAP, _GAP = 735.0, 30.0
"""Growths in squared distance behind the first neighbour, and behind others, that show a gap in any dimension: of
points on a line one in 27 has the first (735**-0.5), and one in 24 the second at one of them (30**-1 + 30**-1.5 ...).
"""
_KNOWN, _MEDIAN = 30, 1.678
"""Places that a median is of at least, and the median of the sum of two exponential variables, as the logarithms of
r3 / r1 and r3 / r2 are, times the dimension."""
_LARGER = 2.0
"""How many times larger it has to be."""
_FEWEST = 3
"""Neighbours in a ball however far they are, but in a young model."""
_ISOLATED, _MIN_ISOLATED = 2.0, 3.0
"""Logarithm of how many times as large a volume a neighbour of a young model is too far away for, and the least such
squared distance: of 12 lone clusters of many shapes, with 1 to 24 dimensions, one or none had two for a while."""
_CLOSED = 1.0 + 2.0**-40
"""A ball is a little larger than the squared distance of its last neighbour, who is inside."""
_SMALLEST = 1e-290
_LARGEST = 1e300
FEWEST_HITS = 1e-3
"""Records that a ball has where none comes any more: an error is one over their root."""
_LN_2 = 0.6931471805599453
_SETTLED = 4
"""A model is settled once so many times the landmarks that it may have were learned: then neighbours vouch."""
_LONGEST_MEMORY = 16
"""Memories that hits are of at most, where the rate stays as it is."""
_AGREE, _OTHER = 4.0, 16.0
"""Squared standard errors by which two rates differ that are not added, which one ball in 22 exceeds by chance, and
from which the older one is forgotten at once but for a part of a memory."""
_FORGOTTEN = 0.5
"""That part."""
_UNEVEN = 0.00015
"""Squared error of a density that no count makes smaller, by landmark of the hill: they lie where chance has put them,
and the longer a hill is, the deeper is its greatest gap."""
_PLANE, _ROUGHNESS = 2.0, 0.004
"""Dimensions above which that is larger, and by how much for each more."""
_EARLY_EVIDENCE, _EVIDENCE = 4.0, 1.5
"""Records counted by neighbours, in those that a new estimate has, from which they vouch before and after that."""


@jit
def logarithm(x):
    """Return the natural logarithm of a number that is not negative, of the smallest ones that of 1e-290."""
    return log(x if x > _SMALLEST else _SMALLEST)


@jit
def _growth(dimension, volume):
    """Return the growth in squared distance by which a volume grows as e to the power of a number."""
    # (r / r')^dimension = e^volume, in squared distances.
    return 1.0 / exp_minus(2.0 * volume / dimension)


@jit
def _jump(dimension):
    """Return the growth in squared distance from one neighbour to the next that ends a ball."""
    if dimension <= 0.0:
        return _MIN_JUMP
    return max(_MIN_JUMP, _growth(dimension, _JUMP))


@jit
def _median_dimension(model, rules, fewest):
    """Return the dimension by the first three neighbours of all landmarks, in the median; 0 for fewer landmarks."""
    growth, known = np.empty(model.landmarks), 0
    for i in range(model.landmarks):
        first, second, third = model.gap[i, 0], model.gap[i, 1], model.gap[i, 2]
        if 0.0 < first < third < np.inf:
            growth[known] = (third / first) * (third / second)
            known += 1
    return min(float(rules.d), 2.0 * _MEDIAN / log(np.median(growth[:known]))) if known >= fewest else 0.0


@jit
def _dimension_of_most(model, rules):
    """Return the dimension, or that in the median where it is much larger.

    Where clusters have few landmarks, balls that reach into the next one make the mean over all neighbours smaller.
    """
    median = _median_dimension(model, rules, _KNOWN)
    return median if median > _LARGER * model.dimension[0] else model.dimension[0]


@jit
def _isolation(model, rules):
    """Return how many times as far as neighbours lie around it one is in no ball, squared; infinite for no such.

    Only of a young model: clusters of few records have too few neighbours of their own for a jump to show. Not of a
    stream that walks: what it has yet to cross is no gap.
    """
    if not is_young(model) or is_walk(model) or model.landmarks <= rules.neighbours:
        return np.inf
    dimension = _median_dimension(model, rules, rules.neighbours + 1)
    return max(_MIN_ISOLATED, _growth(max(1.0, dimension if dimension > 0.0 else rules.d), _ISOLATED))


@jit
def _gap_around(model, rules, i):
    """Return the median squared distance to the second neighbour, of a landmark and its neighbours."""
    ordered = np.empty(rules.neighbours + 1)
    ordered[0] = model.gap[i, 1]
    for a in range(rules.neighbours):
        put_in_order(ordered, a + 1, model.gap[model.listed[i, a], 1])
    return ordered[rules.neighbours // 2]


@inline
def _reach_of_ball(gap, neighbours, jump):
    """Return the squared radius of the ball around a landmark with a list of distances, and who is in it."""
    last = 0
    while last < neighbours and gap[last] < np.inf and (last < _FEWEST or gap[last] <= jump * gap[last - 1]):
        last += 1
    return (gap[last - 1] * _CLOSED if last > 0 else 0.0), last


@jit
def measure_ball(model, rules, i):
    """Return the squared radius of a landmark's ball, and how many neighbours are in it.

    A ball reaches to the last of the nearest `neighbours`, or to the one before a gap.
    """
    return _reach_of_ball(model.gap[i], rules.neighbours, _jump(model.dimension[0]))


@inline
def _is_cut(model, rules, i, inside, jump):
    """Whether a ball of a cluster ends at a gap, or reaches over one because it has to have the fewest neighbours."""
    gap = model.gap[i]
    if model.place[i] < 0 or gap[0] <= 0.0:
        return False
    cut = inside < rules.neighbours and gap[inside] < np.inf
    for a in range(rules.neighbours - 1):
        # A ball over a gap makes the dimension smaller, and the jump larger.
        wide = jump if a >= _FEWEST - 1 else jump * jump
        cut |= min(wide, _FIRST_GAP if a == 0 else _GAP) * gap[a] < gap[a + 1] < np.inf
    return cut


@jit
def measure_balls(model, rules, radius2, inside):
    """Write the squared radius of each ball and how many neighbours are in it.

    Return the intrinsic dimension by the neighbours' distances (Levina and Bickel, 2005), from 1 to d, and how many
    balls of clusters end at a gap or reach over one.
    """
    count, gaps = model.landmarks, model.gap
    jump, isolation = _jump(_dimension_of_most(model, rules)), _isolation(model, rules)
    total, terms, cut = 0.0, 0, 0
    for i in range(count):
        gap = gaps[i]
        radius2[i], inside[i] = _reach_of_ball(gap, rules.neighbours, jump)
        # By gaps alone: more landmarks are no help where records are few.
        cut += _is_cut(model, rules, i, inside[i], jump)
        if isolation < np.inf:
            far = isolation * _gap_around(model, rules, i)
            while inside[i] > 1 and gap[inside[i] - 1] > far:
                inside[i] -= 1
            radius2[i] = gap[inside[i] - 1] * _CLOSED
        last = inside[i]
        if last >= 5 and gap[0] > 0.0:
            # One logarithm, of the product; one that overflows counts as the largest.
            growth = 1.0
            for a in range(last - 1):
                growth *= radius2[i] / gap[a]
            if growth > 1.0:
                total += 0.5 * log(min(growth, _LARGEST)) / (last - 2.0)
                terms += 1
    if terms == 0:
        return float(rules.d), cut
    return max(1.0, min(float(rules.d), terms / total)), cut


@jit
def _neighbours_density(model, i, inside, dimension, clock, evidence):
    """Return the mean logarithm of the densities of the neighbours of `i`, and whether they vouch for it."""
    total, known, hits = 0.0, 0, 0.0
    for a in range(inside):
        j = model.listed[i, a]
        if model.span[j] < 0.0 or model.radius2[j] <= 0.0 or model.since[j] >= clock:
            continue
        total += _log_density(model, j, dimension, clock)
        known += 1
        hits += counted(model, j)
    vouch = known >= 3 and 2 * known >= inside and hits > evidence * known * max(1.0, inside - 1.0)
    return total / max(known, 1), vouch


@jit
def _log_density(model, i, dimension, clock):
    half = 0.5 * dimension * logarithm(model.radius2[i])
    return logarithm(counted(model, i)) - logarithm(length(model, i, clock)) - half


@jit
def estimate_densities(model, rules, radius2, inside, dimension, out):
    """Write the logarithm of the density at each landmark to `out`.

    A landmark counts the records in its ball as long as the ball keeps its volume within a factor of two, and as long
    as their rate stays the same. A new ball begins with what its landmarks have stood for, or with the density of
    neighbours that have counted longer: an estimate beside counts would be a hill or a valley by its error alone.
    """
    count, clock = model.landmarks, model.clock
    mass = 0.0
    for i in range(count):
        mass += model.mass[i]
    evidence = _EVIDENCE if clock > _SETTLED * model.budget else _EARLY_EVIDENCE
    for i in range(count):
        new = model.span[i] < 0.0
        if not new:
            if model.radius2[i] <= 0.0 or radius2[i] <= 0.0:
                new = model.radius2[i] != radius2[i]
            else:
                new = 0.5 * dimension * abs(logarithm(model.radius2[i]) - logarithm(radius2[i])) > _LN_2
        if new:
            begin_count(model, i, radius2[i], inside[i], dimension, clock, evidence, mass)
        _weigh_past(model, rules, i, clock)
        out[i] = _log_density(model, i, dimension, clock)


@inline
def squared_change(hits, span, past, past_span):
    """Return the squared change of a ball's rate, in squared standard errors: 1 on average where it stays.

    `hits` came with the last `span` records, `past` with the `past_span` before; there are some.
    """
    span = max(span, 1.0)
    change, rate = hits / span - past / past_span, (hits + past) / (span + past_span)
    return change * change / (rate * (1.0 / span + 1.0 / past_span))


@jit
def _weigh_past(model, rules, i, clock):
    """Forget what a ball has counted where its rate is another one now; after a memory, add the last hits to the past.

    Where the cluster moves the past is forgotten, and the last hits by halves.
    """
    hits, past, past_span = model.hits[i], model.past_hits[i], model.past_span[i]
    span, pauses = model.span[i] + (clock - model.since[i]), variation(model, i, clock)
    rests = model.place[i] >= 0 and model.rest[model.place[i]] > 0
    most, change = _FORGOTTEN * rules.memory, 0.0
    if past_span > 0.0:
        change = squared_change(hits, span, past, past_span)
    if past_span > most and (change > _OTHER or not rests):
        past, past_span = max(past * (most / past_span), FEWEST_HITS), most
        change = squared_change(hits, span, past, past_span)
    if span > rules.memory:
        model.since[i] = clock
        if rests and change <= _AGREE:
            times = 1.0 if past_span + span <= _LONGEST_MEMORY * rules.memory else 0.5
            past, past_span = max(times * (past + hits), FEWEST_HITS), times * (past_span + span)
            model.hits[i] = model.span[i] = 0.0
        else:
            past = past_span = 0.0
            model.hits[i], model.span[i] = max(0.5 * hits, FEWEST_HITS), 0.5 * span
    model.past_hits[i], model.past_span[i] = past, past_span
    keep_variation(model, i, clock, pauses)


@jit
def begin_count(model, i, radius2, inside, dimension, clock, evidence, mass):
    """Estimate what a ball holds, and count from now on."""
    share = model.mass[i]
    for a in range(inside):
        share += model.mass[model.listed[i, a]]
    hits = max(inside - 1.0, 1.0)
    # The last neighbour is on the edge, and the landmark is there because a record was.
    share *= hits / ((inside + 1.0) * mass)
    mean, vouch = _neighbours_density(model, i, inside, dimension, clock, evidence)
    if vouch and radius2 > 0.0:
        exponent = fma(0.5 * dimension, logarithm(radius2), mean)
        share = 1.0 if exponent >= 0.0 else exp_minus(-exponent)
    model.radius2[i] = radius2
    model.hits[i] = hits
    model.span[i] = hits / max(share, _SMALLEST)
    model.past_hits[i] = model.past_span[i] = 0.0
    model.since[i] = clock
    begin_pauses(model, i, inside, clock)


@jit
def fade(model, rules):
    """Halve what the landmarks have stood for, once it is twice the memory, or more where there are more landmarks."""
    count = model.landmarks
    mass = 0.0
    for i in range(count):
        mass += model.mass[i]
    if mass > 2.0 * rules.memory * (model.budget / rules.landmarks):
        for i in range(count):
            # Not down to nothing: a landmark that is never replaced is halved without end.
            model.mass[i] = max(0.5 * model.mass[i], _SMALLEST)


SCALES = 3
"""Densities as counted, and averaged over a landmark's neighbours once and twice: wide, shallow valleys are seen in
the latter, narrow ones in the former."""
_GAIN = 3.0
"""The most records that an average is of, in those of one ball, in two dimensions; the fewer, the more dimensions."""
_SAMPLED = 32
"""Landmarks by which the overlap of balls is measured."""


@jit
def _measured_gains(model, inside, large):
    """Return, by scale, how many times as many records an average is of as the one at the scale before.

    By the overlap of the balls that are averaged, as the size of a weighted sample: (sum w)^2 / sum w^2.
    """
    count = model.landmarks
    gains = np.ones(SCALES)
    weight, size = np.zeros((SCALES, count)), np.zeros(SCALES)
    reached = np.empty(count, dtype=np.int64)
    for i in range(0, count, max(1, count // _SAMPLED)):
        if not large[i]:
            continue
        # Those with a weight at some scale are those at the next one's beginning; weights are whole numbers.
        length = 0
        for a in range(-1, inside[i]):
            j = i if a < 0 else model.listed[i, a]
            weight[0, j] = 1.0
            reached[length] = j
            length += 1
        for scale in range(1, SCALES):
            for at in range(length):
                j = reached[at]
                w = weight[scale - 1, j]
                for a in range(-1, inside[j]):
                    other = j if a < 0 else model.listed[j, a]
                    if weight[scale - 1, other] == 0.0 and weight[scale, other] == 0.0:
                        reached[length] = other
                        length += 1
                    weight[scale, other] += w
        for scale in range(SCALES):
            total, square = 0.0, 0.0
            for at in range(length):
                w = weight[scale, reached[at]]
                total += w
                square += w * w
            size[scale] += total * total / square
        for at in range(length):
            weight[:, reached[at]] = 0.0
    if size[0] > 0.0:
        for scale in range(1, SCALES):
            gains[scale] = size[scale] / size[scale - 1]
    return gains


@jit
def measure_scales(model, dimension, logs, inside, large, density, records):
    """Write densities, relative to the largest, and the records they are of, at every scale.

    Records are independent ones, fewer than were counted where they come in bursts. Return, by scale, the squared error
    that a density has of where landmarks lie: for each landmark of its hill, and for all.
    """
    count = model.landmarks
    top = -np.inf
    for i in range(count):
        top = max(top, logs[i])
    uneven = np.empty((2, SCALES))
    uneven[0, 0], uneven[1, 0] = _UNEVEN, _ROUGHNESS * max(0.0, dimension - _PLANE)
    for i in range(count):
        density[0, i] = exp_minus(top - logs[i])
        records[0, i] = counted(model, i) / model.dispersion[0]
    most = 1.0 + (_GAIN - 1.0) * 2.0 / max(dimension, 2.0)
    gains = _measured_gains(model, inside, large)
    for scale in range(1, SCALES):
        uneven[:, scale] = uneven[:, scale - 1] / min(most, gains[scale])
        for i in range(count):
            total, hits, terms = density[scale - 1, i], records[scale - 1, i], 1.0
            if large[i]:
                for a in range(inside[i]):
                    j = model.listed[i, a]
                    if large[j]:
                        total += density[scale - 1, j]
                        hits += records[scale - 1, j]
                        terms += 1.0
            density[scale, i] = total / terms
            records[scale, i] = hits / terms * min(terms, most, gains[scale])
    return uneven
