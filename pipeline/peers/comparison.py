"""Which streams are unlike the others in a feature: a function of their recent records alone.

Each half of a stream's recent records has, of a feature, the range that the middle 90 % of the values take, and their
mean, for which values beyond that range count as its ends. The usual range of a stream's peers reaches as far as the
ranges of nearly all of them. A stream is unlike them where both means are several times as far from the median of all
as their usual range reaches, or beyond it and as far by the range of their means. So a state that peers take now and
then is usual, and so is a kind that many streams are of. What has begun in the last quarter of its records counts, too,
where it is twice as far from the ranges of all.

Standard deviations are compared likewise, as logarithms: a feature varies more, or less, than with the peers.

All this is done over all recent records, and over those of each kind of work, such as idle and running. A stream that
is in one kind alone is compared in that one: that it does not alternate is usual. One of which nothing varies at all
varies less within it, too, by however little its peers do.

A course that most streams share, such as a daily wave, makes all ranges long. Means and ranges are compared without it,
too, of streams that follow it.
"""

import math
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.peers.courses import bins_of, without_course
from resonance.pipeline.peers.kinds import Bound, Kind, kinds_of
from resonance.pipeline.peers.profiles import (
    FEWEST,
    FEWEST_STREAMS,
    LONGER,
    RECENT,
    FloatArray,
    Halves,
    IntArray,
    Profiles,
    halves_of,
    last_of,
    profiles_of,
    step_of,
)

Change = Literal["high", "low", "varies more", "varies less"]

LIMIT: Final = 3.0
"""How far a stream is that is unlike many peers, where the usual range ends at 1."""

SUDDEN: Final = 2.0
"""Of what has begun of late the limit is so many times as high."""

OUTSIDE: Final = 1.5
"""How far it is at least, where the means of nearly all peers are far nearer to each other than records reach."""

FEW: Final = 4.0
"""Of few peers the extremes say little: with so many streams the limit is twice as high."""

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

NEAR: Final = 0.02
"""Within a kind, a usual range reaches at least this share of what the feature does as a rule over all kinds."""

WORTH: Final = 2.0
"""How many times as far a stream is within a kind that is named in place of a wider one: it is more to read..."""

CLEAR: Final = 10.0
"""...unless it is so far over the wider one, too."""

FOLLOWS: Final = 1.05
"""How many times as much a stream that follows a course varies without it at most: what it shares may be little."""

FARTHEST: Final = 1000.0
"""As far as this is all that is farther, as where all peers agree."""

TINY: Final = 1e-300
"""Stands for 0 where a logarithm is taken."""

BLOCK: Final = FEWEST // 2
"""Records of a kind whose mean, or standard deviation, says whether a stream was unlike its peers then."""

LARGEST_EXPONENT: Final = 1_000
"""Powers of two beyond it may overflow."""


class Deviation(NamedTuple):
    """A feature in which a stream is unlike its peers."""

    stream: int
    feature: int
    change: Change
    value: float
    """Mean of the newer half of its records, of what began of late that of the newest eighth; standard deviation where
    it varies more or less."""
    median: float
    """Of all streams."""
    low: float
    """Where the usual range of its peers begins, and in `high` ends."""
    high: float
    far: float
    """Distance from the median, where the usual range, or the least that counts as one, ends at 1."""
    where: tuple[Bound, ...] = ()
    """The kind of work that it is so in; none of all records."""
    row: int = -1
    """Of such a kind the record, as the place of its row, from which on the stream's records are so."""
    is_first: bool = False
    """Whether it is the first one of the kind that the stream has there: it may have begun before."""


class PeerComparison(NamedTuple):
    """The streams beside each other."""

    unlike: list[Deviation]
    """The farthest stream first, and of each stream the farthest feature."""
    streams: int
    """Streams that could be compared."""
    kinds: list[tuple[Bound, ...]]
    """Kinds of work that they were compared within."""


def deviations_of(profiles: Profiles, step: float, rounding: float, feature: int, near: float = 0.0) -> list[Deviation]:
    """Return which streams are unlike their peers in a feature whose values stand apart by a step.

    By less than `near` they are not unlike.
    """
    there = np.flatnonzero(~np.isnan(profiles.mean[:, 0]))
    if len(there) < FEWEST_STREAMS:
        return []
    low, high, mean, inner, outer, late, late_inner = (each[there] for each in profiles)
    median = float(np.median(mean[:, 1]))
    digit = max(DIGITS * abs(median) or rounding, near)
    found = _beyond(mean, median, low, high, np.maximum(SPREADS * inner.max(axis=1), digit), lasting=True)
    lasting = {each.stream for each in found}
    # That the newer half varies is then a part of what has begun.
    least = np.maximum(SPREADS * np.maximum(inner[:, 0], late_inner.max(axis=1)), digit)
    sudden = _beyond(late, median, low, high, least, sudden=True)
    found += [each for each in sudden if each.stream not in lasting]
    # Values in steps vary by a part of one at least, and where most do not vary by a digit is no difference.
    width = max(step, near) / 12.0**0.5
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


