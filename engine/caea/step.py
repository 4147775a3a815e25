"""One record learned by one CAEA model: similarity, bandwidth, winners, weights, edges (Algorithm 1).

Equation numbers are those of Masuyama et al., IEEE Access 2022. CIM is kept squared until it is compared with a
threshold: the order of nodes is the same, and one square root a record is enough.
"""

import numpy as np
from resonance.engine.arithmetic import inline, jit
from resonance.engine.borrowed import borrow
from resonance.engine.caea.block import (
    AGE,
    CAPACITY,
    CHILD,
    CLUSTER,
    CLUSTERS,
    COUNT,
    DEGREE,
    F_HEAD,
    FIRST,
    ID,
    KEPT,
    LAST,
    LINKED,
    LINKS,
    MADE,
    NEXT_ID,
    OTHER,
    WON,
    K,
    N,
    add_link,
    add_sigma,
    at_field,
    at_link,
    at_ring,
    at_sigma,
    at_threshold,
    at_weight,
    find_link,
    mean_sigma,
)
from resonance.engine.correntropy import FAR, cim, median_bandwidth, scale_of, smallest, squared_cim

# What a step tells beside the node, in a row of floats.
FOUNDED = 0  # 1 when the record became a node (case I, or while there are fewer than h nodes)
CASE = 1  # 1 new node, 2 first winner only, 3 both winners
V1 = 2
V2 = 3
SECOND = 4  # id of the second winner
THRESHOLD = 5
SIGMA = 6
ANSWER = 7  # cluster before learning, -1 for none
SCORE = 8
SECOND_AT = 9  # its position
TOLD = 10


@jit
def bandwidth(floats, integers, rules, factors, x, work):
    """Return sigma of a node founded by `x`, from the last m records, `x` included (8)(9).

    `work` has room for 2 d floats.
    """
    d, m = rules.d, min(integers[N], rules.h)
    return median_bandwidth(borrow(floats)[at_ring(d, integers[CAPACITY]) :], m, d, factors, x, work)


@jit
def append_node(floats, integers, rules, x, sigma, threshold, clock):
    """Make `x` a node; the block has room for it. Return its position."""
    capacity, k, d = integers[CAPACITY], integers[K], rules.d
    for i in range(d):
        floats[at_weight(i, capacity) + k] = x[i]
    floats[at_sigma(d, capacity) + k] = sigma
    floats[at_threshold(d, capacity) + k] = threshold
    add_sigma(floats, sigma)
    integers[at_field(COUNT, capacity) + k] = 1
    integers[at_field(ID, capacity) + k] = integers[NEXT_ID]
    integers[at_field(MADE, capacity) + k] = integers[N]
    integers[at_field(WON, capacity) + k] = clock
    for field in (CLUSTER, CHILD, FIRST, LAST):
        integers[at_field(field, capacity) + k] = -1
    integers[at_field(KEPT, capacity) + k] = 0
    integers[at_field(DEGREE, capacity) + k] = 0
    integers[at_field(LINKED, capacity) + k] = 0
    integers[NEXT_ID] += 1
    integers[K] = k + 1
    return k


@jit
def _set_initial_thresholds(floats, integers, rules, sums, squares):
    """Set every V to the mean of the smallest CIM of each node to another one (7)."""
    capacity, k, d = integers[CAPACITY], integers[K], rules.d
    weights = floats[F_HEAD:]
    scale = scale_of(mean_sigma(floats, k))
    x = np.empty(d)
    total = 0.0
    for node in range(k):
        for i in range(d):
            x[i] = weights[i * capacity + node]
        squared_cim(weights, capacity, k, d, scale, x, sums, squares)
        squares[node] = FAR
        _, best = smallest(squares, (k + 7) & ~7)
        total += cim(best)
    a = at_threshold(d, capacity)
    for node in range(k):
        floats[a + node] = total / k


@jit
def _found_early(floats, integers, rules, factors, x, clock, sums, squares, work):
    """Part A: fewer than h nodes, the record becomes one."""
    capacity, k, d = integers[CAPACITY], integers[K], rules.d
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
        _set_initial_thresholds(floats, integers, rules, sums, squares)
    else:
        for j in range(k):
            floats[a + j] = mean
    return node


