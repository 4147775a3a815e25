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
_RARE = 0.05
"""Share of the records that rare clusters have together: what is usual is what the others are."""


@jit
def measure_ranges(model):
    """Write the middle of every cluster by feature, and one over how far a record may be from it; 0 for unknown."""
    clusters, middle, narrow = model.clusters, model.middle, model.narrow
    # The last one is of all landmarks: a cluster with few of them has their range.
    centre, square, farthest, nodes = np.empty((4, clusters + 1))
    nodes[:clusters], nodes[clusters] = model.nodes[:clusters], model.nodes[:clusters].sum()
    for f in range(len(model.at)):
        centre[:], square[:], farthest[:] = 0.0, 0.0, 0.0
        for i in range(model.landmarks):
            if model.place[i] >= 0:
                centre[model.place[i]] += model.at[f, i]
                centre[clusters] += model.at[f, i]
        for c in range(clusters + 1):
            centre[c] /= max(1.0, nodes[c])
        for i in range(model.landmarks):
            if model.place[i] >= 0:
                for c in (model.place[i], clusters):
                    gap = abs(model.at[f, i] - centre[c])
                    square[c] += gap * gap
                    farthest[c] = max(farthest[c], gap)
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
def measure_usual(model):
    """Write the middle of most records of every cluster by feature, and one over how far one may be from it."""
    clusters, tail = model.clusters, min(_TAIL, _TAILS / len(model.at))
    # As above, few landmarks show no range.
    widths, known = 0.5 * _DEVIATIONS / _deviations(tail), model.nodes[:clusters].sum() >= _FEWEST
    records, of = model.records[:clusters], np.empty(clusters, dtype=np.int64)
    # The last one is of all, which clusters of few landmarks and rare ones have.
    mass, counted, low, high = np.zeros((4, clusters + 1))
    mass[:clusters] = group_masses(model, model.place, clusters)
    mass[clusters] = mass.sum()
    few = _RARE * records.sum()
    for c in range(clusters):
        rarer = 0
        for other in records:
            rarer += other * (other <= records[c])
        of[c] = c if model.nodes[c] >= _FEWEST and rarer >= few else clusters
    for f in range(len(model.at)):
        counted[:], low[:], high[:] = 0.0, 0.0, 0.0
        for i in stable_order(model.at[f, : model.landmarks]):
            if model.place[i] < 0:
                continue
            for c in (model.place[i], clusters):
                if counted[c] <= tail * mass[c]:
                    low[c] = model.at[f, i]
                if counted[c] < (1.0 - tail) * mass[c]:
                    high[c] = model.at[f, i]
                counted[c] += model.mass[i]
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
