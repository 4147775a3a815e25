"""A batch learned, or answered, by one model; clusters that overlap become one: (17)-(22), as corrected."""

import numpy as np
from resonance.engine.events import ABSORBED
from resonance.engine.evq.layout import (
    OVERLAP,
    emit,
    note_further,
    note_shape,
    place_of,
    remove,
    shapes_of,
)
from resonance.engine.evq.split import split
from resonance.engine.evq.step import (
    add_cluster,
    keep_record,
    move,
    nearest,
    note_range,
    score_of,
    set_inverse,
    squared_distance,
)
from resonance.engine.labels import majority_labels
from resonance.engine.matrices import factor, squared_norm
from resonance.kernels.arithmetic import exp_minus, inline, jit, log, log1p

_NONE = -np.inf


@inline
def _logdet(model, rules, i, work):
    """Return ln det C of slot `i`, which is taken once for each C."""
    if np.isnan(model.logdet[i]):
        model.logdet[i] = factor(model.cov[i], rules.d, work.scale, work.upper)
    return model.logdet[i]


@jit
def overlap(model, rules, i, j, work):
    """Return 1 - the Bhattacharyya distance of the normals of two slots (17), corrected; -inf where it is not > thr.

    The distance is at least ``|c_i - c_j|^2 / (4 (trace C_i + trace C_j))``: what is far apart needs no factor.
    """
    d = rules.d
    v, s = work.v, work.square
    gap = 0.0
    for a in range(d):
        v[a] = model.centre[i, a] - model.centre[j, a]
        gap += v[a] * v[a]
    if gap * (1.0 - 1e-9) > 4.0 * (1.0 - rules.thr) * (model.trace[i] + model.trace[j]):
        return _NONE
    halves = (_logdet(model, rules, i, work) + _logdet(model, rules, j, work)) / 2.0
    for a in range(d):
        for b in range(d):
            s[a, b] = (model.cov[i, a, b] + model.cov[j, a, b]) / 2.0
    logdet = factor(s, d, work.scale, work.upper)
    value = 1.0 - (squared_norm(work.scale, work.upper, d, v) / 8.0 + (logdet - halves) / 2.0)
    return value if value > rules.thr else _NONE


@jit
def _union(model, rules, i, j, cov, centre):
    """Write centre and covariance of the union of two slots (21)(22), corrected; return its support."""
    k = model.support[i] + model.support[j]
    share_i, share_j = model.support[i] / k, model.support[j] / k
    centre[:] = share_i * model.centre[i] + share_j * model.centre[j]
    for a in range(rules.d):
        gap = share_i * share_j * (model.centre[i, a] - model.centre[j, a])
        for b in range(rules.d):
            between = gap * (model.centre[i, b] - model.centre[j, b])
            cov[a, b] = share_i * model.cov[i, a, b] + share_j * model.cov[j, a, b] + between
    return k


@jit
def volume_ratio(model, rules, i, j, work):
    """Return the volume of the union of two slots over the sum of theirs (19)(20), corrected, in logs."""
    _union(model, rules, i, j, work.square, work.u)
    a, b = _logdet(model, rules, i, work) / 2.0, _logdet(model, rules, j, work) / 2.0
    union = factor(work.square, rules.d, work.scale, work.upper) / 2.0
    return union - (max(a, b) + log1p(exp_minus(abs(a - b))))


@jit
def _pool(model, rules, i, j):
    """Fill the buffer of slot `i` from both at one sampling fraction: a plain union would favour the smaller."""
    k, b_i, b_j = model.support[i] + model.support[j], model.held[i], model.held[j]
    f = min(1.0, rules.n_sub / k, b_i / model.support[i], b_j / model.support[j])
    m_i = min(b_i, max(1, np.int64(np.floor(f * model.support[i] + 0.5))))
    m_j = min(b_j, max(1, np.int64(np.floor(f * model.support[j] + 0.5))))
    while m_i + m_j > rules.n_sub:
        if m_i >= m_j:
            m_i -= 1
        else:
            m_j -= 1
    for slot, held, taken, start in ((i, b_i, m_i, 0), (j, b_j, m_j, m_i)):
        for q in range(taken):
            source = q * held // taken
            # Within one buffer records move forward only: none is overwritten before it is read.
            model.buffer[i, start + q] = model.buffer[slot, source]
            model.buffer_label[i, start + q] = model.buffer_label[slot, source]
    model.held[i] = m_i + m_j
    model.fresh[i] += model.fresh[j]


@jit
def merge(model, rules, t, first, second, value, ratio, work):
    """Merge two slots into that of the older id; tell it, and return the slot. `ratio` is in logs."""
    i, j = (first, second) if model.id[first] < model.id[second] else (second, first)
    ratio = 1.0 / exp_minus(ratio) if ratio > 0.0 else exp_minus(-ratio)
    what, before = (ABSORBED, model.id[j], model.id[i]), shapes_of(model, rules, (j, i))
    k = _union(model, rules, i, j, work.square, work.u)
    if rules.splits:
        _pool(model, rules, i, j)
    model.centre[i], model.cov[i], model.support[i] = work.u, work.square, k
    model.last[i] = max(model.last[i], model.last[j])
    model.votes[i] += model.votes[j]
    set_inverse(model, rules, i, work)
    note_shape(model, rules, i)
    remove(model, place_of(model, j))
    emit(model, work, t, what, OVERLAP, value, rules.thr, before, shapes_of(model, rules, (i,)))
    note_further(work, ratio, rules.volp * rules.d, 0.0)
    return i


