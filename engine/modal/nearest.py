"""Distances from a record to landmarks, and the lists of nearest landmarks that follow from them.

Most landmarks of a cluster lie in a cell, a ball around their mean. A cell that is too far from a record is left out,
and what is found is still what a look at every landmark finds. Cells follow from the landmarks; a state has none.
"""

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.modal.layout import LISTED, STAGGER, Rules
from resonance.kernels.arithmetic import bits_of, fma, inline, jit
from resonance.kernels.borrowed import borrow
from resonance.kernels.table import Table, floats, ints, new

_LANES = 64
"""Parts of the landmarks, the nearest of each of which bound how far the nearest of all can be."""
NOWHERE = 1e152
"""Coordinate of a landmark that is replaced: its squared distances are floats, and larger than all."""


@jit
def squared_distances(at, begin, end, x, out):
    """Write the squared Euclidean distances of `x` to the columns of `at` from `begin` to before `end`.

    The first of them is written to the first place of `out`. Sums run from the first feature to the last, each step
    rounded once: two landmarks are equally far apart seen from either of them.
    """
    d, count = len(x), end - begin
    out = borrow(out)
    for j in range(count):
        out[j] = 0.0
    f = 0
    while f + 3 < d:
        # Four features at once: a quarter of the passes through `out`.
        first, second = borrow(at[f])[begin:end], borrow(at[f + 1])[begin:end]
        third, fourth = borrow(at[f + 2])[begin:end], borrow(at[f + 3])[begin:end]
        a, b, c, e = x[f], x[f + 1], x[f + 2], x[f + 3]
        for j in range(count):
            t, u, v, w = first[j] - a, second[j] - b, third[j] - c, fourth[j] - e
            out[j] = fma(w, w, fma(v, v, fma(u, u, fma(t, t, out[j]))))
        f += 4
    while f < d:
        first, a = borrow(at[f])[begin:end], x[f]
        for j in range(count):
            u = first[j] - a
            out[j] = fma(u, u, out[j])
        f += 1


@jit
def smallest_bits(squared, count):
    """Return the bits of the smallest of `count` numbers that are not negative, as an integer; of infinity for none."""
    best = np.int64(0x7FF0000000000000)
    squared = borrow(squared)
    # The bits of floats that are not negative are in the order of the floats: minima run on integers.
    for j in range(count):
        bits = bits_of(squared[j])
        best = bits if bits < best else best
    return best


@jit
def nearest(squared, count):
    """Return the first of the smallest of `count` numbers that are not negative."""
    best, squared = smallest_bits(squared, count), borrow(squared)
    for j in range(count):
        if bits_of(squared[j]) == best:
            return np.int64(j)
    return np.int64(0)


@inline
def _comes_before(gap, j, other_gap, other):
    """Whether landmark `j` stands before another one in a list."""
    return gap < other_gap or (gap == other_gap and j < other)


@jit
def _insert(listed, gap, length, j, squared):
    """Put landmark `j` in its place of a list of `length`, whose last one it replaces where the list is full."""
    a = length if length < LISTED else LISTED - 1
    while a > 0 and _comes_before(squared, j, gap[a - 1], listed[a - 1]):
        gap[a], listed[a] = gap[a - 1], listed[a - 1]
        a -= 1
    gap[a], listed[a] = squared, j


@jit
def _lanes(count, squared, lane):
    """Write the smallest of every 64th number, and return one that at least `LISTED` of all do not exceed."""
    lane[:] = np.inf
    whole = count - count % _LANES
    for begin in range(0, whole, _LANES):
        part = squared[begin : begin + _LANES]
        for a in range(_LANES):
            lane[a] = part[a] if part[a] < lane[a] else lane[a]
    for j in range(whole, count):
        lane[j - whole] = min(lane[j - whole], squared[j])
    least, length = np.empty(LISTED), 0
    for a in range(_LANES):
        if length == LISTED and lane[a] >= least[LISTED - 1]:
            continue
        length = min(length + 1, LISTED)
        b = length - 1
        while b > 0 and least[b - 1] > lane[a]:
            least[b] = least[b - 1]
            b -= 1
        least[b] = lane[a]
    return least[LISTED - 1]


