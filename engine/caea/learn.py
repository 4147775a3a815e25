"""A record, and a batch, learned or answered by one CAEA model (Algorithm 1).

Equation numbers are those of Masuyama et al., IEEE Access 2022. CIM is kept squared until it is compared with a
threshold: the order of nodes is the same, and one square root a record is enough.
"""

import numpy as np
from resonance.engine import correntropy
from resonance.engine.caea import block
from resonance.engine.caea.block import (
    at_field,
    at_labels,
    at_link,
    at_ring,
    at_sigma,
    at_threshold,
    at_weight,
    mean_sigma,
    remove_nodes,
    with_class,
    with_room,
)
from resonance.engine.caea.reading import read_clusters
from resonance.engine.correntropy import FAR, cim, scale_of, smallest, squared_cim
from resonance.engine.labels import majority_label
from resonance.kernels.arithmetic import float_of, inline, jit
from resonance.kernels.borrowed import borrow

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
def bandwidth(floats, integers, rules, factors, x, work):
    """Return sigma of a node founded by `x`, from the last m records, `x` included (8)(9).

    `work` has room for 2 d floats.
    """
    d, m, k = rules.d, min(integers[block.N], rules.h), integers[block.K]
    window = borrow(floats)[at_ring(d, integers[block.CAPACITY]) :]
    if not rules.varying or m == 1:
        return correntropy.median_bandwidth(window, m, d, factors, x, work)
    sigma = correntropy.varying_bandwidth(window, m, d, factors, work)
    if sigma > 0.0:
        return sigma
    return block.mean_sigma(floats, k) if k > 0 else factors[0] * correntropy.spread_of_one(x, d)


@jit
def append_node(floats, integers, rules, x, sigma, threshold, clock):
    """Make `x` a node; the block has room for it. Return its position."""
    capacity, k, d = integers[block.CAPACITY], integers[block.K], rules.d
    for i in range(d):
        floats[at_weight(i, capacity) + k] = x[i]
    floats[at_sigma(d, capacity) + k] = sigma
    floats[at_threshold(d, capacity) + k] = threshold
    block.add_sigma(floats, sigma)
    integers[at_field(block.COUNT, capacity) + k] = 1
    integers[at_field(block.ID, capacity) + k] = integers[block.NEXT_ID]
    integers[at_field(block.WON, capacity) + k] = clock
    for field in (block.MADE, block.SEEN, block.SINCE):
        integers[at_field(field, capacity) + k] = integers[block.N]
    for field in (block.CLUSTER, block.CHILD, block.FIRST, block.LAST):
        integers[at_field(field, capacity) + k] = -1
    for field in (block.HITS, block.KEPT, block.DEGREE, block.LINKED):
        integers[at_field(field, capacity) + k] = 0
    integers[block.NEXT_ID] += 1
    integers[block.K] = k + 1
    return k


@jit
def _mean_nearest(floats, integers, rules, start, scale, sums, squares):
    """Return the mean of the smallest CIM of each node to another one (7), among those from position `start` on.

    With `varying` nodes at the same place are one, and fewer than h places have no mean: 0.
    """
    capacity, k, d = integers[block.CAPACITY], integers[block.K] - start, rules.d
    weights, padded = floats[block.F_HEAD + start :], (k + 7) & ~7
    x = np.empty(d)
    total, places = 0.0, 0
    for node in range(k):
        for i in range(d):
            x[i] = weights[i * capacity + node]
        squared_cim(weights, capacity, k, d, scale, x, sums, squares)
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
def _set_sigmas(floats, integers, d, value):
    """Give all nodes the same bandwidth."""
    a = at_sigma(d, integers[block.CAPACITY])
    floats[a : a + integers[block.K]] = value
    block.sum_sigma(floats, integers, d)


@jit
def _found_early(floats, integers, rules, factors, x, clock, sums, squares, work):
    """Part A: fewer than h nodes, the record becomes one."""
    capacity, k, d = integers[block.CAPACITY], integers[block.K], rules.d
    sigma = bandwidth(floats, integers, rules, factors, x, work)
    a = at_threshold(d, capacity)
    mean = np.nan
    if k > 0:
        mean = 0.0
        for node in range(k):
            mean += floats[a + node]
        mean /= k
    node = append_node(floats, integers, rules, x, sigma, mean, clock)
    if k + 1 == rules.h:
        if rules.varying:  # the first bandwidths are of too few records
            _set_sigmas(floats, integers, d, sigma)
        scale = scale_of(block.mean_sigma(floats, k + 1))
        value = _mean_nearest(floats, integers, rules, 0, scale, sums, squares)
        floats[a : a + k + 1] = value
    else:
        floats[a : a + k] = mean
    return node


