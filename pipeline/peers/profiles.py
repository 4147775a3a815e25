"""What the recent records of each stream say of a feature: its range, its mean, and how much it varies."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

RECENT: Final = 400
"""Last records of a stream that are compared."""

LONGER: Final = 4
"""So many times as many are read: some streams have more than others, and some kinds of work last for long."""

FEWEST: Final = 40
"""Records with a feature below which a stream is not compared in it."""

FEWEST_STREAMS: Final = 5
"""Streams below which none has peers."""

LATE: Final = 4
"""What has begun of late is in the last of so many parts of the recent records."""

TAIL: Final = 0.05
"""Share of the values that are left out at each end of a range."""


class Halves(NamedTuple):
    """Recent records of the streams that have enough, each in the older half of its stream's or in the newer one."""

    places: IntArray
    streams: IntArray
    """Those with enough records."""
    cells: tuple[IntArray, IntArray]
    """Place of each record in a table with a row for each half, the older one of a stream first."""
    shape: tuple[int, int]
    """Of this table."""


class Profiles(NamedTuple):
    """Recent records of streams in one feature, shape (streams, 2): the older half and the newer one; NaN of few."""

    low: FloatArray
    """Where the middle 90 % of the values begin, and in `high` end."""
    high: FloatArray
    mean: FloatArray
    """Of values of which those beyond are its ends."""
    inner: FloatArray
    """Standard deviation of these."""
    outer: FloatArray
    """Standard deviation of the values as they are."""
    late: FloatArray
    """Means, as `mean`, of the halves of the last of the recent records; NaN of few."""
    late_inner: FloatArray
    """Standard deviations of these halves."""


def last_of(stream: IntArray, streams: int, most: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the places of the last records of each stream, stream by stream, with their numbers from its last one.

    `stream` has the stream of each record, in their order. The third array has how many each stream has.
    """
    order = np.argsort(stream, kind="stable")
    counts = np.bincount(stream, minlength=streams)
    to_end = np.repeat(np.cumsum(counts), counts) - np.arange(len(order)) - 1
    kept = to_end < most
    return order[kept], to_end[kept], np.minimum(counts, most)


def halves_of(stream: IntArray, streams: int, among: IntArray) -> Halves:
    """Return the halves of the recent ones of some records, whose places are in the order of each stream."""
    last, to_end, counts = last_of(stream[among], streams, RECENT)
    places = among[last]
    enough = counts >= FEWEST
    own = stream[places]
    places, to_end, own = places[enough[own]], to_end[enough[own]], own[enough[own]]
    newer = to_end < counts[own] // 2
    row = 2 * (np.cumsum(enough) - 1)[own] + newer
    column = np.where(newer, to_end, to_end - counts[own] // 2)
    width = int(column.max(initial=-1)) + 1
    return Halves(places, np.flatnonzero(enough), (row, column), (2 * int(enough.sum()), width))


def profiles_of(values: FloatArray, halves: Halves, streams: int) -> Profiles:
    """Return the profiles in one feature of the values of these records, NaN where one lacks it."""
    by_time = np.full(halves.shape, np.nan)
    by_time[halves.cells] = values
    # Those that are not known come last.
    table = np.sort(by_time, axis=1)
    known = ~np.isnan(table)
    counts = np.count_nonzero(known, axis=1)
    # Of one half alone it is not known whether it lasts.
    enough = np.repeat((2 * counts >= FEWEST).reshape(-1, 2).all(axis=1), 2)
    table, known, counts = table[enough], known[enough], counts[enough]
    left_out = (TAIL * counts).astype(np.int64)
    row = np.arange(len(counts))
    low, high = table[row, left_out], table[row, counts - 1 - left_out]
    mean, inner = _moments(np.clip(table, low[:, np.newaxis], high[:, np.newaxis]), known, counts)
    _, outer = _moments(table, known, counts)
    records = np.bincount(halves.cells[0], minlength=len(enough))[enough]
    late = _late(by_time[enough][1::2], records[::2] + records[1::2], low[1::2], high[1::2])
    own = halves.streams[enough[::2]]
    found = np.full((7, streams, 2), np.nan)
    for place, each in enumerate((low, high, mean, inner, outer, *late)):
        found[place, own] = each.reshape(-1, 2)
    return Profiles(*found)


def _late(newer: FloatArray, records: IntArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations of the older and the newer half of the last records.

    `newer` has the newer half of all `records` of each stream, whose columns count from the last one. Values beyond
    `low` and `high` count as these.
    """
    half = (records // (2 * LATE))[:, np.newaxis]
    column = np.arange(newer.shape[1])
    values = np.clip(newer, low[:, np.newaxis], high[:, np.newaxis])
    found = np.full((2, len(newer), 2), np.nan)
    for place, part in enumerate(((column >= half) & (column < 2 * half), column < half)):
        known = part & ~np.isnan(newer)
        counts = np.count_nonzero(known, axis=1)
        enough = 2 * counts >= FEWEST
        found[:, enough, place] = _moments(values[enough], known[enough], counts[enough])
    return found[0], found[1]


def _moments(table: FloatArray, known: NDArray[np.bool_], counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the known values of each row."""
    mean = np.where(known, table, 0.0).sum(axis=1) / counts
    apart = np.where(known, table - mean[:, np.newaxis], 0.0)
    # Beside huge values of other streams the squares of these would be 0.
    _, exponent = np.frexp(np.abs(apart).max(axis=1, initial=0.0))
    squares = (np.ldexp(apart, -exponent[:, np.newaxis]) ** 2).sum(axis=1)
    return mean, np.ldexp(np.sqrt(squares / counts), exponent)


def step_of(values: FloatArray) -> float:
    """Return by how much neighbouring values differ, as a rule; 0 where there is one value or none."""
    gaps = np.diff(np.unique(values[~np.isnan(values)]))
    return float(np.median(gaps)) if len(gaps) else 0.0