@jit
def _list_nearest(listed, gap, count, squared):
    """Write the nearest of `count` landmarks to a list; those at an infinite distance are in none."""
    for a in range(LISTED):
        listed[a], gap[a] = -1, np.inf
    length, lane = 0, np.empty(_LANES)
    bound = _lanes(count, squared, lane)
    for a in range(_LANES):
        if lane[a] > bound or lane[a] == np.inf:
            continue
        for j in range(a, count, _LANES):
            if squared[j] > bound or squared[j] == np.inf:
                continue
            if length == LISTED and not _comes_before(squared[j], j, gap[LISTED - 1], listed[LISTED - 1]):
                continue
            _insert(listed, gap, length, np.int64(j), squared[j])
            length = min(length + 1, LISTED)


@jit
def _length(listed):
    """Return how many landmarks a list has."""
    length = LISTED
    while length > 0 and listed[length - 1] < 0:
        length -= 1
    return length


@jit
def _note_farthest(model, i, count):
    """Note how far the list of landmark `i` reaches, of `count` landmarks."""
    length = _length(model.listed[i])
    model.farthest[i] = np.inf if length >= count - 1 or length == 0 else model.gap[i, length - 1]


@jit
def list_landmark(model, j, squared):
    """List the neighbours of a new landmark `j`, and list it with those to whom it is near.

    `squared` are the distances from it to all landmarks, infinite to itself.
    """
    count = model.landmarks
    _list_nearest(model.listed[j], model.gap[j], count, squared)
    _note_farthest(model, j, count)
    farthest, squared = model.farthest, borrow(squared)
    for i in range(count):
        if squared[i] > farthest[i] or i == j:
            continue
        listed, gap = model.listed[i], model.gap[i]
        length = _length(listed)
        # A list that has had to give one up knows nothing of those behind its last; one that has all others does.
        has_all = farthest[i] == np.inf and length < LISTED
        if has_all or _comes_before(squared[i], j, gap[length - 1], listed[length - 1]):
            _insert(listed, gap, length, j, squared[i])
            length = min(length + 1, LISTED)
        farthest[i] = np.inf if length >= count - 1 else gap[length - 1]


@jit
def unlist_landmark(model, j, neighbours, squared):
    """Take landmark `j`, which is about to be replaced, out of all lists; `squared` is room."""
    count, d = model.landmarks, len(model.at)
    x = np.empty(d)
    for f in range(d):
        x[f] = model.at[f, j]
    squared_distances(model.at, 0, count, x, squared)
    for f in range(d):
        model.at[f, j] = NOWHERE
    near = np.empty(count, dtype=np.int64)
    candidates = 0
    farthest = model.farthest
    for i in range(count):
        if squared[i] <= farthest[i] and i != j:
            near[candidates] = i
            candidates += 1
    for at in range(candidates):
        i = near[at]
        listed, gap = model.listed[i], model.gap[i]
        a = 0
        while a < LISTED and listed[a] != j:
            a += 1
        if a == LISTED:
            continue
        for b in range(a, LISTED - 1):
            listed[b], gap[b] = listed[b + 1], gap[b + 1]
        listed[LISTED - 1], gap[LISTED - 1] = -1, np.inf
        if listed[neighbours - 1] < 0:
            for f in range(d):
                x[f] = model.at[f, i]
            squared_distances(model.at, 0, count, x, squared)
            squared[i] = squared[j] = np.inf
            _list_nearest(listed, gap, count, squared)
        # Not all other landmarks are in the list of a model that is full.
        farthest[i] = gap[_length(listed) - 1]


