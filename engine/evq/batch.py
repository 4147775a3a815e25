"""A batch learned, or answered, by one model."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.evq.layout import FRESH, HELD, ID, RADIUS, SUPPORT, K, N
from resonance.engine.evq.merge import consolidate, merge_winner
from resonance.engine.evq.split import split
from resonance.engine.evq.step import found, keep_record, move, nearest, note_range, score_of, squared_distance
from resonance.engine.labels import majority_label


@jit
def learn_batch(model, rules, X, labels, start, work, cluster, score, novel, node):
    """Learn a batch from record `start` on; return the first record that was not learned.

    A record adds at most one cluster, the last of a warm-up that much for each that waited; where there is no room for
    that the batch is interrupted before it.
    """
    head, slots = model.head, len(model.slot)
    for t in range(start, len(X)):
        n = head[N]
        waits = rules.running and n < rules.warmup
        ends = waits and n + 1 == rules.warmup
        consolidates = rules.consolidate_every > 0 and (n + 1) % rules.consolidate_every == 0
        learned = rules.warmup if ends else 1
        if slots < rules.max_clusters and head[K] + learned > slots:
            return t

        i, squared = nearest(model, rules, X[t])
        cluster[t, 0] = model.number[i, ID] if i >= 0 else -1
        score[t] = score_of(squared, model.shape[i, RADIUS]) if i >= 0 else np.nan
        if rules.running:
            note_range(model, rules, X[t])
        head[N] = n + 1
        novel[t] = False
        node[t, 0] = -1
        if waits:
            for a in range(rules.d):
                model.waiting[n, a] = X[t, a]
            model.waiting_label[n] = labels[t]
        if ends or not waits:
            for s in range(learned):
                x = model.waiting[s] if ends else X[t]
                label, number = (model.waiting_label[s], s) if ends else (labels[t], n)
                if ends or (rules.euclidean and rules.running):
                    i, squared = nearest(model, rules, x)  # ranges have moved, or a cluster has come
                if i < 0 or np.sqrt(squared) > model.shape[i, RADIUS]:
                    i = found(model, rules, x, label, number, t, i, squared, work)
                    cluster[t, 0] = -1
                    novel[t] = True
                    continue
                novel[t] = False
                move(model, rules, i, x, number, work)
                if label >= 0:
                    model.votes[i, label] += 1
                if rules.splits:
                    keep_record(model, rules, i, x, label, number)
                if rules.merges and model.number[i, SUPPORT] % rules.check_every == 0:
                    i = merge_winner(model, rules, t, i, work)
                if (
                    rules.splits
                    and model.number[i, FRESH] >= rules.check_every
                    and model.number[i, HELD] >= rules.min_sub
                ):
                    model.number[i, FRESH] = 0
                    i = split(model, rules, t, i, x, work)
            node[t, 0] = model.number[i, ID]
        if consolidates:
            consolidate(model, rules, t, work)
    return len(X)


@jit
def predict_batch(model, rules, X, cluster, score, label):
    """Answer for a batch: the nearest cluster if it is near enough, and the majority label of the nearest with any."""
    clusters = model.head[K]
    if clusters == 0:
        return
    majority = np.empty(len(model.slot), dtype=np.int64)
    for at in range(clusters):
        majority[model.slot[at]] = majority_label(model.votes[model.slot[at]])
    for t in range(len(X)):
        i, squared = nearest(model, rules, X[t])
        if np.sqrt(squared) <= model.shape[i, RADIUS]:
            cluster[t, 0] = model.number[i, ID]
        score[t] = score_of(squared, model.shape[i, RADIUS])
        label[t] = majority[i]
        if label[t] >= 0 or model.votes.shape[1] == 0:
            continue
        best = np.inf
        for at in range(clusters):
            if majority[model.slot[at]] >= 0:
                squared = squared_distance(model, rules, model.slot[at], X[t])
                if label[t] < 0 or squared < best:
                    best, label[t] = squared, majority[model.slot[at]]