def _beyond(
    values: FloatArray,
    median: float,
    low: FloatArray,
    high: FloatArray,
    least: FloatArray,
    *,
    sudden: bool = False,
    lasting: bool = False,
) -> list[Deviation]:
    """Return the streams whose values, in both halves and on one side, are too far for the ranges of their peers.

    `least` is how far the usual range reaches at least, for each stream. What is `sudden` has to be farther, and beyond
    the ranges of all peers; what is `lasting` may be nearer, where the values of these are near each other.
    """
    beyond = 0 if sudden else max(int(APART * (len(values) - 1)), int(len(values) >= 2 * FEWEST_STREAMS))
    begins, ends = _reach(low.min(axis=1), beyond), -_reach(-high.max(axis=1), beyond)
    limit = (SUDDEN if sudden else 1.0) * LIMIT * (1.0 + FEW / len(values))
    found = []

    def reach_of(first: FloatArray, last: FloatArray, side: float) -> FloatArray:
        # A range that is long on the other side, as of few peers by chance, is not short on this one.
        end = side * ((last if side > 0.0 else first) - median)
        reach: FloatArray = np.maximum.reduce([end, (last - first) / 2.0, least])
        return reach

    for change, side in (("low", -1.0), ("high", 1.0)):
        reach = reach_of(begins, ends, side)
        bound = limit * reach
        if lasting:
            near = reach_of(_reach(values.min(axis=1), beyond), -_reach(-values.max(axis=1), beyond), side)
            bound = np.minimum(bound, np.maximum(OUTSIDE * reach, SUDDEN * limit * near))
        distance = (side * (values - median)).min(axis=1)
        for place in np.flatnonzero(distance > bound).tolist():
            far = distance[place] / reach[place] if distance[place] < FARTHEST * reach[place] else FARTHEST
            own = float(values[place, 1]), median, float(begins[place]), float(ends[place])
            found.append(Deviation(place, 0, change, *own, float(far)))  # type: ignore[arg-type]
    return found


def _reach(begins: FloatArray, beyond: int) -> FloatArray:
    """Return for each stream where the ranges of its peers begin, but for so many."""
    ordered = np.sort(begins)
    # In place of the stream itself stands the one after it.
    found: FloatArray = np.where(begins <= ordered[beyond], ordered[beyond + 1], ordered[beyond])
    return found


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


def compare(rows: FloatArray, stream: IntArray, streams: int, time: IntArray | None = None) -> PeerComparison:
    """Return in what streams are unlike their peers, over all their recent records or within a kind of work.

    Parameters
    ----------
    rows : ndarray of shape (n, features)
        Records in the order of each stream; NaN where one lacks a feature.
    stream : ndarray of int64, shape (n,)
        The stream of each.
    streams : int
        Streams there are.
    time : ndarray of int64, shape (n,)
        The time of each, in any unit. Without it no course is taken out.
    """
    last, _, _ = last_of(stream, streams, RECENT * LONGER)
    stream = stream[last]
    columns = np.empty((rows.shape[1], len(last)))
    for feature, column in enumerate(columns):
        column[:] = rows[last, feature]
    # Wider kinds first.
    kinds = sorted(kinds_of(columns, stream, streams, FEWEST, FEWEST_STREAMS).walk(), key=lambda kind: len(kind.where))
    halves = [halves_of(stream, streams, kind.places) for kind in kinds]
    streams_of = [stream[kind.places] if kind.where else stream for kind in kinds]
    alone = _in_one_part(kinds, halves, columns, stream, streams)
    recent = halves[0].places
    bins = None if time is None else bins_of(time[last][recent], stream[recent])
    still = _stand_still(columns, stream, halves[0], streams)
    found: dict[tuple[int, int], Deviation] = {}
    compared = np.zeros(streams, np.bool_)
    for feature, column in enumerate(columns):
        values, exponent = _below_one(column)
        profiles = [profiles_of(values[each.places], each, streams) for each in halves]
        step = step_of(values[halves[0].places])
        rounding = math.ldexp(ROUNDING, min(-exponent, LARGEST_EXPONENT))
        near = NEAR * _half_width(profiles) if len(kinds) > 1 else 0.0
        known = [~np.isnan(each.mean[:, 0]) for each in profiles]
        compared |= known[0]
        for number, kind in enumerate(kinds):
            deviations = deviations_of(profiles[number], step, rounding, feature, near if kind.where else 0.0)
            if kind.where and still.any():
                # Sensors that are dead are so by less than `near`, too.
                exact = deviations_of(profiles[number], step, rounding, feature)
                deviations += [each for each in exact if each.change == "varies less" and still[each.stream]]
            if not kind.where and bins is not None:
                level = profiles_of(without_course(values[recent], bins, halves[0], streams), halves[0], streams)
                named = {each.stream for each in deviations}
                apart = _levels_apart(profiles[0], level, deviations_of(level, step, rounding, feature))
                deviations += [each for each in apart if each.stream not in named]
            for each in deviations:
                part = alone[number][each.stream]
                if part >= 0 and known[part][each.stream] and np.count_nonzero(known[part]) >= FEWEST_STREAMS:
                    continue
                before = found.get((each.stream, feature))
                if before is None or _is_worth_more(each.far, before, kind):
                    dated = each._replace(where=kind.where)
                    if kind.where:
                        begin, end = np.searchsorted(streams_of[number], [each.stream, each.stream + 1])
                        own = kind.places[begin:end]
                        own = own[~np.isnan(values[own])]
                        start = begins_at(values[own], each)
                        dated = dated._replace(row=int(last[own[start]]), is_first=start == 0)
                    found[each.stream, feature] = _scaled(dated, exponent)
    most: dict[int, float] = {}
    for each in found.values():
        most[each.stream] = max(most.get(each.stream, 0.0), each.far)
    unlike = sorted(found.values(), key=lambda each: (-most[each.stream], each.stream, -each.far, each.feature))
    return PeerComparison(unlike, int(compared.sum()), [kind.where for kind in kinds if kind.where and not kind.parts])


