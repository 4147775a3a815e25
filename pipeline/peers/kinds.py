"""The kinds of work that streams alternate between, such as idle and running, by their recent records alone.

A kind is a leaf or an inner node of a shallow regression tree over the records of all streams, of which each weighs
alike. A split, ``feature <= value``, lies in a valley of the values of its feature: records are many times as dense on
both sides. Among valleys the one counts that explains most of the variance of all features, each of which weighs
alike. It has to explain much of another feature than its own, and most streams have to be on both sides: a broken
stream cannot have a kind of its own, and streams that never meet, such as two types of devices, make none.

The figures were tried on the fleets of ``tests/pipeline/peers``: a constant says what goes wrong there beyond it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from resonance.pipeline.peers.profiles import FloatArray, IntArray

Side = Literal["above", "up to"]

MOST_CONDITIONS: Final = 2
"""Conditions of a kind at most. With one, three kinds of work are not found; with three, warm days become one."""

STREAMS_ON_BOTH_SIDES: Final = 1 / 2
"""Share of the streams that a split needs on both sides. With 3/4 the worn pump is missed."""

RECORDS_ON_RARER_SIDE: Final = 10
"""Records that each of them needs where it has fewer, so that rare kinds count. With 40 the worn pump is missed."""

LEAST_EXPLAINED: Final = 0.3
"""Share of the variance of another feature that a split has to explain: ranges within kinds are narrower then.

With 0.5 a kind that half of the streams have is missed.
"""

VALLEY_DEPTH: Final = 5.0
"""How many times as dense records are on both sides of a valley: with 3 a slope has one, with 15 a pump is missed."""

WINDOWS_OF_RECORDS: Final = 128
"""A density is that of this part of the records: of 32 a rare kind is none, of 512 one hill has valleys by chance..."""

FEWEST_IN_WINDOW: Final = 16
"""...and of so many at least: 8 are sparse by chance, so that a slope has valleys."""

VALLEYS_OF_FEATURE: Final = 8
"""Widest valleys of a feature that are tried. One does for the pumps; more cost time alone."""

SPLITS_TRIED: Final = 40
"""Widest valleys of all features that are tried: with 40 features and a full sample they take about a second."""

SAMPLE_RECORDS: Final = 50_000
"""Records of all streams that splits are sought among: with 2,000 the worn pump is missed, with 10,000 it is not..."""

SAMPLE_VALUES: Final = 2_000_000
"""...and features of all these records: of 40 features the whole sample."""

RECORDS_OF_STREAM: Final = 100
"""Records of a stream that splits are weighed by: rather than fewer of each, some streams are left out."""

EXPLAINED_BY_CHANCE: Final = 0.1
"""Share of a stream's variance below which a split explains nothing: of so many records one in 600 does by chance."""

THRESHOLD_DIGITS: Final = 15
"""A threshold that need not be exact has fewer: so many every float keeps."""

ROUNDING_SHARE: Final = 1e-12
"""Beside the largest value of a stream, what is smaller is none: 4,096 roundings of a sum are as much."""

AS_GOOD_AS_BEST: Final = 0.9
"""Splits of a feature explain about as much from this share of its best one on. From 0.5 to 0.99 the same are found."""

COMPARED_DECIMALS: Final = 6
"""Of what splits explain: where they explain as much, rounding must not choose."""


class Bound(NamedTuple):
    """What the records of a kind have in common."""

    feature: int
    side: Side
    value: float


@dataclass(slots=True)
class Kind:
    """Records, and the two kinds that they are split into, if they are."""

    where: tuple[Bound, ...]
    places: IntArray
    """Records of the kind, in the order of each stream."""
    parts: "tuple[Kind, Kind] | None" = None

    def walk(self) -> "Iterator[Kind]":
        """Yield the kind and all that are in it."""
        yield self
        for part in self.parts or ():
            yield from part.walk()


