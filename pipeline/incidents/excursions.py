"""What few streams of many show: how far their signs are from all that they have been, and how many others' are."""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from resonance.pipeline.incidents.agreement import are_alike
from resonance.pipeline.incidents.episodes import ABOUT_RECORDS, LONG_RECORDS, WINDOW_RECORDS, Episode
from resonance.pipeline.incidents.grouping import COMPARED, together
from resonance.pipeline.incidents.signs import NewCluster, Sign, Value, describes
from resonance.pipeline.incidents.units import MOST_CENTRES

FAR: Final = 6.0
"""Spreads from all that a stream has been at which a feature is nowhere near it."""

LIKE: Final = 3.0
"""How many times as far a stream may be as another whose feature is outside to the same side, too."""

SINCE_SECONDS: Final = 86_400.0
"""Time in which streams come to what the first of them became: each has its hours and turns."""

NEAR_RECORDS: Final = 180
"""Records of a stream by which what others show alike may be before or behind."""

SEVERAL: Final = 2
"""Other streams of a group that have shown what makes a sign of one of its streams the group's."""

MOST_SHARED: Final = 8
"""How many times as many features as are a stream's own it may share: one of hundreds is its own by chance."""

_LEAST: Final = 0.01
"""Part of its value by which a feature varies that never did."""


class _Edge(NamedTuple):
    """The farthest mean of a feature on one side, and how much it varied there."""

    mean: float
    spread: float

    def farther(self, other: "_Edge | None", side: int) -> "_Edge":
        """Return the farther of two, with the larger spread where they overlap."""
        if other is None:
            return self
        far, near = (self, other) if side * (self.mean - other.mean) >= 0 else (other, self)
        reaches = side * (near.mean - far.mean) + FAR / 2 * near.spread >= 0
        return far._replace(spread=max(far.spread, near.spread)) if reaches else far

    @property
    def varies(self) -> float:
        """How much the feature varies, never nothing."""
        return self.spread or _LEAST * abs(self.mean) or 1.0


class _Excursion(NamedTuple):
    """A feature of a sign that is outside of what its stream had been."""

    onset: float
    place: str
    key: str
    name: str
    time: float
    """Seconds of the record that showed it."""
    beyond: float
    """How far, with the sign of its side."""
    spreads: float
    """The same in spreads, without its sign."""
    value: Value


class _Others(NamedTuple):
    """How many other streams went to the side of an excursion within a day."""

    far: int
    """As far, or not much less."""
    aside: int
    """At all."""

    def is_few(self, streams: int) -> bool:
        """Whether few of so many streams that changed together are there; of two neither is unlike the other."""
        others = self.aside if streams == 2 else self.far
        return not others or 2 * (others + 1) < streams

    def is_alone(self, streams: int) -> bool:
        """Whether its stream alone is there, of so many that changed together.

        Of few that break alike one is farther off than others: each has its own kinds of records.
        """
        return not self.far and (not self.aside or 2 * (self.aside + 1) >= streams)


