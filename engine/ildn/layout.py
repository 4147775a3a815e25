"""How one ILDN model lies in memory, and what gives it room.

A node is an ellipsoid: mean, covariance and count of the records that it stands for. Nodes stand in the order of
their ids. Centres lie feature-major, so that one loop over the nodes fills the vector lanes. Matrices lie apart, in
slots that keep their place while nodes move: a node of one record needs none, its covariance is ``sigma * I``, and in
many dimensions most nodes are such.

Edges are one sorted array of ``a << 32 | b``, each edge from both of its ends: the neighbours of a node are a range
of it, the oldest first.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from resonance.engine.arithmetic import inline, jit
from resonance.engine.base import FloatArray, IntArray

# The head.
NODES = 0
LEARNED = 1
NEXT_ID = 2
NEXT_CLUSTER = 3
EVENTS = 4
FREE = 5  # slots that no node has
EDGES = 6  # entries of the array of edges that are in use
HEAD = 7

# Fields of a node.
ID = 0
COUNT = 1
WON = 2  # records learned when it last won
CLUSTER = 3  # id of its confirmed cluster, -1 for none
SLOT = 4  # where its matrices are, -1 for none
KNOWN = 5  # 1 when the spectrum of its slot is that of its covariance
FIELDS = 6

# Values of a node.
RADIUS = 0  # squared
WIDEST = 1  # upper bound of the largest eigenvalue of its covariance
NEAR = 2  # 1 / (RADIUS * WIDEST), a little less: times |x - c|^2 it never exceeds (D / R)^2
VALUES = 3

SMALLEST = 16
"""Nodes that a new model has room for; a multiple of 8, as all capacities."""

SLACK = 1.0 + 1e-6
"""What rounding may take from a bound is a billionth of this."""


class Rules(NamedTuple):
    """The parameters of a model, as the kernels see them."""

    d: int
    lanes: int  # d, rounded up to a multiple of 8
    sigma: float
    k: float
    interval: int
    rho: float
    min_cluster_records: int
    max_nodes: int
    expire: int
    radii: FloatArray


class Model(NamedTuple):
    """A model's arrays; C is the room for nodes, S for matrices."""

    head: IntArray  # HEAD
    fields: IntArray  # FIELDS x C
    values: FloatArray  # VALUES x C
    centre: FloatArray  # d x C
    labels: IntArray  # C x classes
    covariance: FloatArray  # S x d x lanes, symmetric, zeros behind column d
    whitening: FloatArray  # S x d x lanes: row j is column j of W, with W'W the inverse of the covariance
    spectrum: FloatArray  # S x lanes: eigenvalues, the largest first
    free: IntArray  # S: the first FREE are slots that no node has
    edges: IntArray


class Room(NamedTuple):
    """What a step needs beside a model."""

    squares: FloatArray  # |x - c|^2 by node
    ratio: FloatArray  # (D / R)^2 by node, -1 where it was not needed
    distance: FloatArray  # D^2 by node, where it was needed
    inside: IntArray  # nodes that hold the record
    gone: IntArray
    apart: FloatArray  # lanes; so are z, v, w and the three spectra
    z: FloatArray
    v: FloatArray
    w: FloatArray
    here: FloatArray
    there: FloatArray
    both: FloatArray
    off: FloatArray
    joined: FloatArray  # d x lanes
    work: FloatArray


