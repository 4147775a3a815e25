"""A model's blocks, packed without room to spare: what a snapshot keeps of it.

The packed form is a function of the model alone, not of the capacity it happens to have: equal models, equal bytes.
"""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.caea import block
from resonance.engine.caea.block import at_cluster, at_field, at_labels, at_link, copy_floats, copy_rows
from resonance.engine.ordering import stable_order


@jit
def parts_of(head, at, d, h):
    """Return where clusters, links and labels of a packed model begin, where it ends, and how many floats it has.

    Its head is at `at`; its nodes follow.
    """
    k, clusters = head[at + block.K], head[at + block.CLUSTERS]
    at_clusters = at + block.HEAD + block.PACKED_FIELDS * k
    joined = at_clusters + block.CLUSTER_FIELDS * clusters
    marks = joined + block.LINK_WIDTH * head[at + block.JOINED]
    end = marks + block.LABEL_WIDTH * head[at + block.MARKS]
    return at_clusters, joined, marks, end, (d + 2) * k + min(head[at + block.N], h) * d + clusters * 2 * d


@jit
def packed_model(floats, integers, d, h):
    """Return the contents of a model as one array of floats and one of integers."""
    capacity, k, clusters = integers[block.CAPACITY], integers[block.K], integers[block.CLUSTERS]
    classes, links = integers[block.LABELS], integers[block.LINKS]
    linked, counts = at_field(block.LINKED, capacity), at_labels(0, capacity, links, classes)
    integers[block.JOINED] = np.sum(integers[linked : linked + k]) // 2
    integers[block.MARKS] = np.count_nonzero(integers[counts : counts + k * classes])
    at_clusters, at, _, end, length = parts_of(integers, 0, d, h)
    out_floats, out = np.empty(length), np.empty(end, dtype=np.int64)
    ring = min(integers[block.N], h) * d
    copy_floats(out_floats, 0, k, ring, floats, block.F_HEAD, capacity, h * d, d, k, clusters)
    copy_rows(out, 0, 0, integers, 0, 0, 1, block.HEAD)
    copy_rows(out, block.HEAD, k, integers, block.I_HEAD, capacity, block.PACKED_FIELDS, k)
    copy_rows(
        out, at_clusters, clusters, integers, at_cluster(0, capacity), capacity // 2, block.CLUSTER_FIELDS, clusters
    )
    for i in range(k):
        row = at_link(i, block.OTHER, capacity, links)
        # By the other node: the order in which links came is no part of the model.
        for a in row + stable_order(integers[row : row + integers[linked + i]]):
            if integers[a] < i:
                out[at], out[at + 1] = i, integers[a]
                out[at + 2], out[at + 3] = integers[a + links], integers[a + 2 * links]
                at += 4
    for cell in range(k * classes):
        if integers[counts + cell] > 0:
            out[at], out[at + 1], out[at + 2] = cell // classes, cell % classes, integers[counts + cell]
            at += 3
    return out_floats, out


@jit
def unpacked_model(packed_floats, packed, d, h):
    """Return the blocks of a packed model that fits, with room for at least one more node."""
    k, clusters = packed[block.K], packed[block.CLUSTERS]
    at_clusters, joined, marks, end, _ = parts_of(packed, 0, d, h)
    capacity = block.SMALLEST
    # Clusters as last read may have lost nodes since: there may be more of them than the nodes now make room for.
    while capacity <= k or capacity < 2 * clusters:
        capacity *= 2
    degree = np.zeros(k + 1, dtype=np.int64)
    for at in range(joined, marks, block.LINK_WIDTH):
        degree[packed[at]] += 1
        degree[packed[at + 1]] += 1
    classes = 0
    for at in range(marks, end, block.LABEL_WIDTH):
        classes = max(classes, packed[at + 1] + 1)
    links = block.FEWEST_LINKS
    while links <= degree.max():
        links *= 2
    floats, integers = block.new_block(d, h, capacity, links, classes)
    copy_rows(integers, 0, 0, packed, 0, 0, 1, block.HEAD)
    copy_rows(integers, block.I_HEAD, capacity, packed, block.HEAD, k, block.PACKED_FIELDS, k)
    copy_rows(
        integers, at_cluster(0, capacity), capacity // 2, packed, at_clusters, clusters, block.CLUSTER_FIELDS, clusters
    )
    for field in (block.CHILD, block.FIRST, block.LAST):
        integers[at_field(field, capacity) : at_field(field, capacity) + k] = -1
    for at in range(joined, marks, block.LINK_WIDTH):
        for i, j in ((packed[at], packed[at + 1]), (packed[at + 1], packed[at])):
            block.add_link(integers, i, j, packed[at + 2], packed[at + 3])
    for at in range(marks, end, block.LABEL_WIDTH):
        integers[at_labels(packed[at], capacity, links, classes) + packed[at + 1]] = packed[at + 2]
    ring = min(packed[block.N], h) * d
    copy_floats(floats, block.F_HEAD, capacity, h * d, packed_floats, 0, k, ring, d, k, clusters)
    block.sum_sigma(floats, integers, d)
    return floats, integers
