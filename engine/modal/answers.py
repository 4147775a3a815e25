"""What a record is answered: the cluster of its nearest landmark, and how far it is outside of what the cluster has.

Beside the distance to landmarks, which many features make up together, each feature has a range in a cluster: one that
is far outside is unlike all before, however usual the others are. What is known may still be unusual, as a fault that
is back: the score compares with the range of most records, which rare ones do not widen.
"""

import numpy as np
from resonance.engine.labels import majority_labels
from resonance.engine.modal.nearest import nearest, squared_distances
from resonance.engine.modal.slabs import group_masses
from resonance.kernels.arithmetic import inline, jit, log
from resonance.kernels.ordering import nearest_marked, stable_order

UNUSUAL = 0.5
"""Score of a record at the edge of what is usual."""

_DEVIATIONS, _FARTHEST, _LEAST = 6.0, 2.0, 0.05
"""How far from the middle of its cluster a feature may be: so many standard deviations of the landmarks, or as many
times as far as the farthest of them, or this part of the range that the feature had at first; the largest counts."""
_FEWEST = 16
"""Landmarks that show a range: of fewer the deviation is too uncertain, and what is odd would be its own measure."""
_TAIL, _TAILS = 0.02, 0.2
"""Share of the records that is farther out than what is usual, on either side of a feature, and of all features."""
_BINS, _NARROWEST = 32, 1e-290
"""Parts of the range of a group's values by which the ends of tails are found, and the least range that has them."""
_RARE = 0.05
"""Share of the records that rare clusters have together: what is usual is what the others are."""


@jit
def _measure_spreads(values, group, nodes, centre, square, farthest):
    """Write the mean of the values of each group, the squared distances from it in all, and the farthest one."""
    centre[:], square[:], farthest[:] = 0.0, 0.0, 0.0
    for i in range(len(values)):
        if group[i] >= 0:
            centre[group[i]] += values[i]
    for g in range(len(nodes)):
        centre[g] /= max(1.0, nodes[g])
    for i in range(len(values)):
        if group[i] >= 0:
            gap = abs(values[i] - centre[group[i]])
            square[group[i]] += gap * gap
            farthest[group[i]] = max(farthest[group[i]], gap)


@jit
def measure_ranges(model):
    """Write the middle of every cluster by feature, and one over how far a record may be from it; 0 for unknown."""
    clusters, middle, narrow = model.clusters, model.middle, model.narrow
    # The last one is of all landmarks: a cluster with few of them has their range.
    centre, square, farthest, nodes = np.zeros((4, clusters + 1))
    nodes[:clusters], nodes[clusters] = model.nodes[:clusters], model.nodes[:clusters].sum()
    place, own, last = model.place[: model.landmarks], slice(0, clusters), slice(clusters, clusters + 1)
    every, few = np.minimum(place, 0), (nodes[own] < _FEWEST).any()
    for f in range(len(model.at)):
        values = model.at[f, : model.landmarks]
        _measure_spreads(values, place, nodes[own], centre[own], square[own], farthest[own])
        if few:
            _measure_spreads(values, every, nodes[last], centre[last], square[last], farthest[last])
        for c in range(clusters):
            of = c if nodes[c] >= _FEWEST else clusters
            middle[c, f], narrow[c, f] = centre[of], 0.0
            if nodes[of] >= _FEWEST:
                deviations = _DEVIATIONS * np.sqrt(square[of] / nodes[of])
                narrow[c, f] = 1.0 / max(_LEAST, deviations, _FARTHEST * farthest[of])


@jit
def _deviations(tail):
    """Return how many standard deviations out that share of a Gaussian begins (Abramowitz and Stegun, 26.2.22)."""
    t = np.sqrt(-2.0 * log(tail))
    return t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + 0.04481 * t))


