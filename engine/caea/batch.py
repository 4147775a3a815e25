"""A batch learned, or answered, by one CAEA model."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.borrowed import borrow
from resonance.engine.caea import block
from resonance.engine.caea.block import at_field, at_labels, mean_sigma, remove_nodes, with_class, with_room
from resonance.engine.caea.reading import read_clusters
from resonance.engine.caea.step import ANSWER, FOUNDED, REPORTED, SCORE, fade_hits, learn_one, nodes_to_remove, renew
from resonance.engine.correntropy import FAR, cim, scale_of, smallest, squared_cim
from resonance.engine.labels import majority_label


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
