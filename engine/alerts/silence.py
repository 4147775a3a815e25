"""Which streams of a partition are silent: a heap of the times at which each has been silent for too long.

A row is a stream. Its clock are the records of the log that its own first record came from: a record of another stream
there with a time beyond the deadline shows the silence. A deadline that moves on stays in the heap as it was, and is
looked at again when that has passed; one that comes nearer, because gaps were short, moves in the heap. So no row
stands there with a later time than its deadline, and the work for each record is bounded, however many streams there
are.

The heap is a pairing heap of rows, one for each log, and no part of the state: which streams are silent does not
depend on its shape.
"""

import numpy as np
from resonance.engine.alerts.clock import STEP_MS
from resonance.engine.arithmetic import jit
from resonance.engine.base import FloatArray, IntArray

# Columns of a row.
COUNT = 0  # records of the stream
TIME = 1  # the latest time of one, in milliseconds
WEEK = 2  # the week of that time
LONGEST = 3  # the longest gap that ended in that week
BEFORE = 4  # the longest gap of the week before
LOG = 5  # number of the log that is its clock
UNTIL = 6  # offset behind the record that changed the row last
OPEN = 7  # whether the stream is silent
CLAIM = 8  # the time that its last record said, where the clock was not there yet; else 0
STATE = 9  # columns that are state

CHILD = 9  # first child in the heap
SIBLING = 10  # next child of the same parent
QUEUED = 11  # whether it is in the heap
DUE = 12  # the time for which it stands in the heap, its deadline at most
PREVIOUS = 13  # the child before it of the same parent, or that parent
COLUMNS = 14

WEEK_MS = 7 * 86_400_000

LONGEST_MS = 4 * WEEK_MS
"""A longer gap counts as this: by it a stream whose clock was set right would not be silent for years."""

SMOOTH = 64
"""Gaps that the usual gap averages."""

FEWEST = 32
"""Records from which on a stream has a usual gap."""


@jit
def _deadline(rows, means, row, gaps, least):
    """Return the time after which a stream is silent."""
    longest = max(rows[row, LONGEST], rows[row, BEFORE])
    return rows[row, TIME] + max(least, int(gaps * means[row]), 2 * longest)


@jit
def _confirmed(rows, row, now):
    """Return how much later the last record of a stream came than it counted, because the clock has followed it."""
    claim = rows[row, CLAIM]
    return max(min(claim, now) - rows[row, TIME], 0) if claim != 0 and claim <= now + STEP_MS else 0


@jit
def _meld(rows, a, b):
    """Return the root of two heaps joined."""
    if a < 0:
        return b
    if b < 0:
        return a
    if rows[b, DUE] < rows[a, DUE] or (rows[b, DUE] == rows[a, DUE] and b < a):
        a, b = b, a
    first = rows[a, CHILD]
    if first >= 0:
        rows[first, PREVIOUS] = b
    rows[b, SIBLING], rows[b, PREVIOUS] = first, a
    rows[a, CHILD] = b
    return a


@jit
def _without_root(rows, root):
    """Return the root of a heap without its root: its children are joined in pairs, then all of these."""
    pairs = -1
    child = rows[root, CHILD]
    rows[root, CHILD] = -1
    while child >= 0:
        second = rows[child, SIBLING]
        rows[child, SIBLING] = -1
        following = -1
        if second >= 0:
            following = rows[second, SIBLING]
            rows[second, SIBLING] = -1
        pair = _meld(rows, child, second)
        rows[pair, SIBLING] = pairs
        pairs = pair
        child = following
    joined = -1
    while pairs >= 0:
        following = rows[pairs, SIBLING]
        rows[pairs, SIBLING] = -1
        joined = _meld(rows, joined, pairs)
        pairs = following
    return joined


@jit
def queue(rows, means, roots, row, gaps, least):
    """Put a row into the heap of its log, or nearer to its root, if it has a usual gap and is not silent."""
    _queue(rows, means, roots, row, gaps, least, 0)


@jit
def _queue(rows, means, roots, row, gaps, least, later):
    """Put a row into the heap of its log, by what is known to have come so much later."""
    if rows[row, COUNT] < FEWEST or rows[row, OPEN] == 1:
        return
    due = _deadline(rows, means, row, gaps, least) + later
    log = rows[row, LOG]
    if rows[row, QUEUED] == 1:
        if due >= rows[row, DUE]:
            return
        rows[row, DUE] = due
        if roots[log] == row:
            return
        before, after = rows[row, PREVIOUS], rows[row, SIBLING]
        rows[before, CHILD if rows[before, CHILD] == row else SIBLING] = after
        if after >= 0:
            rows[after, PREVIOUS] = before
        rows[row, SIBLING] = -1
    else:
        rows[row, DUE] = due
        rows[row, CHILD] = rows[row, SIBLING] = -1
        rows[row, QUEUED] = 1
    roots[log] = _meld(rows, roots[log], row)


