"""What most streams have in common at each time, such as a daily wave: without it their own levels are compared."""

from typing import Final

import numpy as np
from resonance.pipeline.peers.profiles import FEWEST_STREAMS, FloatArray, Halves, IntArray

BIN_RECORDS: Final = 20
"""Records of a stream, as a rule, in which a course is taken to be level."""

MOST_BINS: Final = 200
"""Bins on either side of the time of the newest records, beyond which no course is known."""

SHARED: Final = 0.5
"""Share of the streams that have records in a bin in which a course is known."""

PASSES: Final = 3
"""Times that levels and course are found from each other: streams may have records in some of the bins alone."""


def bins_of(time: IntArray, own: IntArray) -> IntArray:
    """Return in which stretch of time each record is, from 0 to twice `MOST_BINS`; -1 where in none.

    `own` has the streams of the records, which are given stream by stream.
    """
    found = np.full(len(time), -1)
    begins = np.flatnonzero(np.diff(own, prepend=-1))
    if len(begins):
        newest = np.maximum.reduceat(time, begins)
        paces = (newest - np.minimum.reduceat(time, begins)) / np.diff(begins, append=len(time))
        width = BIN_RECORDS * float(np.median(paces))
        if width > 0.0:
            bins = np.floor((time - np.median(newest)) / width) + MOST_BINS
            known = (bins >= 0) & (bins <= 2 * MOST_BINS)
            found[known] = bins[known]
    return found


def without_course(values: FloatArray, bins: IntArray, halves: Halves, streams: int) -> FloatArray:
    """Return the values of these records without the course that most streams share; NaN where none is known.

    The level of each stream stays as it is.
    """
    width = 2 * MOST_BINS + 1
    own = halves.streams[halves.cells[0] // 2]
    known = (bins >= 0) & ~np.isnan(values)
    cells = own[known] * width + bins[known]
    count = np.bincount(cells, minlength=streams * width).reshape(streams, width)
    total = np.bincount(cells, values[known], minlength=streams * width).reshape(streams, width)
    found = np.full(len(values), np.nan)
    there = np.count_nonzero(count, axis=0) >= max(FEWEST_STREAMS, SHARED * np.count_nonzero(count.any(axis=1)))
    having = count[:, there].any(axis=1)
    if having.any():
        count, total = count[having][:, there], total[having][:, there]
        means = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
        course = np.zeros(means.shape[1])
        for _ in range(PASSES):
            levels = np.nanmedian(means - course, axis=1, keepdims=True)
            course = np.nanmedian(means - levels, axis=0)
        shift = np.full(width, np.nan)
        shift[there] = course - np.median(course)
        found[known] = values[known] - shift[bins[known]]
    return found