def kinds_of(columns: FloatArray, stream: IntArray, streams: int, fewest: int, least: int) -> Kind:
    """Return all records as one kind, split as often as they are of several.

    Parameters
    ----------
    columns : ndarray of shape (features, n)
        Records, stream by stream; NaN where one lacks a feature.
    stream : ndarray of int64, shape (n,)
        The stream of each.
    streams : int
        Streams there are.
    fewest : int
        Records that a stream needs on each side of a split.
    least : int
        Streams that need them.
    """
    found = Kind((), np.arange(len(stream)))
    if len(columns) > 1:
        sample = _thinned(stream, streams, min(SAMPLE_RECORDS, SAMPLE_VALUES // len(columns)))
        _split(found, sample, columns, stream, streams, fewest, least)
    return found


def _thinned(stream: IntArray, streams: int, most: int) -> IntArray:
    """Return places of records that are given stream by stream: of some streams as many each, both evenly."""
    counts = np.bincount(stream, minlength=streams)
    known = np.flatnonzero(counts)
    few = max(min(len(known), most // RECORDS_OF_STREAM), 1)
    chosen = known[np.arange(min(few, len(known))) * len(known) // few]
    each = most // few
    begins = np.cumsum(counts) - counts
    parts = [begins[own] + np.arange(min(counts[own], each)) * counts[own] // min(counts[own], each) for own in chosen]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _split(
    kind: Kind,
    sample: IntArray,
    columns: FloatArray,
    stream: IntArray,
    streams: int,
    fewest: int,
    least: int,
    depth: int = MOST_CONDITIONS,
) -> None:
    """Split a kind, and its parts again."""
    there = np.bincount(stream[kind.places], minlength=streams) >= fewest
    needed = max(least, int(np.ceil(STREAMS_ON_BOTH_SIDES * np.count_nonzero(there))))
    for feature, value in splits_of(columns[:, sample].T, stream[sample]):
        known = columns[feature][kind.places]
        sides = kind.places[known <= value], kind.places[known > value]
        counts = [np.bincount(stream[side], minlength=streams) for side in sides]
        both = (np.minimum(*counts) >= RECORDS_ON_RARER_SIDE) & (np.maximum(*counts) >= fewest)
        if np.count_nonzero(both) < needed:
            continue
        names: tuple[Side, Side] = ("up to", "above")
        # Of conditions on one side of a feature the last is the narrowest.
        below, above = (
            Kind((*(each for each in kind.where if each[:2] != (feature, name)), Bound(feature, name, value)), side)
            for name, side in zip(names, sides, strict=True)
        )
        kind.parts = below, above
        known = columns[feature][sample]
        if depth > 1:
            _split(below, sample[known <= value], columns, stream, streams, fewest, least, depth - 1)
            _split(above, sample[known > value], columns, stream, streams, fewest, least, depth - 1)
        return


def splits_of(rows: FloatArray, stream: IntArray) -> list[tuple[int, float]]:
    """Return splits of records, given stream by stream, as features and values; those first that explain most."""
    splits = [(feature, *valley) for feature in range(rows.shape[1]) for valley in valleys_of(rows[:, feature])]
    splits = sorted(sorted(splits, key=lambda split: (-split[2], split))[:SPLITS_TRIED])
    if not splits:
        return []
    features = np.array([feature for feature, *_ in splits])
    shares = explained(rows, stream, [(feature, value) for feature, value, _ in splits])
    own = features[:, np.newaxis] == np.arange(rows.shape[1])
    of_others = np.where(own, 0.0, shares)
    # What a split explains of its own feature alone, such as one within a kind, is no kind of work.
    sums = np.where(own, np.minimum(shares, of_others.max(axis=0)), shares).sum(axis=1)
    # Among those of a feature that explain about as much a wide valley is safe: the levels of no stream are in it.
    best = np.zeros(rows.shape[1])
    np.maximum.at(best, features, sums)
    narrow = sums < AS_GOOD_AS_BEST * best[features]
    order = sorted(range(len(splits)), key=lambda place: (bool(narrow[place]), -splits[place][2], splits[place][:2]))
    first = {splits[place][0]: place for place in reversed(order)}
    enough = of_others.max(axis=1) >= LEAST_EXPLAINED

    def rank(place: int) -> tuple[bool, float, int]:
        return first[splits[place][0]] != place, -round(float(sums[place]), COMPARED_DECIMALS), place

    return [splits[place][:2] for place in sorted(np.flatnonzero(enough).tolist(), key=rank)]


def valleys_of(values: FloatArray) -> list[tuple[float, float]]:
    """Return values within the widest valleys of a feature, and how wide these are; NaN are left out.

    A width is a share of the range of nearly all values.
    """
    ordered = np.sort(values[~np.isnan(values)])
    window = max(len(ordered) // WINDOWS_OF_RECORDS, FEWEST_IN_WINDOW)
    # Left of a valley and right of it there is another window.
    if len(ordered) <= 3 * window:
        return []
    _, exponent = np.frexp(max(abs(ordered[0]), abs(ordered[-1])))
    ordered = np.ldexp(ordered, -exponent)
    widths = ordered[window:] - ordered[:-window]
    left = np.minimum.accumulate(widths)[: -2 * window]
    right = np.minimum.accumulate(widths[::-1])[::-1][2 * window :]
    inner = widths[window:-window]
    deep = (inner > 0.0) & (inner >= VALLEY_DEPTH * np.maximum(left, right))
    edges = np.flatnonzero(np.diff(np.concatenate([[False], deep, [False]]).astype(np.int8)))
    widest = [begin + int(np.argmax(inner[begin:end])) for begin, end in edges.reshape(-1, 2).tolist()]
    found: dict[float, float] = {}
    for place in sorted(widest, key=lambda place: (-inner[place], place))[:VALLEYS_OF_FEATURE]:
        inside = ordered[place + window : place + 2 * window + 1]
        gap = int(np.argmax(np.diff(inside)))
        begin, end = np.ldexp(inside[gap : gap + 2], exponent).tolist()
        value = short_between(begin, end)
        found.setdefault(value, float(inner[place] / (ordered[-1 - window] - ordered[window])))
    return list(found.items())


def short_between(begin: float, end: float) -> float:
    """Return the shortest number that is near the middle of two, and not below the lower one but below the other."""
    middle = begin / 2.0 + end / 2.0
    around = end / 4.0 - begin / 4.0
    for digits in range(1, THRESHOLD_DIGITS):
        found = float(f"{middle:.{digits}g}")
        if abs(found - middle) <= around:
            return found
    return middle if begin <= middle < end else begin


def explained(rows: FloatArray, stream: IntArray, splits: list[tuple[int, float]]) -> FloatArray:
    """Return the share of a stream's variance that splits explain, mean of all streams, shape (splits, features).

    Records are given stream by stream. A stream that is on one side of a split alone counts as one of which nothing is
    explained.
    """
    begins = np.flatnonzero(np.diff(stream, prepend=-1))
    known = ~np.isnan(rows)
    values = np.where(known, rows, 0.0)
    lengths = np.diff(begins, append=len(rows))
    # No sum overflows, and none of the squares is 0 beside huge values of other streams.
    _, exponent = np.frexp(np.maximum.reduceat(np.abs(values), begins))
    values = np.ldexp(values, np.repeat(-exponent, lengths, axis=0))
    count = np.maximum(np.add.reduceat(known, begins, dtype=np.float64), 1.0)
    values -= np.repeat(np.add.reduceat(values, begins) / count, lengths, axis=0)
    values[~known] = 0.0
    values[np.abs(values) < ROUNDING_SHARE] = 0.0
    total = np.add.reduceat(values * values, begins)
    found = np.zeros((len(splits), rows.shape[1]))
    for own, (feature, value) in zip(found, splits, strict=True):
        sides = rows[:, feature] <= value, rows[:, feature] > value
        counts, sums = [], []
        for side in sides:
            counts.append(np.add.reduceat(known & side[:, np.newaxis], begins, dtype=np.float64))
            sums.append(np.add.reduceat(values * side[:, np.newaxis], begins))
        means = [each / np.maximum(number, 1.0) for each, number in zip(sums, counts, strict=True)]
        between = counts[0] * counts[1] / np.maximum(counts[0] + counts[1], 1.0) * (means[0] - means[1]) ** 2
        share = np.divide(between, total, out=np.zeros_like(total), where=total > 0.0)
        own[:] = np.where(share >= EXPLAINED_BY_CHANCE, share, 0.0).mean(axis=0)
    return found