@jit
def _take(rows, means, row, log, time, claim, offset):
    """Take a record of a stream; return the length of the silence that it ends, -1 where it ends none."""
    ended = -1
    if rows[row, COUNT] == 0:
        rows[row, LOG] = log
        rows[row, TIME] = time
        rows[row, WEEK] = time // WEEK_MS
    silent = max(time - rows[row, TIME], 0)
    before = _confirmed(rows, row, time)
    gap = min(silent - min(before, silent), LONGEST_MS)
    week = max(time // WEEK_MS, rows[row, WEEK])
    if week > rows[row, WEEK]:
        rows[row, BEFORE] = rows[row, LONGEST] if week == rows[row, WEEK] + 1 else 0
        rows[row, LONGEST] = 0
        rows[row, WEEK] = week
    if rows[row, COUNT] > 0:
        means[row] += (gap - means[row]) / min(rows[row, COUNT], SMOOTH)
    rows[row, LONGEST] = max(rows[row, LONGEST], gap, min(before, LONGEST_MS))
    rows[row, TIME] = max(rows[row, TIME], time)
    rows[row, CLAIM] = claim if claim > time else 0
    rows[row, COUNT] += 1
    rows[row, UNTIL] = offset + 1
    if rows[row, OPEN] == 1:
        rows[row, OPEN] = 0
        ended = silent
    return ended


@jit
def follow(times, clocks, offsets, owners, logs, start, stop, rows, means, roots, gaps, least, out):
    """Follow records from one position to another; return how many alerts opened or cleared, and where it stopped.

    `clocks` is the time that is known with each record: a later one of its own does not count yet. `owners` has the row
    of each record, -1 for none, and `logs` the number of its log, -1 where it is no clock. It stops early where `out`
    (position, row, opened, milliseconds, usual milliseconds) is full.
    """
    found = 0
    for i in range(start, stop):
        log = logs[i]
        if log < 0:
            continue
        if found == len(out):
            return found, i
        time = min(times[i], clocks[i])
        row = owners[i]
        if row >= 0 and offsets[i] >= rows[row, UNTIL]:
            usual = int(means[row])
            ended = _take(rows, means, row, log, time, times[i], offsets[i])
            if ended >= 0:
                out[found, 0] = i
                out[found, 1] = row
                out[found, 2] = 0
                out[found, 3] = ended
                out[found, 4] = usual
                found += 1
            queue(rows, means, roots, row, gaps, least)
        while roots[log] >= 0 and rows[roots[log], DUE] <= time:
            if found == len(out):
                # The record is looked at again: its own stream knows it already.
                return found, i
            row = roots[log]
            roots[log] = _without_root(rows, row)
            rows[row, QUEUED] = 0
            later = _confirmed(rows, row, time)
            # A stream that has ended has no records.
            if rows[row, COUNT] > 0 and _deadline(rows, means, row, gaps, least) + later <= time:
                rows[row, OPEN] = 1
                # Records that come late do not move the clock: what was no silence but lateness must be usual now.
                length = time - rows[row, TIME] - later
                rows[row, LONGEST] = max(rows[row, LONGEST], length)
                rows[row, UNTIL] = offsets[i] + 1
                out[found, 0] = i
                out[found, 1] = row
                out[found, 2] = 1
                out[found, 3] = length
                out[found, 4] = int(means[row])
                found += 1
            else:
                _queue(rows, means, roots, row, gaps, least, later)
    return found, stop


def new_rows(count: int) -> tuple[IntArray, FloatArray]:
    """Return rows of streams without records."""
    rows: IntArray = np.zeros((count, COLUMNS), np.int64)
    rows[:, (CHILD, SIBLING)] = -1
    return rows, np.zeros(count)


def compile() -> None:
    """Compile the kernels, or load them from the cache."""
    rows, means = new_rows(1)
    zeros: IntArray = np.zeros(1, np.int64)
    queue(rows, means, zeros - 1, 0, 1.0, 1)
    follow(zeros, zeros, zeros, zeros, zeros, 0, 1, rows, means, zeros - 1, 1.0, 1, np.zeros((1, 5), np.int64))
