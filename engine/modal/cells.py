"""Which landmarks can be near a record: most of those of a cluster lie in a cell, a ball around their mean.

A cell that is too far from a record is left out, and what is found is still what a look at every landmark finds. Cells
follow from the landmarks; a state has none.
"""

import numpy as np
from resonance.engine.arithmetic import bits_of, fma, inline, jit
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.modal.layout import CLUSTERS, HITS, LANDMARKS, PLACE, RADIUS2, STAGGER
from resonance.engine.modal.neighbours import NOWHERE, nearest, smallest_bits, squared_distances
from resonance.engine.modal.parameters import Rules
from resonance.engine.table import Table, floats, ints, new

# The head.
CELLS = 0
END = 1  # positions that are used

UNFILLED = -1
"""`END` of cells that are to be filled before they are looked into."""

_MAX = 128
"""Clusters that have a cell."""
_NEW = 64
"""Room for landmarks that come after the cells were filled, and are in none of them; then they are filled anew."""
_OUTLYING = 9.0
"""A landmark whose squared distance to the mean of its cluster is more than so many times the mean one is in no cell,
which it would make wide."""
_MORE, _TINY = 1.0 + 1e-9, 1e-150
"""A cell is wider than computed by more than errors of rounding (2e-16 a feature), and than squares that underflow."""


class Cells(Table):
    """The cells of a model, and a copy of its landmarks in the order of the cells; those in none come last."""

    head: IntArray = ints(2, stored=False)
    start: IntArray = ints(_MAX + 1, stored=False)  # first position of each cell, then of those in none
    middle: FloatArray = floats("d", _MAX + STAGGER, stored=False)  # means of the landmarks of each cluster
    reach: FloatArray = floats(_MAX, stored=False)  # distance to the farthest landmark of a cell
    widest: FloatArray = floats(_MAX, stored=False)  # radius of its largest ball
    apart: FloatArray = floats(_MAX, stored=False)  # room for squared distances to the means
    column: IntArray = ints(f"slots+{_NEW}", stored=False)  # by position, the landmark
    position: IntArray = ints("slots", fill=-1, stored=False)  # by landmark, its position, -1 before it has one
    at: FloatArray = floats("d", f"slots+{_NEW + STAGGER}", stored=False)  # far from everything where one has gone
    radius2: FloatArray = floats(f"slots+{_NEW}", stored=False)  # by position, squared radii of their balls
    squared: FloatArray = floats(f"slots+{_NEW}", stored=False)  # room for squared distances


def new_cells(rules: Rules, slots: int) -> Cells:
    """Return cells, not filled yet, of a model with room for `slots` landmarks."""
    cells = new(Cells, d=rules.d, slots=slots)
    cells.head[END] = UNFILLED
    return cells


@jit
def fill_cells(model, cells):
    """Make a cell of every cluster, and copy the landmarks."""
    # Until it is done, whatever happens.
    cells.head[END] = UNFILLED
    count, used = model.head[LANDMARKS], min(model.head[CLUSTERS], _MAX)
    own, gap, mean = np.empty(count, dtype=np.int64), np.zeros(count), np.zeros(used)
    nodes, size = np.zeros(used + 1, dtype=np.int64), np.zeros(used + 1, dtype=np.int64)
    for i in range(count):
        place = model.number[PLACE, i]
        own[i] = place if place < used else -1
        nodes[own[i]] += own[i] >= 0
    for f in range(len(model.at)):
        at, middle = model.at[f], cells.middle[f]
        middle[:used] = 0.0
        for i in range(count):
            if own[i] >= 0:
                middle[own[i]] += at[i]
        for c in range(used):
            middle[c] /= max(nodes[c], 1)
        for i in range(count):
            if own[i] >= 0:
                u = at[i] - middle[own[i]]
                gap[i] = fma(u, u, gap[i])
    for i in range(count):
        if own[i] >= 0:
            mean[own[i]] += gap[i] / nodes[own[i]]
    cells.reach[:used], cells.widest[:used] = 0.0, 0.0
    for i in range(count):
        c = own[i]
        if c < 0 or gap[i] > _OUTLYING * mean[c]:
            c = own[i] = used
        else:
            cells.reach[c] = max(cells.reach[c], np.sqrt(gap[i]) * _MORE + _TINY)
            cells.widest[c] = max(cells.widest[c], np.sqrt(model.real[RADIUS2, i]) * _MORE + _TINY)
        size[c] += 1
    cells.start[0] = 0
    for c in range(used):
        cells.start[c + 1] = cells.start[c] + size[c]
    filled = cells.start[: used + 1].copy()
    for i in range(count):
        p = filled[own[i]]
        cells.column[p], cells.position[i], cells.radius2[p] = i, p, model.real[RADIUS2, i]
        filled[own[i]] += 1
    for f in range(len(model.at)):
        at, copy, column = model.at[f], cells.at[f], cells.column
        for p in range(count):
            copy[p] = at[column[p]]
    cells.head[CELLS], cells.head[END] = used, count


@jit
def enter_cells(model, cells, j):
    """Put a new landmark `j`, which may have taken the column of an old one, with those that are in no cell."""
    end = cells.head[END]
    if end == len(cells.column):
        fill_cells(model, cells)
        return
    gone = cells.position[j]
    for f in range(len(model.at)):
        if gone >= 0:
            cells.at[f, gone] = NOWHERE
        cells.at[f, end] = model.at[f, j]
    cells.column[end], cells.position[j], cells.radius2[end] = j, end, model.real[RADIUS2, j]
    cells.head[END] = end + 1


@jit
def _look(at, column, radius2, squared, hits, begin, end, x, near, gap):
    """Look at the landmarks at some positions, and count the record where `hits` are given.

    Return the nearest so far, the first of several, and its squared distance.
    """
    squared_distances(at, begin, end, x, squared)
    size = end - begin
    least = smallest_bits(squared, size)
    if least <= bits_of(gap):
        for p in range(size):
            if bits_of(squared[p]) == least and (squared[p] < gap or column[begin + p] < near):
                near, gap = column[begin + p], squared[p]
    if len(hits) > 0:
        for p in range(size):
            if squared[p] <= radius2[begin + p]:
                hits[column[begin + p]] += 1.0
    return near, gap


@inline
def find_nearest(model, cells, x, counts):
    """Return the first of the landmarks nearest to a record and its squared distance.

    With `counts` the record is counted in every ball that it is in. The cells are filled, and there is a landmark.
    """
    used, end = cells.head[CELLS], cells.head[END]
    apart, reach, widest, start = cells.apart, cells.reach, cells.widest, cells.start
    squared_distances(cells.middle, 0, used, x, apart)
    first = nearest(apart, used) if used > 0 else -1
    at, column, radius2, squared = cells.at, cells.column, cells.radius2, cells.squared
    hits = model.real[HITS]
    if not counts:
        hits = hits[:0]
    near, gap = _look(at, column, radius2, squared, hits, start[used], end, x, np.int64(-1), np.inf)
    if first >= 0:
        near, gap = _look(at, column, radius2, squared, hits, start[first], start[first + 1], x, near, gap)
    root = np.sqrt(gap) * _MORE
    for c in range(used):
        # Beyond, no landmark of the cell is as near, and the record is in none of its balls.
        bound = reach[c] + max(widest[c], root)
        if apart[c] <= bound * bound and c != first:
            near, gap = _look(at, column, radius2, squared, hits, start[c], start[c + 1], x, near, gap)
    return near, gap
