"""Episodes of several streams that belong together, by time and by features."""

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from statistics import mean
from typing import Final

from resonance.pipeline.incidents.agreement import ALIKE, alike, are_close, fits, fits_values, is_same, moves_alike
from resonance.pipeline.incidents.episodes import LONG_RECORDS, WINDOW_RECORDS, Episode
from resonance.pipeline.incidents.signs import Move

COMPARED: Final = 20
"""Episodes of a group, the first ones, with which another one has to agree."""


@dataclass(slots=True)
class Group:
    """Episodes of several streams that belong together."""

    episodes: list[Episode]
    began: list[float]
    """When each began, the earliest first."""
    places: set[str]

    def nearness(self, episode: Episode, began: float) -> float:
        """Return how well an episode that began at a time agrees with these; negative where it is none of them.

        It has to begin with them, to be of their kind, and to agree with most of them.
        """
        first = self.episodes[0]
        if episode.is_alone:
            return -1.0
        middle = 0.5 * (self.began[(len(self.began) - 1) // 2] + self.began[len(self.began) // 2])
        apart = abs(middle - began) / (max(episode.pace, first.pace) or 1.0)
        if apart > LONG_RECORDS or episode.place in self.places or first.family != episode.family:
            return -1.0
        shares = [each for one in self.episodes[:COMPARED] if (each := _agreement(one, episode)) is not None]
        if not shares:
            # One that names nothing is with several of its time, or with another such, but not with any one.
            is_like = len(self.episodes) > 1 or first.names_something == episode.names_something
            return 0.0 if is_like and apart <= WINDOW_RECORDS else -1.0
        return mean(shares) if sum(each >= ALIKE for each in shares) >= ALIKE * len(shares) else -1.0


def together(found: Sequence[Episode]) -> list[list[Episode]]:
    """Group the episodes of several streams: those with features first, the others by time alone."""
    farthest = LONG_RECORDS * max((each.pace for each in found), default=0.0)
    by_time = sorted(((each.began, each.place, each) for each in found), key=itemgetter(0, 1))
    groups: list[Group] = []
    for has_features in (True, False):
        recent = [group for group in groups if not group.episodes[0].is_alone]
        for began, place, episode in (each for each in by_time if each[2].names_something is has_features):
            recent = [group for group in recent if began - group.began[-1] <= max(farthest, LONG_RECORDS)]
            near = [
                (nearness > 0.0, len(group.episodes), nearness, group)
                for group in recent
                if (nearness := group.nearness(episode, began)) >= 0.0
            ]
            if near:
                # The largest of those with which it agrees, and of one size that with which it agrees best.
                *_, group = max(near, key=itemgetter(0, 1, 2))
                group.episodes.append(episode)
                group.places.add(place)
                insort(group.began, began)
            else:
                groups.append(Group([episode], [began], {place}))
                if not episode.is_alone:
                    recent.append(groups[-1])
    return [group.episodes for group in groups]


def _agreement(one: Episode, other: Episode) -> float | None:
    """Return in which share of their features two episodes are about the same; None where one says none."""
    if one.lacks or other.lacks:
        return float(not {*one.lacks}.isdisjoint(other.lacks))
    if one.turns != other.turns:
        return 0.0  # What goes to and fro has been about everywhere.
    of_moves = None
    if one.moves and other.moves:
        names = one.moves.keys() & other.moves.keys()
        same = [name for name in names if moves_alike(one.moves[name], other.moves[name])]
        of_moves = len(same) / min(len(one.moves), len(other.moves))
        if of_moves >= ALIKE:
            return of_moves
    # The mean of a drift may be under way, and streams have levels of their own: a record says best what is off.
    of_records = alike(one.values, other.values)
    if of_records is not None and of_records >= ALIKE:
        return of_records
    pairs = (one, other), (other, one)
    if of_moves is not None:
        # A drift names what went first: the clusters of the other stream say whether that went so, too.
        ways = [_fits_moves(mine.moves, yours.centres) for mine, yours in pairs if yours.centres]
        return max(of_moves, min(ways)) if len(ways) == 2 else of_moves
    if one.centres and other.centres:
        return float(any(are_close(mine, yours) for mine in one.centres for yours in other.centres))
    if one.values and other.values:
        return of_records
    for mine, yours in pairs:
        if mine.moves and yours.values:
            return fits_values(mine.moves, yours.values)
    for mine, yours in pairs:
        if mine.moves and yours.centres:
            return _fits_moves(mine.moves, yours.centres)
    for mine, yours in pairs:
        if mine.values and yours.centres:
            return fits({name: value.is_close for name, value in mine.values.items()}, yours.centres)
    if one.varies or other.varies:
        # How much features vary has nothing to do with where others are.
        return len(one.varies & other.varies) / max(1, min(len(one.varies), len(other.varies)))
    return None


def _fits_moves(moves: Mapping[str, Move], centres: Iterable[Mapping[str, float]]) -> float:
    return fits({name: partial(is_same, move) for name, move in moves.items()}, centres)
