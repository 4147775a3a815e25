"""The clock of a log: the times of its records, as far as several streams agree on them.

A time that is further ahead than the clock usually moves at once is a leap, and a stream that leaps alone is wrong: its
lead is taken off its times, so that they move the clock on only by what passes between them. The clock leaps once most
of the recent streams lead, by the lower median of their leads. It leaps back where these all go on from before.

All of it follows from the order of the records alone.
"""

from typing import Final

import numpy as np
from resonance.engine.base import IntArray
from resonance.kernels.arithmetic import jit

STREAMS: Final = 16
"""Streams that have a say: those that had a record last."""

RECENT: Final = 1_024
"""Records of the log after which a stream without one has no say, and the first time of all is no longer in doubt."""

ALONE: Final = 64
"""Records in a row with which the only recent stream makes the clock leap."""

STEP_MS: Final = 30_000
"""The clock may always move by so much at once, and by twice what it moved at least two times of late."""

SPAN: Final = 64
"""Records in which the largest two steps are kept."""

LATE_MS: Final = 86_400_000
"""A record counts as late by a day at most."""

NEVER: Final = -(2**62)

# Columns of the first row: of the log.
NOW = 0  # the clock, in the streams' time
BEHIND = 1  # what it leapt back in all: the sum of both never falls
FLOOR = 2  # where it stood before it leapt last; NEVER for its first time
MIDDLE = 3  # between there and where it leapt to; NEVER for none
LEAPT = 4  # number of the record at which it leapt
RECORDS = 5  # records so far
LARGEST = 6  # largest step of this span
SECOND = 7  # second largest
BEFORE = 8  # second largest of the span before

# Columns of the other rows: of recent streams.
STREAM = 0  # its number
TIME = 1  # time of its last record
LEAD = 2  # how far that is ahead
AT = 3  # number of that record, from 1 on; 0 for no stream
RUN = 4  # its last records in a row that led, or below 0 that were from before the leap
COLUMNS = 9


@jit
def _row_of(state, stream):
    """Return the row of a stream: another one that had no record for longest leaves for a new one."""
    oldest = 1
    for row in range(1, len(state)):
        if state[row, AT] > 0 and state[row, STREAM] == stream:
            return row
        if state[row, AT] < state[oldest, AT]:
            oldest = row
    state[oldest] = 0
    state[oldest, STREAM] = stream
    return oldest


@jit
def _is_recent(state, row):
    return state[row, AT] > 0 and state[0, RECORDS] - state[row, AT] < RECENT


@jit
def _is_from_before(state, time):
    """Return whether a time goes on from before the last leap."""
    return state[0, FLOOR] - STEP_MS <= time < state[0, MIDDLE]


