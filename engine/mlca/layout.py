"""How the nodes of one model lie in memory, and how they come and go.

A node is a cluster: it stands in a slot from 0 to K - 1, and beyond `max_nodes` the slot of the one that goes is taken
by the one that comes. Weights lie feature-major, a row of slots for each feature, so that the comparison runs along the
vector lanes; what belongs to one node alone (labels, bandwidths) lies by node. The features are divided into groups,
each with one bandwidth: all in one (MLCA), each its own (MLCA-I), or as their values demand (MLCA-C).
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.borrowed import borrow

# Head of a model.
N = 0  # records learned
K = 1  # nodes
NEXT_ID = 2
EVENTS = 3  # events so far
KNOWN = 4  # labels that came with a record that was learned
GROUPS = 5
HEAD = 6

FEWEST_LABELS = 8
FEWEST_SLOTS = 24
LANES = 8
"""Slots come in such groups."""
TILE = 64
"""Nodes that are compared again together."""


class Rules(NamedTuple):
    """The parameters of a model, as the kernels see them."""

    d: int
    pooled: bool  # one bandwidth for a node, the median of those of its features
    clustered: bool  # groups of features follow their values
    vigilance: float
    interval: int
    neighbours: int
    smoothing: float
    max_nodes: int


class Nodes(NamedTuple):
    """The arrays of a model; C slots, L labels, S bandwidths of a node (1 where they are pooled, else d)."""

    head: IntArray
    id: IntArray  # C
    size: IntArray  # C, records learned
    won: IntArray  # C, number of the last of them
    sigma: FloatArray  # (C, S)
    total: FloatArray  # S, sum over the nodes in the order of their slots
    sorted: FloatArray  # C, pooled bandwidths in ascending order
    weights: FloatArray  # d rows of C
    labels: IntArray  # (C, L), records of the node that had the label
    records: IntArray  # L, records that had the label, whatever became of their nodes
    having: IntArray  # (L, k + 1), c: how often a record that had the label met each membership count
    lacking: IntArray  # (L, k + 1), nc: of those that had it not
    window: FloatArray  # last records, one behind the other
    group: IntArray  # d, group of each feature
    members: IntArray  # d, features by group
    starts: IntArray  # d + 1, where each group begins among them
    scale: FloatArray  # d, 1 / (2 s^2) of each group
    sums: FloatArray  # C, what the comparison works with
    part: FloatArray  # C
    far: IntArray  # C, bits of CIM, squared where there is one group
    near: IntArray  # k, nearest slots
    listed: IntArray  # C, slots to compare again
    tile: FloatArray  # d rows of TILE, the weights of some of them
    tile_sums: FloatArray  # TILE
    tile_far: IntArray  # TILE
    memberships: IntArray  # L, d_l
    work: FloatArray  # 2 d


def new_nodes(rules: Rules, slots: int, labels: int) -> Nodes:
    """Return an empty model with room for `slots` nodes and `labels` labels."""
    d, k, each = rules.d, rules.neighbours, 1 if rules.pooled else rules.d
    group = np.zeros(d, np.int64) if rules.pooled or rules.clustered else np.arange(d)
    nodes = Nodes(
        head=np.zeros(HEAD, np.int64),
        id=np.zeros(slots, np.int64),
        size=np.zeros(slots, np.int64),
        won=np.zeros(slots, np.int64),
        sigma=np.zeros((slots, each)),
        total=np.zeros(each),
        sorted=np.zeros(slots),
        weights=np.zeros(d * slots),
        labels=np.zeros((slots, labels), np.int64),
        records=np.zeros(labels, np.int64),
        having=np.zeros((labels, k + 1), np.int64),
        lacking=np.zeros((labels, k + 1), np.int64),
        window=np.zeros(rules.interval * d),
        group=group,
        members=np.zeros(d, np.int64),
        starts=np.zeros(d + 1, np.int64),
        scale=np.zeros(d),
        sums=np.zeros(slots),
        part=np.zeros(slots),
        far=np.zeros(slots, np.int64),
        near=np.zeros(k, np.int64),
        listed=np.zeros(slots, np.int64),
        tile=np.zeros(d * TILE),
        tile_sums=np.zeros(TILE),
        tile_far=np.zeros(TILE, np.int64),
        memberships=np.zeros(labels, np.int64),
        work=np.zeros(2 * d),
    )
    list_groups(nodes)
    return nodes


def resized(old: Nodes, rules: Rules, slots: int, labels: int) -> Nodes:
    """Return a copy with room for more slots or labels."""
    new = new_nodes(rules, slots, labels)
    for name, a, b in zip(Nodes._fields, new, old, strict=True):
        if name == "weights":
            a.reshape(rules.d, -1)[:, : len(old.id)] = b.reshape(rules.d, -1)
        else:
            a[tuple(slice(0, length) for length in b.shape)] = b
    return new


def more_slots(slots: int) -> int:
    """Return the number of slots after `slots`: an odd number of cache lines.

    The update of a node goes down a column. With a power of 2 as its step it would meet the same few sets of the cache
    over and over.
    """
    return 2 * slots + LANES


@jit
def list_groups(nodes):
    """Give the groups numbers in the order of their first features, and list their members."""
    d = len(nodes.group)
    number = np.full(d, -1, dtype=np.int64)
    groups = 0
    for i in range(d):
        if number[nodes.group[i]] < 0:
            number[nodes.group[i]] = groups
            groups += 1
        nodes.group[i] = number[nodes.group[i]]
    at = 0
    for g in range(groups):
        nodes.starts[g] = at
        for i in range(d):
            if nodes.group[i] == g:
                nodes.members[at] = i
                at += 1
    nodes.starts[groups] = at
    nodes.head[GROUPS] = groups


@jit
def sum_bandwidths(nodes):
    """Sum the bandwidths of all nodes, in the order of their slots."""
    total, sigma = borrow(nodes.total), borrow(nodes.sigma)
    for i in range(len(total)):
        total[i] = 0.0
    for j in range(nodes.head[K]):
        own = sigma[j]
        for i in range(len(total)):
            total[i] += own[i]


@jit
def insert(ordered, count, value):
    """Put a value among `count` ascending ones."""
    ordered = borrow(ordered)
    at = count
    while at > 0 and ordered[at - 1] > value:
        ordered[at] = ordered[at - 1]
        at -= 1
    ordered[at] = value


@jit
def remove(ordered, count, value):
    """Take a value from among `count` ascending ones."""
    ordered = borrow(ordered)
    at = np.searchsorted(ordered[:count], value)
    for j in range(at, count - 1):
        ordered[j] = ordered[j + 1]


@jit
def longest_idle(nodes):
    """Return the slot of the node that won longest ago."""
    won = borrow(nodes.won)
    first = 0
    for j in range(nodes.head[K]):
        if won[j] < won[first]:
            first = j
    return first


@jit
def put_node(nodes, rules, slot, x, bandwidths):
    """Let a slot hold a new node at `x`: the first free one, or that of the node that goes."""
    k, stride = nodes.head[K], len(nodes.id)
    replaced = slot < k
    if rules.pooled:
        if replaced:
            remove(nodes.sorted, k, nodes.sigma[slot, 0])
        insert(nodes.sorted, k - 1 if replaced else k, bandwidths[0])
    for i in range(nodes.sigma.shape[1]):
        nodes.sigma[slot, i] = bandwidths[i]
    for i in range(rules.d):
        nodes.weights[i * stride + slot] = x[i]
    nodes.id[slot] = nodes.head[NEXT_ID]
    nodes.size[slot] = 1
    for label in range(nodes.labels.shape[1]):
        nodes.labels[slot, label] = 0
    nodes.head[NEXT_ID] += 1
    if replaced:
        sum_bandwidths(nodes)
    else:
        # The sum in the order of the slots, as `sum_bandwidths` takes it.
        nodes.head[K] += 1
        for i in range(len(nodes.total)):
            nodes.total[i] += bandwidths[i]
