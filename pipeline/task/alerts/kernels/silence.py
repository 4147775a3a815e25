"""Which streams of a partition are silent, and from which record on.

A row is a stream. Its clock are the records of the log that its own first record came from: a record of another stream
there with a time beyond the deadline shows the silence. Of each log the earliest deadline is known. When a record
passes it, all rows of the log are looked at once: deadlines are a minute and many gaps away, so that is rare.

Where all streams were silent those that come back first have no such record: their own one shows it, and ends it.
"""

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.kernels.arithmetic import jit
from resonance.pipeline.task.alerts.kernels.clock import STEP_MS

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
PAUSE = 9  # the longest gap of its last records, of those where the clock was not there yet
BEGAN = 10  # the time at which that began, as the record before it said
STATE = 11  # columns that are state

DUE = 11  # the time at which it is looked at, its deadline at most; NEVER where it cannot fall silent
COLUMNS = 12

NEVER = 2**62

WEEK_MS = 7 * 86_400_000

LONGEST_MS = 4 * WEEK_MS
"""A longer gap counts as this: by it a stream whose clock was set right would not be silent for years."""

SMOOTH = 64
"""Gaps that the usual gap averages."""

FEWEST = 32
"""Records from which on a stream has a usual gap."""


@jit
def _limit(rows, means, row, gaps, least):
    """Return how long a stream has to be without a record to be silent."""
    longest = max(rows[row, LONGEST], rows[row, BEFORE])
    return max(least, int(gaps * means[row]), 2 * longest)


@jit
def _deadline(rows, means, row, gaps, least):
    """Return the time after which a stream is silent."""
    return rows[row, TIME] + _limit(rows, means, row, gaps, least)


@jit
def _confirmed(rows, row, now):
    """Return how much later the last record of a stream came than it counted, because the clock has followed it."""
    claim = rows[row, CLAIM]
    return max(min(claim, now) - rows[row, TIME], 0) if claim != 0 and claim <= now + STEP_MS else 0


@jit
def watch(rows, means, dues, row, gaps, least):
    """Have a row looked at when its deadline passes, if it has a usual gap and is not silent."""
    if rows[row, COUNT] >= FEWEST and rows[row, OPEN] == 0:
        rows[row, DUE] = min(rows[row, DUE], _deadline(rows, means, row, gaps, least))
        dues[rows[row, LOG]] = min(dues[rows[row, LOG]], rows[row, DUE])


@jit
def keep_longest(rows, row, first, time, length):
    """Note a length that ended at a time in three columns: the week, the longest that ended in it, and in the last."""
    week = max(time // WEEK_MS, rows[row, first])
    if week > rows[row, first]:
        rows[row, first + 2] = rows[row, first + 1] if week == rows[row, first] + 1 else 0
        rows[row, first + 1], rows[row, first] = 0, week
    rows[row, first + 1] = max(rows[row, first + 1], length)


@jit
def _take(rows, means, row, log, time, claim, offset, gaps, least):
    """Take a record of a stream; return how long ago a silence that it shows began, and the length of one that ends.

    Both are -1 where there is none.
    """
    shown = ended = -1
    if rows[row, COUNT] == 0:
        rows[row, LOG] = log
        rows[row, TIME] = time
        rows[row, WEEK] = time // WEEK_MS
    silent = max(time - rows[row, TIME], 0)
    later = _confirmed(rows, row, time)
    rest = silent - min(later, silent)
    # Several records may have been ahead of the clock: what passed in all is no silence.
    before = min(later, rows[row, PAUSE])
    if rows[row, OPEN] == 1:
        ended = silent
    elif rows[row, COUNT] >= FEWEST and max(before, rest) >= _limit(rows, means, row, gaps, least):
        shown, ended = (time - rows[row, BEGAN], before) if before > rest else (rest, rest)
    last = max(rows[row, CLAIM], rows[row, TIME])
    if later > 0 or rows[row, CLAIM] == 0 or claim - last > rows[row, PAUSE]:
        rows[row, PAUSE], rows[row, BEGAN] = claim - last, last
    rows[row, OPEN] = 0
    gap = min(rest, LONGEST_MS)
    keep_longest(rows, row, WEEK, time, max(gap, min(before, LONGEST_MS)))
    if rows[row, COUNT] > 0:
        means[row] += (gap - means[row]) / min(rows[row, COUNT], SMOOTH)
    rows[row, TIME] = max(rows[row, TIME], time)
    rows[row, CLAIM] = claim if claim > time else 0
    rows[row, COUNT] += 1
    rows[row, UNTIL] = offset + 1
    return shown, ended


@jit
def follow(times, clocks, offsets, owners, fresh, logs, start, stop, rows, means, dues, gaps, least, out):
    """Follow records from one position to another; return how many alerts opened or cleared, and where it stopped.

    `clocks` is the time that is known with each record: a later one of its own does not count yet. `owners` has the row
    of each record, -1 for none, `fresh` whether it still has to take that, and `logs` the number of its log, -1 where
    it is no clock. It stops early where `out` (position, row, opened, milliseconds, usual milliseconds) is full.
    """
    found = 0
    for i in range(start, stop):
        log = logs[i]
        if log < 0:
            continue
        if found + 2 > len(out):
            return found, i
        time = min(times[i], clocks[i])
        row = owners[i]
        if fresh[i]:
            fresh[i] = False
            usual = int(means[row])
            lengths = _take(rows, means, row, log, time, times[i], offsets[i], gaps, least)
            for ends in range(2):
                if lengths[ends] >= 0:
                    out[found, 0] = i
                    out[found, 1] = row
                    out[found, 2] = 1 - ends
                    out[found, 3] = lengths[ends]
                    out[found, 4] = usual
                    found += 1
            watch(rows, means, dues, row, gaps, least)
        if dues[log] > time:
            continue
        earliest = NEVER
        for row in range(len(rows)):
            if rows[row, DUE] == NEVER or rows[row, LOG] != log:
                continue
            due = _deadline(rows, means, row, gaps, least)
            if rows[row, DUE] > time:
                due = max(due, rows[row, DUE])
            else:
                later = _confirmed(rows, row, time)
                due += later
                if due <= time:
                    if found == len(out):
                        # The record is looked at again: its own stream knows it already.
                        return found, i
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
                    due = NEVER
            rows[row, DUE] = due
            earliest = min(earliest, due)
        dues[log] = earliest
    return found, stop


def new_rows(count: int) -> tuple[IntArray, FloatArray]:
    """Return rows of streams without records."""
    rows: IntArray = np.zeros((count, COLUMNS), np.int64)
    rows[:, DUE] = NEVER
    return rows, np.zeros(count)


def compile() -> None:
    """Compile the kernels, or load them from the cache."""
    rows, means = new_rows(1)
    zeros: IntArray = np.zeros(1, np.int64)
    watch(rows, means, zeros + NEVER, 0, 1.0, 1)
    fresh, out = np.ones(1, np.bool_), np.zeros((1, 5), np.int64)
    follow(zeros, zeros, zeros, zeros, fresh, zeros, 0, 1, rows, means, zeros + NEVER, 1.0, 1, out)
