"""How the nodes of one model lie in memory, and how they come and go.

A node is a cluster: it stands in a slot from 0 to K - 1, and beyond `max_nodes` the slot of the one that goes is taken
by the one that comes. Weights lie feature-major, a row of slots for each feature, so that the comparison runs along the
vector lanes; what belongs to one node alone (labels, bandwidths) lies by node. The features are divided into groups,
each with one bandwidth: all in one (MLCA), each its own (MLCA-I), or as their values demand (MLCA-C) (31)-(33).
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.correntropy import median_bandwidth, scale_of
from resonance.kernels.arithmetic import exp_minus, jit
from resonance.kernels.borrowed import borrow
from resonance.kernels.table import ABOVE_ZERO, ROUNDING, Table, floats, ints, new

FEWEST_LABELS, FEWEST_SLOTS = 8, 24
"""Room of a new model."""
WIDEST = 10 * MAGNITUDE
"""No bandwidth is wider."""
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


class Nodes(Table):
    """The arrays of a model; a node has `bandwidths` of them: 1 where they are pooled, else d."""

    learned: int = ints(rows="head")  # records
    count: int = ints(stored=False)  # nodes
    next_id: int = ints(high="learned", rows="head")
    events: int = ints(stored=False)  # so far
    known: int = ints(stored=False)  # labels that came with a record that was learned
    groups: int = ints(stored=False)
    id: IntArray = ints("slots", below="next_id", distinct=True)
    size: IntArray = ints("slots", low=1, high="learned", total="learned", stored="count")  # records learned
    won: IntArray = ints("slots", low=1, high="learned", distinct=True)  # number of the last of them
    sigma: FloatArray = floats("slots", "bandwidths", low=ABOVE_ZERO, high=WIDEST)
    total: FloatArray = floats("bandwidths", stored=False)  # sum over the nodes in the order of their slots
    sorted: FloatArray = floats("slots", stored=False)  # pooled bandwidths in ascending order
    weights: FloatArray = floats("d", "slots", most=MAGNITUDE * (1.0 + ROUNDING), stored="weight", turned=True)
    records: IntArray = ints("known", high="learned")  # that had a label, whatever became of their nodes
    labels: IntArray = ints("slots", "known", sparse=True, low=1, high="size")  # records of the node that had it
    having: IntArray = ints("known", "ranks", total="records")  # c: such records by membership count
    lacking: IntArray = ints("known", "ranks", total="learned")  # nc: records that had the label not
    window: FloatArray = floats("recent", "d", most=MAGNITUDE)  # last records
    group: IntArray = ints("d", stored=False)  # group of each feature
    members: IntArray = ints("d", stored=False)  # features by group
    starts: IntArray = ints("d+1", stored=False)  # where each group begins among them
    scale: FloatArray = floats("d", stored=False)  # 1 / (2 s^2) of each group
    sums: FloatArray = floats("slots", stored=False)  # what the comparison works with
    part: FloatArray = floats("slots", stored=False)
    far: IntArray = ints("slots", stored=False)  # bits of CIM, squared where there is one group
    near: IntArray = ints("neighbours", stored=False)  # nearest slots
    listed: IntArray = ints("slots", stored=False)  # slots to compare again
    tile: FloatArray = floats("d", TILE, stored=False)  # the weights of some of them
    tile_sums: FloatArray = floats(TILE, stored=False)
    tile_far: IntArray = ints(TILE, stored=False)
    memberships: IntArray = ints("known", stored=False)  # d_l
    work: FloatArray = floats(2, "d", stored=False)


class Groups(Table):
    """What a state has beside the nodes where groups of features follow their values."""

    group: IntArray = ints("d", below="d")


class Held(Table):
    """Records that are held back, and rows of a record and the number of one of its labels."""

    held: FloatArray = floats("waiting", "d", most=MAGNITUDE)
    owner: IntArray = ints("marks", below="waiting", columns="held_labels")
    label: IntArray = ints("marks", below="labels", columns="held_labels")


def new_nodes(rules: Rules, slots: int, labels: int) -> Nodes:
    """Return an empty model with room for `slots` nodes and `labels` labels."""
    d, each, k = rules.d, 1 if rules.pooled else rules.d, rules.neighbours
    nodes = new(
        Nodes, d=d, slots=slots, bandwidths=each, known=labels, ranks=k + 1, recent=rules.interval, neighbours=k
    )
    if not rules.pooled and not rules.clustered:
        nodes.group[:] = np.arange(d)
    list_groups(nodes)
    return nodes


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
    nodes.groups = groups


@jit
def sum_bandwidths(nodes):
    """Sum the bandwidths of all nodes, in the order of their slots."""
    total = nodes.total
    total[:] = 0.0
    for own in nodes.sigma[: nodes.count]:
        total += own


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
    ordered[at : count - 1] = ordered[at + 1 : count]


@jit
def put_node(nodes, rules, slot, x, bandwidths):
    """Let a slot hold a new node at `x`: the first free one, or that of the node that goes."""
    k = nodes.count
    replaced = slot < k
    if rules.pooled:
        if replaced:
            remove(nodes.sorted, k, nodes.sigma[slot, 0])
        insert(nodes.sorted, k - 1 if replaced else k, bandwidths[0])
    nodes.sigma[slot] = bandwidths[: nodes.sigma.shape[1]]
    nodes.weights[:, slot] = x
    nodes.id[slot], nodes.size[slot], nodes.labels[slot] = nodes.next_id, 1, 0
    nodes.next_id += 1
    if replaced:
        sum_bandwidths(nodes)
    else:
        # The sum in the order of the slots, as `sum_bandwidths` takes it.
        nodes.count += 1
        for i in range(len(nodes.total)):
            nodes.total[i] += bandwidths[i]


@jit
def feature_means(window):
    """Return the mean of each feature over the records of a window, and whether it varies."""
    m, d = window.shape
    means, varies = np.zeros(d), np.zeros(d, dtype=np.bool_)
    for row in window:
        means += row
        varies |= row != window[0]
    return means / m, varies


@jit
def nearest_point(centres, count, v):
    """Return which of the first `count` centres is nearest to `v`, the first of equals."""
    best = 0
    for j in range(1, count):
        if abs(v - centres[j]) < abs(v - centres[best]):
            best = j
    return best


@jit
def cluster_points(points, rules, factors):
    """Cluster numbers in their order by the algorithm itself, without moves of a second winner.

    All are known beforehand: the bandwidth of the first is that of the first `interval` together. Return which centre
    is nearest to each in the end, and how many there are.
    """
    count = len(points)
    centres, sizes = np.empty(count), np.empty(count)
    work = np.empty(2)
    k, total = 0, 0.0
    for p in range(count):
        v = points[p]
        near, far = 0, 1.0
        if k > 0:
            near = nearest_point(centres, k, v)
            apart = v - centres[near]
            square = 1.0 - exp_minus(apart * apart * scale_of(total / k))
            far = np.sqrt(square if square > 0.0 else 0.0)
        if k == 0 or far > rules.vigilance:
            end = min(count, max(p + 1, rules.interval))
            begin = max(0, end - rules.interval)
            centres[k], sizes[k] = v, 1.0
            total += median_bandwidth(points[begin:end], end - begin, 1, factors, points[p : p + 1], work)
            k += 1
        else:
            sizes[near] += 1.0
            centres[near] += (v - centres[near]) / sizes[near]
    found = np.empty(count, dtype=np.int64)
    for p in range(count):
        found[p] = nearest_point(centres, k, points[p])
    return found, k


@jit
def regroup(nodes, rules, factors):
    """Divide the features into groups anew, from the means over a full window; return how many there were before.

    Features that did not vary in it are one group, whatever their values: they tell no record from another. `factors`
    are `bandwidth_factors` of one dimension.
    """
    means, varies = feature_means(nodes.window)
    found, constant = cluster_points(means[varies], rules, factors)
    at = 0
    for i in range(rules.d):
        nodes.group[i] = found[at] if varies[i] else constant
        at += varies[i]
    before = nodes.groups
    list_groups(nodes)
    return before
