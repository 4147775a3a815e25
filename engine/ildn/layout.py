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
from resonance.kernels.table import ABOVE_ZERO, MAX_RECORDS, WIDEST_VARIANCE, Table, floats, ints, new, resized

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

    nodes: int = ints(stored=False)
    learned: int = ints(low=1, below=MAX_RECORDS, rows="head")
    next_id: int = ints(rows="head")
    next_cluster: int = ints(rows="head")
    events: int = ints(rows="head")
    free_slots: int = ints(stored=False)  # that no node has
    entries: int = ints(stored=False)  # of edges, two for each
    spare: int = ints(stored=False)  # the first entry that no chain has
    id: IntArray = ints("nodes", below="next_id", ascending=True, rows="nodes")
    count: IntArray = ints("nodes", low=1, high="learned", total="learned", rows="nodes")
    won: IntArray = ints("nodes", low=1, high="learned", distinct=True, rows="nodes")  # records learned at its last win
    cluster: IntArray = ints("nodes", low=-1, below="next_cluster", rows="nodes")  # id of its confirmed one, or -1
    slot: IntArray = ints("nodes", stored=False)  # where its matrices are, or -1
    known: IntArray = ints("nodes", stored=False)  # 1 when the spectrum of its slot is that of its covariance
    first: IntArray = ints("nodes", stored=False)  # the entry of its oldest neighbour, or -1
    radius: FloatArray = floats("nodes", stored=False)  # squared
    widest: FloatArray = floats("nodes", stored=False)  # upper bound of the largest eigenvalue of its covariance
    # 1 / (radius * widest), a little less: times |x - c|^2 it never exceeds (D / R)^2.
    near: FloatArray = floats("nodes", stored=False)
    centre: FloatArray = floats("d", "nodes", most=2.0 * MAGNITUDE, turned=True)
    labels: IntArray = ints("nodes", "classes", sparse=True, low=1, high="count")
    covariance: FloatArray = floats("slots", "d", "lanes", stored=False)  # symmetric, zeros behind column d
    whitening: FloatArray = floats("slots", "d", "lanes")  # row j is column j of W, with W'W the inverse of it
    spectrum: FloatArray = floats("slots", "lanes", stored=False)  # eigenvalues, the largest first
    free: IntArray = ints("slots", fill=np.arange, stored=False)  # the first `free_slots` are those
    edges: IntArray = ints("edges", stored=False)  # ids of neighbours
    follows: IntArray = ints(
        "edges", fill=np.arange, stored=False
    )  # the next entry, -1 for none; of a spare one, less 1


class Kept(Table):
    """What a state has besides: covariances below the diagonal and on it, edges from their older end."""

    widest: FloatArray = floats("nodes", low=ABOVE_ZERO, high=WIDEST_VARIANCE)
    covariance: FloatArray = floats("slots", "triangle")
    a: IntArray = ints("pairs", below="nodes", columns="edges")
    b: IntArray = ints("pairs", below="nodes", columns="edges")


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
    model.free_slots = slots
    return model


