"""Which streams are unlike the others in a feature: a function of their recent records alone.

Each half of a stream's recent records has, of a feature, the range that the middle 90 % of the values take, and their
mean, for which values beyond that range count as its ends. The usual range of a stream's peers reaches as far as the
ranges of nearly all of them. A stream is unlike them where both means are several times as far from the median of all
as their usual range reaches. So a state that peers take now and then is usual, and so is a kind that many streams are
of.

Standard deviations are compared likewise, as logarithms: a feature varies more, or less, than with the peers.
"""

import math
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Change = Literal["high", "low", "varies more", "varies less"]

RECENT: Final = 400
"""Last records of a stream that are compared."""

FEWEST: Final = 40
"""Records with a feature below which a stream is not compared in it."""

FEWEST_STREAMS: Final = 5
"""Streams below which none has peers."""

LIMIT: Final = 3.0
"""How far a stream is that is unlike many peers, where the usual range ends at 1."""

FEW: Final = 4.0
"""Of few peers the extremes say little: with so many streams the limit is twice as high."""

TAIL: Final = 0.05
"""Share of the values that are left out at each end of a range."""

APART: Final = 0.05
"""Share of the peers whose ranges may reach beyond the usual one at each end; of ten streams and more it is one."""

SPREADS: Final = 0.3
"""A usual range reaches at least so many standard deviations of the stream's own records: rare events give it none."""

DIGITS: Final = 0.001
"""It reaches at least this share of the median: where all agree, a digit more or less is no difference."""

ROUNDING: Final = 1e-9
"""It reaches at least so far where the median is 0, of which no share can be taken: what is nearer is rounding."""

FACTOR: Final = 1.5
"""Usual standard deviations reach at least from the median divided by it to the median multiplied by it."""

FARTHEST: Final = 1000.0
"""As far as this is all that is farther, as where all peers agree."""

TINY: Final = 1e-300
"""Stands for 0 where a logarithm is taken."""

LARGEST_EXPONENT: Final = 1_000
"""Powers of two beyond it may overflow."""


class Deviation(NamedTuple):
    """A feature in which a stream is unlike its peers."""

    stream: int
    feature: int
    change: Change
    value: float
    """Mean of the newer half of its records; standard deviation where it varies more or less."""
    median: float
    """Of all streams."""
    low: float
    """Where the usual range of its peers begins, and in `high` ends."""
    high: float
    far: float
    """Distance from the median, where the usual range, or the least that counts as one, ends at 1."""


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


