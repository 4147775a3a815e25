"""A model's blocks, packed without room to spare: what a snapshot keeps of it.

The packed form is a function of the model alone, not of the capacity it happens to have: equal models, equal bytes.
"""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.caea import block
from resonance.engine.caea.block import (
    add_link,
    at_cluster,
    at_field,
    at_labels,
    at_link,
    at_ring,
    at_shape,
    new_block,
    sum_sigma,
)

HEAD_PACKED = (
    block.N,
    block.K,
    block.NEXT_ID,
    block.NEXT_CLUSTER,
    block.CLUSTERS,
    block.EVENTS,
    block.PARENT_ID,
    block.LEVEL,
    block.LEAVES,
    block.READ_ID,
    block.NOVEL_RUN,
)
"""What a packed model begins with; how many links and labels there are comes next."""

FIELDS_PACKED = (block.COUNT, block.ID, block.MADE, block.WON, block.CLUSTER, block.SEEN, block.HITS, block.SINCE)
"""Its fields of each node."""


@jit
def packed_model(floats, integers, d, h):
    """Return the contents of a model as one array of floats and one of integers."""
    capacity, k, clusters = integers[block.CAPACITY], integers[block.K], integers[block.CLUSTERS]
    classes, links, held = integers[block.LABELS], integers[block.LINKS], min(integers[block.N], h)
    out_floats = np.empty((d + 2) * k + held * d + clusters * 2 * d)
    at = 0
    for row in range(d + 2):
        out_floats[at : at + k] = floats[block.F_HEAD + row * capacity : block.F_HEAD + row * capacity + k]
        at += k
    ring = at_ring(d, capacity)
    out_floats[at : at + held * d] = floats[ring : ring + held * d]
    at += held * d
    shapes = at_shape(d, h, capacity, 0)
    out_floats[at:] = floats[shapes : shapes + clusters * 2 * d]

    joined, marks = 0, 0
    for i in range(k):
        joined += integers[at_field(block.LINKED, capacity) + i]
        for c in range(classes):
            marks += 1 if integers[at_labels(i, capacity, links, classes) + c] > 0 else 0
    joined //= 2
    fields = len(FIELDS_PACKED) * k + block.CLUSTER_FIELDS * clusters
    out = np.empty(len(HEAD_PACKED) + 2 + fields + 4 * joined + 3 * marks, dtype=np.int64)
    at = 0
    for field in HEAD_PACKED:
        out[at] = integers[field]
        at += 1
    out[at], out[at + 1] = joined, marks
    at += 2
    for field in FIELDS_PACKED:
        out[at : at + k] = integers[at_field(field, capacity) : at_field(field, capacity) + k]
        at += k
    for field in range(block.CLUSTER_FIELDS):
        a = at_cluster(field, capacity)
        out[at : at + clusters] = integers[a : a + clusters]
        at += clusters
    for i in range(k):
        row, count = at_link(i, block.OTHER, capacity, links), integers[at_field(block.LINKED, capacity) + i]
        # By the other node: the order in which links came is no part of the model.
        for a in np.argsort(integers[row : row + count]):
            if integers[row + a] < i:
                out[at], out[at + 1] = i, integers[row + a]
                out[at + 2], out[at + 3] = integers[row + links + a], integers[row + 2 * links + a]
                at += 4
    for i in range(k):
        base = at_labels(i, capacity, links, classes)
        for c in range(classes):
            if integers[base + c] > 0:
                out[at], out[at + 1], out[at + 2] = i, c, integers[base + c]
                at += 3
    return out_floats, out


@jit
def model_lengths(integers, at, d, h):
    """Return how many floats and integers the packed model has whose integers begin at `at`."""
    k, clusters, held = integers[at + 1], integers[at + 4], min(integers[at], h)
    head = at + len(HEAD_PACKED)
    floats = (d + 2) * k + held * d + clusters * 2 * d
    fields = len(FIELDS_PACKED) * k + block.CLUSTER_FIELDS * clusters
    return floats, len(HEAD_PACKED) + 2 + fields + 4 * integers[head] + 3 * integers[head + 1]


@jit
def unpacked_model(packed_floats, packed, d, h, classes):
    """Return the blocks of a packed model that fits, with room for at least one more node."""
    k = packed[1]
    head = len(HEAD_PACKED)
    joined, marks = packed[head], packed[head + 1]
    clusters, held = packed[4], min(packed[0], h)
    capacity = block.SMALLEST
    # Clusters as last read may have lost nodes since: there may be more of them than the nodes now make room for.
    while capacity <= k or capacity < 2 * clusters:
        capacity *= 2
    at_joined = head + 2 + len(FIELDS_PACKED) * k + block.CLUSTER_FIELDS * clusters
    degree = np.zeros(k + 1, dtype=np.int64)
    for at in range(at_joined, at_joined + 4 * joined, 4):
        degree[packed[at]] += 1
        degree[packed[at + 1]] += 1
    links = block.FEWEST_LINKS
    while links <= degree.max():
        links *= 2
    floats, integers = new_block(d, h, capacity, links, classes)
    at = 0
    for field in HEAD_PACKED:
        integers[field] = packed[at]
        at += 1
    at += 2
    for field in FIELDS_PACKED:
        integers[at_field(field, capacity) : at_field(field, capacity) + k] = packed[at : at + k]
        at += k
    for field in (block.CHILD, block.FIRST, block.LAST):
        integers[at_field(field, capacity) : at_field(field, capacity) + k] = -1
    for field in range(block.CLUSTER_FIELDS):
        a = at_cluster(field, capacity)
        integers[a : a + clusters] = packed[at : at + clusters]
        at += clusters
    for _ in range(joined):
        i, j, age, wins = packed[at], packed[at + 1], packed[at + 2], packed[at + 3]
        add_link(integers, i, j, age, wins)
        add_link(integers, j, i, age, wins)
        at += 4
    for _ in range(marks):
        integers[at_labels(packed[at], capacity, links, classes) + packed[at + 1]] = packed[at + 2]
        at += 3
    at = 0
    for row in range(d + 2):
        floats[block.F_HEAD + row * capacity : block.F_HEAD + row * capacity + k] = packed_floats[at : at + k]
        at += k
    floats[at_ring(d, capacity) : at_ring(d, capacity) + held * d] = packed_floats[at : at + held * d]
    at += held * d
    shapes = at_shape(d, h, capacity, 0)
    floats[shapes : shapes + clusters * 2 * d] = packed_floats[at : at + clusters * 2 * d]
    sum_sigma(floats, integers, d)
    return floats, integers
