"""Which alerts show what a stream has had: on its way between kinds, as when a machine starts and stops, or at all."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from math import inf
from operator import attrgetter
from statistics import median
from typing import Final

from resonance.pipeline.incidents.agreement import are_alike
from resonance.pipeline.incidents.episodes import GAP_RECORDS, LONG_RECORDS, WINDOW_RECORDS
from resonance.pipeline.incidents.signs import NewCluster, Sign

SEVERAL: Final = 2
"""Other times at which records were on their way alike: what comes once or twice is news."""

COMPARED: Final = 200
"""Nearest ways before and behind with which one is compared, and newest clusters between which it may be."""


def mark_passages(
    signs: Sequence[Sign],
    clusters: Mapping[str, Sequence[NewCluster]],
    left: Mapping[str, Sequence[NewCluster]],
    paces: Mapping[str, float],
    now: Callable[[str | None], float],
) -> None:
    """Mark the alerts on records that streams have again and again on the way from one of their `clusters` to another.

    A fault may be between what its stream has had, too, and soon be over: that does not come again and again. What is
    `left` of clusters that others split from counts as well. `now` returns until which time a stream is known.
    """
    stays: dict[str, list[Sign]] = {}
    for sign in signs:
        if sign.rule == "drift" and (sign.is_open or sign.is_learned):
            stays.setdefault(sign.place, []).append(sign)
    found = list[Sign]()
    for sign in signs:
        if sign.rule == "unlike" and not sign.is_known:
            own, rest = (each.get(sign.place, ()) for each in (clusters, left))
            pace = paces.get(sign.place, 0.0)
            if _is_between(sign, (own, rest)) and not _stays(sign, own, stays.get(sign.place, ()), pace, now):
                found.append(sign)
    over = sorted((sign for sign in found if sign.ended), key=attrgetter("onset", "key"))
    onsets = [sign.onset for sign in over]
    for sign in found:
        gap = GAP_RECORDS * paces.get(sign.place, 0.0)
        first, last = bisect_left(onsets, sign.onset - gap), bisect_right(onsets, sign.onset + gap)
        others = (*over[max(0, first - COMPARED) : first], *over[last : last + COMPARED])
        same = (each for each in others if _is_same_way(sign, each))
        sign.is_passage = len([*islice(same, SEVERAL)]) == SEVERAL
    ways: dict[str, list[Sign]] = {}
    for sign in found:
        if sign.is_passage:
            ways.setdefault(sign.place, []).append(sign)
    for sign in signs:
        if sign.rule == "drift" and sign.moves and 0 < sign.ended < inf:
            slack = WINDOW_RECORDS * paces.get(sign.place, 0.0)
            # A drift that recovers has seen a way of which most records were.
            sign.is_passage = any(
                each.onset - slack <= sign.onset <= each.ended + slack and sign.moves.keys() <= each.values.keys()
                for each in ways.get(sign.place, ())
                if each.ended
            )


def _is_same_way(sign: Sign, other: Sign) -> bool:
    """Whether two alerts name about the same features, which are off alike: a fault may be in one of those of a way."""
    common = len(sign.values.keys() & other.values.keys())
    is_about = 2 * common >= max(len(sign.values), len(other.values))
    return is_about and are_alike(sign.values, other.values)


def mark_new_ones(
    signs: Iterable[Sign], clusters: Mapping[str, Sequence[NewCluster]], left: Mapping[str, Sequence[NewCluster]]
) -> None:
    """Mark the alerts that name what streams have not had, though their models may have taken it for what they know."""
    earlier: dict[str, list[Sign]] = {}
    for sign in sorted(signs, key=attrgetter("time", "key")):
        if sign.rule == "unlike" and sign.values:
            before = earlier.setdefault(sign.place, [])
            kinds = (each.get(sign.place, ()) for each in (clusters, left))
            is_new = not any(are_alike(sign.values, each.values) for each in before[-COMPARED:])
            sign.is_beyond = is_new and _is_between(sign, kinds) is False
            before.append(sign)


def _is_between(sign: Sign, clusters: Iterable[Sequence[NewCluster]]) -> bool | None:
    """Whether all that an alert names is within what the clusters of its stream had until then; None without any."""
    earlier = (own[: bisect_right(own, sign.onset, key=attrgetter("time"))] for own in clusters)
    before = [each for own in earlier for each in own[-COMPARED:]]
    found = list[bool]()
    for name, value in sign.values.items():
        means = [each.centre[name] for each in before if name in each.centre]
        if not means:
            return None
        # The first cluster may be of all kinds, and wide: it has nothing beyond them.
        reach = 2 * median(each.spread.get(name, 0.0) for each in before if name in each.centre)
        found.append(min(means) - reach <= value.value <= max(means) + reach)
    return all(found) if found else None


def _stays(
    sign: Sign,
    clusters: Iterable[NewCluster],
    drifts: Iterable[Sign],
    pace: float,
    now: Callable[[str | None], float],
) -> bool:
    """Whether a stream was for long what an alert shows, or has stayed so: by a cluster that came, or by a drift."""
    slack, end = WINDOW_RECORDS * pace, sign.ended or inf
    if sign.count > LONG_RECORDS or (sign.is_learned and sign.count > WINDOW_RECORDS):
        return True
    if not sign.ended and now(sign.stream) - sign.onset > LONG_RECORDS * pace:
        return True
    return (sign.is_learned and any(sign.onset <= each.time <= end for each in clusters)) or any(
        sign.onset - slack <= each.onset <= end + slack and not sign.values.keys().isdisjoint(each.moves)
        for each in drifts
    )