def new_model(d: int, nodes: int, matrices: int, edges: int, classes: int) -> Model:
    """Return an empty model with room for so many of each."""
    lanes = -(-d // 8) * 8
    return Model(
        head=np.array([0, 0, 0, 0, 0, matrices, 0]),
        fields=np.zeros((FIELDS, nodes), dtype=np.int64),
        values=np.zeros((VALUES, nodes)),
        centre=np.zeros((d, nodes)),
        labels=np.zeros((nodes, classes), dtype=np.int64),
        covariance=np.zeros((matrices, d, lanes)),
        whitening=np.zeros((matrices, d, lanes)),
        spectrum=np.zeros((matrices, lanes)),
        free=np.arange(matrices)[::-1].copy(),
        edges=np.zeros(edges, dtype=np.int64),
    )


def _widened(array: NDArray[Any], axis: int, size: int) -> NDArray[Any]:
    shape = list(array.shape)
    shape[axis] = size
    wide = np.zeros(shape, dtype=array.dtype)
    wide[tuple(slice(length) for length in array.shape)] = array
    return wide


def with_room(model: Model, edges: int) -> Model:
    """Return the model with room for one more node, one more matrix and `edges` more entries."""
    head, capacity, slots = model.head, model.fields.shape[1], len(model.free)
    if head[NODES] == capacity:
        model = model._replace(
            fields=_widened(model.fields, 1, 2 * capacity),
            values=_widened(model.values, 1, 2 * capacity),
            centre=_widened(model.centre, 1, 2 * capacity),
            labels=_widened(model.labels, 0, 2 * capacity),
        )
    if head[FREE] == 0:
        # Matrices are the most of a model: half as many again.
        more = slots + max(8, slots // 2)
        model = model._replace(
            covariance=_widened(model.covariance, 0, more),
            whitening=_widened(model.whitening, 0, more),
            spectrum=_widened(model.spectrum, 0, more),
            free=np.arange(slots, more)[::-1].copy(),
        )
        model = model._replace(free=_widened(model.free, 0, more))
        head[FREE] = more - slots
    if head[EDGES] + edges > len(model.edges):
        model = model._replace(edges=_widened(model.edges, 0, 2 * (int(head[EDGES]) + edges)))
    return model


def with_classes(model: Model, classes: int) -> Model:
    """Return the model with room for `classes` labels."""
    return model._replace(labels=_widened(model.labels, 1, classes))


@jit
def room_for(model, rules):
    """Return what the steps of a batch need beside the model."""
    capacity, lanes = model.fields.shape[1], rules.lanes
    return Room(
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity, dtype=np.int64),
        np.empty(capacity, dtype=np.int64),
        np.zeros(lanes),
        np.zeros(lanes),
        np.zeros(lanes),
        np.zeros(lanes),
        np.zeros(lanes),
        np.zeros(lanes),
        np.zeros(lanes),
        np.zeros(lanes),
        np.zeros((rules.d, lanes)),
        np.zeros((rules.d, lanes)),
    )


@inline
def radius_of(radii, count):
    """Return the squared radius of a node of `count` records."""
    return radii[min(count, len(radii)) - 1]


@jit
def set_reach(model, rules, row, widest):
    """Set the radius of a node by its count, and how far it can reach."""
    radius = radius_of(rules.radii, model.fields[COUNT, row])
    model.values[RADIUS, row] = radius
    model.values[WIDEST, row] = widest
    model.values[NEAR, row] = 1.0 / (radius * widest * SLACK)


@jit
def append_node(model, rules, x):
    """Make `x` a node; there is room for it. Return its row."""
    head, fields = model.head, model.fields
    row = head[NODES]
    fields[ID, row] = head[NEXT_ID]
    fields[COUNT, row] = 1
    fields[WON, row] = head[LEARNED]
    fields[CLUSTER, row] = -1
    fields[SLOT, row] = -1
    fields[KNOWN, row] = 0
    for i in range(rules.d):
        model.centre[i, row] = x[i]
    model.labels[row, :] = 0
    set_reach(model, rules, row, rules.sigma)
    head[NEXT_ID] += 1
    head[NODES] = row + 1
    return row


@jit
def take_slot(model, rules, row):
    """Give the founder in `row` its matrices."""
    head = model.head
    head[FREE] -= 1
    slot = model.free[head[FREE]]
    model.fields[SLOT, row] = slot
    covariance, whitening = model.covariance[slot], model.whitening[slot]
    covariance[:] = 0.0
    whitening[:] = 0.0
    for i in range(rules.d):
        covariance[i, i] = rules.sigma
        whitening[i, i] = 1.0 / np.sqrt(rules.sigma)
    return slot


@jit
def remove_rows(model, gone, count):
    """Remove the nodes in the rows ``gone[:count]``, ascending, with their matrices and edges."""
    head, fields, values, centre = model.head, model.fields, model.values, model.centre
    nodes = head[NODES]
    moved = np.empty(nodes, dtype=np.int64)
    to, at = 0, 0
    for row in range(nodes):
        if at < count and gone[at] == row:
            at += 1
            moved[row] = -1
            if fields[SLOT, row] >= 0:
                model.free[head[FREE]] = fields[SLOT, row]
                head[FREE] += 1
            continue
        moved[row] = to
        if to < row:
            model.labels[to] = model.labels[row]
        to += 1
    first = gone[0]
    for line in range(FIELDS):
        for row in range(first, nodes):
            if moved[row] >= 0:
                fields[line, moved[row]] = fields[line, row]
    for line in range(VALUES):
        for row in range(first, nodes):
            if moved[row] >= 0:
                values[line, moved[row]] = values[line, row]
    for line in range(len(centre)):
        for row in range(first, nodes):
            if moved[row] >= 0:
                centre[line, moved[row]] = centre[line, row]
    head[NODES] = to
    edges, kept = model.edges, 0
    for e in range(head[EDGES]):
        a, b = moved[edges[e] >> 32], moved[edges[e] & 0xFFFFFFFF]
        if a >= 0 and b >= 0:
            edges[kept] = a << 32 | b
            kept += 1
    head[EDGES] = kept