@dataclass(slots=True)
class Excursions:
    """How far each sign is outside of what its stream has been, by feature, among those of all streams."""

    _features: dict[str, dict[str, tuple[_Excursion, _Others]]] = field(default_factory=dict)
    """By the keys of signs: features, the farthest first, each with how many other streams had it so, too."""

    @classmethod
    def of(cls, signs: Iterable[Sign], clusters: Iterable[NewCluster], paces: Mapping[str, float]) -> "Excursions":
        """Compare signs, and the clusters that came, the earliest first, with those of all streams."""
        known: dict[str, list[NewCluster]] = {}
        for cluster in clusters:
            # Where the first clusters are no longer kept, the others do not say all that the stream has been.
            if cluster.stream in known or cluster.key.endswith("/0"):
                known.setdefault(cluster.stream, []).append(cluster)
        by_stream: dict[str, list[Sign]] = {}
        for sign in signs:
            by_stream.setdefault(sign.place, []).append(sign)
        found: list[tuple[_Excursion, _Others]] = []
        # A stream of which only its signs say what it has been is compared with what those of others say.
        for is_known in {place in known for place in by_stream}:
            sides: dict[tuple[str, bool], list[_Excursion]] = {}
            for place, own in by_stream.items():
                for each in _outside(place, own, known.get(place, ()) if is_known else (), paces.get(place, 0.0)):
                    sides.setdefault((each.name, each.beyond > 0), []).append(each)
            for side in sides.values():
                side.sort()
                found += (
                    pair
                    for pair in zip(side, _others(side, paces), strict=True)
                    if (pair[0].place in known) == is_known
                )
        result = cls()
        for each, others in sorted(found, key=lambda one: (-one[0].spreads, one[0].name)):
            if others.far or each.spreads >= FAR:
                result._features.setdefault(each.key, {})[each.name] = each, others
        return result

    def apart(self, sign: Sign, streams: int) -> dict[str, tuple[Value, bool]]:
        """Return the features that few of so many streams have as a sign has them, with whether it is alone."""
        found = self._features.get(sign.key, {})
        few = {
            name: (each.value, others.is_alone(streams))
            for name, (each, others) in self._far(sign)
            if others.is_few(streams)
        }
        return few if MOST_SHARED * len(few) >= len(found) - len(few) else {}

    def far(self, signs: Iterable[Sign]) -> list[Sign]:
        """Return the signs that are far outside, with the features that are as values."""
        found = [(sign, {name: each.value for name, (each, _) in self._far(sign)}) for sign in signs]
        return [replace(sign, values=values) for sign, values in found if values]

    def _far(self, sign: Sign) -> Iterable[tuple[str, tuple[_Excursion, _Others]]]:
        return (pair for pair in self._features.get(sign.key, {}).items() if pair[1][0].spreads >= FAR)

    def is_shared(self, sign: Sign) -> bool:
        """Whether another stream has what a sign shows, too."""
        return any(others.far for _, others in self._features.get(sign.key, {}).values())


def _others(side: Sequence[_Excursion], paces: Mapping[str, float]) -> Iterable[_Others]:
    """Yield how many other streams went so; all excursions of a feature to one side, the earliest first."""
    numbers: dict[str, int] = {}
    places = np.array([numbers.setdefault(each.place, len(numbers)) for each in side])
    onsets = np.array([each.onset for each in side])
    spreads, beyond = (
        LIKE * np.array([each.spreads for each in side]),
        LIKE * np.array([abs(each.beyond) for each in side]),
    )
    for each, place in zip(side, places, strict=True):
        # Of streams with few records a day evidence takes longer.
        about = max(SINCE_SECONDS, WINDOW_RECORDS * paces.get(each.place, 0.0))
        # A drift began between its onset and the record that showed it, which may be days later.
        near = slice(*np.searchsorted(onsets, (each.onset - about, max(each.onset + about, each.time))))
        # In their own measure, or in that of the feature.
        is_like = (spreads[near] >= each.spreads) | (beyond[near] >= abs(each.beyond))
        is_other = places[near] != place
        far, aside = (int(np.count_nonzero(np.bincount(places[near][own]))) for own in (is_like & is_other, is_other))
        yield _Others(far, aside)


def _outside(place: str, signs: Iterable[Sign], clusters: Sequence[NewCluster], pace: float) -> Iterable[_Excursion]:
    """Yield the features of signs that are outside of what a stream had been before."""
    extremes: dict[tuple[str, int], _Edge] = {}
    came = deque(clusters)
    drifts, gone = deque[Sign](), dict[tuple[str, bool], float]()
    for sign in sorted(signs, key=lambda each: (each.onset, each.key)):
        while came and came[0].time < sign.onset:
            cluster = came.popleft()
            for name, mean in cluster.centre.items():
                for side in (-1, 1):
                    edge = _Edge(mean, cluster.spread.get(name, 0.0))
                    extremes[name, side] = edge.farther(extremes.get((name, side)), side)
        while drifts and drifts[0].onset + LONG_RECORDS * pace < sign.onset:
            for name, move in drifts.popleft().soon.items():
                is_up = move.shift > 0
                end = move.after if is_up else -move.after
                gone[name, is_up] = max(gone.get((name, is_up), -inf), end + FAR / LIKE * move.spread)
        for name, value, usual in _points(sign):
            low, high = (
                extremes.get((name, side)) if usual is None else usual.farther(extremes.get((name, side)), side)
                for side in (-1, 1)
            )
            if low is None or high is None:
                continue
            edge = high if value > high.mean else low
            beyond = max(value - high.mean, 0.0) + min(value - low.mean, 0.0)
            if abs(beyond) >= FAR / LIKE * edge.varies:
                was = Value(value, low.mean - low.varies, high.mean + high.varies)
                # Where a drift went long before, such as a creep that has no cluster of its own, nothing is far.
                is_gone = (value if beyond > 0 else -value) <= gone.get((name, beyond > 0), -inf)
                spreads = 0.0 if is_gone else abs(beyond) / edge.varies
                yield _Excursion(sign.onset, place, sign.key, name, sign.time, beyond, spreads, was)
        if sign.rule == "drift":
            drifts.append(sign)


