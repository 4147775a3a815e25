"""Which features of a stream are missing for longer than ever, or in a far larger share of its records.

A row is a feature. What is missing in a run is judged by its length. How often runs begin is watched by a CUSUM: of
each only the first record counts, for the others follow from it.
"""

import numpy as np
from resonance.kernels.arithmetic import jit, log
from resonance.pipeline.task.alerts.kernels import cusum
from resonance.pipeline.task.alerts.kernels.silence import keep_longest

# Columns of a row.
MISSED = 0  # records without the feature, but for those of the run that goes on
RUN = 1  # records in a row without it, up to the last one
BEGAN = 2  # time of the first of them, in milliseconds since 1970
WEEK = 3  # the week in which the last run ended
LONGEST = 4  # the longest run that ended in that week
BEFORE = 5  # the longest run of the week before
OPEN = 6  # whether an alert is open: 0, or what opened it
RUNS = 7  # runs that ended
GONE = 8  # records without it since the CUSUM left 0
OF = 9  # records since then
WAITING = 10  # full blocks that are no baseline yet; `LAG` places for their counts, the oldest one first
LAG = 16
COLUMNS = WAITING + 1 + LAG

# What opens an alert.
LONG_RUN = 1
LARGE_SHARE = 2

OUT = 4
NUMBERS = 3
"""Columns of what `follow` finds: integers, and the evidence."""

LEAST = 20
"""Records in a row that an alert needs, and records with the feature before them."""

HIGH, TIMES = 0.2, 3.0
"""Share of records in which runs begin that is too large: at least, and how many times its odds are the usual ones."""

_ERRORS = 3.0
"""Standard errors by which a share may be larger than it was."""

_LONGER, _FEW = 2.0, 8.0
"""Times as long as the longest run that one of an alert is at least, and more by so many, divided by the runs known."""


@jit
def _most(count, of):
    """Return the most that a share may be which was so many of some."""
    share = (count + 1.0) / (of + 2.0)
    return min(share + _ERRORS * np.sqrt(share * (1.0 - share) / (of + 2.0)), 1.0)


@jit
def _is_longer(run, missed, runs, longest, records, evidence):
    """Whether a run is longer than any and than chance explains, by records that lacked the feature before.

    What is missing at night, or while a machine rests, is missing in runs: so many of those had one before them. The
    longest run, which may have been a fault, is left out of that.
    """
    if runs > 0 and run < (_LONGER + _FEW / runs) * longest:
        return False
    chance = _most(missed, records)
    if runs >= _FEW:
        chance = max(chance, _most(missed - longest - runs + 1, missed - longest))
    return -run * log(chance) >= evidence


@jit
def _wait(row, counts, weights, unlike, rule):
    """Add a full block to those that wait; half of all blocks do, `LAG` at most.

    So what grows slowly does not make itself usual before it is noticed.
    """
    if 2 * row[WAITING] >= min(row[WAITING] + counts[cusum.BLOCKS] + 1, 2 * LAG):
        cusum.end_block(counts, weights, row[WAITING + 1], rule, 1.0)
        row[WAITING + 1 : COLUMNS - 1] = row[WAITING + 2 : COLUMNS].copy()
        row[WAITING] -= 1
    row[WAITING] += 1
    row[WAITING + row[WAITING]] = unlike


@jit
def _put(out, numbers, found, at, column, opened, began, gone, records, usual):
    out[found] = (at, column, opened, began)
    numbers[found] = (float(gone), float(records), usual)
    return found + 1


@jit
def follow(is_missing, times, records, evidence, rows, counts, weights, out, numbers):
    """Follow records, after so many before them; return how many alerts opened or cleared.

    `out` gets position, column, whether one opened, and when what opened it began; `numbers` the records without the
    feature, of how many these are (0: all of a run), and the share that was usual.
    """
    found, rule = 0, (evidence, np.inf, HIGH, TIMES)
    for at in range(len(times)):
        for column in range(len(rows)):
            row, count, weight = rows[column], counts[column], weights[column]
            is_gone = is_missing[at, column]
            if not is_gone and row[RUN] == 0 and row[RUNS] == 0:
                continue
            if is_gone:
                if row[RUN] == 0:
                    row[BEGAN] = times[at]
                    if row[RUNS] == 0:
                        for _ in range((records + at) // cusum.BLOCK):
                            _wait(row, count, weight, 0, rule)
                        count[cusum.IN_BLOCK] = (records + at) % cusum.BLOCK
                row[RUN] += 1
                run, missed = row[RUN], row[MISSED]
                before = records + at + 1 - run
                longest = max(row[LONGEST], row[BEFORE])
                is_judged = row[OPEN] == 0 and run >= LEAST and before - missed >= LEAST
                if is_judged and _is_longer(run, missed, row[RUNS], longest, before, evidence):
                    row[OPEN] = LONG_RUN
                    found = _put(out, numbers, found, at, column, 1, row[BEGAN], run, 0, missed / before)
                if run > 1:
                    row[GONE] += 1
                    row[OF] += 1
                    continue
            elif row[RUN] > 0:
                if row[OPEN] == LONG_RUN:
                    row[OPEN] = 0
                    found = _put(out, numbers, found, at, column, 0, row[BEGAN], row[RUN], 0, 0.0)
                keep_longest(rows, column, WEEK, times[at], row[RUN])
                row[MISSED] += row[RUN]
                row[RUNS] += 1
                row[RUN] = 0
            is_open = row[OPEN] == LARGE_SHARE
            cusum.advance(count, weight, 1 if is_gone else 0, False, times[at], is_open)
            if count[cusum.RUN] == 1:
                row[GONE] = row[OF] = 0
            row[GONE] += 1 if is_gone else 0
            row[OF] += 1
            if row[OPEN] == 0 and cusum.is_reached(weight):
                row[OPEN] = LARGE_SHARE
                # The run that has just begun is among these, but not among those that ended.
                usual = (row[MISSED] + row[RUN] - row[GONE]) / max(records + at + 1 - row[OF], 1)
                found = _put(out, numbers, found, at, column, 1, count[cusum.BEGAN], row[GONE], row[OF], usual)
            elif is_open and weight[cusum.W] <= 0.25 * weight[cusum.HOLD]:
                row[OPEN] = 0
                found = _put(out, numbers, found, at, column, 0, count[cusum.BEGAN], row[GONE], row[OF], 0.0)
                cusum.learn_run(count, weight, rule)
            elif row[OPEN] == 0:
                full = cusum.count(count, weight, 1 if is_gone else 0, False, evidence)
                if full >= 0:
                    _wait(row, count, weight, full, rule)
    return found


def compile() -> None:
    """Compile every kernel, or load it from the cache."""
    rows, out = np.zeros((1, COLUMNS), np.int64), np.empty((1, OUT), np.int64)
    counts, weights = np.zeros((1, cusum.OF_COUNTS), np.int64), np.zeros((1, cusum.OF_WEIGHTS))
    follow(
        np.zeros((1, 1), np.bool_), np.zeros(1, np.int64), 0, 1.0, rows, counts, weights, out, np.empty((1, NUMBERS))
    )