def with_room(model: Model, edges: int) -> Model:
    """Return the model with room for one more node, one more matrix and `edges` more entries."""
    capacity, slots, sizes = len(model.id), len(model.free), dict[str, int]()
    if model.nodes == capacity:
        sizes["nodes"] = 2 * capacity
    if model.entries + edges > len(model.edges):
        sizes["edges"] = 2 * (model.entries + edges)
    if model.free_slots == 0:
        # Matrices are the most of a model: half as many again.
        sizes["slots"] = slots + max(8, slots // 2)
    model = resized(model, **sizes)
    if more := len(model.free) - slots:
        model.free[:more] = np.arange(slots, slots + more)
        model.free_slots = more
    return model


@jit
def room_for(model, rules):
    """Return what the steps of a batch need beside the model."""
    c, n, d = len(model.id), rules.lanes, rules.d
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
    radius = radius_of(rules.radii, model.count[row])
    model.radius[row] = radius
    model.widest[row] = widest
    model.near[row] = 1.0 / (radius * widest * SLACK)


@jit
def append_node(model, rules, x):
    """Make `x` a node; there is room for it. Return its row."""
    row = model.nodes
    model.id[row] = model.next_id
    model.count[row] = 1
    model.won[row] = model.learned
    model.cluster[row] = -1
    model.slot[row] = -1
    model.known[row] = 0
    model.first[row] = -1
    for i in range(rules.d):
        model.centre[i, row] = x[i]
    model.labels[row, :] = 0
    set_reach(model, rules, row, rules.sigma)
    model.next_id += 1
    model.nodes = row + 1
    return row


@jit
def take_slot(model, rules, row):
    """Give the node in `row` its first matrices."""
    model.free_slots -= 1
    slot = model.free[model.free_slots]
    model.slot[row] = slot
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
    nodes = model.nodes
    moved = np.empty(nodes, dtype=np.int64)
    to, at = 0, 0
    for row in range(nodes):
        if at < count and gone[at] == row:
            at += 1
            moved[row] = -1
            if model.slot[row] >= 0:
                model.free[model.free_slots] = model.slot[row]
                model.free_slots += 1
            continue
        moved[row] = to
        if to < row:
            model.labels[to] = model.labels[row]
        to += 1
    integers = (model.id, model.count, model.won, model.cluster, model.slot, model.known, model.first)
    _move_columns(integers, moved, gone[0])
    _move_columns((model.radius, model.widest, model.near), moved, gone[0])
    _move_columns(model.centre, moved, gone[0])
    model.nodes = to


@jit
def row_of(model, name):
    """Return the row of the node with an id; rows are in the order of their ids."""
    return np.searchsorted(model.id[: model.nodes], name)


@jit
def _link(model, row, before, name, after):
    """Put a neighbour into the chain of a row between two entries, -1 for none; return its entry. There is room."""
    entry = model.spare
    model.spare = model.follows[entry] + 1
    model.entries += 1
    model.edges[entry], model.follows[entry] = name, after
    if before < 0:
        model.first[row] = entry
    else:
        model.follows[before] = entry
    return entry


@jit
def _unlink(model, row, before, entry):
    """Take an entry out of the chain of a row; return the one behind it."""
    after = model.follows[entry]
    if before < 0:
        model.first[row] = after
    else:
        model.follows[before] = after
    model.follows[entry] = model.spare - 1
    model.spare = entry
    model.entries -= 1
    return after


@jit
def _replace(model, row, one, other, new):
    """Drop up to two neighbours of a row, and append a new one, the youngest of all, unless it is -1."""
    before, entry = -1, model.first[row]
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
    count, entry = 0, model.first[row]
    while entry >= 0:
        count, entry = count + 1, model.follows[entry]
    found, entry = np.empty(count, dtype=np.int64), model.first[row]
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
        before, entry = -1, model.first[row]
        for j in range(count):
            if i == j:
                continue
            name = model.id[inside[j]]
            while entry >= 0 and model.edges[entry] < name:
                before, entry = entry, model.follows[entry]
            if entry < 0 or model.edges[entry] != name:
                before = _link(model, row, before, name, entry)


@jit
def move_edges(model, a, b, m):
    """Give the edges of `a` and `b` to `m`, the last row; the one between them goes."""
    ids = model.id
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
    name = model.id[row]
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
        entry = model.first[rows[done]]
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
    found, count = np.empty((model.entries // 2, 2), dtype=np.int64), 0
    for row in range(model.nodes):
        entry = model.first[row]
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
    last = np.full(model.nodes, -1, dtype=np.int64)
    for a, b in pairs:
        # In order, so that a node gets its older neighbours first.
        last[b] = _link(model, b, last[b], model.id[a], -1)
    for a, b in pairs:
        last[a] = _link(model, a, last[a], model.id[b], -1)


@jit
def nodes_of(model, nodes, cluster):
    """Return the rows of a cluster's nodes, the oldest first."""
    return np.flatnonzero(model.cluster[:nodes] == cluster)
