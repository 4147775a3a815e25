"""How one CAEA model lies in memory: a block of floats and a block of integers.

Two flat arrays per model keep a tree of thousands of models cheap: a kernel reaches everything of a model by two
look-ups, and a model that grows is two new arrays. Nodes stand in the order in which they were made. `C` is the
capacity in nodes, a multiple of 8, so that a loop over nodes fills the vector lanes; weights lie feature-major for
the same reason, and the lanes behind the last node hold zeros.

Floats: head | weights d x C | bandwidth C | threshold C | last h records h x d | cluster centres and spreads C/2 x 2d
Integers: head | one row of C for each field of a node | clusters 4 x C/2 | links C x 3 x L | labels C x c

A link joins two nodes that have won together: how often, and the age of the edge between them if there is one (there
is no edge without a common win). It stands in the rows of both; a row has room for L links.

A snapshot keeps the blocks packed, without room to spare. The packed form is a function of the model alone, not of the
capacity it happens to have: equal models, equal bytes.
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.labels import room_for_classes
from resonance.kernels.arithmetic import inline, jit
from resonance.kernels.ordering import stable_order

# Bounds that depend on the model; see `faults`.
(
    ANY, RECORDS, MOST_NODES, IDS, LAST_ID, LAST_CLUSTER, MOST_CLUSTERS, LAST_LEVEL, LAST_NODE, OLDEST, NODE_ROOM,
    PAIRS, LAST_CLASS, CELLS,
) = range(14)  # fmt: skip


class Column(NamedTuple):
    """Integers of a packed model: what they are, and the bounds of their values."""

    name: str
    least: int
    most: int
    ascending: bool = False


# What a snapshot keeps of a model, in this order: the head, then a row of each column of nodes and of clusters, then
# the links and the labels one behind the other.
HEAD_COLUMNS = (
    Column("number of records", 1, ANY),
    Column("number of nodes", 0, MOST_NODES),
    Column("next node", 0, RECORDS),
    Column("next cluster", 0, ANY),
    Column("number of clusters", 0, MOST_CLUSTERS),
    Column("number of events", 0, ANY),
    Column("parent node", -1, ANY),
    Column("level", 0, LAST_LEVEL),
    Column("number of leaves", 0, ANY),
    Column("next node at the last reading", 0, IDS),
    Column("number of novel readings", 0, RECORDS),
    Column("number of links", 0, PAIRS),
    Column("number of labels", 0, CELLS),
)
NODE_COLUMNS = (
    Column("records of a node", 1, RECORDS),
    Column("id of a node", 0, LAST_ID, ascending=True),
    Column("record that made a node", 1, RECORDS, ascending=True),
    Column("clock of a node", 0, ANY),
    Column("cluster of a node", -1, LAST_CLUSTER),
    Column("last record of a node", 1, RECORDS),
    Column("hits of a node", 0, RECORDS),
    Column("first record of a node's hits", 1, RECORDS),
)
CLUSTER_COLUMNS = (
    Column("id of a cluster", 0, LAST_CLUSTER, ascending=True),
    Column("records of a cluster", 1, RECORDS),
    Column("nodes of a cluster", 2, NODE_ROOM),
    Column("record that made a cluster", 0, RECORDS),
)
LINK_COLUMNS = (
    Column("node of a link", 0, LAST_NODE),
    Column("other node of a link", 0, LAST_NODE),
    Column("age of a link", 0, OLDEST),
    Column("common wins", 1, RECORDS),
)
LABEL_COLUMNS = (
    Column("node of a label", 0, LAST_NODE),
    Column("class of a label", 0, LAST_CLASS),
    Column("records of a label", 1, ANY),
)

# The heads; of the integers those that are packed, then what a model has beside them in memory.
F_HEAD = 8
SUM_SIGMA = 0  # sum of all bandwidths, in node order, and what rounding took from it
LOST_SIGMA = 1

(
    N, K, NEXT_ID, NEXT_CLUSTER, CLUSTERS, EVENTS, PARENT_ID, LEVEL, LEAVES, READ_ID, NOVEL_RUN, JOINED, MARKS
) = range(len(HEAD_COLUMNS))  # fmt: skip
HEAD = len(HEAD_COLUMNS)
CAPACITY = 13
LINKS = 14  # links a node has room for
MAX_LINKS = 15  # no node has more
LABELS = 16  # label classes for which there is room
PARENT = 17  # index of the parent model, -1 for the root
WAIT_FIRST = 18  # records that wait until there is a node for them: a chain in the pool, -1 for none
WAIT_LAST = 19
WAITING = 20
QUEUED = 21  # on the second level: leaves left in its queue
I_HEAD = 24

# Fields of a node, a row of C integers each, likewise.
COUNT, ID, MADE, WON, CLUSTER, SEEN, HITS, SINCE = range(len(NODE_COLUMNS))
PACKED_FIELDS = len(NODE_COLUMNS)
CHILD = 8  # index of its child model, -1 for none
FIRST = 9  # its kept records: a chain in the pool, -1 for none
LAST = 10
KEPT = 11
DEGREE = 12  # edges at it
LINKED = 13  # links at it
FIELDS = 14

# Fields of a confirmed cluster, a row of C/2 integers each.
CLUSTER_ID, CLUSTER_SIZE, CLUSTER_NODES, CLUSTER_MADE = range(len(CLUSTER_COLUMNS))
CLUSTER_FIELDS = len(CLUSTER_COLUMNS)
LINK_WIDTH, LABEL_WIDTH = len(LINK_COLUMNS), len(LABEL_COLUMNS)

# Parts of a row of links.
OTHER = 0  # position of the other node
AGE = 1  # age of the edge + 1, 0 where there is none
WINS = 2  # common wins

SMALLEST = 16
"""Nodes that a new model has room for."""
FEWEST_LINKS = 4
"""Links that a node of a new model has room for."""


class Rules(NamedTuple):
    """The parameters of a model, as the kernels see them."""

    d: int
    h: int
    interval: int
    age_max: int
    grace: int
    expire: int
    varying: bool
    renew: int
    max_nodes: int
    affinity: bool
    tau: float
    valleys: bool
    valley: float
    min_cluster_records: int
    min_child_records: int
    max_depth: int
    max_leaves: int
    nearest: bool
    keep: int


@inline
def at_weight(i, capacity):
    """Where the weights of feature `i` begin."""
    return F_HEAD + i * capacity


@inline
def at_sigma(d, capacity):
    """Where the bandwidths begin."""
    return F_HEAD + d * capacity


@inline
def at_threshold(d, capacity):
    """Where the vigilance thresholds begin."""
    return F_HEAD + (d + 1) * capacity


@inline
def at_ring(d, capacity):
    """Where the last h records begin."""
    return F_HEAD + (d + 2) * capacity


@inline
def at_shape(d, h, capacity, cluster):
    """Where the centre of the cluster at position `cluster` begins; its spread follows."""
    return F_HEAD + (d + 2) * capacity + h * d + cluster * 2 * d


@inline
def at_field(field, capacity):
    """Where a field of the nodes begins."""
    return I_HEAD + field * capacity


@inline
def at_cluster(field, capacity):
    """Where a field of the clusters begins."""
    return I_HEAD + FIELDS * capacity + field * (capacity // 2)


@inline
def at_link(k, part, capacity, links):
    """Where a part of the links of node `k` begins."""
    return I_HEAD + (FIELDS + CLUSTER_FIELDS // 2) * capacity + (3 * k + part) * links


@inline
def at_labels(k, capacity, links, classes):
    """Where the label counts of node `k` begin."""
    return I_HEAD + (FIELDS + CLUSTER_FIELDS // 2 + 3 * links) * capacity + k * classes


@jit
def new_block(d, h, capacity, links, classes):
    """Return the two blocks of an empty model."""
    floats = np.zeros(at_shape(d, h, capacity, capacity // 2), dtype=np.float64)
    integers = np.zeros(at_labels(capacity, capacity, links, classes), dtype=np.int64)
    integers[CAPACITY], integers[LINKS], integers[LABELS] = capacity, links, classes
    integers[PARENT] = integers[WAIT_FIRST] = integers[WAIT_LAST] = -1
    return floats, integers


@jit
def copy_rows(to, a, new, source, b, old, rows, count):
    """Copy `count` entries of each of some rows, `old` apart from `b` on, to rows that are `new` apart from `a` on."""
    for row in range(rows):
        for at in range(count):
            to[a + row * new + at] = source[b + row * old + at]


@jit
def copy_floats(to, a, new, new_ring, source, b, old, old_ring, d, k, clusters):
    """Copy what `k` nodes and the clusters have of floats, and the last records, to other capacities and rings."""
    copy_rows(to, a, new, source, b, old, d + 2, k)
    a, b = a + (d + 2) * new, b + (d + 2) * old
    copy_rows(to, a, 0, source, b, 0, 1, min(new_ring, old_ring))
    copy_rows(to, a + new_ring, 0, source, b + old_ring, 0, 1, clusters * 2 * d)


@jit
def resized(floats, integers, d, h, capacity, links, classes):
    """Return a copy of a model with room for `capacity` nodes, `links` at each of them, and `classes` labels."""
    old, old_links, old_classes, k = integers[CAPACITY], integers[LINKS], integers[LABELS], integers[K]
    clusters = integers[CLUSTERS]
    new_floats, new = new_block(d, h, capacity, links, classes)
    copy_rows(new_floats, 0, 0, floats, 0, 0, 1, F_HEAD)
    copy_rows(new, 0, 0, integers, 0, 0, 1, I_HEAD)
    new[CAPACITY], new[LINKS], new[LABELS] = capacity, links, classes
    copy_floats(new_floats, F_HEAD, capacity, h * d, floats, F_HEAD, old, h * d, d, k, clusters)
    copy_rows(new, I_HEAD, capacity, integers, I_HEAD, old, FIELDS, k)
    copy_rows(
        new, at_cluster(0, capacity), capacity // 2, integers, at_cluster(0, old), old // 2, CLUSTER_FIELDS, clusters
    )
    a, b = at_link(0, 0, capacity, links), at_link(0, 0, old, old_links)
    copy_rows(new, a, links, integers, b, old_links, 3 * k, old_links)
    a, b = at_labels(0, capacity, links, classes), at_labels(0, old, old_links, old_classes)
    copy_rows(new, a, classes, integers, b, old_classes, k, old_classes)
    return new_floats, new


@jit
def with_room(floats, integers, d, h):
    """Return the blocks of a model, larger ones where there is no room for another node or link."""
    capacity, links = integers[CAPACITY], integers[LINKS]
    more = 2 if integers[K] == capacity else 1
    longer = 2 if integers[MAX_LINKS] == links else 1
    if more == 1 and longer == 1:
        return floats, integers
    return resized(floats, integers, d, h, more * capacity, longer * links, integers[LABELS])


@jit
def with_class(floats, integers, d, h, label):
    """Return the blocks of a model, larger ones where there is no room to count a class."""
    classes = room_for_classes(integers[LABELS], label + 1)
    if classes == integers[LABELS]:
        return floats, integers
    return resized(floats, integers, d, h, integers[CAPACITY], integers[LINKS], classes)


@inline
def find_link(integers, k, other, capacity, links):
    """Return the position in the row of node `k` of its link to `other`, -1 where there is none."""
    row = at_link(k, OTHER, capacity, links)
    for at in range(integers[at_field(LINKED, capacity) + k]):
        if integers[row + at] == other:
            return at
    return -1


@jit
def add_link(integers, k, other, age, wins):
    """Append a link to the row of node `k`; the row has room."""
    capacity, links = integers[CAPACITY], integers[LINKS]
    at = integers[at_field(LINKED, capacity) + k]
    integers[at_link(k, OTHER, capacity, links) + at] = other
    integers[at_link(k, AGE, capacity, links) + at] = age
    integers[at_link(k, WINS, capacity, links) + at] = wins
    integers[at_field(LINKED, capacity) + k] = at + 1
    integers[at_field(DEGREE, capacity) + k] += 1 if age > 0 else 0
    integers[MAX_LINKS] = max(integers[MAX_LINKS], at + 1)


@inline
def add_sigma(floats, sigma):
    """Add a bandwidth to the sum of all, with compensation (Neumaier): the mean is right to the last bit."""
    total = floats[SUM_SIGMA]
    new = total + sigma
    floats[LOST_SIGMA] += (total - new) + sigma if total >= sigma else (sigma - new) + total
    floats[SUM_SIGMA] = new


@inline
def mean_sigma(floats, k):
    """Return the mean bandwidth of `k` nodes (10)(11)."""
    return (floats[SUM_SIGMA] + floats[LOST_SIGMA]) / k


@jit
def sum_sigma(floats, integers, d):
    """Add all bandwidths anew, in node order: the sum is a function of the present nodes alone."""
    a = at_sigma(d, integers[CAPACITY])
    floats[SUM_SIGMA] = 0.0
    floats[LOST_SIGMA] = 0.0
    for node in range(integers[K]):
        add_sigma(floats, floats[a + node])


@inline
def _close(block, start, width, gone, removed, k):
    """Close the gaps that the `removed` positions listed in `gone` leave in `k` rows of a width; clear the end."""
    to = start + gone[0] * width
    for r in range(removed):
        end = gone[r + 1] if r + 1 < removed else k
        for at in range(start + (gone[r] + 1) * width, start + end * width):
            block[to] = block[at]
            to += 1
    for at in range(to, start + k * width):
        block[at] = 0


@jit
def _drop_links(integers, gone, removed):
    """Drop the links to nodes that go, and renumber the rest."""
    capacity, links, k = integers[CAPACITY], integers[LINKS], integers[K]
    linked, degree = at_field(LINKED, capacity), at_field(DEGREE, capacity)
    renamed = np.empty(k, dtype=np.int64)
    r = 0
    for node in range(k):
        goes = r < removed and gone[r] == node
        renamed[node] = -1 if goes else node - r
        r += goes
    most = 0
    for node in range(k):
        if renamed[node] < 0:
            continue
        row, count = at_link(node, OTHER, capacity, links), 0
        for at in range(row, row + integers[linked + node]):
            other = renamed[integers[at]]
            if other < 0:
                integers[degree + node] -= 1 if integers[at + links] > 0 else 0
                continue
            integers[row + count] = other
            integers[row + links + count] = integers[at + links]
            integers[row + 2 * links + count] = integers[at + 2 * links]
            count += 1
        integers[linked + node] = count
        most = max(most, count)
    integers[MAX_LINKS] = most


@jit
def remove_nodes(floats, integers, d, gone, removed):
    """Remove the nodes at the ascending positions ``gone[:removed]`` with their links; the others keep their order."""
    capacity, k, links, classes = integers[CAPACITY], integers[K], integers[LINKS], integers[LABELS]
    _drop_links(integers, gone, removed)
    for row in range(d + 2):
        _close(floats, at_weight(row, capacity), 1, gone, removed, k)
    for field in range(FIELDS):
        _close(integers, at_field(field, capacity), 1, gone, removed, k)
    _close(integers, at_link(0, OTHER, capacity, links), 3 * links, gone, removed, k)
    _close(integers, at_labels(0, capacity, links, classes), classes, gone, removed, k)
    integers[K] = k - removed
    sum_sigma(floats, integers, d)


@jit
def parts_of(head, at, d, h):
    """Return where clusters, links and labels of a packed model begin, where it ends, and how many floats it has.

    Its head is at `at`; its nodes follow.
    """
    k, clusters = head[at + K], head[at + CLUSTERS]
    at_clusters = at + HEAD + PACKED_FIELDS * k
    joined = at_clusters + CLUSTER_FIELDS * clusters
    marks = joined + LINK_WIDTH * head[at + JOINED]
    end = marks + LABEL_WIDTH * head[at + MARKS]
    return at_clusters, joined, marks, end, (d + 2) * k + min(head[at + N], h) * d + clusters * 2 * d


@jit
def packed_model(floats, integers, d, h):
    """Return the contents of a model as one array of floats and one of integers."""
    capacity, k, clusters = integers[CAPACITY], integers[K], integers[CLUSTERS]
    classes, links = integers[LABELS], integers[LINKS]
    linked, counts = at_field(LINKED, capacity), at_labels(0, capacity, links, classes)
    integers[JOINED] = np.sum(integers[linked : linked + k]) // 2
    integers[MARKS] = np.count_nonzero(integers[counts : counts + k * classes])
    at_clusters, at, _, end, length = parts_of(integers, 0, d, h)
    out_floats, out = np.empty(length), np.empty(end, dtype=np.int64)
    ring = min(integers[N], h) * d
    copy_floats(out_floats, 0, k, ring, floats, F_HEAD, capacity, h * d, d, k, clusters)
    copy_rows(out, 0, 0, integers, 0, 0, 1, HEAD)
    copy_rows(out, HEAD, k, integers, I_HEAD, capacity, PACKED_FIELDS, k)
    copy_rows(out, at_clusters, clusters, integers, at_cluster(0, capacity), capacity // 2, CLUSTER_FIELDS, clusters)
    for i in range(k):
        row = at_link(i, OTHER, capacity, links)
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
    k, clusters = packed[K], packed[CLUSTERS]
    at_clusters, joined, marks, end, _ = parts_of(packed, 0, d, h)
    capacity = SMALLEST
    # Clusters as last read may have lost nodes since: there may be more of them than the nodes now make room for.
    while capacity <= k or capacity < 2 * clusters:
        capacity *= 2
    degree = np.zeros(k + 1, dtype=np.int64)
    for at in range(joined, marks, LINK_WIDTH):
        degree[packed[at]] += 1
        degree[packed[at + 1]] += 1
    classes = 0
    for at in range(marks, end, LABEL_WIDTH):
        classes = max(classes, packed[at + 1] + 1)
    links = FEWEST_LINKS
    while links <= degree.max():
        links *= 2
    floats, integers = new_block(d, h, capacity, links, classes)
    copy_rows(integers, 0, 0, packed, 0, 0, 1, HEAD)
    copy_rows(integers, I_HEAD, capacity, packed, HEAD, k, PACKED_FIELDS, k)
    copy_rows(integers, at_cluster(0, capacity), capacity // 2, packed, at_clusters, clusters, CLUSTER_FIELDS, clusters)
    for field in (CHILD, FIRST, LAST):
        integers[at_field(field, capacity) : at_field(field, capacity) + k] = -1
    for at in range(joined, marks, LINK_WIDTH):
        for i, j in ((packed[at], packed[at + 1]), (packed[at + 1], packed[at])):
            add_link(integers, i, j, packed[at + 2], packed[at + 3])
    for at in range(marks, end, LABEL_WIDTH):
        integers[at_labels(packed[at], capacity, links, classes) + packed[at + 1]] = packed[at + 2]
    ring = min(packed[N], h) * d
    copy_floats(floats, F_HEAD, capacity, h * d, packed_floats, 0, k, ring, d, k, clusters)
    sum_sigma(floats, integers, d)
    return floats, integers