@jit
def list_all(model, squared):
    """List the neighbours of every landmark; `squared` is room."""
    count, d = model.landmarks, len(model.at)
    x = np.empty(d)
    for i in range(count):
        for f in range(d):
            x[f] = model.at[f, i]
        squared_distances(model.at, 0, count, x, squared)
        squared[i] = np.inf
        _list_nearest(model.listed[i], model.gap[i], count, squared)
        _note_farthest(model, i, count)


UNFILLED = -1
"""`end` of cells that are to be filled before they are looked into."""

_MAX = 512
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

    cells: int = ints(stored=False)
    end: int = ints(fill=UNFILLED, stored=False)  # positions that are used
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
    return new(Cells, d=rules.d, slots=slots)


@jit
def fill_cells(model, cells):
    """Make a cell of every cluster, and copy the landmarks."""
    # Until it is done, whatever happens.
    cells.end = UNFILLED
    count, used = model.landmarks, min(model.clusters, _MAX)
    own, gap, mean = np.empty(count, dtype=np.int64), np.zeros(count), np.zeros(used)
    nodes, size = np.zeros(used + 1, dtype=np.int64), np.zeros(used + 1, dtype=np.int64)
    for i in range(count):
        place = model.place[i]
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
            cells.widest[c] = max(cells.widest[c], np.sqrt(model.radius2[i]) * _MORE + _TINY)
        size[c] += 1
    cells.start[0] = 0
    for c in range(used):
        cells.start[c + 1] = cells.start[c] + size[c]
    filled = cells.start[: used + 1].copy()
    for i in range(count):
        p = filled[own[i]]
        cells.column[p], cells.position[i], cells.radius2[p] = i, p, model.radius2[i]
        filled[own[i]] += 1
    for f in range(len(model.at)):
        at, copy, column = model.at[f], cells.at[f], cells.column
        for p in range(count):
            copy[p] = at[column[p]]
    cells.cells, cells.end = used, count


@jit
def enter_cells(model, cells, j):
    """Put a new landmark `j`, which may have taken the column of an old one, with those that are in no cell."""
    end = cells.end
    if end == len(cells.column):
        fill_cells(model, cells)
        return
    gone = cells.position[j]
    for f in range(len(model.at)):
        if gone >= 0:
            cells.at[f, gone] = NOWHERE
        cells.at[f, end] = model.at[f, j]
    cells.column[end], cells.position[j], cells.radius2[end] = j, end, model.radius2[j]
    cells.end = end + 1


@jit
def _look(at, column, radius2, squared, tally, begin, end, x, near, gap):
    """Look at the landmarks at some positions, and count the record where the tally has hits.

    Return the nearest so far, the first of several, and its squared distance.
    """
    hits, met, squares, clock = tally
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
                i = column[begin + p]
                pause = float(clock - met[i])
                hits[i] += 1.0
                met[i] = clock
                squares[i] += pause * pause
    return near, gap


@inline
def find_nearest(model, cells, x, counts):
    """Return the first of the landmarks nearest to a record and its squared distance.

    With `counts` the record is counted in every ball that it is in. The cells are filled, and there is a landmark.
    """
    used, end = cells.cells, cells.end
    apart, reach, widest, start = cells.apart, cells.reach, cells.widest, cells.start
    squared_distances(cells.middle, 0, used, x, apart)
    first = nearest(apart, used) if used > 0 else -1
    at, column, radius2, squared = cells.at, cells.column, cells.radius2, cells.squared
    tally = (model.hits if counts else model.hits[:0], model.met, model.squares, model.clock)
    near, gap = _look(at, column, radius2, squared, tally, start[used], end, x, np.int64(-1), np.inf)
    if first >= 0:
        near, gap = _look(at, column, radius2, squared, tally, start[first], start[first + 1], x, near, gap)
    root = np.sqrt(gap) * _MORE
    for c in range(used):
        # Beyond, no landmark of the cell is as near, and the record is in none of its balls.
        bound = reach[c] + max(widest[c], root)
        if apart[c] <= bound * bound and c != first:
            near, gap = _look(at, column, radius2, squared, tally, start[c], start[c + 1], x, near, gap)
    return near, gap