@jit
def _win(floats, integers, rules, k1, k2, x, both):
    """Count the common win of `k1` and `k2` and age the edges at `k1` (17).

    Where `both` won, the neighbours of `k1` move (20) and the two get an edge of age 0 (21). That comes last: a new
    edge does not move `k2`.
    """
    capacity, links, d = integers[block.CAPACITY], integers[block.LINKS], rules.d
    degree, counts = at_field(block.DEGREE, capacity), at_field(block.COUNT, capacity)
    row = at_link(k1, block.OTHER, capacity, links)
    found = np.int64(-1)
    for at in range(integers[at_field(block.LINKED, capacity) + k1]):
        j = integers[row + at]
        age = integers[row + links + at]
        if j == k2:
            found = np.int64(at)
        if age == 0:
            continue
        mirror = at_link(j, block.AGE, capacity, links) + block.find_link(integers, j, k1, capacity, links)
        age = age + 1 if age <= rules.age_max else 0
        integers[row + links + at] = age
        integers[mirror] = age
        if age == 0:
            integers[degree + j] -= 1
            integers[degree + k1] -= 1
        elif both:
            share = 0.1 / integers[counts + j]
            for i in range(d):
                w = np.uintp(at_weight(i, capacity) + j)
                floats[w] += (x[i] - floats[w]) * share
    if found < 0:
        block.add_link(integers, k1, k2, 1 if both else 0, 1)
        block.add_link(integers, k2, k1, 1 if both else 0, 1)
        return
    mirror = at_link(k2, block.OTHER, capacity, links) + block.find_link(integers, k2, k1, capacity, links)
    integers[row + 2 * links + found] += 1
    integers[mirror + 2 * links] += 1
    if both:
        if integers[row + links + found] == 0:
            integers[degree + k1] += 1
            integers[degree + k2] += 1
        integers[row + links + found] = 1
        integers[mirror + links] = 1


@inline
def _count_hits(floats, integers, d, squares):
    """Count the record for every node that it is close to: the density there."""
    capacity, k = integers[block.CAPACITY], integers[block.K]
    hits, thresholds = integers[at_field(block.HITS, capacity) :], floats[at_threshold(d, capacity) :]
    for j in range(k):
        hits[j] += 1 if float_of(squares[j]) <= CLOSE * thresholds[j] * thresholds[j] else 0


@inline
def _answer(integers, k, k1, best, squares, report):
    """Note cluster and score of the nearest node that has a cluster; `k1` is the nearest of all."""
    clusters = at_field(block.CLUSTER, integers[block.CAPACITY])
    near, near_bits = k1, best
    if integers[clusters + k1] < 0:
        near, near_bits = 0, FAR
        for j in range(k):
            if integers[clusters + j] >= 0 and squares[j] < near_bits:
                near, near_bits = j, squares[j]
    if near_bits < FAR:
        report[ANSWER] = integers[clusters + near]
        report[SCORE] = 1.0 - cim(near_bits)


@inline
def learn_one(floats, integers, rules, factors, x, clock, sums, squares, work, report):
    """Learn `x` and answer for it; the block has room for one more node and link. Return the position of its node.

    Deletion and reading come after. The clock is written to the winner, for evictions; `report` gets the rest.
    """
    d, h = rules.d, rules.h
    capacity, k = integers[block.CAPACITY], integers[block.K]
    at = at_ring(d, capacity) + (integers[block.N] % h) * d
    integers[block.N] += 1
    for i in range(d):
        floats[at + i] = x[i]
    report[FOUNDED], report[ANSWER], report[SCORE], report[SECOND] = 1.0, -1.0, np.nan, -1.0
    if k < h and integers[block.CLUSTERS] == 0:
        return _found_early(floats, integers, rules, factors, x, clock, sums, squares, work)

    weights = floats[block.F_HEAD :]
    padded = (k + 7) & ~7
    sigma = block.mean_sigma(floats, k) if k > 0 else 1.0
    squared_cim(weights, capacity, k, d, scale_of(sigma), x, sums, squares)
    k1, best = smallest(squares, padded)
    if integers[block.CLUSTERS] > 0:
        _answer(integers, k, k1, best, squares, report)
    if k < h:
        return _found_early(floats, integers, rules, factors, x, clock, sums, squares, work)

    if rules.valleys:
        _count_hits(floats, integers, d, squares)
    squares[k1] = FAR
    k2, second = smallest(squares, padded)
    v1, v2 = cim(best), cim(second)
    thresholds = at_threshold(d, capacity)
    threshold = floats[thresholds + k1]
    if v1 > threshold:  # case I (14)
        fresh = bandwidth(floats, integers, rules, factors, x, work)
        return append_node(floats, integers, rules, x, fresh, threshold, clock)

    both = v2 <= floats[thresholds + k2]  # case III (16)
    report[FOUNDED] = 0.0
    if both:
        report[SECOND] = k2
    count = integers[at_field(block.COUNT, capacity) + k1]
    share = 1.0 / count
    for i in range(d):  # (18)
        at = np.uintp(at_weight(i, capacity) + k1)
        floats[at] += (x[i] - floats[at]) * share
    integers[at_field(block.COUNT, capacity) + k1] = count + 1  # (19)
    integers[at_field(block.WON, capacity) + k1] = clock
    integers[at_field(block.SEEN, capacity) + k1] = integers[block.N]
    _win(floats, integers, rules, k1, k2, x, both)
    return k1


