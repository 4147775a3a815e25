"""A record, and a batch, learned or answered by one CAEA model (Algorithm 1).

Equation numbers are those of Masuyama et al., IEEE Access 2022. CIM is kept squared until it is compared with a
threshold: the order of nodes is the same, and one square root a record is enough.
"""

import numpy as np
from resonance.engine import correntropy
from resonance.engine.caea.model import add_link, add_sigma, find_link, is_full, mean_sigma, remove_nodes, sum_sigma
from resonance.engine.caea.reading import read_clusters
from resonance.engine.correntropy import FAR, cim, scale_of, smallest, squared_cim
from resonance.engine.labels import majority_labels
from resonance.kernels.arithmetic import float_of, inline, jit
from resonance.kernels.borrowed import borrow
from resonance.kernels.ordering import nearest_marked

# What a step reports beside the node, in a row of floats.
FOUNDED = 0  # 1 when the record became a node (case I, or while there are fewer than h nodes)
ANSWER = 1  # cluster before learning, -1 for none
SCORE = 2
SECOND = 3  # position of the second winner where both have won (case III), else -1
REPORTED = 4

CLOSE = 0.36
"""Squared share of a node's threshold within which a record is close to it."""
WIDER = 1.1
"""Factor of thresholds that let most records found nodes."""


@jit
def bandwidth(model, rules, factors, x, work):
    """Return sigma of a node founded by `x`, from the last m records, `x` included (8)(9).

    `work` has room for 2 d floats.
    """
    d, m, window = rules.d, min(model.learned, rules.h), model.window.reshape(-1)
    if not rules.varying or m == 1:
        return correntropy.median_bandwidth(window, m, d, factors, x, work)
    sigma = correntropy.varying_bandwidth(window, m, d, factors, work)
    if sigma > 0.0:
        return sigma
    return mean_sigma(model) if model.nodes > 0 else factors[0] * correntropy.spread_of_one(x, d)


@jit
def append_node(model, rules, x, sigma, threshold, clock):
    """Make `x` a node; the model has room for it. Return its position."""
    k = model.nodes
    for i in range(rules.d):
        model.weight[i, k] = x[i]
    model.sigma[k], model.threshold[k] = sigma, threshold
    add_sigma(model, sigma)
    model.count[k], model.id[k], model.won[k] = 1, model.next_id, clock
    model.made[k] = model.seen[k] = model.since[k] = model.learned
    model.cluster[k] = model.child[k] = model.chain[k + 1, 0] = model.chain[k + 1, 1] = -1
    model.hits[k] = model.degree[k] = model.linked[k] = model.chain[k + 1, 2] = 0
    model.next_id += 1
    model.nodes = k + 1
    return k


@jit
def _mean_nearest(model, rules, start, scale, sums, squares):
    """Return the mean of the smallest CIM of each node to another one (7), among those from position `start` on.

    With `varying` nodes at the same place are one, and fewer than h places have no mean: 0.
    """
    # From the lanes that the first one is in: they are whole, also those of the last feature.
    begin, capacity, d = start & ~7, len(model.id), rules.d
    before, k = start - begin, model.nodes - begin
    weights, padded = model.weight.reshape(-1)[begin:], (k + 7) & ~7
    x = np.empty(d)
    total, places = 0.0, 0
    for node in range(before, k):
        for i in range(d):
            x[i] = weights[i * capacity + node]
        squared_cim(weights, capacity, k, d, scale, x, sums, squares)
        squares[:before] = FAR
        squares[node] = FAR
        first = True
        if rules.varying:
            for j in range(k):
                if squares[j] == 0:
                    squares[j] = FAR
                    first = first and j > node
        if first:
            _, best = smallest(squares, padded)
            total += cim(best) if best < FAR else 0.0
            places += 1
    return total / places if places >= rules.h or not rules.varying else 0.0


@jit
def _set_sigmas(model, value):
    """Give all nodes the same bandwidth."""
    model.sigma[: model.nodes] = value
    sum_sigma(model)


@jit
def _found_early(model, rules, factors, x, clock, sums, squares, work):
    """Part A: fewer than h nodes, the record becomes one."""
    k = model.nodes
    sigma = bandwidth(model, rules, factors, x, work)
    mean = np.nan
    if k > 0:
        mean = model.threshold[:k].sum() / k
    node = append_node(model, rules, x, sigma, mean, clock)
    if k + 1 == rules.h:
        if rules.varying:  # the first bandwidths are of too few records
            _set_sigmas(model, sigma)
        value = _mean_nearest(model, rules, 0, scale_of(mean_sigma(model)), sums, squares)
        model.threshold[: k + 1] = value
    else:
        model.threshold[:k] = mean
    return node


@inline
def _set_age(model, k, at, back, age):
    """Set the age of an edge, the link at position `at` of node `k`, whose other end has it at `back`."""
    model.age[k, at] = model.age[model.other[k, at], back] = age


