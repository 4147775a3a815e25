"""The edges between nodes: pairs of rows in one sorted array, each edge from both of its ends."""

import numpy as np
from resonance.engine.arithmetic import inline, jit
from resonance.engine.ildn.layout import CLUSTER, EDGES


@inline
def edge(a, b):
    """Return the entry of the edge from row `a` to row `b`."""
    return a << 32 | b


@inline
def end_of(entry):
    """Return the row that an entry leads to."""
    return entry & 0xFFFFFFFF


@jit
def position(edges, count, entry):
    """Return where an entry is, or would be, among the first `count`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if edges[middle] < entry:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _merge_in(model, held, fresh):
    """Put entries among those that are held; all are ascending, so that from the back each moves once."""
    edges, old, last = model.edges, held - 1, len(fresh) - 1
    while last >= 0:
        if old >= 0 and edges[old] > fresh[last]:
            edges[old + last + 1] = edges[old]
            old -= 1
        else:
            edges[old + last + 1] = fresh[last]
            last -= 1
    model.head[EDGES] = held + len(fresh)


@jit
def connect(model, inside, count):
    """Join every pair of the rows ``inside[:count]``, ascending, by an edge; return the new ones, from both ends.

    There is room for ``count * (count - 1)`` entries more.
    """
    edges, held = model.edges, model.head[EDGES]
    fresh = np.empty(count * (count - 1), dtype=np.int64)
    new = 0
    for i in range(count):
        for j in range(count):
            if i == j:
                continue
            entry = edge(inside[i], inside[j])
            at = position(edges, held, entry)
            if at == held or edges[at] != entry:
                fresh[new] = entry
                new += 1
    fresh = fresh[:new]
    _merge_in(model, held, fresh)
    return fresh


@jit
def move_edges(model, a, b, m):
    """Give the edges of `a` and `b` to `m`, the last row; the one between them goes."""
    edges, held = model.edges, model.head[EDGES]
    others = np.empty(held, dtype=np.int64)
    count, kept = 0, 0
    for e in range(held):
        start, end = edges[e] >> 32, end_of(edges[e])
        if start in (a, b):
            if end not in (a, b):
                others[count] = end
                count += 1
        elif end not in (a, b):
            edges[kept] = edges[e]
            kept += 1
    others = np.unique(others[:count])
    # Room: every pair that is new here was there from `a` or `b` before.
    pairs = np.empty(2 * len(others), dtype=np.int64)
    for i in range(len(others)):
        pairs[i] = edge(others[i], m)
        pairs[len(others) + i] = edge(m, others[i])
    _merge_in(model, kept, pairs)


@jit
def spread_from(model, first, part, number, rows):
    """Write `number` to `part` of every node that edges lead to from row `first`, itself included; return how many.

    `part` is -1 where no search has been; ``rows[:count]`` gets the rows.
    """
    edges, held = model.edges, model.head[EDGES]
    rows[0] = first
    part[first] = number
    count, done = 1, 0
    while done < count:
        row = rows[done]
        done += 1
        at = position(edges, held, edge(row, 0))
        while at < held and edges[at] >> 32 == row:
            other = end_of(edges[at])
            if part[other] < 0:
                part[other] = number
                rows[count] = other
                count += 1
            at += 1
    return count


@jit
def nodes_of(model, nodes, cluster):
    """Return the rows of a cluster's nodes, the oldest first."""
    return np.flatnonzero(model.fields[CLUSTER, :nodes] == cluster)