@inline
def is_expired(integers, rules, node):
    """Return whether a node has not won for so long that it is to go."""
    return (
        rules.expire > 0
        and integers[block.N] - integers[at_field(block.SEEN, integers[block.CAPACITY]) + node] >= rules.expire
    )


@jit
def nodes_to_remove(floats, integers, rules, gone):
    """Write the positions of the nodes that a deletion step removes to `gone`; return how many there are.

    They have no edge and their grace is over, or they have not won for long; but those of a cluster that has not won
    for half as long go together, or it would come to pieces first. As long as thresholds are 0, because the first
    records were equal, there are no edges to wait for.
    """
    capacity, k, n = integers[block.CAPACITY], integers[block.K], integers[block.N]
    degree, made = at_field(block.DEGREE, capacity), at_field(block.MADE, capacity)
    waiting = rules.varying and k > 0 and floats[at_threshold(rules.d, capacity) + k - 1] == 0.0
    clusters, removed = integers[block.CLUSTERS], 0
    ids = integers[
        block.at_cluster(block.CLUSTER_ID, capacity) : block.at_cluster(block.CLUSTER_ID, capacity) + clusters
    ]
    seen, cluster = at_field(block.SEEN, capacity), at_field(block.CLUSTER, capacity)
    last = np.zeros(clusters if rules.expire > 0 else 0, dtype=np.int64)
    if rules.expire > 0:
        for j in range(k):
            if integers[cluster + j] >= 0:
                c = np.searchsorted(ids, integers[cluster + j])
                last[c] = max(last[c], integers[seen + j])
    if k > 1:
        for j in range(k):
            lonely = integers[degree + j] == 0 and n - integers[made + j] >= rules.grace * rules.interval
            expired = is_expired(integers, rules, j)
            if expired and integers[cluster + j] >= 0:
                idle = n - last[np.searchsorted(ids, integers[cluster + j])]
                expired = idle >= rules.expire or 2 * idle < rules.expire
            if (lonely and not waiting) or expired:
                gone[removed] = j
                removed += 1
    return removed


@jit
def renew(floats, integers, rules, factors, sums, squares, work):
    """Take bandwidth and threshold of all nodes anew where they do not fit the records any more, at a reading.

    They are those of the last h records and of the newest h nodes, as at the start. That is done where thresholds are
    still 0, because the first records were equal, and once most records were novel before `renew` readings in a row.
    Where they still are thereafter, thresholds widen.
    """
    capacity, k, d = integers[block.CAPACITY], integers[block.K], rules.d
    fresh = integers[block.NEXT_ID] - integers[block.READ_ID]
    integers[block.READ_ID] = integers[block.NEXT_ID]
    integers[block.NOVEL_RUN] = integers[block.NOVEL_RUN] + 1 if 2 * fresh > rules.interval else 0
    if not rules.varying or k < rules.h:
        return
    run, thresholds = integers[block.NOVEL_RUN], at_threshold(d, capacity)
    if floats[thresholds + k - 1] == 0.0 or (rules.renew > 0 and run == rules.renew):
        sigma = correntropy.varying_bandwidth(borrow(floats)[at_ring(d, capacity) :], rules.h, d, factors, work)
        value = 0.0
        if sigma > 0.0:
            value = _mean_nearest(floats, integers, rules, k - rules.h, scale_of(sigma), sums, squares)
        if value > 0.0:
            floats[thresholds : thresholds + k] = value
            _set_sigmas(floats, integers, d, sigma)
    elif rules.renew > 0 and run > rules.renew and run % rules.renew == 0:
        for node in range(thresholds, thresholds + k):
            floats[node] = min(1.0, WIDER * floats[node])