@jit
def _measure_tails(values, group, masses, whole, tail, low, high):
    """Write from which value to which one the records of each group lie but for a tail on either side.

    `masses` are the records that a value is of, `whole` those of each group; a value in group -1 is in none. Bins of
    equal width say where tails end: only the values in those are put in order.
    """
    count, groups = len(values), len(whole)
    least, most, bin_of = np.full(groups, np.inf), np.full(groups, -np.inf), np.full(count, -1, dtype=np.int64)
    for i in range(count):
        if group[i] >= 0:
            least[group[i]], most[group[i]] = min(least[group[i]], values[i]), max(most[group[i]], values[i])
    bins, ends, below = np.zeros((groups, _BINS)), np.zeros((groups, 2), dtype=np.int64), np.zeros((groups, 2))
    factor = _BINS / np.maximum(most - least, _NARROWEST)
    for i in range(count):
        g = group[i]
        if g >= 0:
            bin_of[i] = min(_BINS - 1, np.int64((values[i] - least[g]) * factor[g]))
            bins[g, bin_of[i]] += masses[i]
    for g in range(groups):
        before = 0.0
        for at in range(_BINS):
            if bins[g, at] > 0.0 and before <= tail * whole[g]:
                ends[g, 0], below[g, 0] = at, before
            if bins[g, at] > 0.0 and before < (1.0 - tail) * whole[g]:
                ends[g, 1], below[g, 1] = at, before
            before += bins[g, at]
    some, found = np.empty(count, dtype=np.int64), 0
    for i in range(count):
        if group[i] >= 0 and (bin_of[i] == ends[group[i], 0] or bin_of[i] == ends[group[i], 1]):
            some[found] = i
            found += 1
    for at in stable_order(values[some[:found]]):
        i = some[at]
        g = group[i]
        if bin_of[i] == ends[g, 0]:
            if below[g, 0] <= tail * whole[g]:
                low[g] = values[i]
            below[g, 0] += masses[i]
        if bin_of[i] == ends[g, 1]:
            if below[g, 1] < (1.0 - tail) * whole[g]:
                high[g] = values[i]
            below[g, 1] += masses[i]


@jit
def measure_usual(model):
    """Write the middle of most records of every cluster by feature, and one over how far one may be from it."""
    clusters, tail = model.clusters, min(_TAIL, _TAILS / len(model.at))
    # As above, few landmarks show no range.
    widths, known = 0.5 * _DEVIATIONS / _deviations(tail), model.nodes[:clusters].sum() >= _FEWEST
    records, of = model.records[:clusters], np.empty(clusters, dtype=np.int64)
    # The last one is of all, which clusters of few landmarks and rare ones have.
    whole, low, high = np.zeros((3, clusters + 1))
    whole[:clusters] = group_masses(model, model.place, clusters)
    whole[clusters] = whole.sum()
    few = _RARE * records.sum()
    for c in range(clusters):
        rarer = 0
        for other in records:
            rarer += other * (other <= records[c])
        of[c] = c if model.nodes[c] >= _FEWEST and rarer >= few else clusters
    place, masses = model.place[: model.landmarks], model.mass[: model.landmarks]
    every, own, last = np.minimum(place, 0), slice(0, clusters), slice(clusters, clusters + 1)
    some = (of == clusters).any()
    for f in range(len(model.at)):
        values = model.at[f, : model.landmarks]
        _measure_tails(values, place, masses, whole[own], tail, low[own], high[own])
        if some:
            _measure_tails(values, every, masses, whole[last], tail, low[last], high[last])
        for c in range(clusters):
            lowest, highest = low[of[c]], high[of[c]]
            model.usual[c, f] = 0.5 * (lowest + highest)
            model.unusual[c, f] = 1.0 / max(_LEAST, widths * (highest - lowest)) if known else 0.0


@inline
def _farthest(x, middle, narrow):
    """Return the largest distance of a feature from a middle, in what it may be, squared; 0 where that is not known."""
    most = 0.0
    for f in range(len(x)):
        most = max(most, abs(x[f] - middle[f]) * narrow[f])
    return most * most