@jit
def _leap_back(state, row, time):
    """Let the clock return to a time from before its last leap, where the recent streams agree."""
    recent = agree = 0
    for other in range(1, len(state)):
        if _is_recent(state, other):
            recent += 1
            agree += _is_from_before(state, state[other, TIME])
    # The first time of all has no witness.
    in_doubt = state[0, FLOOR] == NEVER and state[0, RECORDS] <= RECENT
    wanted = 2 * agree >= recent if in_doubt else agree == recent and state[0, FLOOR] > NEVER
    if not wanted or (recent == 1 and -state[row, RUN] < min(ALONE, state[0, RECORDS] // 2)):
        return
    state[0, BEHIND] += state[0, NOW] - time
    state[0, NOW] = time
    state[0, MIDDLE] = NEVER
    for other in range(1, len(state)):
        ahead = state[other, TIME] - time
        state[other, LEAD] = ahead if ahead > STEP_MS else 0
        state[other, RUN] = 0


@jit
def _leap(state, row):
    """Return how far the clock leaps because a stream leads: 0 unless most recent streams do."""
    recent = ahead = 0
    leads = np.empty(len(state), np.int64)
    for other in range(1, len(state)):
        if _is_recent(state, other):
            recent += 1
            if state[other, LEAD] > 0:
                leads[ahead] = state[other, LEAD]
                ahead += 1
    if 2 * ahead <= recent or (recent == 1 and state[row, RUN] < min(ALONE, max(state[0, RECORDS] // 2, 1))):
        return 0
    return np.sort(leads[:ahead])[(ahead - 1) // 2]


@jit
def _move(state, time):
    """Let the clock move on to a time, unless it is there."""
    step = time - state[0, NOW]
    if step <= 0:
        return
    state[0, NOW] = time
    if step > state[0, LARGEST]:
        state[0, SECOND], state[0, LARGEST] = state[0, LARGEST], step
    elif step > state[0, SECOND]:
        state[0, SECOND] = step


@jit
def _own_time(state, row, time, most):
    """Return the time of a record without the lead of its stream, which is known anew."""
    now = state[0, NOW]
    lead = state[row, LEAD]
    if time <= now + most:
        lead = 0
    elif not now - LATE_MS <= time - lead <= now + most:
        lead = time - now
    state[row, LEAD] = lead
    return time - lead


@jit
def follow(times, streams, state, late, clocks, own):
    """Follow the records of a log.

    It writes the clock as of each record, which never falls, and each record's own time on its scale, at least `late`
    below it; one that is ahead of it is not confirmed.
    """
    for i in range(len(times)):
        time = times[i]
        if state[0, NOW] == NEVER:
            state[0, NOW], state[0, FLOOR], state[0, MIDDLE] = time, NEVER, time - LATE_MS
        most = max(STEP_MS, 2 * max(state[0, SECOND], state[0, BEFORE]))
        row = _row_of(state, streams[i])
        state[0, RECORDS] += 1
        state[row, TIME], state[row, AT] = time, state[0, RECORDS]
        if _is_from_before(state, time):
            state[row, RUN] = min(state[row, RUN], 0) - 1
            _leap_back(state, row, time)
        moved = _own_time(state, row, time, most)
        if state[row, LEAD] > 0:
            state[row, RUN] = max(state[row, RUN], 0) + 1
            leap = _leap(state, row)
            if leap > 0:
                begun = state[0, NOW]
                if state[0, FLOOR] == NEVER and state[0, RECORDS] <= RECENT and state[0, MIDDLE] > NEVER:
                    state[0, MIDDLE] = begun + leap - LATE_MS
                else:
                    # A leap that goes on with the one before is one with it.
                    if NEVER in (state[0, FLOOR], state[0, MIDDLE]) or state[0, RECORDS] - state[0, LEAPT] > RECENT:
                        state[0, FLOOR] = begun
                    state[0, MIDDLE] = state[0, FLOOR] + (begun + leap - state[0, FLOOR]) // 2
                state[0, LEAPT] = state[0, RECORDS]
                _move(state, begun + leap)
                for other in range(1, len(state)):
                    state[other, LEAD] = max(state[other, LEAD] - leap, 0)
                moved = _own_time(state, row, time, most)
        if state[row, LEAD] == 0 and not _is_from_before(state, time):
            state[row, RUN] = 0
        _move(state, moved)
        if state[0, RECORDS] % SPAN == 0:
            state[0, BEFORE] = state[0, SECOND]
            state[0, LARGEST] = state[0, SECOND] = 0
        clocks[i] = state[0, NOW] + state[0, BEHIND]
        own[i] = max(time, state[0, NOW] - late) + state[0, BEHIND]


def new_state() -> IntArray:
    """Return the state of a clock before the first record."""
    state: IntArray = np.zeros((1 + STREAMS, COLUMNS), np.int64)
    state[0, :6] = NEVER, 0, NEVER, NEVER, 0, 0
    return state


def compile() -> None:
    """Compile the kernel, or load it from the cache."""
    follow(*np.zeros((2, 1), np.int64), new_state(), 1, *np.zeros((2, 1), np.int64))
