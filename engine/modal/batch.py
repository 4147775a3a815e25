"""A batch learned, or answered, by one model."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.labels import majority_label
from resonance.engine.modal import layout
from resonance.engine.modal.cells import END, UNFILLED, fill_cells, find_nearest
from resonance.engine.modal.landmarks import add_landmark, is_wanted
from resonance.engine.modal.neighbours import nearest, squared_distances
from resonance.engine.modal.reading import is_due


@jit
def _answer(model, rules, squared, near):
    """Return whether a record is within reach of its nearest landmark, its cluster's place, and its score.

    The score is halved where the landmark is in no cluster: it says how far the record is from clusters.
    """
    radius2 = model.real[layout.RADIUS2, near]
    within = squared <= rules.squared_reach * radius2
    place = model.number[layout.PLACE, near] if within else -1
    if model.head[layout.CLUSTERS] == 0:
        return within, place, np.nan
    whole = 1.0 if model.number[layout.PLACE, near] >= 0 else 0.5
    if squared <= 0.0:
        return within, place, whole
    if radius2 <= 0.0:
        return within, place, 0.0
    return within, place, whole / (1.0 + squared / (rules.squared_reach * radius2))


@jit
def _repeats(model, x):
    """Whether a record equals the one before; note it as the last."""
    same = model.head[layout.N] > 0
    for f in range(len(x)):
        same = same and model.previous[f] == x[f]
        model.previous[f] = x[f]
    return same


@jit
def learn_batch(model, rules, cells, X, labels, start, squared, cluster, score, novel, node):
    """Learn a batch from record `start` on, until a reading is due or there is no room for a landmark.

    Return the first record that was not learned, and whether a reading is due.
    """
    head, number, slots = model.head, model.number, model.number.shape[1]
    if cells.head[END] == UNFILLED:
        fill_cells(model, cells)
    for t in range(start, len(X)):
        if head[layout.LANDMARKS] == slots and slots < rules.landmarks:
            return t, False
        x, landmarks = X[t], head[layout.LANDMARKS]
        repeated = _repeats(model, x)
        head[layout.N] += 1
        head[layout.CLOCK] += not repeated
        near, place, gap, unlike = np.int64(-1), np.int64(-1), np.inf, True
        cluster[t, 0], score[t] = -1, np.nan
        if landmarks > 0:
            near, gap = find_nearest(model, cells, x, not repeated)
            within, place, score[t] = _answer(model, rules, gap, near)
            unlike = not within
            if gap <= model.real[layout.RADIUS2, near]:
                number[layout.LAST, near] = head[layout.N]
            node[t, 0] = number[layout.ID, near]
        if place >= 0:
            cluster[t, 0] = model.cluster[layout.CLUSTER_ID, place]
        elif unlike or model.real[layout.SPAN, near] < 0.0:
            # Beside an outlier of long ago nothing begins.
            head[layout.UNPLACED] += 1
        # Before there are clusters, what is like a landmark is not new.
        novel[t] = unlike or (place < 0 and head[layout.CLUSTERS] > 0)
        # One landmark stands for the record: itself, or the nearest.
        if landmarks == 0 or is_wanted(model, rules, gap, near, unlike):
            j = add_landmark(model, rules, cells, x, labels[t], place, squared)
            if novel[t]:
                node[t, 0] = number[layout.ID, j]
        elif not unlike:
            model.real[layout.MASS, near] += 1.0
            number[layout.COUNT, near] += 1
            if labels[t] >= 0:
                model.votes[near, labels[t]] += 1
        if place >= 0:
            model.cluster[layout.RECORDS, place] += 1
        if is_due(model, rules):
            # Whatever happens in it, these are no cells of it any more.
            cells.head[END] = UNFILLED
            return t + 1, True
    return len(X), False


@jit
def predict_batch(model, rules, X, squared, cluster, score, label):
    """Answer for a batch: the cluster of the nearest landmark, and the majority label of the nearest that has one."""
    landmarks = model.head[layout.LANDMARKS]
    if landmarks == 0:
        return
    majority = np.empty(landmarks, dtype=np.int64)
    for i in range(landmarks):
        majority[i] = majority_label(model.votes[i])
    for t in range(len(X)):
        squared_distances(model.at, 0, landmarks, X[t], squared)
        near = nearest(squared, landmarks)
        _, place, score[t] = _answer(model, rules, squared[near], near)
        if place >= 0:
            cluster[t, 0] = model.cluster[layout.CLUSTER_ID, place]
        best = np.inf
        for i in range(landmarks):
            if majority[i] >= 0 and squared[i] < best:
                best, label[t] = squared[i], majority[i]
