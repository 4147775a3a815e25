"""Which features an incident names, what they are since, and what they were."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from statistics import median
from typing import Final

from resonance.pipeline.errors import number, rounded
from resonance.pipeline.incidents.agreement import is_same
from resonance.pipeline.incidents.episodes import ABOUT_RECORDS, MANY, WHOLE, WINDOW_RECORDS, Episode
from resonance.pipeline.incidents.sentences import SHOWN
from resonance.pipeline.incidents.signs import Move, Value
from resonance.schemas import IncidentFeature

ROUNDED: Final = 0.001
"""By which shares add up to 1."""


def features_of(group: Sequence[Episode], known: int) -> list[IncidentFeature]:
    """Return what changed: by drifts, with what it was; values of new clusters where these are known."""
    moves: dict[str, list[Move]] = {}
    centres: list[Mapping[str, float]] = []
    # Of a stream without others an alert says best what was off: a drift of some of it may be its daily wave.
    is_alone = known < MANY and bool(group[0].values) and len(group[0].moves) != 1
    for episode in () if is_alone else group:
        centres += episode.centres
        for name, move in episode.moves.items():
            moves.setdefault(name, []).append(move)
    if len(group) == 1 and len(centres) > 1:  # A stream that broke has records of many kinds.
        centres = [] if moves else centres[:1]
    # What only the ends of drifts name, or few streams, is not what they have in common.
    named = Counter(name for each in group for name in each.soon)
    least = max(named.values(), default=0) // 2 + 1
    moves = {name: own for name, own in moves.items() if named[name] >= least} or moves
    is_moved = 2 * sum(bool(each.moves) for each in group) > len(group) >= MANY
    some = {name for each in (() if is_moved else group) for name in _of_some(each)}
    moves = {name: own for name, own in moves.items() if name not in some}
    values: dict[str, list[Value]] = {}
    for episode in () if is_moved else group:
        for name, value in episode.values.items():
            if name not in moves and named[name] >= least:
                values.setdefault(name, []).append(value)
    weight = Counter({name: len(own) for name, own in (moves | values).items()})
    strength = {name: median(abs(move.shift) for move in own) for name, own in moves.items()}
    # What a drift moved farthest comes first, then what an alert names; a later mean may be of some hours of the day.
    # Of what was seen long after the alert that comes first.
    until = group[0].began + WINDOW_RECORDS * group[0].pace if group[0].values else inf
    late = {name for sign in group[0].signs for name in (sign.late if sign.onset <= until else sign.moves)}
    soon = sorted(group[0].moves.keys() - late, key=lambda name: (-abs(group[0].moves[name].shift), name))
    first = [*soon[:1], *group[0].values] if len(group) == 1 else []
    place = {name: -at for at, name in enumerate(reversed(first))}
    ranked = sorted(weight, key=lambda name: (-weight[name], place.get(name, 1), -strength.get(name, 0.0))) or sorted(
        {name for centre in centres for name in centre}
    )
    # What only the end of a drift names may rest just then, where something else moved.
    drifts = [sign for each in group for sign in each.signs]
    varies = {n: move for sign in drifts for n, move in sign.varies.items() if n in sign.seen or not moves}
    # Where records were unlike all before, or a feature moved, that says more than how others vary.
    said = (moves.keys() | group[0].values.keys()) - varies.keys()
    noise = [name for name, move in varies.items() if len(group) == 1 and move.is_noise and (move.is_stuck or not said)]
    found: list[IncidentFeature] = []
    for name in _without_halves([name for name in ranked if name not in noise], moves)[:SHOWN]:
        # A new cluster may be of few records, such as those of a start, or a drift under way.
        came = [centre[name] for centre in centres if name in centre]
        own = moves.get(name, ())
        came = [each for each in came if not own or any(is_same(move, each) for move in own)]
        seen = came + [each.value for each in values.get(name, ())]
        after = median(seen) if seen else median(move.after for move in own)
        if len(group) == 1 and name in moves:
            after = _arrived(group[0], name, after)
        before = [move.before for move in own] + [each.usual for each in values.get(name, ())]
        usual = median(before) if before else None
        # Streams have levels of their own: of many what is usual is that of those whose values are named.
        if len(group) > 1 and (pairs := [pair for each in group if (pair := _ends(each, name, name in moves))]):
            usual, after = map(median, zip(*pairs, strict=True))
        found.append(_feature(name, after, usual, values.get(name, ())))
    # People see no difference in numbers that are shown alike.
    found = [each for each in found if each["usual"] is None or number(each["value"]) != number(each["usual"])] or found
    other = list[IncidentFeature]()
    for name in noise if found else varies:
        other.append({**_feature(name, varies[name].place, varies[name].before), "ratio": varies[name].ratio})
        if varies[name].steps:
            other[-1]["steps"] = True
    listed = [*other, *found][:SHOWN]
    for each in listed if all(episode.is_beside for episode in group) else ():
        each["beside"] = True
    return listed


def features_of_way(group: Sequence[Episode]) -> list[IncidentFeature]:
    """Return what records are on the way between kinds: ways differ, and the first one is as good as any."""
    way = next((each.values for each in group if each.values), {})
    return [_feature(name, each.value, each.usual, [each]) for name, each in [*way.items()][:SHOWN]]


def _of_some(episode: Episode) -> Iterable[str]:
    """Yield the features whose mean is of usual records, too, where an alert has one of the few that are not."""
    first = next((sign for sign in episode.signs if sign.values), None)
    for name, each in first.values.items() if first and first.unlike < WHOLE else ():
        move = episode.moves.get(name)
        if move and abs(move.after - move.before) < 0.5 * abs(each.value - move.before):
            yield name


def _arrived(episode: Episode, name: str, after: float) -> float:
    """Return where a feature is by the record of an alert, if a drift that has not settled was seen on the way there.

    The mean of one that was seen soon is of records before it, too.
    """
    move, value, soon = episode.moves[name], episode.values.get(name), ABOUT_RECORDS * episode.pace
    way = after - move.before
    drifts = [sign for sign in episode.signs if name in sign.moves]
    is_under_way = all(sign.until == inf and sign.time - sign.onset <= soon for sign in drifts)
    is_beyond = value is not None and way * (value.value - after) > 0
    return value.value if value and is_under_way and is_beyond else after


def _feature(name: str, value: float, usual: float | None, values: Sequence[Value] = ()) -> IncidentFeature:
    """Return a feature with what it usually is, by drifts, or between which `values` it is by alerts."""
    if usual is None:
        return {"feature": name, "value": value, "usual": None}
    found: IncidentFeature = {"feature": name, "value": rounded(value, usual), "usual": rounded(usual, value)}
    if values:
        low, high = median(each.low for each in values), median(each.high for each in values)
        most = max((value, low, high), key=abs)
        found |= {"low": rounded(low, most), "high": rounded(high, most)}
    return found


def _without_halves(names: Sequence[str], moves: Mapping[str, Sequence[Move]]) -> list[str]:
    """Return features without values of a category that have what one before them leaves, as true has beside false."""
    after, found = {name: median(move.after for move in own) for name, own in moves.items()}, list[str]()
    for name in names:
        path, is_value, _ = name.partition("=")
        others = [each for each in found if is_value and each.startswith(f"{path}=") and {each, name} <= after.keys()]
        if not any(abs(after[each] + after[name] - 1) <= ROUNDED for each in others):
            found.append(name)
    return found


def _ends(episode: Episode, name: str, is_moved: bool) -> tuple[float, float] | None:
    """Return what a feature of a stream was and is, by its drifts or else its alert; None where they do not say it."""
    came = [centre[name] for centre in episode.centres if name in centre]
    if is_moved:
        move = episode.moves.get(name)
        return move and (move.before, median(came or [move.after]))
    value = episode.values.get(name)
    return value and (value.usual, median(came or [value.value]))
