"""How one CAEA model lies in memory, how it grows and shrinks, and what a state has of it.

Nodes stand in the order in which they were made. There is room for a multiple of 8, so that a loop over nodes fills the
vector lanes; weights lie feature-major for the same reason, and the lanes behind the last node hold zeros.

A link joins two nodes that have won together: how often, and the age of the edge between them if there is one (there is
no edge without a common win). It stands in the rows of both.

A state has the numbers of a model packed one behind the other, without room to spare: the head, a row for each field of
the nodes and of the clusters, then the links and the labels. That is a function of the model alone, not of the room it
happens to have: equal models, equal bytes.
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.labels import room_for_classes
from resonance.kernels.arithmetic import inline, jit
from resonance.kernels.ordering import stable_order
from resonance.kernels.table import Table, floats, ints, stored_fields
from resonance.kernels.table_memory import copy_block, new_block, plan_of, published, taker_of, words_of

SMALLEST = 16
"""Nodes that a new model has room for."""
FEWEST_LINKS = 4
"""Links that a node of a new model has room for."""


class Model(Table):
    """A model of d features; `classes` are those of labels, and h are the records that a bandwidth is of."""

    learned: int = ints(low=1, rows="model")  # records
    nodes: int = ints(high="most_nodes", rows="model")
    next_id: int = ints(high="learned", rows="model")
    next_cluster: int = ints(rows="model")
    clusters: int = ints(high="most_clusters", rows="model")
    events: int = ints(rows="model")  # so far
    parent_id: int = ints(low=-1, rows="model")  # id of the node that it is the child of
    level: int = ints(high="last_level", rows="model")
    leaves: int = ints(rows="model")
    read_id: int = ints(high="next_id", rows="model")  # the next id at the last reading
    novel_run: int = ints(high="learned", rows="model")  # readings of mostly novel records, up to now
    joined: int = ints(high="pairs", rows="model")  # links, counted when it is packed
    marks: int = ints(high="cells", rows="model")  # nodes by class of label, counted when it is packed
    parent: int = ints(stored=False)  # entry of the model above, -1 for the root
    queued: int = ints(stored=False)  # on the second level: leaves left in its queue
    most_links: int = ints(stored=False)  # no node has more
    sum_sigma: float = floats(stored=False)  # of all bandwidths, in node order
    lost_sigma: float = floats(stored=False)  # what rounding took from it
    count: IntArray = ints("nodes", low=1, high="learned", rows="node")  # records
    id: IntArray = ints("nodes", below="next_id", ascending=True, rows="node")
    made: IntArray = ints("nodes", low=1, high="learned", ascending=True, rows="node")  # the record that made it
    won: IntArray = ints("nodes", rows="node")  # clock of its last win
    cluster: IntArray = ints("nodes", low=-1, below="next_cluster", rows="node")
    seen: IntArray = ints("nodes", low=1, high="learned", rows="node")  # its last record
    hits: IntArray = ints("nodes", high="learned", rows="node")
    since: IntArray = ints("nodes", low=1, high="learned", rows="node")  # the first record of its hits
    cluster_id: IntArray = ints("clusters", below="next_cluster", ascending=True, rows="cluster")
    cluster_size: IntArray = ints("clusters", low=1, high="learned", rows="cluster")  # records
    cluster_nodes: IntArray = ints("clusters", low=2, high="max_nodes", rows="cluster")
    cluster_made: IntArray = ints("clusters", high="learned", rows="cluster")  # the record that made it
    child: IntArray = ints("nodes", stored=False)  # entry of its child model, -1 for none
    degree: IntArray = ints("nodes", stored=False)  # edges at it
    linked: IntArray = ints("nodes", stored=False)  # links at it
    # First and last record that waits until there is a node for it, and how many do; then those that each node keeps.
    chain: IntArray = ints("nodes+1", 3, stored=False)
    other: IntArray = ints("nodes", "links", stored=False)  # position of the other node of a link
    age: IntArray = ints("nodes", "links", stored=False)  # age of the edge + 1, 0 where there is none
    wins: IntArray = ints("nodes", "links", stored=False)  # common wins
    labels: IntArray = ints("nodes", "classes", stored=False)
    weight: FloatArray = floats("d", "nodes", stored=False)
    sigma: FloatArray = floats("nodes", stored=False)  # bandwidth
    threshold: FloatArray = floats("nodes", stored=False)  # vigilance
    window: FloatArray = floats("h", "d", stored=False)  # the last h records
    shape: FloatArray = floats("clusters", "2d", stored=False)  # centre and spread of a cluster


class Link(Table):
    """What a state has of a link."""

    node: IntArray = ints("joined", below="nodes", columns="link")
    other: IntArray = ints("joined", below="nodes", columns="link")
    age: IntArray = ints("joined", high="oldest", columns="link")
    wins: IntArray = ints("joined", low=1, high="learned", columns="link")


class Label(Table):
    """What a state has of the labels of a node."""

    node: IntArray = ints("marks", below="nodes", columns="label")
    label: IntArray = ints("marks", below="classes", columns="label")
    records: IntArray = ints("marks", low=1, columns="label")


_PLAN = plan_of(Model, "d", "2d", "h", "nodes", "clusters", "links", "classes")
model_at = taker_of(Model)

# What a packed model begins with, and the widths of what follows.
HEAD, NODE_FIELDS, CLUSTER_FIELDS = (len(stored_fields(Model)[name]) for name in ("model", "node", "cluster"))
LINK_WIDTH, LABEL_WIDTH = len(stored_fields(Link)["link"]), len(stored_fields(Label)["label"])
N, K, NEXT_ID, NEXT_CLUSTER, CLUSTERS, _, PARENT_ID, LEVEL, LEAVES, _, _, JOINED, MARKS = range(HEAD)


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
    remote: bool  # the children of a root live elsewhere


@jit
def new_model(d, h, nodes, links, classes):
    """Return the block of an empty model with room for so many nodes, links at each, and classes of labels."""
    block = new_block(_PLAN, (d, 2 * d, h, nodes, nodes // 2, links, classes))
    model = model_at(published(block.ctypes.data))
    model.parent = -1
    model.chain[0, 0] = model.chain[0, 1] = -1
    return block


@jit
def _resized(model, nodes, links, classes):
    """Return the block of a copy of a model with other room."""
    block = new_model(len(model.weight), len(model.window), nodes, links, classes)
    copy_block(_PLAN, words_of(model, _PLAN), block)
    return block


@inline
def is_full(model):
    """Return whether there is no room for another node, or another link of a node."""
    return model.nodes == len(model.id) or model.most_links == model.other.shape[1]


@jit
def with_room(model):
    """Return the block of a larger model for one that is full."""
    nodes, links = model.other.shape
    nodes *= 2 if model.nodes == nodes else 1
    links *= 2 if model.most_links == links else 1
    return _resized(model, nodes, links, model.labels.shape[1])


@jit
def with_class(model, label):
    """Return the block of a model that has room to count a class."""
    nodes, links = model.other.shape
    return _resized(model, nodes, links, room_for_classes(model.labels.shape[1], label + 1))


@inline
def find_link(model, k, other):
    """Return the position in the row of node `k` of its link to `other`, -1 where there is none."""
    for at in range(model.linked[k]):
        if model.other[k, at] == other:
            return at
    return -1


@jit
def add_link(model, k, other, age, wins):
    """Append a link to the row of node `k`; the row has room."""
    at = model.linked[k]
    model.other[k, at], model.age[k, at], model.wins[k, at] = other, age, wins
    model.linked[k] = at + 1
    model.degree[k] += 1 if age > 0 else 0
    model.most_links = max(model.most_links, at + 1)


@inline
def add_sigma(model, sigma):
    """Add a bandwidth to the sum of all, with compensation (Neumaier): the mean is right to the last bit."""
    total = model.sum_sigma
    new = total + sigma
    model.lost_sigma += (total - new) + sigma if total >= sigma else (sigma - new) + total
    model.sum_sigma = new


@inline
def mean_sigma(model):
    """Return the mean bandwidth of the nodes (10)(11)."""
    return (model.sum_sigma + model.lost_sigma) / model.nodes


@jit
def sum_sigma(model):
    """Add all bandwidths anew, in node order: the sum is a function of the present nodes alone."""
    model.sum_sigma = model.lost_sigma = 0.0
    for node in range(model.nodes):
        add_sigma(model, model.sigma[node])


@jit
def _close(row, width, gone, removed, k):
    """Close the gaps that the `removed` positions in `gone` leave among `k` entries of a width, and clear the end."""
    to = gone[0] * width
    for r in range(removed):
        end = gone[r + 1] if r + 1 < removed else k
        for at in range((gone[r] + 1) * width, end * width):
            row[to] = row[at]
            to += 1
    row[to : k * width] = 0


@jit
def _drop_links(model, gone, removed):
    """Drop the links to nodes that go, and renumber the rest."""
    k = model.nodes
    renamed = np.empty(k, dtype=np.int64)
    r = 0
    for node in range(k):
        goes = r < removed and gone[r] == node
        renamed[node] = -1 if goes else node - r
        r += goes
    model.most_links = 0
    for node in range(k):
        if renamed[node] < 0:
            continue
        count = 0
        for at in range(model.linked[node]):
            other = renamed[model.other[node, at]]
            if other < 0:
                model.degree[node] -= 1 if model.age[node, at] > 0 else 0
                continue
            model.other[node, count] = other
            model.age[node, count] = model.age[node, at]
            model.wins[node, count] = model.wins[node, at]
            count += 1
        model.linked[node] = count
        model.most_links = max(model.most_links, count)


@jit
def remove_nodes(model, gone, removed):
    """Remove the nodes at the ascending positions ``gone[:removed]`` with their links; the others keep their order."""
    k = model.nodes
    _drop_links(model, gone, removed)
    for i in range(len(model.weight)):
        _close(model.weight[i], 1, gone, removed, k)
    for row in (model.sigma, model.threshold):
        _close(row, 1, gone, removed, k)
    for row in (
        model.count, model.id, model.made, model.won, model.cluster, model.seen, model.hits, model.since, model.child,
        model.degree, model.linked,
    ):  # fmt: skip
        _close(row, 1, gone, removed, k)
    for rows in (model.chain[1:], model.other, model.age, model.wins, model.labels):
        _close(rows.reshape(-1), rows.shape[1], gone, removed, k)
    model.nodes = k - removed
    sum_sigma(model)


@jit
def parts_of(head, at, d, h):
    """Return where clusters, links and labels of a packed model begin, where it ends, and how many floats it has.

    Its head is at `at`; its nodes follow.
    """
    k, clusters = head[at + K], head[at + CLUSTERS]
    at_clusters = at + HEAD + NODE_FIELDS * k
    joined = at_clusters + CLUSTER_FIELDS * clusters
    marks = joined + LINK_WIDTH * head[at + JOINED]
    end = marks + LABEL_WIDTH * head[at + MARKS]
    return at_clusters, joined, marks, end, (d + 2) * k + min(head[at + N], h) * d + clusters * 2 * d


@jit
def _move(flat, at, row, count, packing):
    """Copy the first numbers of a row to a flat array from `at` on, or back; return where what follows them begins."""
    for i in range(count):
        if packing:
            flat[at + i] = row[i]
        else:
            row[i] = flat[at + i]
    return at + count


@jit
def _move_all(model, floats, integers, packing):
    """Copy all but links and labels of a model to its packed form, or back; return where the links begin."""
    head = words_of(model, _PLAN)
    at, end, d = _move(integers, 0, head, HEAD, packing), 0, len(model.weight)
    k, clusters = model.nodes, model.clusters
    for row in (
        model.count, model.id, model.made, model.won, model.cluster, model.seen, model.hits, model.since,
    ):  # fmt: skip
        at = _move(integers, at, row, k, packing)
    for row in (model.cluster_id, model.cluster_size, model.cluster_nodes, model.cluster_made):
        at = _move(integers, at, row, clusters, packing)
    for i in range(d):
        end = _move(floats, end, model.weight[i], k, packing)
    for row in (model.sigma, model.threshold):
        end = _move(floats, end, row, k, packing)
    end = _move(floats, end, model.window.reshape(-1), min(model.learned, len(model.window)) * d, packing)
    _move(floats, end, model.shape.reshape(-1), clusters * 2 * d, packing)
    return at


@jit
def packed_model(model):
    """Return the contents of a model as one array of floats and one of integers."""
    k, classes = model.nodes, model.labels.shape[1]
    model.joined, model.marks = np.sum(model.linked[:k]) // 2, np.count_nonzero(model.labels[:k])
    _, _, _, end, length = parts_of(words_of(model, _PLAN), 0, len(model.weight), len(model.window))
    floats, integers = np.empty(length), np.empty(end, dtype=np.int64)
    at = _move_all(model, floats, integers, True)
    for i in range(k):
        # By the other node: the order in which links came is no part of the model.
        for link in stable_order(model.other[i, : model.linked[i]]):
            if model.other[i, link] < i:
                integers[at], integers[at + 1] = i, model.other[i, link]
                integers[at + 2], integers[at + 3] = model.age[i, link], model.wins[i, link]
                at += LINK_WIDTH
    for i in range(k):
        for label in range(classes):
            if model.labels[i, label] > 0:
                integers[at], integers[at + 1], integers[at + 2] = i, label, model.labels[i, label]
                at += LABEL_WIDTH
    return floats, integers


@jit
def unpacked_model(floats, packed, d, h):
    """Return the block of a packed model that fits, with room for at least one more node."""
    k, clusters = packed[K], packed[CLUSTERS]
    _, joined, marks, end, _ = parts_of(packed, 0, d, h)
    nodes = SMALLEST
    # Clusters as last read may have lost nodes since: there may be more of them than the nodes now make room for.
    while nodes <= k or nodes < 2 * clusters:
        nodes *= 2
    linked = np.zeros(k + 1, dtype=np.int64)
    for at in range(joined, marks, LINK_WIDTH):
        linked[packed[at]] += 1
        linked[packed[at + 1]] += 1
    classes = 0
    for at in range(marks, end, LABEL_WIDTH):
        classes = max(classes, packed[at + 1] + 1)
    links = FEWEST_LINKS
    while links <= linked.max():
        links *= 2
    block = new_model(d, h, nodes, links, classes)
    model = model_at(published(block.ctypes.data))
    _move_all(model, floats, packed, False)
    model.child[:k] = -1
    model.chain[1 : k + 1, :2] = -1
    for at in range(joined, marks, LINK_WIDTH):
        for i, j in ((packed[at], packed[at + 1]), (packed[at + 1], packed[at])):
            add_link(model, i, j, packed[at + 2], packed[at + 3])
    for at in range(marks, end, LABEL_WIDTH):
        model.labels[packed[at], packed[at + 1]] = packed[at + 2]
    sum_sigma(model)
    return block
