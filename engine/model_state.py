"""A model's blocks, packed without room to spare: what a snapshot keeps of it.

The packed form is a function of the model alone, not of the capacity it happens to have: equal models, equal bytes.
"""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.model_block import (
    CAPACITY,
    CHILD,
    CLUSTER,
    CLUSTER_FIELDS,
    CLUSTERS,
    COUNT,
    DEGREE,
    EVENTS,
    F_HEAD,
    FIRST,
    ID,
    LABELS,
    LAST,
    LEVEL,
    MADE,
    NEXT_CLUSTER,
    NEXT_ID,
    PARENT_ID,
    SMALLEST,
    SUBTREE,
    WON,
    K,
    N,
    at_cluster,
    at_cowin,
    at_edge,
    at_field,
    at_labels,
    at_ring,
    at_shape,
    new_block,
    sum_sigma,
)

_HEAD = (N, K, NEXT_ID, NEXT_CLUSTER, CLUSTERS, EVENTS, PARENT_ID, LEVEL, SUBTREE)
_FIELDS = (COUNT, ID, MADE, WON, CLUSTER)


@jit
def packed_model(floats, integers, d, h):
    """Return the contents of a model as one array of floats and one of integers."""
    capacity, k, clusters = integers[CAPACITY], integers[K], integers[CLUSTERS]
    classes, held = integers[LABELS], min(integers[N], h)
    out_floats = np.empty((d + 2) * k + held * d + clusters * 2 * d)
    at = 0
    for row in range(d + 2):
        out_floats[at : at + k] = floats[F_HEAD + row * capacity : F_HEAD + row * capacity + k]
        at += k
    ring = at_ring(d, capacity)
    out_floats[at : at + held * d] = floats[ring : ring + held * d]
    at += held * d
    shapes = at_shape(d, h, capacity, 0)
    out_floats[at:] = floats[shapes : shapes + clusters * 2 * d]

    edges, wins, marks = 0, 0, 0
    for i in range(k):
        for j in range(i):
            edges += 1 if integers[at_edge(i, capacity) + j] > 0 else 0
            wins += 1 if integers[at_cowin(i, capacity) + j] > 0 else 0
        for c in range(classes):
            marks += 1 if integers[at_labels(i, capacity, classes) + c] > 0 else 0
    fields, triples = len(_FIELDS) * k + CLUSTER_FIELDS * clusters, edges + wins + marks
    out = np.empty(len(_HEAD) + 3 + fields + 3 * triples, dtype=np.int64)
    at = 0
    for field in _HEAD:
        out[at] = integers[field]
        at += 1
    out[at], out[at + 1], out[at + 2] = edges, wins, marks
    at += 3
    for field in _FIELDS:
        out[at : at + k] = integers[at_field(field, capacity) : at_field(field, capacity) + k]
        at += k
    for field in range(CLUSTER_FIELDS):
        a = at_cluster(field, capacity)
        out[at : at + clusters] = integers[a : a + clusters]
        at += clusters
    for part in range(3):
        for i in range(k):
            base = at_labels(i, capacity, classes)
            if part < 2:
                base = at_edge(i, capacity) if part == 0 else at_cowin(i, capacity)
            for j in range(classes if part == 2 else i):
                if integers[base + j] > 0:
                    out[at], out[at + 1], out[at + 2] = i, j, integers[base + j]
                    at += 3
    return out_floats, out


@jit
def model_lengths(integers, at, d, h):
    """Return how many floats and integers the packed model has whose integers begin at `at`."""
    k, clusters, held = integers[at + 1], integers[at + 4], min(integers[at], h)
    head = at + len(_HEAD)
    triples = integers[head] + integers[head + 1] + integers[head + 2]
    floats = (d + 2) * k + held * d + clusters * 2 * d
    return floats, len(_HEAD) + 3 + len(_FIELDS) * k + CLUSTER_FIELDS * clusters + 3 * triples


@jit
def unpacked_model(packed_floats, packed, d, h, classes):
    """Return the blocks of a packed model, with room for at least one more node."""
    k = packed[1]
    capacity = SMALLEST
    while capacity <= k:
        capacity *= 2
    floats, integers = new_block(d, h, capacity, classes)
    at = 0
    for field in _HEAD:
        integers[field] = packed[at]
        at += 1
    edges, wins, marks = packed[at], packed[at + 1], packed[at + 2]
    at += 3
    clusters, held = integers[CLUSTERS], min(integers[N], h)
    for field in _FIELDS:
        integers[at_field(field, capacity) : at_field(field, capacity) + k] = packed[at : at + k]
        at += k
    for field in (CHILD, FIRST, LAST):
        integers[at_field(field, capacity) : at_field(field, capacity) + k] = -1
    for field in range(CLUSTER_FIELDS):
        a = at_cluster(field, capacity)
        integers[a : a + clusters] = packed[at : at + clusters]
        at += clusters
    degree = at_field(DEGREE, capacity)
    for part in range(3):
        for _ in range(edges if part == 0 else wins if part == 1 else marks):
            i, j, value = packed[at], packed[at + 1], packed[at + 2]
            at += 3
            if part == 2:
                integers[at_labels(i, capacity, classes) + j] = value
            elif part == 1:
                integers[at_cowin(i, capacity) + j] = value
                integers[at_cowin(j, capacity) + i] = value
            else:
                integers[at_edge(i, capacity) + j] = value
                integers[at_edge(j, capacity) + i] = value
                integers[degree + i] += 1
                integers[degree + j] += 1
    at = 0
    for row in range(d + 2):
        floats[F_HEAD + row * capacity : F_HEAD + row * capacity + k] = packed_floats[at : at + k]
        at += k
    floats[at_ring(d, capacity) : at_ring(d, capacity) + held * d] = packed_floats[at : at + held * d]
    at += held * d
    shapes = at_shape(d, h, capacity, 0)
    floats[shapes : shapes + clusters * 2 * d] = packed_floats[at : at + clusters * 2 * d]
    sum_sigma(floats, integers, d)
    return floats, integers
