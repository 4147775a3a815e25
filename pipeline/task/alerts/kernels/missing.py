"""Which features of a stream are missing for longer than ever, and far longer than chance explains.

A row is a feature.
"""

import numpy as np
from resonance.kernels.arithmetic import jit, log
from resonance.pipeline.task.alerts.kernels.silence import keep_longest

# Columns of a row.
MISSED = 0  # records without the feature, but for those of the run that goes on
RUN = 1  # records in a row without it, up to the last one
BEGAN = 2  # time of the first of them, in milliseconds since 1970
WEEK = 3  # the week in which the last run ended
LONGEST = 4  # the longest run that ended in that week
BEFORE = 5  # the longest run of the week before
OPEN = 6  # whether an alert is open
RUNS = 7  # runs that ended
COLUMNS = 8

OUT = 7
"""Columns of what `follow` finds."""

LEAST = 20
"""Records in a row that an alert needs, and records with the feature before them."""

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
def follow(is_missing, times, records, evidence, rows, out):
    """Follow records, after so many before them; return how many alerts opened or cleared.

    `out` gets position, column, whether one opened, records of the run, records before it, of these those without the
    feature, and when the run began.
    """
    found = 0
    for at in range(len(times)):
        for column in range(len(rows)):
            if not is_missing[at, column]:
                if rows[column, RUN] == 0:
                    continue
                if rows[column, OPEN] == 1:
                    rows[column, OPEN] = 0
                    out[found] = (at, column, 0, rows[column, RUN], 0, 0, rows[column, BEGAN])
                    found += 1
                keep_longest(rows, column, WEEK, times[at], rows[column, RUN])
                rows[column, MISSED] += rows[column, RUN]
                rows[column, RUNS] += 1
                rows[column, RUN] = 0
                continue
            if rows[column, RUN] == 0:
                rows[column, BEGAN] = times[at]
            rows[column, RUN] += 1
            run, missed = rows[column, RUN], rows[column, MISSED]
            before = records + at + 1 - run
            if rows[column, OPEN] == 1 or run < LEAST or before - missed < LEAST:
                continue
            longest = max(rows[column, LONGEST], rows[column, BEFORE])
            if _is_longer(run, missed, rows[column, RUNS], longest, before, evidence):
                rows[column, OPEN] = 1
                out[found] = (at, column, 1, run, before, missed, rows[column, BEGAN])
                found += 1
    return found


def compile() -> None:
    """Compile every kernel, or load it from the cache."""
    rows, out = np.zeros((1, COLUMNS), np.int64), np.empty((1, OUT), np.int64)
    follow(np.zeros((1, 1), np.bool_), np.zeros(1, np.int64), 0, 1.0, rows, out)