@jit
def _win(model, rules, k1, k2, x, both):
    """Count the common win of `k1` and `k2` and age the edges at `k1` (17).

    Where `both` won, the neighbours of `k1` move (20) and the two get an edge of age 0 (21). That comes last: a new
    edge does not move `k2`.
    """
    found = np.int64(-1)
    for at in range(model.linked[k1]):
        j = model.other[k1, at]
        if j == k2:
            found = np.int64(at)
        age = model.age[k1, at]
        if age == 0:
            continue
        age = age + 1 if age <= rules.age_max else 0
        _set_age(model, k1, at, find_link(model, j, k1), age)
        if age == 0:
            model.degree[j] -= 1
            model.degree[k1] -= 1
        elif both:
            share = 0.1 / model.count[j]
            for i in range(rules.d):
                model.weight[i, j] += (x[i] - model.weight[i, j]) * share
    if found < 0:
        add_link(model, k1, k2, 1 if both else 0, 1)
        add_link(model, k2, k1, 1 if both else 0, 1)
        return
    back = find_link(model, k2, k1)
    model.wins[k1, found] += 1
    model.wins[k2, back] += 1
    if both:
        if model.age[k1, found] == 0:
            model.degree[k1] += 1
            model.degree[k2] += 1
        _set_age(model, k1, found, back, 1)


@inline
def _count_hits(model, squares):
    """Count the record for every node that it is close to: the density there."""
    hits, thresholds = model.hits, model.threshold
    for j in range(model.nodes):
        hits[j] += 1 if float_of(squares[j]) <= CLOSE * thresholds[j] * thresholds[j] else 0


@inline
def _answer(model, k1, best, squares, report):
    """Note cluster and score of the nearest node that has a cluster; `k1` is the nearest of all."""
    near, near_bits = k1, best
    if model.cluster[k1] < 0:
        near, near_bits = nearest_marked(squares, model.cluster, model.nodes, FAR)
    if near_bits < FAR:
        report[ANSWER] = model.cluster[near]
        report[SCORE] = 1.0 - cim(near_bits)


@inline
def learn_one(model, rules, factors, x, clock, sums, squares, work, report):
    """Learn `x` and answer for it; there is room for one more node and link. Return the position of its node.

    Deletion and reading come after. The clock is written to the winner, for evictions; `report` gets the rest.
    """
    d, h, k = rules.d, rules.h, model.nodes
    row = model.learned % h
    model.learned += 1
    for i in range(d):
        model.window[row, i] = x[i]
    report[FOUNDED], report[ANSWER], report[SCORE], report[SECOND] = 1.0, -1.0, np.nan, -1.0
    if k < h and model.clusters == 0:
        return _found_early(model, rules, factors, x, clock, sums, squares, work)

    padded = (k + 7) & ~7
    sigma = mean_sigma(model) if k > 0 else 1.0
    squared_cim(model.weight.reshape(-1), len(model.id), k, d, scale_of(sigma), x, sums, squares)
    k1, best = smallest(squares, padded)
    if model.clusters > 0:
        _answer(model, k1, best, squares, report)
    if k < h:
        return _found_early(model, rules, factors, x, clock, sums, squares, work)

    if rules.valleys:
        _count_hits(model, squares)
    squares[k1] = FAR
    k2, second = smallest(squares, padded)
    v1, v2 = cim(best), cim(second)
    threshold = model.threshold[k1]
    if v1 > threshold:  # case I (14)
        fresh = bandwidth(model, rules, factors, x, work)
        return append_node(model, rules, x, fresh, threshold, clock)

    both = v2 <= model.threshold[k2]  # case III (16)
    report[FOUNDED] = 0.0
    if both:
        report[SECOND] = k2
    share = 1.0 / model.count[k1]
    for i in range(d):  # (18)
        model.weight[i, k1] += (x[i] - model.weight[i, k1]) * share
    model.count[k1] += 1  # (19)
    model.won[k1], model.seen[k1] = clock, model.learned
    _win(model, rules, k1, k2, x, both)
    return k1


@inline
def is_expired(model, rules, node):
    """Return whether a node has not won for so long that it is to go."""
    return rules.expire > 0 and model.learned - model.seen[node] >= rules.expire


@jit
def nodes_to_remove(model, rules, gone):
    """Write the positions of the nodes that a deletion step removes to `gone`; return how many there are.

    They have no edge and their grace is over, or they have not won for long; but those of a cluster that has not won
    for half as long go together, or it would come to pieces first. As long as thresholds are 0, because the first
    records were equal, there are no edges to wait for.
    """
    k, n, clusters, removed = model.nodes, model.learned, model.clusters, 0
    waiting = rules.varying and k > 0 and model.threshold[k - 1] == 0.0
    ids = model.cluster_id[:clusters]
    last = np.zeros(clusters if rules.expire > 0 else 0, dtype=np.int64)
    if rules.expire > 0:
        for j in range(k):
            if model.cluster[j] >= 0:
                c = np.searchsorted(ids, model.cluster[j])
                last[c] = max(last[c], model.seen[j])
    if k > 1:
        for j in range(k):
            lonely = model.degree[j] == 0 and n - model.made[j] >= rules.grace * rules.interval
            expired = is_expired(model, rules, j)
            if expired and model.cluster[j] >= 0:
                idle = n - last[np.searchsorted(ids, model.cluster[j])]
                expired = idle >= rules.expire or 2 * idle < rules.expire
            if (lonely and not waiting) or expired:
                gone[removed] = j
                removed += 1
    return removed