def _points(sign: Sign) -> Iterable[tuple[str, float, _Edge | None]]:
    """Yield the features of a sign with their value, and what it says they were."""
    for name, move in sign.soon.items():
        yield name, move.after, _Edge(move.before, move.spread)
    for name, value in sign.values.items():
        yield name, value.value, _Edge(value.usual, (value.high - value.low) / 6)
    for name, mean in sign.centre.items():
        yield name, mean, None


def groups(
    found: Iterable[list[Episode]], excursions: Excursions, unseen: Mapping[str, Sequence[Sign]]
) -> list[list[Episode]]:
    """Divide groups of episodes of several streams: what few of a group have, or one stream alone, is apart.

    `unseen` has the new clusters, by the alert of their stream that was open, so that they could open none.
    """
    divided = [(group, _divided(group, excursions, unseen)) for group in found]
    largest = max((len(group) for group, own in divided if own != group), default=0)
    result: list[list[Episode]] = []
    parts: list[Episode] = []
    for group, own in divided:
        # What few of a group show is by itself, or with an incident of as few.
        whole = {id(episode) for episode in group}
        left, few = list[Episode](), list[Episode]()
        for each in own:
            (left if each.is_common or id(each) in whole else few).append(each)
        if (not few or len(left) > SEVERAL) and 2 * len(left) >= largest:
            result.append(left)
            parts += few
        else:
            parts += own
    result += together(sorted(parts, key=lambda each: (each.began, each.place)))
    # A part that nothing is common with is none.
    undone = {id(first.whole) for first, *others in result if first.is_common and not others}
    restored = (
        [each.whole if each.whole and id(each.whole) in undone else each for each in group]
        for group in result
        if not (group[0].is_common and id(group[0].whole) in undone)
    )
    return _rejoined(restored)


def _divided(group: Sequence[Episode], excursions: Excursions, unseen: Mapping[str, Sequence[Sign]]) -> list[Episode]:
    """Return the episodes of a group, or their parts, but whole where each began with what its stream alone has.

    Streams that break at the same time may be off in some feature alike.
    """
    parts = [_parts(episode, excursions, unseen, group) for episode in group]
    is_each = len(group) > 1 and all(
        own[-1].is_alone and own[0].began >= own[-1].began - ABOUT_RECORDS * own[-1].pace for own in parts
    )
    return [replace(each, is_alone=True) for each in group] if is_each else [*chain.from_iterable(parts)]


