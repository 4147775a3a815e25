"""A way back to where a change began is the end of that change, and no other incident."""

from collections.abc import Iterable
from typing import Final

from resonance.pipeline.incidents.episodes import ABOUT_RECORDS, Episode, Places, ends_within
from resonance.pipeline.incidents.merging import part_of
from resonance.pipeline.incidents.signs import Move, Sign

COMPARED: Final = 20
"""Newest incidents of a stream that something may be the end of."""


def with_ends(found: Iterable[list[Episode]]) -> list[list[Episode]]:
    """Return groups; those take what ends them, of their streams: a drift back, and what is off on the way there.

    Features may follow each other by and by, and records on a way back be unlike all before.
    """
    result, known = list[list[Episode]](), dict[str, list[dict[str, Episode]]]()
    for group in sorted(found, key=lambda each: each[0].began):
        for changed in reversed(known.get(group[0].place, [])[-COMPARED:]):
            if all(each.place in changed and _is_back(each, changed[each.place]) for each in group):
                for each in group:
                    _end(changed[each.place], each)
                break
        else:
            parts = [own for each in group if (own := _parts(each))]
            whole = [change for change, _ in parts] if len(parts) == len(group) else group
            for change, back in parts if whole is not group else ():
                _end(change, back)
            result.append(whole)
            places = {each.place: each for each in whole}
            for place in places:
                known.setdefault(place, []).append(places)
    return result


def _parts(episode: Episode) -> tuple[Episode, Episode] | None:
    """Return a change and the way back of an episode that has two drifts alone; None of others, as what goes on."""
    drifts = [at for at, sign in enumerate(episode.signs) if not sign.continues]
    if not episode.is_drift or len(drifts) != 2:
        return None
    at = drifts[1]
    change, back = part_of(episode, episode.signs[:at]), part_of(episode, episode.signs[at : at + 1])
    if not _is_back(back, change):
        return None
    for sign in episode.signs[at + 1 :]:
        back.add(sign)
    return change, back


def _is_back(episode: Episode, before: Episode) -> bool:
    """Whether all that an episode shows lies where another one went, and its first drift takes that back."""
    back = next((sign for sign in episode.signs if sign.soon), None)
    if back is None or before.family != "data" or any(sign.is_open and sign.values for sign in episode.signs):
        return False
    slack = ABOUT_RECORDS * episode.pace
    is_end = any(sign.moves and back.onset - slack <= sign.ended <= back.time for sign in before.signs)
    return (
        is_end
        and all(name in before.moves and _takes_back(move, before.moves[name]) for name, move in back.soon.items())
        and all(_is_within(sign, before.wide) for sign in episode.signs)
    )


def _takes_back(move: Move, change: Move) -> bool:
    return 2 * abs(move.after - change.before) <= abs(change.after - change.before)


def _is_within(sign: Sign, places: Places) -> bool:
    """Whether a sign shows most of its features within some places; a new cluster has all features there are."""
    if sign.lacks or any(move.is_noise for move in sign.varies.values()):
        return False
    if not sign.values:
        return bool(sign.centre) or ends_within(sign, places)
    within = [name for name, each in sign.values.items() if name in places and _is_in(each.value, places[name])]
    return 2 * len(within) > len(sign.values) or all(each.is_near for each in sign.values.values())


def _is_in(value: float, place: tuple[float, float]) -> bool:
    return place[0] <= value <= place[1]


def _end(episode: Episode, back: Episode) -> None:
    """Let an episode take the one by which what it moved is over."""
    first = next(sign for sign in back.signs if sign.soon)
    # What seems to have begun before what it takes back was seen after that.
    time = back.began if back.began > episode.began else first.time
    changed = [sign for sign in episode.signs if sign.centre or not episode.moves.keys().isdisjoint(_names(sign))]
    for sign in (*(each for each in changed if each.is_open or each.is_learned or each.moves), *back.signs):
        sign.is_open = sign.is_learned = False
        sign.ended = sign.over = time
    episode.later += [*back.signs, *back.later]


def _names(sign: Sign) -> set[str]:
    return {*sign.moves, *sign.values}
