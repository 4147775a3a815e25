"""What a stream shows at hours at which it starts and stops day by day: in its first days this is new, and no news."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Final

from resonance.pipeline.incidents.agreement import are_alike
from resonance.pipeline.incidents.episodes import ABOUT_RECORDS
from resonance.pipeline.incidents.known_places import EARLY_SECONDS, is_slight, only_moves
from resonance.pipeline.incidents.passages import SEVERAL
from resonance.pipeline.incidents.signs import NewCluster, Sign

DAY: Final = 86_400.0
"""Seconds from an hour to the same one of the next day."""

ABOUT_SECONDS: Final = 900.0
"""Most seconds by which starts of days differ."""

FEW: Final = 4.0
"""How many times as many days as by chance have something at an hour that is one of a stream."""

OFTEN: Final = 3
"""Least number of other days that have something at an hour that is one of a stream."""

COMPARED: Final = 50
"""Nearest alerts of its stream before and behind with which a sign is compared, and first drifts."""

RULES: Final = ("unlike", "new_cluster", "drift")
"""What starts and stops show themselves by."""

FIRST_SECONDS: Final = 2 * DAY
"""Time until which a stream has not had each of its hours twice."""


def mark_daily_hours(
    signs: Iterable[Sign], clusters: Mapping[str, Sequence[NewCluster]], paces: Mapping[str, float]
) -> None:
    """Mark what streams show of their starts and stops: in their first days, and later what is little or known.

    At such an hour records are unlike those before on several other days, and soon usual. Where a stream has one its
    means of the first days are of a few starts, and go where it has been.
    """
    streams: dict[str, list[Sign]] = {}
    for sign in sorted((each for each in signs if each.rule in RULES), key=attrgetter("onset", "key")):
        streams.setdefault(sign.place, []).append(sign)
    for place, own in streams.items():
        alerts = [sign for sign in own if sign.rule == "unlike" and sign.ended > 0]
        if place not in clusters or len(alerts) <= SEVERAL:
            continue
        begun, about = clusters[place][0].time, min(ABOUT_SECONDS, ABOUT_RECORDS * paces.get(place, 0.0))
        daily, until = [sign for sign in own if _is_daily(sign, alerts, about)], -inf
        hours = {id(sign) for sign in daily}
        for sign in own:
            is_young = id(sign) in hours and sign.onset - begun <= FIRST_SECONDS
            is_usual = sign.rule == "unlike" and (sign.is_known or is_slight(sign) or _is_same(sign, daily))
            # What is a little off is part of a start before all is usual.
            is_start = id(sign) in hours or sign.onset <= until
            sign.is_daily = not sign.is_open and (is_young or (is_start and is_usual))
            until = max(until, sign.ended + about) if sign.is_daily and sign.rule == "unlike" else until
        drifts = [sign for sign in own if sign.rule == "drift"][:COMPARED]
        for sign in own if any(sign.rule == "unlike" for sign in daily) else ():
            age = sign.onset - begun
            if not sign.is_open and age <= EARLY_SECONDS:
                sign.is_daily |= _is_early(sign, drifts, is_first=age <= FIRST_SECONDS)


def _is_early(sign: Sign, drifts: Sequence[Sign], *, is_first: bool) -> bool:
    """Whether a stream that starts and stops shows nothing else by a sign that is not open, of its first days or week.

    What it has had once and is over may be a fault, but for a drift: starts are kinds that it has again.
    """
    if sign.rule != "drift":
        return sign.is_known or (is_first and sign.is_learned)
    is_over = sign.ended > 0 and (is_first or sign.is_beside)
    return not sign.jumps and (is_over or _comes_again(sign, drifts))


def _comes_again(drift: Sign, drifts: Iterable[Sign]) -> bool:
    """Whether a drift goes where its stream has been, or is over, and others go most of that way on other days.

    They go the same way where it has not been: a creep only goes on from there.
    """
    others = [each for each in drifts if abs(each.onset - drift.onset) >= DAY / 2]
    return (
        only_moves(drift)
        and (not drift.outside or drift.ended > 0)
        and all(any(_goes_along(drift, each, name) for each in others) for name in drift.soon)
    )


def _goes_along(drift: Sign, other: Sign, name: str) -> bool:
    mine, yours = drift.moves[name], other.moves.get(name)
    if yours is None or (name in drift.outside and mine.shift * yours.shift <= 0):
        return False
    # A mean of a drift that is seen soon may be farther than that of all its records.
    ends = [yours.before, yours.after, other.seen.get(name, yours.after)]
    first, last = sorted([mine.before, drift.seen[name]])
    return 2 * (min(last, max(ends)) - max(first, min(ends))) >= last - first


def _is_daily(sign: Sign, alerts: Sequence[Sign], about: float) -> bool:
    """Whether alerts came at the hour of a sign on other days, far more than by chance; fewer if they are alike."""
    days, alike, count = set[int](), set[int](), 0
    at = bisect_left(alerts, sign.onset, key=attrgetter("onset"))
    for each in alerts[max(0, at - COMPARED) : at + COMPARED]:
        apart = (each.onset - sign.onset) / DAY
        if abs(apart) >= 0.5:
            count += 1
            if DAY * abs(apart - round(apart)) <= about:
                days.add(round(apart))
                alike |= {round(apart)} if _is_of_same(sign, each) else set()
    return (len(days) >= OFTEN or len(alike) >= SEVERAL) and len(days) > FEW * count * 2 * about / DAY


def _is_same(sign: Sign, daily: Sequence[Sign]) -> bool:
    """Whether several starts of other days were where an alert is, however far from what is usual before."""
    at = bisect_left(daily, sign.onset, key=attrgetter("onset"))
    near = (each for each in daily[max(0, at - COMPARED) : at + COMPARED] if abs(each.onset - sign.onset) >= DAY / 2)
    same = (each for each in near if each.ended > 0 and are_alike(sign.values, each.values, is_own=True))
    return len([*islice(same, SEVERAL)]) == SEVERAL


def _is_of_same(sign: Sign, alert: Sign) -> bool:
    """Whether an alert names a feature that a drift moved, or what another alert names alike."""
    return not alert.values.keys().isdisjoint(sign.soon) or are_alike(sign.values, alert.values)
