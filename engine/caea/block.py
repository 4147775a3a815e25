"""How one CAEA model lies in memory: a block of floats and a block of integers.

Two flat arrays per model keep a tree of thousands of models cheap: a kernel reaches everything of a model by two
look-ups, and a model that grows is two new arrays. Nodes stand in the order in which they were made. `C` is the
capacity in nodes, a multiple of 8, so that a loop over nodes fills the vector lanes; weights lie feature-major for
the same reason, and the lanes behind the last node hold zeros.

Floats: head | weights d x C | bandwidth C | threshold C | last h records h x d | cluster centres and spreads C/2 x 2d
Integers: head | one row of C for each field of a node | clusters 4 x C/2 | links C x 3 x L | labels C x c

A link joins two nodes that have won together: how often, and the age of the edge between them if there is one (there
is no edge without a common win). It stands in the rows of both; a row has room for L links.
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.arithmetic import inline, jit

# The heads.
F_HEAD = 8
SUM_SIGMA = 0  # sum of all bandwidths, in node order, and what rounding took from it
LOST_SIGMA = 1

I_HEAD = 24
N = 0  # records learned
K = 1  # nodes
CAPACITY = 2
NEXT_ID = 3
NEXT_CLUSTER = 4
CLUSTERS = 5  # confirmed clusters as last read
EVENTS = 6  # events so far
PARENT = 7  # index of the parent model, -1 for the root
PARENT_ID = 8  # id of the node in the parent model that this model is the child of
LEVEL = 9  # 0 for the root
LEAVES = 10  # on the second level: leaves of this model and of all below it
LABELS = 11  # label classes for which there is room
WAIT_FIRST = 12  # records that wait until there is a node for them: a chain in the pool, -1 for none
WAIT_LAST = 13
WAITING = 14
LINKS = 15  # links a node has room for
MAX_LINKS = 16  # no node has more
QUEUED = 17  # on the second level: leaves left in its queue, no part of the state
READ_ID = 18  # next node id when clusters were last read
NOVEL_RUN = 19  # readings in a row before which most records were novel

# Fields of a node, a row of C integers each.
COUNT = 0  # M
ID = 1
MADE = 2  # n when it was made
WON = 3  # clock when it last won, which all models below one root node share
CLUSTER = 4  # id of its confirmed cluster, -1 for none
CHILD = 5  # index of its child model, -1 for none
FIRST = 6  # its kept records: a chain in the pool, -1 for none
LAST = 7
KEPT = 8
DEGREE = 9  # edges at it
LINKED = 10  # links at it
SEEN = 11  # n when it last won
HITS = 12  # records close to it, also those that other nodes won
SINCE = 13  # n from which on these count
FIELDS = 14

# Fields of a confirmed cluster, a row of C/2 integers each.
CLUSTER_ID = 0
CLUSTER_SIZE = 1
CLUSTER_NODES = 2
CLUSTER_MADE = 3  # n when it was first read
CLUSTER_FIELDS = 4

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
    integers[CAPACITY] = capacity
    integers[LINKS] = links
    integers[PARENT] = -1
    integers[WAIT_FIRST] = integers[WAIT_LAST] = -1
    integers[LABELS] = classes
    return floats, integers


@jit
def resized(floats, integers, d, h, capacity, links, classes):
    """Return a copy of a model with room for `capacity` nodes, `links` at each of them, and `classes` labels."""
    old, old_links, old_classes, k = integers[CAPACITY], integers[LINKS], integers[LABELS], integers[K]
    new_floats, new_integers = new_block(d, h, capacity, links, classes)
    new_floats[:F_HEAD] = floats[:F_HEAD]
    new_integers[:I_HEAD] = integers[:I_HEAD]
    new_integers[CAPACITY] = capacity
    new_integers[LINKS] = links
    new_integers[LABELS] = classes
    for row in range(d + 2):  # weights, bandwidth, threshold
        a, b = F_HEAD + row * capacity, F_HEAD + row * old
        new_floats[a : a + k] = floats[b : b + k]
    a, b = at_ring(d, capacity), at_ring(d, old)
    new_floats[a : a + h * d] = floats[b : b + h * d]
    clusters = integers[CLUSTERS]
    a, b = at_shape(d, h, capacity, 0), at_shape(d, h, old, 0)
    new_floats[a : a + clusters * 2 * d] = floats[b : b + clusters * 2 * d]
    for field in range(FIELDS):
        a, b = at_field(field, capacity), at_field(field, old)
        new_integers[a : a + k] = integers[b : b + k]
    for field in range(CLUSTER_FIELDS):
        a, b = at_cluster(field, capacity), at_cluster(field, old)
        new_integers[a : a + clusters] = integers[b : b + clusters]
    for node in range(k):
        linked = integers[at_field(LINKED, old) + node]
        for part in range(3):
            a, b = at_link(node, part, capacity, links), at_link(node, part, old, old_links)
            new_integers[a : a + linked] = integers[b : b + linked]
        a, b = at_labels(node, capacity, links, classes), at_labels(node, old, old_links, old_classes)
        new_integers[a : a + old_classes] = integers[b : b + old_classes]
    return new_floats, new_integers


@jit
def with_room(floats, integers, d, h):
    """Return the blocks of a model, larger ones where there is no room for another node or link."""
    capacity, links = integers[CAPACITY], integers[LINKS]
    nodes_full, links_full = integers[K] == capacity, integers[MAX_LINKS] == links
    if not nodes_full and not links_full:
        return floats, integers
    return resized(
        floats,
        integers,
        d,
        h,
        2 * capacity if nodes_full else capacity,
        2 * links if links_full else links,
        integers[LABELS],
    )


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
def _close_row(row, gone, removed, k):
    """Close the gaps that the `removed` positions listed in `gone` leave in a row of `k`, and clear its end."""
    to = gone[0]
    for r in range(removed):
        end = gone[r + 1] if r + 1 < removed else k
        for j in range(gone[r] + 1, end):
            row[to] = row[j]
            to += 1
    for j in range(to, k):
        row[j] = 0


@jit
def _close_links(integers, gone, removed):
    """Move the rows of links of the nodes that stay, drop links to those that go, and renumber the rest."""
    capacity, links, k = integers[CAPACITY], integers[LINKS], integers[K]
    linked, degree = at_field(LINKED, capacity), at_field(DEGREE, capacity)
    renamed = np.empty(k, dtype=np.int64)
    r = 0
    for node in range(k):
        if r < removed and gone[r] == node:
            renamed[node] = -1
            r += 1
        else:
            renamed[node] = node - r
    most = 0
    for node in range(k):
        if renamed[node] < 0:
            continue
        row, to = at_link(node, OTHER, capacity, links), at_link(renamed[node], OTHER, capacity, links)
        count = 0
        for at in range(integers[linked + node]):
            other, age = renamed[integers[row + at]], integers[row + links + at]
            if other < 0:
                integers[degree + node] -= 1 if age > 0 else 0
                continue
            integers[to + count] = other
            integers[to + links + count] = age
            integers[to + 2 * links + count] = integers[row + 2 * links + at]
            count += 1
        integers[linked + node] = count
        most = max(most, count)
    integers[MAX_LINKS] = most


@jit
def remove_nodes(floats, integers, d, gone, removed):
    """Remove the nodes at the ascending positions ``gone[:removed]``; the others keep their order.

    Links to a removed node go with it.
    """
    capacity, k, classes = integers[CAPACITY], integers[K], integers[LABELS]
    links, left = integers[LINKS], k - removed
    _close_links(integers, gone, removed)
    for row in range(d + 2):
        _close_row(floats[F_HEAD + row * capacity :], gone, removed, k)
    for field in range(FIELDS):
        _close_row(integers[at_field(field, capacity) :], gone, removed, k)
    if classes > 0:
        to, r = gone[0], 0
        for node in range(gone[0], k):
            if r < removed and gone[r] == node:
                r += 1
                continue
            a, b = at_labels(to, capacity, links, classes), at_labels(node, capacity, links, classes)
            for c in range(classes):
                integers[a + c] = integers[b + c]
            to += 1
        for at in range(at_labels(left, capacity, links, classes), at_labels(k, capacity, links, classes)):
            integers[at] = 0
    integers[K] = left
    sum_sigma(floats, integers, d)
