"""A batch learned, or answered, by one model."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.events import EMERGED, NO_PATH, NO_REASON, VANISHED, emit
from resonance.engine.ordering import stable_order
from resonance.engine.sa_art.choice import compare, first_choice, search
from resonance.engine.sa_art.layout import CW, EVENTS, MEAN, SQUARES, D, K, N, S, W, found
from resonance.engine.sa_art.update import teach

MATCH = 1
CRITERIA = ("", "match")
DESCRIBED = 5
"""Numbers that describe a feature of a category."""


@jit
def compressed(X):
    """Return a dense batch in compressed sparse rows, without what is not above 0."""
    count = 0
    for t in range(X.shape[0]):
        for i in range(X.shape[1]):
            count += X[t, i] > 0.0
    indices, data, indptr = np.empty(count, dtype=np.int64), np.empty(count), np.zeros(len(X) + 1, dtype=np.int64)
    at = 0
    for t in range(X.shape[0]):
        for i in range(X.shape[1]):
            x = X[t, i]
            if x > 0.0:
                indices[at], data[at] = i, x if x < 1.0 else 1.0
                at += 1
        indptr[t + 1] = at
    return indices, indptr, data


@jit
def described(categories, rules, slot, names, entries):
    """Return id and size of a category; feature, centre, spread, weight and salience of its features, in their order.

    SA-ART's centre and spread are mean and standard deviation; those of Fuzzy ART are the middle and half the width
    of the category's box, which without complement coding is one point.
    """
    used = categories.used[slot]
    row = np.empty((1, 2 + DESCRIBED * used))
    row[0, 0], row[0, 1] = categories.id[slot], categories.size[slot]
    out = row[0, 2:].reshape(DESCRIBED, used)
    order = stable_order(names[:used])
    for r in range(used):
        k = order[r]
        out[0, r] = names[k]
        out[3, r] = entries[W, k]
        if rules.salient:
            out[1, r] = entries[MEAN, k]
            out[2, r] = np.sqrt(entries[SQUARES, k] / categories.size[slot])
            out[4, r] = entries[S, k]
        else:
            low = entries[W, k]
            # Rounding may leave the upper end a little below the lower one.
            high = max(low, 1.0 - entries[CW, k]) if rules.complement else low
            out[1, r] = 0.5 * (low + high)
            out[2, r] = 0.5 * (high - low)
            out[4, r] = 1.0
    return row


@jit
def emit_category(categories, features, fields, rules, record, kind, slot, why, log):
    """Append an event to the log: the category of a slot has come, or goes."""
    row, gone = described(categories, rules, slot, features[slot], fields[slot]), 1 if kind == VANISHED else 0
    emit(categories.head, EVENTS, NO_PATH, record, (kind, categories.id[slot], -1), why, row[:gone], row[gone:], log)


@jit
def learn_batch(
    categories, features, fields, rules, indices, indptr, data, labels, start, log, cluster, score, novel, node
):
    """Learn the records of a batch from `start` on; return the first for which there is no room yet, or the end."""
    head = categories.head
    values = np.empty(categories.w.shape[0])
    for t in range(start, len(indptr) - 1):
        a, b = indptr[t], indptr[t + 1]
        names, x = indices[a:b], data[a:b]
        if head[K] == len(categories.id) and head[K] < rules.max_clusters:
            return t
        if b > a and names[b - a - 1] >= categories.w.shape[0]:
            return t
        if b > a and not rules.fixed:
            head[D] = max(head[D], names[b - a - 1] + 1)
        if b == a and not rules.complement:
            continue
        compare(categories, rules, names, x)
        first = first_choice(categories)
        why = (NO_REASON, 0.0, 0.0)
        if first >= 0:
            cluster[t, 0] = categories.id[first]
            score[t] = categories.match[first]
            why = (MATCH, score[t], categories.rho[first])
        winner = search(categories, rules.delta)
        head[N] += 1
        if winner >= 0:
            teach(categories, features, fields, rules, winner, names, x, values)
        else:
            novel[t] = True
            if head[K] == rules.max_clusters:
                gone = np.argmin(categories.won[: head[K]])
                emit_category(categories, features, fields, rules, t, VANISHED, gone, (NO_REASON, 0.0, 0.0), log)
            winner = found(categories, features, fields, rules, names, x)
            emit_category(categories, features, fields, rules, t, EMERGED, winner, why, log)
        categories.won[winner] = head[N]
        node[t, 0] = categories.id[winner]
        if labels[t] >= 0:
            categories.labels[winner, labels[t]] += 1
    return len(indptr) - 1


@jit
def predict_batch(categories, rules, majority, indices, indptr, data, cluster, score, label):
    """Answer for a batch: best choice, its match, and the label of the best choice that has one."""
    for t in range(len(indptr) - 1):
        a, b = indptr[t], indptr[t + 1]
        compare(categories, rules, indices[a:b], data[a:b])
        first = first_choice(categories)
        if first < 0:
            continue
        cluster[t, 0] = categories.id[first]
        score[t] = categories.match[first]
        for j in range(categories.head[K]):
            if majority[j] < 0:
                categories.choice[j] = 0.0
        first = first_choice(categories)
        if first >= 0:
            label[t] = majority[first]