def _parts(
    episode: Episode, excursions: Excursions, unseen: Mapping[str, Sequence[Sign]], group: Sequence[Episode]
) -> list[Episode]:
    """Return an episode of a group whole, or in parts: what it has in common with most of the group, and its own."""
    hidden = [replace(each, is_open=sign.is_open) for sign in episode.signs for each in unseen.get(sign.key, ())]
    signs = [*episode.signs, *hidden]
    far = {
        sign.key: features
        for sign in signs
        if (features := _named_by_alerts(sign, episode.signs, excursions.apart(sign, len(group))))
    }
    own = [sign for sign in signs if sign.key in far]
    began = min((sign.onset for sign in own), default=inf) - WINDOW_RECORDS * episode.pace
    # What comes with it and follows is of it, too, but for what others have.
    own += [
        sign
        for sign in episode.signs
        if sign.onset >= began
        and sign.key not in far
        and not (excursions.is_shared(sign) or _is_common(sign, episode, group))
    ]
    taken = {sign.key for sign in own}
    is_alone = any(alone for features in far.values() for _, alone in features.values())
    is_whole = all(sign.key in taken for sign in episode.signs)
    if not own or (is_whole and is_alone):
        return [replace(episode, is_alone=True) if own else episode]
    names = {name for features in far.values() for name in features}
    common = Episode(episode.place, episode.pace, later=episode.later, whole=episode, is_common=True)
    for sign in episode.signs:
        if sign.key not in taken:
            # The mean at the end of a drift is of what came later, too.
            moves = {name: move for name, move in sign.moves.items() if name not in sign.late or name not in names}
            common.add(replace(sign, moves=moves))
    apart = Episode(episode.place, episode.pace, whole=episode, is_alone=is_alone)
    own.sort(key=lambda each: (each.time, each.key))
    is_many = sum(bool(sign.centre) for sign in own) > MOST_CENTRES
    # The alert that is open says it of new clusters, too, which are news by themselves.
    alerts = [sign for sign in episode.signs if sign.rule == "unlike"]
    for sign in own:
        values = {name: value for name, (value, _) in far.get(sign.key, {}).items()}
        moves = {name: move for name, move in sign.moves.items() if not values or name in values}
        # No alert says which share of the records is unlike while one is open.
        unlike = 1.0 if is_many else max(sign.unlike, sign.share)
        says = alerts and sign.centre and alerts[-1].is_open >= sign.is_open
        severity = alerts[-1].severity if says else sign.severity
        apart.add(replace(sign, moves=moves, values=values or sign.values, unlike=unlike, severity=severity))
    return [apart] if is_whole else [common, apart]


def _is_common(sign: Sign, episode: Episode, group: Sequence[Episode]) -> bool:
    """Whether other streams of a group are off as a sign of one of them is, wherever these streams have been."""
    others = (each for each in group[:COMPARED] if each.place != episode.place)
    same = (each for each in others if any(are_alike(sign.values, one.values) for one in each.signs))
    return len([*islice(same, SEVERAL)]) == SEVERAL


def _named_by_alerts(
    sign: Sign, signs: Iterable[Sign], features: dict[str, tuple[Value, bool]]
) -> dict[str, tuple[Value, bool]]:
    """Return the features of a new cluster that an alert on one of its records names far off; all without an alert.

    The alert knows what its cluster has been until then; of clusters only their first records are known.
    """
    shown = [
        each.values
        for each in signs
        if sign.centre and describes(each.values, sign.centre)
        # One that comes later, or with which the cluster began.
        if each.time >= sign.time or each.onset <= sign.onset <= each.time
    ]
    named = {name for values in shown for name, value in values.items() if value.is_far}
    return {name: each for name, each in features.items() if name in named} if shown else features


def _rejoined(groups: Iterable[list[Episode]]) -> list[list[Episode]]:
    """Return groups with what one of their streams shows by itself, where others of the group show it at that time."""
    result = [*groups]
    shown = [
        (sign.onset, at, episode.place, sign)
        for at, group in enumerate(result)
        for episode in group
        for sign in episode.signs
        if len(group) > 1 and sign.values
    ]
    shown.sort(key=itemgetter(0, 1, 2))
    for group in [each for each in result if len(each) == 1]:
        episode = group[0]
        sign = next((each for each in episode.signs if each.values), None)
        if episode.is_alone or episode.whole is not None or sign is None:
            continue
        near = NEAR_RECORDS * episode.pace
        begin = bisect_left(shown, sign.onset - near, key=itemgetter(0))
        count = Counter[int]()
        for onset, at, place, other in islice(shown, begin, None):
            if onset > sign.onset + near:
                break
            is_other = place != episode.place and other.is_passage == sign.is_passage
            count[at] += is_other and are_alike(sign.values, other.values)
        for at, several in count.most_common(1):
            own = next((each for each in result[at] if each.place == episode.place), None)
            if several >= SEVERAL and own is not None:
                for each in episode.signs:
                    own.add(each)
                group.clear()
    return [group for group in result if group]