def _levels_apart(profiles: Profiles, levels: Profiles, found: list[Deviation]) -> list[Deviation]:
    """Return which deviations of `levels`, which are `profiles` without a course, are of streams that follow that."""
    # One that rests, or has other hours, varies more without what it does not share.
    follows: NDArray[np.bool_] = np.all(levels.inner <= FOLLOWS * profiles.inner, axis=1)
    return [each for each in found if each.change in ("high", "low") and follows[each.stream]]


def begins_at(values: FloatArray, found: Deviation) -> int:
    """Return from which place on the values of a stream within a kind have been so, by blocks; 0 where all are."""
    blocks = np.split(values, range(BLOCK + len(values) % BLOCK, len(values), BLOCK))
    if found.change in ("high", "low"):
        side, end = (1.0, found.high) if found.change == "high" else (-1.0, found.low)
        # Where the usual range has no width, rounding is not beyond it.
        least = max(side * (end - found.median), abs(found.value - found.median) / FARTHEST)
        so = np.array([side * (block.mean() - found.median) > least for block in blocks])
    else:
        largest = max(float(np.abs(values).max()), TINY)
        widths = largest * np.array([(block / largest).std() for block in blocks])
        more = found.change == "varies more"
        so = widths > max(found.high, FACTOR * found.median) if more else widths < min(found.low, found.median / FACTOR)
    # The last block is so, whatever it seems by itself.
    first = min(int(np.max(np.flatnonzero(~so), initial=-1)) + 1, len(blocks) - 1)
    before, inside = sum(map(len, blocks[:first])), 0
    if found.change in ("high", "low"):
        # The first records of a block may still be as usual.
        inside = int(np.argmax(side * (blocks[first] - found.median) > least))
    return before + inside if first or 2 * inside >= len(blocks[0]) else 0


def _is_worth_more(far: float, known: Deviation, kind: Kind) -> bool:
    """Return whether what is so far within a kind is to stand in place of what is known of a feature.

    A kind with fewer conditions is easier to read. A narrower condition on the same side of a feature adds none.
    """
    if len(kind.where) > len(known.where):
        return known.far < CLEAR and far > WORTH * known.far
    return far > known.far


def _in_one_part(
    kinds: list[Kind], halves: list[Halves], columns: FloatArray, stream: IntArray, streams: int
) -> list[IntArray]:
    """Return for each kind and stream in which part of that kind alone the stream has enough records; else -1."""
    numbers = {id(kind): number for number, kind in enumerate(kinds)}
    found = [np.full(streams, -1) for _ in kinds]
    for own, kind, recent in zip(found, kinds, halves, strict=True):
        if kind.parts is None:
            continue
        condition = kind.parts[0].where[-1]
        values, at = columns[condition.feature][recent.places], stream[recent.places]
        below, above = (
            np.bincount(at[side], minlength=streams) >= FEWEST
            for side in (values <= condition.value, values > condition.value)
        )
        own[below & ~above], own[above & ~below] = (numbers[id(part)] for part in kind.parts)
    return found


def _stand_still(columns: FloatArray, stream: IntArray, recent: Halves, streams: int) -> NDArray[np.bool_]:
    """Return which streams have the same value of each feature in all their recent records."""
    found = np.ones(streams, np.bool_)
    at = stream[recent.places]
    for column in columns:
        values = column[recent.places]
        differ = (values[1:] < values[:-1]) | (values[1:] > values[:-1])
        found[at[1:][differ & (at[1:] == at[:-1])]] = False
    return found


def _half_width(profiles: list[Profiles]) -> float:
    """Return half of the range that a feature takes, as a rule, over all kinds of work; 0 where it is not known."""
    begins, ends = [], []
    for each in profiles:
        there = ~np.isnan(each.mean[:, 0])
        if there.any():
            begins.append(np.median(each.low[there].min(axis=1)))
            ends.append(np.median(each.high[there].max(axis=1)))
    return float(max(ends) - min(begins)) / 2.0 if begins else 0.0
