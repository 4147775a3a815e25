"""The edges between nodes: of each node a chain of the ids of its neighbours, the oldest first.

What a record or a merge does to edges costs what the chains of the nodes concerned are long, not what all are.
"""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.ildn.layout import CLUSTER, EDGES, FIRST, ID, NODES, SPARE


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
