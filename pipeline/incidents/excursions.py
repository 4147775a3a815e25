"""What a stream shows that no other does: how far its signs are from all that it has been, and who else went there."""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from math import inf
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from resonance.pipeline.incidents.grouping import ALIKE, WINDOW_RECORDS, Episode, alike, together
from resonance.pipeline.incidents.signs import NewCluster, Sign, Value
from resonance.pipeline.incidents.units import MOST_CENTRES

FAR: Final = 6.0
"""Spreads from all that a stream has been at which a feature is nowhere near it."""

LIKE: Final = 3.0
"""How many times as far a stream is as another that went the same way."""

SINCE_SECONDS: Final = 86_400.0
"""Time in which streams come to what the first of them became: each has its hours and turns."""

NEAR_RECORDS: Final = 180
"""Records of a stream by which another that goes the same way may be before or behind."""

SEVERAL: Final = 2
"""Other streams that make what one comes to later the same: one may have broken the same way."""

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
    beyond: float
    """How far, with the sign of its side."""
    spreads: float
    """The same in spreads, without its sign."""
    value: Value

    def is_like(self, other: "_Excursion") -> bool:
        """Whether another stream went as far to the same side, in its own measure or in the feature's."""
        return other.place != self.place and (
            LIKE * other.spreads >= self.spreads or LIKE * abs(other.beyond) >= abs(self.beyond)
        )


@dataclass(slots=True)
class Excursions:
    """How far each sign is outside of what its stream has been, by feature, among those of all streams."""

    own: dict[str, dict[str, Value]] = field(default_factory=dict)
    """By the keys of signs: features that no other stream has so, the farthest first, with what they were."""
    shared: Counter[str] = field(default_factory=Counter)
    """By the keys of signs: how many features another stream has so, too."""

    @classmethod
    def of(cls, signs: Sequence[Sign], clusters: Iterable[NewCluster], paces: Mapping[str, float]) -> "Excursions":
        """Compare signs, and the clusters that came, with those of all streams."""
        known: dict[str, list[NewCluster]] = {}
        for cluster in sorted(clusters, key=lambda each: (each.time, each.key)):
            known.setdefault(cluster.stream, []).append(cluster)
        by_stream: dict[str, list[Sign]] = {}
        for sign in signs:
            by_stream.setdefault(sign.place, []).append(sign)
        found: list[_Excursion] = []
        for place, own in by_stream.items():
            found += _outside(place, own, known.get(place, []))
        went: dict[tuple[str, bool], list[_Excursion]] = {}
        for way in sorted(found):
            went.setdefault((way.name, way.beyond > 0), []).append(way)
        several = {each for each, own in went.items() if len({way.place for way in own}) > 1}
        result = cls()
        for way in sorted(found, key=lambda each: (-each.spreads, each.name)):
            side, near = (way.name, way.beyond > 0), NEAR_RECORDS * paces.get(way.place, 0.0)
            if side in several and _is_shared(way, went[side], near):
                result.shared[way.key] += 1
            elif way.spreads >= FAR:
                result.own.setdefault(way.key, {})[way.name] = way.value
        result.own = {key: own for key, own in result.own.items() if MOST_SHARED * len(own) >= result.shared[key]}
        return result

    def part(self, episode: Episode, own: Iterable[Sign]) -> Episode:
        """Return what of an episode is of its stream alone, with these signs."""
        found = Episode(episode.place, episode.pace, is_alone=True)
        ordered = sorted(own, key=lambda each: (each.time, each.key))
        is_many = sum(bool(sign.centre) for sign in ordered) > MOST_CENTRES
        # The alert that is open says it of new clusters, too, which are news by themselves.
        alerts = [sign.severity for sign in episode.signs if sign.rule == "unlike"]
        for sign in ordered:
            values = self.own.get(sign.key, {})
            moves = {name: sign.moves[name] for name in values if name in sign.moves} if values else sign.moves
            # No alert says which share of the records is unlike while one is open.
            unlike = 1.0 if is_many else max(sign.unlike, sign.share)
            severity = alerts[-1] if alerts and sign.centre else sign.severity
            found.add(replace(sign, moves=moves, values=values or sign.values, unlike=unlike, severity=severity))
        return found


def _is_shared(way: _Excursion, others: Sequence[_Excursion], near: float) -> bool:
    """Whether another stream went the same way at about the same time, or `SEVERAL` did earlier that day."""
    before = set()
    begin = bisect_left(others, way.onset - SINCE_SECONDS, key=attrgetter("onset"))
    for other in takewhile(lambda each: each.onset <= way.onset + near, islice(others, begin, None)):
        if way.is_like(other):
            before.add(other.place)
            if other.onset >= way.onset - near or len(before) >= SEVERAL:
                return True
    return False


