"""How one ILDN model lies in memory, and what gives it room.

A node is an ellipsoid: mean, covariance and count of the records that it stands for. Nodes stand in the order of
their ids. Centres lie feature-major, so that one loop over the nodes fills the vector lanes. Matrices lie apart, in
slots that keep their place while nodes move: a node of one record needs none, its covariance is ``sigma * I``, and in
many dimensions most nodes are such.

The neighbours of a node are a chain of their ids, the oldest first. Entries that no chain has are one, too, which goes
on behind the last of them where there will be room. What a record or a merge does to edges costs what the chains of the
nodes concerned are long, not what all are.
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.kernels.arithmetic import inline, jit
from resonance.kernels.table import ABOVE_ZERO, MAX_RECORDS, WIDEST_VARIANCE, Numbers, Table, floats, ints, new, resized

# The head; FREE counts slots that no node has, EDGES the entries of edges, two for each, and SPARE is the first entry
# that no chain has.
NODES, LEARNED, NEXT_ID, NEXT_CLUSTER, EVENTS, FREE, EDGES, SPARE = range(8)

# Fields of a node: WON is the records learned when it last won, CLUSTER the id of its confirmed cluster or -1, SLOT
# where its matrices are or -1, KNOWN 1 when the spectrum of its slot is that of its covariance, FIRST the entry of its
# oldest neighbour or -1.
ID, COUNT, WON, CLUSTER, SLOT, KNOWN, FIRST = range(7)

# Values of a node: RADIUS is squared, WIDEST an upper bound of the largest eigenvalue of its covariance, and NEAR is
# 1 / (RADIUS * WIDEST), a little less: times |x - c|^2 it never exceeds (D / R)^2.
RADIUS, WIDEST, NEAR = range(3)

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


class Model(Table):
    """A model's arrays."""

    head: IntArray = ints((
        None, Numbers(1, below=MAX_RECORDS, name="learned"), Numbers(name="next_id"), Numbers(name="next_cluster"),
        Numbers(), None, None, None,
    ))  # fmt: skip
    fields: IntArray = ints((
        Numbers(below="next_id", ascending=True), Numbers(1, "learned", total="learned", name="count"),
        Numbers(1, "learned", distinct=True), Numbers(-1, below="next_cluster"), None, None, None,
    ), "nodes", stored="nodes")  # fmt: skip
    values: FloatArray = floats(3, "nodes", stored=False)
    centre: FloatArray = floats("d", "nodes", most=2.0 * MAGNITUDE, turned=True)
    labels: IntArray = ints("nodes", "classes", sparse=True, low=1, high="count")
    covariance: FloatArray = floats("slots", "d", "lanes", stored=False)  # symmetric, zeros behind column d
    whitening: FloatArray = floats("slots", "d", "lanes")  # row j is column j of W, with W'W the inverse of it
    spectrum: FloatArray = floats("slots", "lanes", stored=False)  # eigenvalues, the largest first
    free: IntArray = ints("slots", fill=np.arange, stored=False)  # the first FREE are slots that no node has
    edges: IntArray = ints("edges", stored=False)  # ids of neighbours
    follows: IntArray = ints(
        "edges", fill=np.arange, stored=False
    )  # the next entry, -1 for none; of a spare one, less 1


class Kept(Table):
    """What a state has besides: covariances below the diagonal and on it, edges from their older end."""

    widest: FloatArray = floats("nodes", low=ABOVE_ZERO, high=WIDEST_VARIANCE)
    covariance: FloatArray = floats("slots", "triangle")
    edges: IntArray = ints("pairs", (Numbers(below="nodes", name="a"), Numbers(below="nodes", name="b")))


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