@jit
def _nearest_in_cluster(model, x, squared):
    """Return the nearest landmark that is in a cluster, -1 for none; `squared` gets the distances to all."""
    squared_distances(model.at, 0, model.landmarks, x, squared)
    return nearest_marked(squared, model.place, model.landmarks, np.inf)[0]


@jit
def answer(model, rules, x, gap, near, squared):
    """Return whether a record is within reach of its nearest landmark, its cluster's place, and its score.

    `gap` is the squared distance to that landmark, `near`; `squared` is room for as many as landmarks. A record beside
    a landmark in no cluster is compared with the nearest one that is in one, and has half its score.
    """
    within = gap <= rules.squared_reach * model.radius2[near]
    if model.clusters == 0:
        return within, np.int64(-1), np.nan
    place, compared, whole = model.place[near], near, 1.0
    if place < 0:
        compared, whole = _nearest_in_cluster(model, x, squared), 0.5
        if compared < 0:
            return within, np.int64(-1), 0.0
        gap = squared[compared]
    outside = 0.0
    if gap > 0.0:
        radius2 = model.radius2[compared]
        outside = gap / (rules.squared_reach * radius2) if radius2 > 0.0 else np.inf
    at = model.place[compared]
    known = _farthest(x, model.middle[at], model.narrow[at])
    within = within and known <= 1.0
    far = max(outside, known, _farthest(x, model.usual[at], model.unusual[at]))
    return within, place if within else np.int64(-1), whole / (1.0 + far)


@inline
def is_novel(model, within, place):
    """Whether a record is new: before there are clusters, what is like a landmark is not."""
    return not within or (place < 0 and model.clusters > 0)


@jit
def name_outside(model, rules, x, near, squared, outside):
    """Write the features in which a record is unusual in the cluster that `answer` compared it with, farthest first.

    Each is a row of `outside`: its column, its value, and between which values nearly all records are, which is half as
    far from the middle as a record may be. Where there is none, it is the feature that is out of reach of the records
    that are like it otherwise.
    """
    compared = near if model.place[near] >= 0 else _nearest_in_cluster(model, x, squared)
    if compared < 0:
        return
    at = model.place[compared]
    known, usual = np.abs(x - model.middle[at]) * model.narrow[at], np.abs(x - model.usual[at]) * model.unusual[at]
    parts = np.maximum(known, usual)
    for row in outside:
        f = np.argmax(parts)
        if parts[f] <= 0.5:
            break
        middle, narrow = model.usual[at, f], model.unusual[at, f]
        if known[f] > usual[f]:
            middle, narrow = model.middle[at, f], model.narrow[at, f]
        row[0], row[1], row[2], row[3] = f, x[f], middle - 0.5 / narrow, middle + 0.5 / narrow
        parts[f] = 0.0
    if np.isnan(outside[0, 0]):
        gaps, reach = np.abs(x - model.at[:, compared]), 0.5 * np.sqrt(rules.squared_reach * model.radius2[compared])
        f = np.argmax(gaps)
        if gaps[f] > reach:
            outside[0, 0], outside[0, 1] = f, x[f]
            outside[0, 2], outside[0, 3] = model.at[f, compared] - reach, model.at[f, compared] + reach


@jit
def predict_batch(model, rules, X, squared, cluster, score, novel, label):
    """Answer for a batch: the cluster of the nearest landmark, and the majority label of the nearest that has one."""
    landmarks = model.landmarks
    if landmarks == 0:
        novel[:] = True
        return
    majority, room = majority_labels(model.votes, landmarks), np.empty(len(squared))
    labelled = majority.max() >= 0
    for t in range(len(X)):
        squared_distances(model.at, 0, landmarks, X[t], squared)
        near = nearest(squared, landmarks)
        within, place, score[t] = answer(model, rules, X[t], squared[near], near, room)
        novel[t] = is_novel(model, within, place)
        if place >= 0:
            cluster[t, 0] = model.cluster_id[place]
        if labelled:
            label[t] = majority[nearest_marked(squared, majority, landmarks, np.inf)[0]]
