"""What a record is answered: the cluster of its nearest landmark, and how far it is outside of what the cluster has.

Beside the distance to landmarks, which many features make up together, each feature has a usual range in a cluster: one
that is far outside is unlike all before, however usual the others are.
"""

import numpy as np
from resonance.engine.labels import majority_label
from resonance.engine.modal.nearest import nearest, squared_distances
from resonance.kernels.arithmetic import inline, jit

_DEVIATIONS, _FARTHEST, _LEAST = 6.0, 2.0, 0.05
"""How far from the middle of its cluster a feature may be: so many standard deviations of the landmarks, or as many
times as far as the farthest of them, or this part of the range that the feature had at first; the largest counts."""
_FEWEST = 16
"""Landmarks that show a range: of fewer the deviation is too uncertain, and what is odd would be its own measure."""


@jit
def measure_ranges(model):
    """Write the middle of every cluster by feature, and one over how far a record may be from it; 0 for unknown."""
    clusters, d = model.clusters, len(model.at)
    middle, narrow = model.middle, model.narrow
    # The last one is of all landmarks: a cluster with few of them has their range.
    square, farthest, nodes = np.empty(clusters + 1), np.empty(clusters + 1), np.empty(clusters + 1)
    centre = np.empty(clusters + 1)
    nodes[:clusters], nodes[clusters] = model.nodes[:clusters], model.nodes[:clusters].sum()
    for f in range(d):
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


@inline
def _part(model, x, place, f):
    """Return the distance of a feature from the middle of a cluster, in what it may be; 0 where that is not known."""
    return abs(x[f] - model.middle[place, f]) * model.narrow[place, f]


@inline
def _excess(model, x, place):
    """Return the largest distance of a feature from the middle of a cluster, in what it may be, squared."""
    most = 0.0
    for f in range(len(x)):
        most = max(most, _part(model, x, place, f))
    return most * most


@jit
def _nearest_in_cluster(model, x, squared):
    """Return the nearest landmark that is in a cluster, -1 for none; `squared` gets the distances to all."""
    squared_distances(model.at, 0, model.landmarks, x, squared)
    found, least = -1, np.inf
    for i in range(model.landmarks):
        if model.place[i] >= 0 and squared[i] < least:
            found, least = i, squared[i]
    return found


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
    excess = _excess(model, x, model.place[compared])
    within = within and excess <= 1.0
    return within, place if within else np.int64(-1), whole / (1.0 + max(outside, excess))


@inline
def is_novel(model, within, place):
    """Whether a record is new: before there are clusters, what is like a landmark is not."""
    return not within or (place < 0 and model.clusters > 0)


@jit
def name_outside(model, x, near, squared, outside):
    """Write the features in which a record is outside of the cluster that `answer` compared it with, farthest first.

    Each is a row of `outside`: its column, its value, and between which values the cluster usually is, which is half as
    far from its middle as a record may be.
    """
    compared = near if model.place[near] >= 0 else _nearest_in_cluster(model, x, squared)
    if compared < 0:
        return
    place, parts = model.place[compared], np.empty(len(x))
    for f in range(len(x)):
        parts[f] = _part(model, x, place, f)
    for row in outside:
        f = np.argmax(parts)
        if parts[f] <= 0.5:
            return
        middle, usual = model.middle[place, f], 0.5 / model.narrow[place, f]
        row[0], row[1], row[2], row[3] = f, x[f], middle - usual, middle + usual
        parts[f] = 0.0


@jit
def predict_batch(model, rules, X, squared, cluster, score, novel, label):
    """Answer for a batch: the cluster of the nearest landmark, and the majority label of the nearest that has one."""
    landmarks = model.landmarks
    if landmarks == 0:
        novel[:] = True
        return
    majority, room = np.empty(landmarks, dtype=np.int64), np.empty(len(squared))
    for i in range(landmarks):
        majority[i] = majority_label(model.votes[i])
    for t in range(len(X)):
        squared_distances(model.at, 0, landmarks, X[t], squared)
        near = nearest(squared, landmarks)
        within, place, score[t] = answer(model, rules, X[t], squared[near], near, room)
        novel[t] = is_novel(model, within, place)
        if place >= 0:
            cluster[t, 0] = model.cluster_id[place]
        best = np.inf
        for i in range(landmarks):
            if majority[i] >= 0 and squared[i] < best:
                best, label[t] = squared[i], majority[i]