@jit
def _win(floats, integers, rules, k1, k2, x, both):
    """Count the common win of `k1` and `k2` and age the edges at `k1` (17).

    Where `both` won, the neighbours of `k1` move (20) and the two get an edge of age 0 (21). That comes last: a new
    edge does not move `k2`.
    """
    capacity, links, d = integers[CAPACITY], integers[LINKS], rules.d
    degree, counts = at_field(DEGREE, capacity), at_field(COUNT, capacity)
    row = at_link(k1, OTHER, capacity, links)
    found = np.int64(-1)
    for at in range(integers[at_field(LINKED, capacity) + k1]):
        j = integers[row + at]
        age = integers[row + links + at]
        if j == k2:
            found = np.int64(at)
        if age == 0:
            continue
        mirror = at_link(j, AGE, capacity, links) + find_link(integers, j, k1, capacity, links)
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
        add_link(integers, k1, k2, 1 if both else 0, 1)
        add_link(integers, k2, k1, 1 if both else 0, 1)
        return
    mirror = at_link(k2, OTHER, capacity, links) + find_link(integers, k2, k1, capacity, links)
    integers[row + 2 * links + found] += 1
    integers[mirror + 2 * links] += 1
    if both:
        if integers[row + links + found] == 0:
            integers[degree + k1] += 1
            integers[degree + k2] += 1
        integers[row + links + found] = 1
        integers[mirror + links] = 1


@inline
def learn_one(floats, integers, rules, factors, x, clock, sums, squares, work, told):
    """Learn `x` and answer for it; the block has room for one more node and link. Deletion and reading come after.

    Parameters
    ----------
    clock : int
        Written to the winner, for evictions.
    sums, squares, work : ndarray
        Scratch: capacity floats, capacity integers, 2 d floats.
    told : ndarray of shape (TOLD,)
        Filled with what else is known of the step.

    Returns
    -------
    int
        Position of the node that the record was given to.
    """
    d, h = rules.d, rules.h
    capacity, k = integers[CAPACITY], integers[K]
    at = at_ring(d, capacity) + (integers[N] % h) * d
    integers[N] += 1
    for i in range(d):
        floats[at + i] = x[i]
    told[FOUNDED] = 1.0
    told[CASE] = 1.0
    told[V1] = told[V2] = told[THRESHOLD] = told[SIGMA] = told[SCORE] = np.nan
    told[SECOND] = told[ANSWER] = told[SECOND_AT] = -1.0
    if k < h and integers[CLUSTERS] == 0:
        return _found_early(floats, integers, rules, factors, x, clock, sums, squares, work)

    weights = floats[F_HEAD:]
    padded = (k + 7) & ~7
    sigma = mean_sigma(floats, k) if k > 0 else 1.0
    squared_cim(weights, capacity, k, d, scale_of(sigma), x, sums, squares)
    k1, best = smallest(squares, padded)
    if integers[CLUSTERS] > 0:
        clusters = at_field(CLUSTER, capacity)
        near, near_bits = k1, best
        if integers[clusters + k1] < 0:
            near, near_bits = 0, FAR
            for j in range(k):
                if integers[clusters + j] >= 0 and squares[j] < near_bits:
                    near, near_bits = j, squares[j]
        if near_bits < FAR:
            told[ANSWER] = integers[clusters + near]
            told[SCORE] = 1.0 - cim(near_bits)
    if k < h:
        return _found_early(floats, integers, rules, factors, x, clock, sums, squares, work)

    squares[k1] = FAR
    k2, second = smallest(squares, padded)
    v1, v2 = cim(best), cim(second)
    thresholds = at_threshold(d, capacity)
    threshold = floats[thresholds + k1]
    told[V1] = v1
    told[V2] = v2
    told[SECOND] = integers[at_field(ID, capacity) + k2]
    told[SECOND_AT] = k2
    told[THRESHOLD] = threshold
    told[SIGMA] = sigma
    if v1 > threshold:  # case I (14)
        fresh = bandwidth(floats, integers, rules, factors, x, work)
        return append_node(floats, integers, rules, x, fresh, threshold, clock)

    both = v2 <= floats[thresholds + k2]  # case III (16)
    told[FOUNDED] = 0.0
    told[CASE] = 3.0 if both else 2.0
    count = integers[at_field(COUNT, capacity) + k1]
    share = 1.0 / count
    for i in range(d):  # (18)
        at = np.uintp(at_weight(i, capacity) + k1)
        floats[at] += (x[i] - floats[at]) * share
    integers[at_field(COUNT, capacity) + k1] = count + 1  # (19)
    integers[at_field(WON, capacity) + k1] = clock
    _win(floats, integers, rules, k1, k2, x, both)
    return k1


@jit
def isolated_nodes(integers, rules, gone):
    """Write the positions of the nodes that a deletion step removes to `gone`; return how many there are.

    They have no edge and their grace is over.
    """
    capacity, k, n = integers[CAPACITY], integers[K], integers[N]
    degree, made = at_field(DEGREE, capacity), at_field(MADE, capacity)
    removed = 0
    if k > 1:
        for j in range(k):
            if integers[degree + j] == 0 and n - integers[made + j] >= rules.grace * rules.interval:
                gone[removed] = j
                removed += 1
    return removed