@jit
def merge_winner(model, rules, t, i, work):
    """Merge slot `i` with the cluster that it overlaps most, if they are compact together; return its slot."""
    best, partner = _NONE, np.int64(-1)
    for j in model.slot[: model.clusters]:
        if j != i:
            value = overlap(model, rules, i, j, work)
            if value > best:
                best, partner = value, j
    if partner < 0:
        return i
    ratio = volume_ratio(model, rules, i, partner, work)
    if not ratio <= _volume_limit(rules):
        return i
    return merge(model, rules, t, i, partner, best, ratio, work)


@inline
def _volume_limit(rules):
    return log(rules.volp * rules.d)


@jit
def consolidate(model, rules, t, work):
    """Merge the pair that overlaps most among those that are compact together, until there is none."""
    clusters = model.clusters
    value, ratio = np.full((clusters, clusters), _NONE), np.zeros((clusters, clusters))
    for first in range(clusters):
        for second in range(first + 1, clusters):
            _judge(model, rules, first, second, value, ratio, work)
    while True:
        best, i, j = _NONE, 0, 0
        for first in range(model.clusters):
            for second in range(first + 1, model.clusters):
                if value[first, second] > best:
                    best, i, j = value[first, second], first, second
        if best == _NONE:
            return
        merge(model, rules, t, model.slot[i], model.slot[j], best, ratio[i, j], work)
        # Clusters stay listed by id: those behind the absorbed one moved up.
        for first in range(model.clusters):
            for second in range(first + 1, model.clusters):
                a, b = first + (first >= j), second + (second >= j)
                value[first, second], ratio[first, second] = value[a, b], ratio[a, b]
        for other in range(model.clusters):
            if other != i:
                _judge(model, rules, min(i, other), max(i, other), value, ratio, work)


@jit
def _judge(model, rules, first, second, value, ratio, work):
    """Note overlap and volume ratio of the clusters listed at two places; no overlap where they are not compact."""
    i, j = model.slot[first], model.slot[second]
    found = overlap(model, rules, i, j, work)
    if found > _NONE:
        ratio[first, second] = volume_ratio(model, rules, i, j, work)
        if not ratio[first, second] <= _volume_limit(rules):
            found = _NONE
    value[first, second] = found


@jit
def learn_batch(model, rules, X, labels, start, work, cluster, score, novel, node):
    """Learn a batch from record `start` on; return the first record that was not learned.

    A record adds at most one cluster, the last of a warm-up that much for each that waited; where there is no room for
    that the batch is interrupted before it.
    """
    slots = len(model.slot)
    for t in range(start, len(X)):
        n = model.learned
        waits = rules.running and n < rules.warmup
        ends = waits and n + 1 == rules.warmup
        consolidates = rules.consolidate_every > 0 and (n + 1) % rules.consolidate_every == 0
        learned = rules.warmup if ends else 1
        if slots < rules.max_clusters and model.clusters + learned > slots:
            return t

        i, squared = nearest(model, rules, X[t])
        cluster[t, 0] = model.id[i] if i >= 0 else -1
        score[t] = score_of(squared, model.radius[i]) if i >= 0 else np.nan
        if rules.running:
            note_range(model, rules, X[t])
        model.learned = n + 1
        novel[t] = False
        node[t, 0] = -1
        if waits:
            model.waiting[n], model.waiting_label[n] = X[t], labels[t]
        if ends or not waits:
            for s in range(learned):
                x = model.waiting[s] if ends else X[t]
                label, number = (model.waiting_label[s], s) if ends else (labels[t], n)
                if ends or (rules.euclidean and rules.running):
                    i, squared = nearest(model, rules, x)  # ranges have moved, or a cluster has come
                if i < 0 or np.sqrt(squared) > model.radius[i]:
                    i = add_cluster(model, rules, x, label, number, t, i, squared, work)
                    cluster[t, 0] = -1
                    novel[t] = True
                    continue
                novel[t] = False
                move(model, rules, i, x, number, work)
                if label >= 0:
                    model.votes[i, label] += 1
                if rules.splits:
                    keep_record(model, rules, i, x, label, number)
                if rules.merges and model.support[i] % rules.check_every == 0:
                    i = merge_winner(model, rules, t, i, work)
                if rules.splits and model.fresh[i] >= rules.check_every and model.held[i] >= rules.min_sub:
                    model.fresh[i] = 0
                    i = split(model, rules, t, i, x, work)
            node[t, 0] = model.id[i]
        if consolidates:
            consolidate(model, rules, t, work)
    return len(X)


@jit
def predict_batch(model, rules, X, cluster, score, novel, label):
    """Answer for a batch: the nearest cluster if it is near enough, and the majority label of the nearest with any."""
    clusters = model.clusters
    if clusters == 0:
        novel[:] = not rules.running or model.learned >= rules.warmup
        return
    majority = majority_labels(model.votes, len(model.slot))
    for t in range(len(X)):
        i, squared = nearest(model, rules, X[t])
        novel[t] = np.sqrt(squared) > model.radius[i]
        cluster[t, 0] = -1 if novel[t] else model.id[i]
        score[t] = score_of(squared, model.radius[i])
        label[t] = majority[i]
        if label[t] >= 0 or model.votes.shape[1] == 0:
            continue
        best = np.inf
        for at in range(clusters):
            if majority[model.slot[at]] >= 0:
                squared = squared_distance(model, rules, model.slot[at], X[t])
                if label[t] < 0 or squared < best:
                    best, label[t] = squared, majority[model.slot[at]]