def new_model(d: int, nodes: int, slots: int, edges: int, classes: int) -> Model:
    """Return an empty model with room for so many of each; slots are of matrices."""
    model = new(Model, d=d, lanes=-(-d // 8) * 8, nodes=nodes, slots=slots, edges=edges, classes=classes)
    model.head[FREE] = slots
    return model


def with_room(model: Model, edges: int) -> Model:
    """Return the model with room for one more node, one more matrix and `edges` more entries."""
    head, capacity, slots = model.head, model.fields.shape[1], len(model.free)
    if head[NODES] == capacity:
        model = resized(model, nodes=2 * capacity)
    if head[EDGES] + edges > len(model.edges):
        model = resized(model, edges=2 * (int(head[EDGES]) + edges))
    if head[FREE] == 0:
        # Matrices are the most of a model: half as many again.
        more = slots + max(8, slots // 2)
        model = resized(model, slots=more)
        model.free[: more - slots] = np.arange(slots, more)
        head[FREE] = more - slots
    return model


@jit
def room_for(model, rules):
    """Return what the steps of a batch need beside the model."""
    c, n, d = model.fields.shape[1], rules.lanes, rules.d
    return Room(
        np.empty(c), np.empty(c), np.empty(c), np.empty(c, dtype=np.int64), np.empty(c, dtype=np.int64),
        np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n),
        np.zeros((d, n)), np.zeros((d, n)),
    )  # fmt: skip


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
    fields[FIRST, row] = -1
    for i in range(rules.d):
        model.centre[i, row] = x[i]
    model.labels[row, :] = 0
    set_reach(model, rules, row, rules.sigma)
    head[NEXT_ID] += 1
    head[NODES] = row + 1
    return row


@jit
def take_slot(model, rules, row):
    """Give the node in `row` its first matrices."""
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
def _move_columns(lines, moved, first):
    """Move what stands in the columns from `first` on to where `moved` says, -1 for nowhere."""
    for line in lines:
        for row in range(first, len(moved)):
            if moved[row] >= 0:
                line[moved[row]] = line[row]


@jit
def remove_rows(model, gone, count):
    """Remove the nodes in the rows ``gone[:count]``, ascending, which have no edges any more, with their matrices."""
    head, fields = model.head, model.fields
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
    _move_columns(fields, moved, gone[0])
    _move_columns(model.values, moved, gone[0])
    _move_columns(model.centre, moved, gone[0])
    head[NODES] = to


@jit
def row_of(model, name):
    """Return the row of the node with an id; rows are in the order of their ids."""
    ids = model.fields[ID]
    low, high = 0, model.head[NODES]
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < name:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _link(model, row, before, name, after):
    """Put a neighbour into the chain of a row between two entries, -1 for none; return its entry. There is room."""
    head, entry = model.head, model.head[SPARE]
    head[SPARE] = model.follows[entry] + 1
    head[EDGES] += 1
    model.edges[entry], model.follows[entry] = name, after
    if before < 0:
        model.fields[FIRST, row] = entry
    else:
        model.follows[before] = entry
    return entry


@jit
def _unlink(model, row, before, entry):
    """Take an entry out of the chain of a row; return the one behind it."""
    after = model.follows[entry]
    if before < 0:
        model.fields[FIRST, row] = after
    else:
        model.follows[before] = after
    model.follows[entry] = model.head[SPARE] - 1
    model.head[SPARE] = entry
    model.head[EDGES] -= 1
    return after


@jit
def _replace(model, row, one, other, new):
    """Drop up to two neighbours of a row, and append a new one, the youngest of all, unless it is -1."""
    before, entry = -1, model.fields[FIRST, row]
    while entry >= 0:
        if model.edges[entry] in (one, other):
            entry = _unlink(model, row, before, entry)
        else:
            before, entry = entry, model.follows[entry]
    if new >= 0:
        _link(model, row, before, new, -1)


@jit
def _take_all(model, row):
    """Return the neighbours of a row, which has none then."""
    count, entry = 0, model.fields[FIRST, row]
    while entry >= 0:
        count, entry = count + 1, model.follows[entry]
    found, entry = np.empty(count, dtype=np.int64), model.fields[FIRST, row]
    for at in range(count):
        found[at] = model.edges[entry]
        entry = _unlink(model, row, -1, entry)
    return found


@jit
def connect(model, inside, count):
    """Join every pair of the rows ``inside[:count]``, ascending, by an edge.

    There is room for ``count * (count - 1)`` entries more.
    """
    for i in range(count):
        row = inside[i]
        before, entry = -1, model.fields[FIRST, row]
        for j in range(count):
            if i == j:
                continue
            name = model.fields[ID, inside[j]]
            while entry >= 0 and model.edges[entry] < name:
                before, entry = entry, model.follows[entry]
            if entry < 0 or model.edges[entry] != name:
                before = _link(model, row, before, name, entry)


@jit
def move_edges(model, a, b, m):
    """Give the edges of `a` and `b` to `m`, the last row; the one between them goes."""
    ids = model.fields[ID]
    # Room: every pair that is new here was there from `a` or `b` before.
    others = np.unique(np.concatenate((_take_all(model, a), _take_all(model, b))))
    last = -1
    for name in others:
        if name not in (ids[a], ids[b]):
            _replace(model, row_of(model, name), ids[a], ids[b], ids[m])
            last = _link(model, m, last, name, -1)


@jit
def drop_edges(model, row):
    """Drop the edges of a node that goes."""
    name = model.fields[ID, row]
    for other in _take_all(model, row):
        _replace(model, row_of(model, other), name, name, -1)


@jit
def spread_from(model, first, part, number, rows):
    """Write `number` to `part` of every node that edges lead to from row `first`, itself included; return how many.

    `part` is -1 where no search has been; ``rows[:count]`` gets the rows.
    """
    rows[0] = first
    part[first] = number
    count, done = 1, 0
    while done < count:
        entry = model.fields[FIRST, rows[done]]
        done += 1
        while entry >= 0:
            other = row_of(model, model.edges[entry])
            if part[other] < 0:
                part[other] = number
                rows[count] = other
                count += 1
            entry = model.follows[entry]
    return count


@jit
def pairs_of(model):
    """Return the edges as pairs of rows, from their older ends, in order."""
    found, count = np.empty((model.head[EDGES] // 2, 2), dtype=np.int64), 0
    for row in range(model.head[NODES]):
        entry = model.fields[FIRST, row]
        while entry >= 0:
            other = row_of(model, model.edges[entry])
            if other > row:
                found[count, 0], found[count, 1] = row, other
                count += 1
            entry = model.follows[entry]
    return found


@jit
def put_pairs(model, pairs):
    """Give a model without edges those of `pairs_of`; there is room."""
    last = np.full(model.head[NODES], -1, dtype=np.int64)
    for at in range(len(pairs)):
        # In order, so that a node gets its older neighbours first.
        a, b = pairs[at, 0], pairs[at, 1]
        last[b] = _link(model, b, last[b], model.fields[ID, a], -1)
    for at in range(len(pairs)):
        a, b = pairs[at, 0], pairs[at, 1]
        last[a] = _link(model, a, last[a], model.fields[ID, b], -1)


@jit
def nodes_of(model, nodes, cluster):
    """Return the rows of a cluster's nodes, the oldest first."""
    return np.flatnonzero(model.fields[CLUSTER, :nodes] == cluster)
