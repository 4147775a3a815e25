"""When what signs show was over: what drifts changed is as before, or has changed again, and alerts show no more."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from operator import attrgetter
from typing import Any, Final, NamedTuple

from resonance.pipeline.incidents.episodes import ECHO_SECONDS
from resonance.pipeline.incidents.signs import ABRUPT, NewCluster, Sign, describes, seconds
from resonance.pipeline.incidents.silences import UNREADABLE

DriftKey = tuple[str, int, int]
"""Stream, version and number of a drift."""

Way = tuple[float, float] | None
"""What a feature was and is; None of a share, or of how features depend on each other."""


_Next = dict[tuple[str, str], tuple[float, float]]
"""When the next drift of a feature of a unit began, and what it was then."""


COMPARED: Final = 20
"""Signs of a stream before and behind with which one is compared, and its newest clusters."""


class Later(NamedTuple):
    """When a later drift changed something, about, and was seen, and what that is since."""

    since: float
    time: float
    after: float | None


def ends_of(
    drifts: Mapping[DriftKey, tuple[Any, Mapping[str, Any]]], settled: Mapping[DriftKey, tuple[Any, Mapping[str, Any]]]
) -> dict[DriftKey, float]:
    """Return when each drift that has ended was over, in seconds: infinite where what it changed has stayed so.

    It is 0 where most of that is elsewhere since a later drift, and not back.
    """
    found, later = dict[DriftKey, float](), dict[str, tuple[int, dict[tuple[str, str], Later], _Next]]()
    for key in sorted(drifts, reverse=True):
        version, gone, following = later.setdefault(key[0], (key[1], {}, {}))
        drift, ended = drifts[key][1], settled[key][1] if key in settled else {}
        with suppress(*UNREADABLE):  # It is of no worker.
            since, time = seconds(drift["since"]["time"] if "since" in drift else drift["time"]), seconds(drift["time"])
            is_back = ended.get("kind") == "recovered"
            stays = is_back and key[1] == version and _stays(drift, seconds(ended["time"]), following)
            # What recovered changed nothing, but for what went back to the place before the last.
            events = (drift,) if stays else (ended,) if is_back else (drift, ended)
            changed = dict(each for event in events for each in _changed(event))
            left = [(way, gone[name]) for name, way in changed.items() if name in gone and _has_left(way, gone[name])]
            # A drift that seems to have begun before one that it takes back was seen after that.
            over = (each.since if each.since > since else each.time for way, each in left if _is_back(way, each))
            back = sorted(over)
            if is_back and not stays:
                found[key] = seconds(ended["time"])
            elif stays or (ended.get("kind") == "settled" and key[1] == version):
                is_over = 2 * len(left) > len(changed) and not stays
                found[key] = back[len(back) // 2] if 2 * len(back) > len(changed) else 0.0 if is_over else inf
            gone |= {name: Later(since, time, way and way[1]) for name, way in changed.items()}
            following |= {name: (since, way[0]) for name, way in _moved(drift)}
    return found


def end_with_alerts(signs: Iterable[Sign], clusters: Mapping[str, Sequence[NewCluster]]) -> None:
    """End drifts and new clusters of whole streams that last, or are learned, by alerts on the same that show no more.

    The record that clears such an alert is as before in all that the drift moved. A drift says that itself only where
    enough records have come since, and a cluster is new for a thousand. Of an alert on some of the records, what it
    named may have become one of the `clusters`, and still come beside the others.
    """
    came, lasting = dict[str, list[Sign]](), list[Sign]()
    for sign in sorted(signs, key=attrgetter("onset", "key")):
        is_drift = sign.is_whole and sign.moves and not sign.varies
        if sign.is_back:
            came.setdefault(sign.place, []).append(sign)
        elif (is_drift or (sign.centre and sign.share >= ABRUPT)) and (sign.is_open or sign.is_learned):
            lasting.append(sign)
    for sign in lasting:
        known = max(sign.time, sign.until if sign.until < inf else 0.0)
        own = came.get(sign.place, ())
        last = bisect_right(own, sign.time, key=attrgetter("onset"))
        for alert in (each for each in own[max(0, last - COMPARED) : last] if known <= each.ended):
            is_all, kinds = alert.unlike >= ABRUPT, clusters.get(sign.place, ())[-COMPARED:]
            is_over = is_all or not any(describes(alert.values, each.centre) for each in kinds)
            if sign.centre:
                is_over = is_all and alert.over - alert.onset >= ECHO_SECONDS
            if is_over and _shows(alert, sign):
                sign.is_open = sign.is_learned = False
                sign.ended = sign.over = alert.over


def _shows(alert: Sign, sign: Sign) -> bool:
    """Whether an alert names all features that a drift moved, or those of a cluster, and the same ways."""
    values = alert.values
    ways = {name: sign.centre[name] - each.usual for name, each in values.items() if name in sign.centre}
    ways |= {name: move.after - move.before for name, move in sign.moves.items()}
    return bool(ways) and all(n in values and (values[n].value - values[n].usual) * way > 0 for n, way in ways.items())


def over_since(signs: Sequence[Sign]) -> float:
    """Return about when what signs show was over, in seconds; 0 where that is not known.

    What an alert and a drift show at the same time in the same features was over by the first of their ends.
    """
    found, of_streams = 0.0, dict[str, list[Sign]]()
    for sign in signs:
        of_streams.setdefault(sign.place, []).append(sign)
    for own in of_streams.values():
        for at, sign in enumerate(own):
            if sign.is_learned:
                continue  # It was over for its model, which has learned it.
            names = {*sign.moves, *sign.varies, *sign.values}
            same = (
                each.over
                for each in own[max(0, at - COMPARED) : at + COMPARED]
                if each.over and not each.is_learned and each.onset <= sign.over and sign.onset <= each.over
                if not names.isdisjoint((*each.moves, *each.varies, *each.values))
            )
            found = max(found, min(same, default=sign.over))
    return found


def _changed(event: Mapping[str, Any]) -> Iterable[tuple[tuple[str, str], Way]]:
    """Yield what changed: features by their names, of whichever unit; share and dependence by their unit."""
    yield from ((("", feature), way) for (_, feature), way in _moved(event))
    for unit in event.get("units", ()):
        yield from (((unit["cluster"] or "", name), None) for name in ("share", "together") if name in unit["change"])


def _moved(event: Mapping[str, Any]) -> Iterable[tuple[tuple[str, str], tuple[float, float]]]:
    """Yield the features of each unit of a drift, or of its end, with what they were and became."""
    for unit in event.get("units", ()):
        for each in unit["features"]:
            yield (unit["cluster"] or "", each["feature"]), (float(each["before"]), float(each["after"]))


def _stays(drift: Mapping[str, Any], ended: float, following: _Next) -> bool:
    """Whether a drift that recovered stays, by the next ones of most of its features.

    These begin nearer to where it went than to where it began, or with its end, so that nothing was as before.
    """
    ways = [(way, following.get(name, (inf, way[0]))) for name, way in _moved(drift)]
    stays = [since <= ended or abs(begin - after) < abs(begin - before) for (before, after), (since, begin) in ways]
    return 2 * sum(stays) > len(stays)


def _has_left(way: Way, later: Later) -> bool:
    """Whether what a drift changed has gone on from there by a later one, half as far or more."""
    if way is None or later.after is None:
        return True
    before, after = way
    return 2 * abs(later.after - after) >= abs(after - before)


def _is_back(way: Way, later: Later) -> bool:
    """Whether what a drift changed is nearer to what it was since a later one."""
    if way is None or later.after is None:
        return True
    before, after = way
    return abs(later.after - before) < abs(later.after - after)
