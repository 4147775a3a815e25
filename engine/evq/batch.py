"""A batch learned, or answered, by one model."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.caea_batch import majority_label
from resonance.engine.evq.merge import consolidate, merge_winner
from resonance.engine.evq.model import K, N
from resonance.engine.evq.split import split
from resonance.engine.evq.step import found, keep_record, move, nearest, note_range, score_of, squared_distance


@jit
def _learn_one(model, rules, x, label, number, t, i, squared, log, work):
    """Learn one record, `squared` from its nearest slot `i`, by the steps 2-6.

    Returns
    -------
    slot : int
        That holds it then.
    founded : bool
        Whether it founded that.
    """
    if i < 0:
        return found(model, rules, x, label, number, t, 0.0, -1.0, log, work), True
    radius = model.radius[i]
    if np.sqrt(squared) > radius:
        return found(model, rules, x, label, number, t, squared, radius, log, work), True
    move(model, rules, i, x, number, work)
    if label >= 0:
        model.votes[i, label] += 1
    if rules.splits:
        keep_record(model, rules, i, x, label, number)
    if rules.merges and model.k[i] % rules.check_every == 0:
        i = merge_winner(model, rules, t, i, log, work)
    if rules.splits and model.fresh[i] >= rules.check_every and model.held[i] >= rules.min_sub:
        model.fresh[i] = 0
        i = split(model, rules, t, i, x, log, work)
    return i, False


@jit
def learn_batch(model, rules, X, labels, start, log, work, cluster, score, novel, node, counted):
    """Learn a batch from record `start` on; return the first record for which there is no room, or the end.

    A record adds at most one cluster; the last of a warm-up, which learns all that waited, one for each of them.
    """
    head, slots = model.head, len(model.slot)
    for t in range(start, len(X)):
        x, n = X[t], head[N]
        waits = rules.running and n < rules.warmup
        need = rules.warmup if waits else 1
        if slots < rules.max_clusters and head[K] + need > slots:
            return t
        i, squared = nearest(model, rules, x)
        cluster[t, 0] = -1
        score[t] = np.nan
        if i >= 0:
            cluster[t, 0] = model.id[i]
            score[t] = score_of(squared, model.radius[i])
        if rules.running:
            note_range(model, rules, x)
        head[N] = n + 1
        novel[t] = False
        node[t, 0] = -1
        if not waits:
            if rules.euclidean and rules.running:
                i, squared = nearest(model, rules, x)  # the record itself has moved the ranges
            i, novel[t] = _learn_one(model, rules, x, labels[t], n, t, i, squared, log, work)
            node[t, 0] = model.id[i]
        else:
            for a in range(rules.d):
                model.waiting[n, a] = x[a]
            model.waiting_label[n] = labels[t]
            if n + 1 == rules.warmup:
                for s in range(rules.warmup):
                    i, squared = nearest(model, rules, model.waiting[s])
                    i, novel[t] = _learn_one(
                        model, rules, model.waiting[s], model.waiting_label[s], s, t, i, squared, log, work
                    )
                node[t, 0] = model.id[i]
        if rules.consolidate_every > 0 and head[N] % rules.consolidate_every == 0:
            consolidate(model, rules, t, log, work)
        if len(counted) > 0:
            counted[t] = head[K]
    return len(X)


@jit
def consolidate_now(model, rules, log, work):
    """Consolidate on request: what is told then concerns no record of a batch."""
    consolidate(model, rules, -1, log, work)


@jit
def predict_batch(model, rules, X, cluster, score, novel, label):
    """Answer for a batch: the nearest cluster, and the majority label of the nearest one that has any."""
    clusters = model.head[K]
    if clusters == 0:
        return
    majority = np.empty(len(model.slot), dtype=np.int64)
    for at in range(clusters):
        majority[model.slot[at]] = majority_label(model.votes[model.slot[at]])
    for t in range(len(X)):
        i, squared = nearest(model, rules, X[t])
        cluster[t, 0] = model.id[i]
        score[t] = score_of(squared, model.radius[i])
        novel[t] = np.sqrt(squared) > model.radius[i]
        label[t] = majority[i]
        if label[t] >= 0 or model.votes.shape[1] == 0:
            continue
        best = np.inf
        for at in range(clusters):
            if majority[model.slot[at]] >= 0:
                squared = squared_distance(model, rules, model.slot[at], X[t])
                if label[t] < 0 or squared < best:
                    best, label[t] = squared, majority[model.slot[at]]