def _outside(place: str, signs: Iterable[Sign], clusters: Sequence[NewCluster]) -> Iterable[_Excursion]:
    """Yield the features of signs that are outside of what a stream had been before."""
    reach: dict[tuple[str, int], _Edge] = {}
    came = deque(clusters)
    for sign in sorted(signs, key=lambda each: (each.onset, each.key)):
        while came and came[0].time < sign.onset:
            cluster = came.popleft()
            for name, mean in cluster.centre.items():
                for side in (-1, 1):
                    edge = _Edge(mean, cluster.spread.get(name, 0.0))
                    reach[name, side] = edge.farther(reach.get((name, side)), side)
        for name, value, said in _points(sign):
            low, high = (
                reach.get((name, side)) if said is None else said.farther(reach.get((name, side)), side)
                for side in (-1, 1)
            )
            if low is None or high is None:
                continue
            edge = high if value > high.mean else low
            beyond = max(value - high.mean, 0.0) + min(value - low.mean, 0.0)
            if abs(beyond) >= FAR / LIKE * edge.varies:
                was = Value(value, low.mean - low.varies, high.mean + high.varies)
                yield _Excursion(sign.onset, place, sign.key, name, beyond, abs(beyond) / edge.varies, was)


def _points(sign: Sign) -> Iterable[tuple[str, float, _Edge | None]]:
    """Yield the features of a sign with their value, and what it says they were."""
    for name, move in sign.moves.items():
        if name not in sign.late:
            yield name, move.after, _Edge(move.before, abs((move.after - move.before) / (move.shift or 1.0)))
    for name, value in sign.values.items():
        yield name, value.value, _Edge(value.usual, (value.high - value.low) / 6)
    for name, mean in sign.centre.items():
        yield name, mean, None


def groups(
    found: Iterable[Episode], excursions: Excursions, unseen: Mapping[str, Sequence[Sign]]
) -> list[list[Episode]]:
    """Group the episodes of several streams; what no other stream has is apart, also of an episode of a group.

    `unseen` has the new clusters, by the alert of their stream that was open, so that they could open none.
    """
    parts: list[Episode] = []
    whole: dict[int, Episode] = {}
    for episode in found:
        hidden = [replace(each, is_open=sign.is_open) for sign in episode.signs for each in unseen.get(sign.key, ())]
        own = [sign for sign in (*episode.signs, *hidden) if sign.key in excursions.own]
        names = {name for sign in own for name in excursions.own[sign.key]}
        began = min((sign.onset for sign in own), default=inf) - WINDOW_RECORDS * episode.pace
        # What comes with it and follows is of it, too, but for what others have.
        own += [
            sign
            for sign in episode.signs
            if sign.onset >= began and not (sign.key in excursions.own or sign.key in excursions.shared)
        ]
        taken = {sign.key for sign in own}
        if all(sign.key in taken for sign in episode.signs):
            episode.is_alone = True
        if episode.is_alone or not own:
            parts.append(episode)
            continue
        common = Episode(episode.place, episode.pace, later=episode.later)
        for sign in episode.signs:
            if sign.key not in taken:
                # The mean at the end of a drift is of what came later, too.
                moves = {name: move for name, move in sign.moves.items() if name not in sign.late or name not in names}
                common.add(replace(sign, moves=moves))
        parts += [common, excursions.part(episode, own)]
        whole |= {id(part): episode for part in parts[-2:]}
    result = together(sorted(parts, key=lambda each: (each.began, each.place)))
    # A part that nothing is common with is none.
    joined = {
        id(whole[id(first)]) for first, *others in result if id(first) in whole and not others and not first.is_alone
    }
    return _rejoined(
        [whole[id(group[0])]] if len(group) == 1 and id(whole.get(id(group[0]))) in joined else group
        for group in result
        if not (group[0].is_alone and id(whole.get(id(group[0]))) in joined)
    )


def _rejoined(groups: Iterable[list[Episode]]) -> list[list[Episode]]:
    """Return groups that have what one of their streams shows later as others of them do at about that time."""
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
        if episode.is_alone or sign is None:
            continue
        near = NEAR_RECORDS * episode.pace
        begin = bisect_left(shown, sign.onset - near, key=itemgetter(0))
        count = Counter[int]()
        for onset, at, place, other in islice(shown, begin, None):
            if onset > sign.onset + near:
                break
            count[at] += place != episode.place and (alike(sign.values, other.values) or 0.0) >= ALIKE
        for at, several in count.most_common(1):
            own = next((each for each in result[at] if each.place == episode.place), None)
            if several >= SEVERAL and own is not None:
                for each in episode.signs:
                    own.add(each)
                group.clear()
    return [group for group in result if group]