@jit
def fade_hits(integers, rules):
    """Count at half what is older than a node without wins could become, so that densities follow the stream."""
    capacity, n = integers[block.CAPACITY], integers[block.N]
    hits, since = at_field(block.HITS, capacity), at_field(block.SINCE, capacity)
    for j in range(integers[block.K]):
        age = n - integers[since + j]
        if rules.expire > 0 and age >= 2 * rules.expire:
            integers[hits + j] //= 2
            integers[since + j] = n - age // 2


@jit
def longest_idle(integers):
    """Return the position of the node that won longest ago."""
    won = at_field(block.WON, integers[block.CAPACITY])
    first = 0
    for j in range(integers[block.K]):
        if integers[won + j] < integers[won + first]:
            first = j
    return first


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
def learn_batch(own_floats, own_integers, rules, factors, X, labels, path, log, scratch, cluster, score, novel, node):
    """Learn a batch; return the blocks, which may have grown. `scratch` is from `scratch_for`."""
    d, records = rules.d, borrow(X)
    sums, squares, gone, work, row = scratch
    sums, squares, gone, work, row = borrow(sums), borrow(squares), borrow(gone), borrow(work), borrow(row)
    floats, integers = borrow(own_floats), borrow(own_integers)
    for t in range(len(records)):
        if integers[block.K] == integers[block.CAPACITY] or integers[block.MAX_LINKS] == integers[block.LINKS]:
            own_floats, own_integers = with_room(own_floats, own_integers, d, rules.h)
            floats, integers = borrow(own_floats), borrow(own_integers)
        k = learn_one(floats, integers, rules, factors, records[t], integers[block.N] + 1, sums, squares, work, row)
        cluster[t, 0] = np.int64(row[ANSWER])
        score[t] = row[SCORE]
        novel[t] = row[FOUNDED] == 1.0
        capacity = integers[block.CAPACITY]
        node[t, 0] = integers[at_field(block.ID, capacity) + k]
        if labels[t] >= 0:
            if labels[t] >= integers[block.LABELS]:
                own_floats, own_integers = with_class(own_floats, own_integers, d, rules.h, labels[t])
                floats, integers = borrow(own_floats), borrow(own_integers)
            integers[at_labels(k, capacity, integers[block.LINKS], integers[block.LABELS]) + labels[t]] += 1
        if integers[block.K] > rules.max_nodes:
            gone[0] = longest_idle(integers)
            remove_nodes(floats, integers, d, gone, 1)
        if integers[block.N] % rules.interval == 0:
            removed = nodes_to_remove(floats, integers, rules, gone)
            if removed > 0:
                remove_nodes(floats, integers, d, gone, removed)
            renew(floats, integers, rules, factors, sums, squares, work)
            fade_hits(integers, rules)
            read_clusters(floats, integers, rules, path, t, log)
    return own_floats, own_integers


@jit
def predict_batch(floats, integers, rules, X, cluster, score, label):
    """Answer for a batch: nearest clustered node, and the majority label of the nearest node that has one."""
    capacity, k, classes = integers[block.CAPACITY], integers[block.K], integers[block.LABELS]
    sums, squares = np.empty(capacity), np.empty(capacity, dtype=np.int64)
    majority = np.full(k, -1, dtype=np.int64)
    for j in range(k):
        at = at_labels(j, capacity, integers[block.LINKS], classes)
        counts = integers[at : at + classes]
        majority[j] = majority_label(counts)
    clusters = at_field(block.CLUSTER, capacity)
    padded = (k + 7) & ~7
    taken = np.empty(padded, dtype=np.int64)
    for t in range(len(X)):
        if k == 0:
            break
        squared_cim(floats[block.F_HEAD :], capacity, k, rules.d, scale_of(mean_sigma(floats, k)), X[t], sums, squares)
        taken[:] = FAR
        for j in range(k):
            if integers[clusters + j] >= 0:
                taken[j] = squares[j]
        where, best = smallest(taken, padded)
        if best < FAR:
            cluster[t, 0] = integers[clusters + where]
            score[t] = 1.0 - cim(best)
        taken[:] = FAR
        for j in range(k):
            if majority[j] >= 0:
                taken[j] = squares[j]
        where, best = smallest(taken, padded)
        if best < FAR:
            label[t] = majority[where]