@jit
def renew(model, rules, factors, sums, squares, work):
    """Take bandwidth and threshold of all nodes anew where they do not fit the records any more, at a reading.

    They are those of the last h records and of the newest h nodes, as at the start. That is done where thresholds are
    still 0, because the first records were equal, and once most records were novel before `renew` readings in a row.
    Where they still are thereafter, thresholds widen.
    """
    k, d = model.nodes, rules.d
    fresh = model.next_id - model.read_id
    model.read_id = model.next_id
    model.novel_run = model.novel_run + 1 if 2 * fresh > rules.interval else 0
    if not rules.varying or k < rules.h:
        return
    run = model.novel_run
    if model.threshold[k - 1] == 0.0 or (rules.renew > 0 and run == rules.renew):
        sigma = correntropy.varying_bandwidth(model.window.reshape(-1), rules.h, d, factors, work)
        value = 0.0
        if sigma > 0.0:
            value = _mean_nearest(model, rules, k - rules.h, scale_of(sigma), sums, squares)
        if value > 0.0:
            model.threshold[:k] = value
            _set_sigmas(model, sigma)
    elif rules.renew > 0 and run > rules.renew and run % rules.renew == 0:
        model.threshold[:k] = np.minimum(1.0, WIDER * model.threshold[:k])


@jit
def fade_hits(model, rules):
    """Count at half what is older than a node without wins could become, so that densities follow the stream."""
    for j in range(model.nodes):
        age = model.learned - model.since[j]
        if rules.expire > 0 and age >= 2 * rules.expire:
            model.hits[j] //= 2
            model.since[j] = model.learned - age // 2


@jit
def read_model(model, rules, factors, path, record, log, scratch):
    """Do what a reading of one model is: take bandwidths anew where they do not fit any more, and read its clusters."""
    sums, squares, _, work, _ = scratch
    renew(model, rules, factors, sums, squares, work)
    fade_hits(model, rules)
    read_clusters(model, rules, path, record, log)


@jit
def longest_idle(model):
    """Return the position of the node that won longest ago."""
    return np.argmin(model.won[: model.nodes])


@jit
def scratch_for(rules):
    """Return what a step needs beside a model: sums, squares, positions that go, work and what it reports."""
    room = (rules.max_nodes + 16) // 8 * 8
    return (
        np.empty(room),
        np.empty(room, dtype=np.int64),
        np.empty(room, dtype=np.int64),
        np.empty(2 * rules.d),
        np.empty(REPORTED),
    )


@jit
def learn_batch(model, rules, factors, X, labels, start, path, log, scratch, cluster, score, novel, node):
    """Learn a batch from record `start` on, until the model is full; return the first record that was not learned.

    `scratch` is from `scratch_for`.
    """
    records, (sums, squares, gone, work, row) = borrow(X), scratch
    sums, squares, gone, work, row = borrow(sums), borrow(squares), borrow(gone), borrow(work), borrow(row)
    for t in range(start, len(records)):
        if is_full(model):
            return t
        k = learn_one(model, rules, factors, records[t], model.learned + 1, sums, squares, work, row)
        cluster[t, 0] = np.int64(row[ANSWER])
        score[t] = row[SCORE]
        novel[t] = row[FOUNDED] == 1.0
        node[t, 0] = model.id[k]
        if labels[t] >= 0:
            model.labels[k, labels[t]] += 1
        if model.nodes > rules.max_nodes:
            gone[0] = longest_idle(model)
            remove_nodes(model, gone, 1)
        if model.learned % rules.interval == 0:
            removed = nodes_to_remove(model, rules, gone)
            if removed > 0:
                remove_nodes(model, gone, removed)
            read_model(model, rules, factors, path, t, log, scratch)
    return len(records)


@jit
def predict_batch(model, rules, X, cluster, score, novel, label):
    """Answer for a batch: nearest clustered node, and the majority label of the nearest node that has one."""
    capacity, k, padded = len(model.id), model.nodes, (model.nodes + 7) & ~7
    sums, squares = np.empty(capacity), np.empty(capacity, dtype=np.int64)
    majority = majority_labels(model.labels, k)
    for t in range(len(X)):
        if k == 0:
            novel[:] = True
            break
        squared_cim(model.weight.reshape(-1), capacity, k, rules.d, scale_of(mean_sigma(model)), X[t], sums, squares)
        where, best = smallest(squares, padded)
        novel[t] = k < rules.h or cim(best) > model.threshold[where]
        where, best = nearest_marked(squares, model.cluster, k, FAR)
        if best < FAR:
            cluster[t, 0] = model.cluster[where]
            score[t] = 1.0 - cim(best)
        where, _ = nearest_marked(squares, majority, k, FAR)
        if where >= 0:
            label[t] = majority[where]
