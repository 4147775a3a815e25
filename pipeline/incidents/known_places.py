"""What shows a stream where it has been before, and is over by itself, such as a state of its first days: no news."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from math import inf
from operator import attrgetter
from typing import Final

from resonance.pipeline.incidents.episodes import WHOLE, Episode
from resonance.pipeline.incidents.passages import COMPARED, SEVERAL
from resonance.pipeline.incidents.signs import NewCluster, Sign, describes

REACH: Final = 3.0
"""Spreads about the mean of a cluster in which its records are."""

MEANS: Final = 1.5
"""The same of means of many records, which vary as single ones do where a feature is slow."""

EARLY_RECORDS: Final = 1_024, 2_560
"""Records until which a stream shows values that it has not had, and within `EARLY_SECONDS`, unless it stays there."""

EARLY_SECONDS: Final = 8 * 86_400.0
"""Time until which it has not had each day of a week, and the hours of one of them again."""

NEAR: Final = 20
"""Drifts of its stream with which one is compared."""

SLOW_SECONDS: Final = 86_400.0
"""Time from the beginning of a drift to the record that shows it, from which days that differ are enough for it."""


def mark_known_places(signs: Iterable[Sign], *clusters: Mapping[str, Sequence[NewCluster]]) -> None:
    """Mark which alerts and drifts show nothing but where their stream has been, and are over, or go as those do.

    An alert is little beyond the usual values of the nearest of the `clusters`, and within others.
    """
    streams: dict[str, list[Sign]] = {}
    for sign in sorted(signs, key=attrgetter("onset", "key")):
        streams.setdefault(sign.place, []).append(sign)
    drifts, over = dict[str, list[Sign]](), dict[str, list[Sign]]()
    for place, own in streams.items():
        came = sorted(chain(*(each.get(place, ()) for each in clusters)), key=attrgetter("time", "key"))
        moved = [sign for sign in own if sign.soon]
        for sign in own:
            before = came[: bisect_right(came, sign.onset, key=attrgetter("time"))]
            earlier = moved[: bisect_right(moved, sign.onset, key=attrgetter("onset"))]
            sign.outside = {*_outside(sign, before[-COMPARED:], earlier[-NEAR:])}
            is_in = sign.rule == "unlike" and bool(sign.values) and not sign.outside
            sign.is_ordinary = is_in and sign.ended > 0 and sign.share < WHOLE and is_slight(sign)
        shown = [each.values for each in own if each.is_ordinary][-COMPARED:]
        for sign in (each for each in own if each.centre and each.share < WHOLE):
            sign.is_ordinary = any(describes(values, sign.centre) for values in shown)
        drifts[place] = inside = [each for each in moved if not (each.outside or each.is_beside) and only_moves(each)]
        over[place] = [each for at, each in enumerate(inside) if _is_over(each, inside[at + 1 : at + NEAR])]
    some = [each for own in over.values() for each in own[-1:]][-COMPARED:]
    for sign in chain(*drifts.values()):
        is_own = any(_goes_as(sign, each) for each in over[sign.place][-NEAR:])
        alike = () if is_own else islice((each for each in some if _goes_as(sign, each)), SEVERAL)
        sign.is_ordinary = is_own or len([*alike]) == SEVERAL


def with_news(found: Iterable[Sequence[Episode]], begun: Mapping[str, float], streams: int) -> list[list[Episode]]:
    """Return groups without what is where its stream has been, or a little more of what a young one may have.

    What wanders for days, or has weekends, is not known from a few hundred records; `begun` is when streams had their
    first clusters. What most of so many `streams` show is news all the same.
    """
    groups = list[list[Episode]]()
    for group in found:
        is_common = len(group) > max(1, streams // 2)
        groups.append([each for each in group if is_common or _is_news(each, begun.get(each.place, -inf))])
    return [group for group in groups if group]


def _is_news(episode: Episode, begun: float) -> bool:
    signs = [*episode.signs, *episode.later]
    rest = [sign for sign in signs if not (sign.is_ordinary or _is_early(sign, sign.onset - begun, episode.pace))]
    return len(rest) == len(signs) or any(sign.rule != "drift" or sign.moves or sign.varies for sign in rest)


def _is_early(sign: Sign, age: float, pace: float) -> bool:
    least, most = (records * pace for records in EARLY_RECORDS)
    week = min(most, EARLY_SECONDS)
    if sign.rule == "drift":
        is_slow = age <= week and sign.time - sign.onset >= SLOW_SECONDS
        return is_slow and only_moves(sign) and all(abs(move.shift) <= REACH for move in sign.soon.values())
    is_young = age <= (least if sign.is_learned else max(least, week))
    return sign.rule == "unlike" and bool(sign.values) and sign.ended > 0 and is_young and is_slight(sign)


def is_slight(sign: Sign) -> bool:
    """Whether what an alert names is little beyond the usual values, or else where its stream has been."""
    named = [each for name, each in sign.values.items() if name in sign.outside] or sign.values.values()
    return all(each.is_near for each in named)


def only_moves(drift: Sign) -> bool:
    """Whether no feature that a drift named when it was seen varies otherwise."""
    return drift.varies.keys().isdisjoint(drift.seen)


def _outside(sign: Sign, clusters: Iterable[NewCluster], drifts: Iterable[Sign]) -> Iterable[str]:
    """Yield the features in which a record is in none of some clusters, or a mean, as of records of several, beyond.

    What was usual before drifts counts, too.
    """
    for name in {*sign.values, *sign.soon}:
        own = [(each.centre[name], each.spread.get(name, 0.0)) for each in clusters if name in each.centre]
        usual = [each.moves[name] for each in drifts if name in each.soon]
        ends = [(at, MEANS * by) for at, by in (*own, *((move.before, move.spread) for move in usual))]
        low, high = min((at - by for at, by in ends), default=inf), max((at + by for at, by in ends), default=-inf)
        means = (sign.moves[name].after, sign.seen[name]) if name in sign.soon else ()
        records = (sign.values[name].value,) if name in sign.values else ()
        is_in = all(any(abs(each - at) <= REACH * by for at, by in own) for each in records)
        if not (own and is_in and all(low <= each <= high for each in means)):
            yield name


def _is_over(drift: Sign, later: Iterable[Sign]) -> bool:
    """Whether a drift is over, as it says itself, by its end, or by a later one that begins where it did."""
    ways = [(move.after - move.before, drift.seen[name] - move.before) for name, move in drift.soon.items()]
    is_back = 0 < drift.until < inf and all(2 * way * seen < seen * seen for way, seen in ways)
    return drift.ended > 0 or is_back or any(_goes_as(each, drift) for each in later)


def _goes_as(drift: Sign, other: Sign) -> bool:
    """Whether a drift goes where another one went, or back to where that began."""
    for name, move in drift.soon.items():
        if name not in other.soon:
            return False
        first, last, end = other.soon[name].before, other.seen[name], drift.seen[name]
        most, start = 0.5 * abs(last - first), abs(move.before - first)
        if max(start, abs(end - last)) > most and abs(end - first) > min(most, start):
            return False
    return True