def halves_of(stream: IntArray, streams: int) -> tuple[IntArray, IntArray]:
    """Return the places of the recent records, stream by stream, and the half that each of them is in.

    `stream` has the stream of each record, in their order. Halves are numbered ``2 * stream`` for the older one, and
    one more for the newer one.
    """
    order = np.argsort(stream, kind="stable")
    counts = np.bincount(stream, minlength=streams)
    to_end = np.repeat(np.cumsum(counts), counts) - np.arange(len(order)) - 1
    places, to_end = order[to_end < RECENT], to_end[to_end < RECENT]
    own = stream[places]
    return places, 2 * own + (to_end < np.minimum(counts, RECENT)[own] // 2)


def profiles_of(values: FloatArray, half: IntArray, streams: int) -> Profiles:
    """Return the profiles in one feature of values, NaN where a record lacks it, that are in these halves."""
    known = ~np.isnan(values)
    values, half = values[known], half[known]
    order = np.lexsort((values, half))
    values, half = values[order], half[order]
    counts = np.bincount(half, minlength=2 * streams)
    enough = 2 * counts >= FEWEST
    # Of one half alone it is not known whether it lasts.
    enough = np.repeat(enough.reshape(streams, 2).all(axis=1), 2)
    ends, left_out = np.cumsum(counts), (TAIL * counts).astype(np.int64)
    low, high = np.full(2 * streams, np.nan), np.full(2 * streams, np.nan)
    low[enough] = values[(ends - counts + left_out)[enough]]
    high[enough] = values[(ends - 1 - left_out)[enough]]
    mean, inner = _moments(np.clip(values, low[half], high[half]), half, counts)
    _, outer = _moments(values, half, counts)
    shape = (streams, 2)
    return Profiles(*(np.where(enough, each, np.nan).reshape(shape) for each in (low, high, mean, inner, outer)))


def _moments(values: FloatArray, half: IntArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the values of each half."""
    counts = np.maximum(counts, 1)
    mean = np.bincount(half, values, len(counts)) / counts
    apart = values - mean[half]
    # Beside huge values of other streams the squares of these would be 0.
    largest = np.zeros(len(counts))
    np.fmax.at(largest, half, np.abs(apart))
    _, exponent = np.frexp(largest)
    squares = np.bincount(half, np.ldexp(apart, -exponent[half]) ** 2, len(counts))
    return mean, np.ldexp(np.sqrt(squares / counts), exponent)


def deviations_of(profiles: Profiles, step: float, rounding: float, feature: int) -> list[Deviation]:
    """Return which streams are unlike their peers in a feature whose values stand apart by a step."""
    there = np.flatnonzero(~np.isnan(profiles.mean[:, 0]))
    if len(there) < FEWEST_STREAMS:
        return []
    low, high, mean, inner, outer = (each[there] for each in profiles)
    median = float(np.median(mean[:, 1]))
    digit = DIGITS * abs(median) or rounding
    found = _beyond(mean, median, low, high, np.maximum(SPREADS * inner.max(axis=1), digit))
    # Values in steps vary by a part of one at least, and where most do not vary by a digit is no difference.
    width = step / 12.0**0.5
    if np.median(inner[:, 1]) == 0.0:
        width = max(width, digit)
    inner, outer = (np.hypot(each, width) for each in (inner, outer))
    middle = max(float(np.median(inner[:, 1])), TINY)
    least = np.full(len(there), np.log(FACTOR))
    own, peers = (np.log(np.maximum(each, TINY)) - np.log(middle) for each in (inner, outer))
    # One outlier shall neither make a stream vary more nor hide that its peers do.
    varied = [each for each in _beyond(own, 0.0, own, peers, least) if each.change == "high"]
    varied += [each for each in _beyond(peers, 0.0, own, peers, least) if each.change == "low"]
    moved = {each.stream for each in found}
    found += [
        each._replace(
            change="varies more" if each.change == "high" else "varies less",
            value=float(inner[each.stream, 1]),
            median=middle,
            low=middle * float(np.exp(each.low)),
            high=middle * float(np.exp(each.high)),
        )
        for each in varied
        # What is elsewhere varies otherwise as a rule.
        if each.stream not in moved
    ]
    return [each._replace(stream=int(there[each.stream]), feature=feature) for each in found]


def _beyond(values: FloatArray, median: float, low: FloatArray, high: FloatArray, least: FloatArray) -> list[Deviation]:
    """Return the streams whose values, in both halves and on one side, are too far for the ranges of their peers.

    `least` is how far the usual range reaches at least, for each stream.
    """
    begins, ends = _reach(low.min(axis=1)), -_reach(-high.max(axis=1))
    limit = LIMIT * (1.0 + FEW / len(values))
    half_width = (ends - begins) / 2.0
    found = []
    for change, side in (("low", -1.0), ("high", 1.0)):
        # A range that is long on the other side, as of few peers by chance, is not short on this one.
        reach = np.maximum.reduce([side * ((ends if side > 0.0 else begins) - median), half_width, least])
        distance = (side * (values - median)).min(axis=1)
        for place in np.flatnonzero(distance > limit * reach).tolist():
            far = distance[place] / reach[place] if distance[place] < FARTHEST * reach[place] else FARTHEST
            own = float(values[place, 1]), median, float(begins[place]), float(ends[place])
            found.append(Deviation(place, 0, change, *own, float(far)))  # type: ignore[arg-type]
    return found


def _reach(begins: FloatArray) -> FloatArray:
    """Return for each stream where the ranges of nearly all its peers begin."""
    ordered = np.sort(begins)
    beyond = max(int(APART * (len(begins) - 1)), int(len(begins) >= 2 * FEWEST_STREAMS))
    # In place of the stream itself stands the one after it.
    found: FloatArray = np.where(begins <= ordered[beyond], ordered[beyond + 1], ordered[beyond])
    return found


def step_of(values: FloatArray) -> float:
    """Return by how much neighbouring values differ, as a rule; 0 where there is one value or none."""
    gaps = np.diff(np.unique(values[~np.isnan(values)]))
    return float(np.median(gaps)) if len(gaps) else 0.0


def _below_one(values: FloatArray) -> tuple[FloatArray, int]:
    """Return values divided by a power of two, exactly, so that no sum of them overflows, and its exponent."""
    _, exponent = math.frexp(float(np.max(np.abs(values), initial=0.0, where=~np.isnan(values))))
    return np.ldexp(values, -exponent), exponent


def _scaled(each: Deviation, exponent: int) -> Deviation:
    """Return a deviation whose values are multiplied by a power of two."""
    members = np.array([each.value, each.median, each.low, each.high])
    with np.errstate(over="ignore"):
        # A range may end just beyond the largest number that there is.
        value, median, low, high = np.nan_to_num(np.ldexp(members, exponent)).tolist()
    return each._replace(value=value, median=median, low=low, high=high)


def compare(rows: FloatArray, stream: IntArray, streams: int) -> tuple[list[Deviation], int]:
    """Return in what streams are unlike their peers, the farthest first, and how many streams could be compared.

    Parameters
    ----------
    rows : ndarray of shape (n, features)
        Records in the order of each stream; NaN where one lacks a feature.
    stream : ndarray of int64, shape (n,)
        The stream of each.
    streams : int
        Streams there are.
    """
    places, half = halves_of(stream, streams)
    found: list[Deviation] = []
    compared = np.zeros(streams, np.bool_)
    for feature in range(rows.shape[1]):
        values, exponent = _below_one(rows[places, feature])
        profiles = profiles_of(values, half, streams)
        compared |= ~np.isnan(profiles.mean[:, 0])
        rounding = math.ldexp(ROUNDING, min(-exponent, LARGEST_EXPONENT))
        unlike = deviations_of(profiles, step_of(values), rounding, feature)
        found += [_scaled(each, exponent) for each in unlike]
    most: dict[int, float] = {}
    for each in found:
        most[each.stream] = max(most.get(each.stream, 0.0), each.far)
    found.sort(key=lambda each: (-most[each.stream], each.stream, -each.far, each.feature))
    return found, int(compared.sum())
