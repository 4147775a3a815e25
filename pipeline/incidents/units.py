"""Features that are in another unit since: many times what they were, by a usual factor, or in Fahrenheit."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from math import inf
from operator import attrgetter
from statistics import median
from typing import Final, NamedTuple

from resonance.pipeline.errors import BEYOND
from resonance.pipeline.incidents.differences import COMPARED
from resonance.pipeline.incidents.episodes import ECHO_SECONDS, WHOLE, Episode
from resonance.pipeline.incidents.signs import Move, NewCluster, Sign, Value
from resonance.schemas import IncidentFeature

UNITS: Final = (3.6, 6.8948, 10.0, 14.5038, 25.4, 33.8639, 60.0, 100.0, 1e3, 1024.0, 3.6e3, 1e6, 1e9)
"""How many times what it was a feature is in another unit, or what part of it, with its spread."""

SURE: Final = 60.0
"""The least of them of which one record is enough, or a mean where others have moved a little."""

SURELY: Final = 1e3
"""The least of them that a mean shows whatever its spread, which is of logarithms where there are many scales."""

NEAR: Final = 0.1
"""Part by which a mean of some records is off, or a spread."""

CLOSE: Final = 0.02
"""The same of a mean where the data may well change as much without another unit."""

CELSIUS: Final = -90.0, 160.0
"""Between which values a feature may be in Celsius, whatever its name."""

FAR: Final = 10.0
"""The most of them that a mean says only where the feature varies as much more, too."""

WIDE: Final = 3.0
"""How many times as much as by its unit a feature may vary that is in one of the units beyond `FAR`."""

_TEMPERATURE: Final = re.compile(
    r"(?<![a-z])(temp(eratura?|erature)?s?(?![a-z])|heat|therm)|celsius|fahrenheit|°|deg_?[cf](?![a-z])|_[cf]$",
    re.IGNORECASE,
)

SAME: Final = 1.5
"""How many times as much as before the logarithms of a feature vary at most that is of many scales."""

SCALES: Final = 0.4
"""Part of its mean by which a feature of many scales varies at least."""

FROM_ZERO: Final = 2.0
"""Spreads that a feature has to be away from 0, so that it has a unit."""

SURELY_AWAY: Final = 2.5
"""How many times its usual reach a feature has to be away from 0, so that the unit of one record is known."""

MIDDLE: Final = 1 / 6
"""Part of its usual reach, about a spread, by which a record is off in its unit where that reach is wide."""

LITTLE: Final = 2.0
"""How many times what they were, or what part of it, other features may be meanwhile."""

MOST_CENTRES: Final = 2
"""New clusters that come with another unit; a stream that broke has records of more kinds."""

LEAST_PART: Final = 0.05
"""Part of the most that is usual that a record in another unit, and a cluster, are in it at least."""

BROKEN: Final = 0.5
"""Share of a stream's records that are unlike all before where it broke; fewer are a new kind beside the usual ones."""


class Rescaled(NamedTuple):
    """A feature in another unit."""

    feature: str
    value: float
    """Its mean since, or what a record has: as a sign says it, and not what the unit would make of the usual one."""
    usual: float
    """Its mean before, or the middle of what was usual."""
    factor: float
    """How many times what it was it is by the unit."""
    is_degrees: bool = False
    """Whether it was Celsius and is Fahrenheit, or the reverse."""


def rescaled(group: Sequence[Episode], signs: Sequence[Sign], features: Sequence[IncidentFeature]) -> Rescaled | None:
    """Return the feature that is in another unit, where that is what happened; `features` are those of many streams.

    While a drift lasts its mean is of both units, and a record of an alert says more; afterwards it knows better.
    """
    lasts = max(sign.until for each in group for sign in each.signs) in (0.0, inf)
    ways = (_by_alert, _by_records, _by_degrees) if lasts else (_by_records, _by_degrees)
    unit = next((each for way in ways if (each := _agreed([*map(way, group)]))), None)
    if unit is None and any(sign.is_whole for sign in signs) and len(group[0].centres) <= MOST_CENTRES:
        unit = _by_means(group)
    unit = unit or _degrees_of_many(features)
    # What stands for a missing value is in no unit.
    return None if unit is None or any(unit.feature in each.lacks for each in group) else unit


def _agreed(units: Sequence[Rescaled | None]) -> Rescaled | None:
    """Return the middle one of units that are the same for all streams."""
    known = sorted((each for each in units if each is not None), key=lambda each: each.usual)
    is_one = len(known) == len(units) and len({(each.feature, each.is_degrees or each.factor) for each in known}) == 1
    return known[len(known) // 2] if is_one else None


def _is_fahrenheit(name: str, usual: float, after: float, ratio: float) -> bool:
    """Whether degrees Celsius have become Fahrenheit, or the reverse, in their mean and in how much they vary."""
    for celsius, fahrenheit, times in ((usual, after, ratio), (after, usual, 1 / ratio if ratio else inf)):
        if (_is_in_fahrenheit(celsius, fahrenheit) and abs(times / 1.8 - 1) <= NEAR) and (
            CELSIUS[0] <= celsius <= CELSIUS[1] or _TEMPERATURE.search(name)
        ):
            return True
    return False


def _is_times(factor: float, ratio: float) -> bool:
    """Whether a mean has become as many times what it was as another unit makes it, and its spread too."""
    times, varies = (factor, ratio) if factor > 1 else (1 / factor if factor else inf, 1 / ratio if ratio else inf)
    for unit in UNITS:
        near, wide = NEAR if unit >= SURE else CLOSE, WIDE if unit > FAR else 1 + NEAR
        if abs(times / unit - 1) <= near and (1.0 if unit >= SURELY else unit) / wide <= varies <= unit * wide:
            return True
    return False


def _of_logarithms(move: Move, factor: float) -> float | None:
    """Return the unit of a feature of many scales, whose logarithms vary as before; None where there is none.

    What it was is a mean of itself, but of its logarithms since: of those it would have been less.
    """
    if not (factor > 1 and move.shift and 1 / SAME <= move.ratio <= SAME):
        return None
    spread = (move.after - move.before) / (move.shift * move.before)
    if spread < SCALES:
        return None
    most = (1 + NEAR) * factor * (1 + spread**2) ** 0.5
    return next((unit for unit in UNITS if unit >= SURE and (1 - NEAR) * factor <= unit <= most), None)


def _by_means(group: Sequence[Episode]) -> Rescaled | None:
    """Return the feature of which the means before and since say it, of streams or of clusters in place of others."""
    moves, instead = dict[str, list[Move]](), dict[str, list[Move]]()
    for episode in group:
        for name, move in episode.moves.items():
            moves.setdefault(name, []).append(move)
        for name, move in next((sign.instead for sign in episode.signs if sign.instead), {}).items():
            instead.setdefault(name, []).append(move)
    return _of_moves(moves) or (_of_moves(instead) if moves.keys() == instead.keys() else None)


def _of_moves(moves: Mapping[str, Sequence[Move]]) -> Rescaled | None:
    units, others = [], []
    for name, own in moves.items():
        usual, after = median(move.before for move in own), median(move.after for move in own)
        factor = after / usual if usual else 0.0
        times = max(factor, 1 / factor if factor else inf)
        ratio = median(move.ratio for move in own)
        shift = median(move.shift for move in own)
        of_logarithms = _of_logarithms(Move(usual, after, shift, ratio), factor)
        # Around 0 a mean says nothing of the unit.
        away = 1.0 if times >= (1 - NEAR) * SURELY or of_logarithms else FROM_ZERO
        says = median(abs(move.before * move.shift) - away * abs(move.after - move.before) for move in own) >= 0
        is_degrees, is_times = _is_fahrenheit(name, usual, after, ratio), _is_times(factor, ratio)
        near = is_degrees or is_times or of_logarithms
        is_sure = times >= (1 - NEAR) * SURE or (is_degrees and _TEMPERATURE.search(name))
        if says and near and (len(moves) == 1 or is_sure):
            exact = next((each for each in UNITS if each >= SURELY and abs(factor / each - 1) <= NEAR), factor)
            unit = exact if is_times else of_logarithms or factor
            units.append(Rescaled(name, after, usual, unit, is_degrees))
        else:
            others.append(times)
    return units[0] if len(units) == 1 and all(0 < times <= LITTLE for times in others) else None


def _by_alert(episode: Episode) -> Rescaled | None:
    """Return the feature whose value in the record of an alert would be a usual one in another unit."""
    moves = episode.moves
    # Beside it features are a little off, where the record is compared with another cluster.
    far = [n for n, each in episode.values.items() if abs(each.value - each.usual) > FROM_ZERO * (each.high - each.low)]
    gone = [name for name, each in moves.items() if not 1 / LITTLE <= each.after / (each.before or inf) <= LITTLE]
    (name, *more) = gone or far or moves or episode.values or [""]
    each, move = episode.values.get(name), moves.get(name)
    if more or each is None or max(sign.unlike for sign in episode.signs) < BROKEN:
        return None
    # What the record is most like may be another cluster than it would be in the old unit.
    usual, reach = each.usual, each.high - each.low
    if move is not None:
        usual, reach = move.before, abs(FROM_ZERO * (move.after - move.before) / (move.shift or 1.0))
    sure = _sure(name, episode.signs)
    factor = min(sure, key=lambda factor: abs(each.value / factor - usual))
    near = reach if abs(usual) >= SURELY_AWAY * reach else MIDDLE * reach if factor >= SURELY else 0.0
    # What may as well be 0 has no unit: any small one would do.
    if abs(each.value / factor - usual) <= near <= abs(usual) / FROM_ZERO:
        return Rescaled(name, each.value, usual, factor)
    return _by_centre(name, each, episode) if move is None else None


def _sure(name: str, signs: Iterable[Sign], least: float = SURE) -> list[float]:
    """Return how many times what it was a feature is by another unit, of those `least` or more times as large.

    One record does not say whether it is a few times what it was by a unit, or 1,000 or 1,024 times. In a
    smaller unit what seems stuck would vary the more.
    """
    is_stuck = any(sign.varies[name].is_stuck for sign in signs if name in sign.varies)
    units = [unit for unit in UNITS if unit >= least and unit != 1024.0]
    return [factor for unit in units for factor in (unit, 1 / unit) if not is_stuck or factor < 1]


def _by_records(episode: Episode) -> Rescaled | None:
    """Return the feature that is so many times what it was that it can be nothing else, though it is 0 by night.

    The record of an alert and the first new cluster are within what is usual in the other unit, whatever drifts say; or
    all new ones are, and not in its lower part: a code that stands for a fault would be the same in both.
    """
    if max(sign.unlike for sign in episode.signs) < BROKEN:
        return None
    # Another cluster may be the nearest in the old unit, so others of its features are off as well.
    found = [unit for name, each in episode.values.items() if (unit := _by_centre(name, each, episode)) is not None]
    if found or len(episode.values) != 1:
        return found[0] if len(found) == 1 else None
    ((name, each),) = episode.values.items()
    centres = [centre[name] for centre in episode.centres if name in centre]
    for factor in (unit for unit in UNITS if unit >= SURELY and unit != 1024.0):
        seen = [each.value / factor, *(centre / factor for centre in centres)]
        differs = any(abs(centre - each.value) > CLOSE * each.value for centre in centres)
        if differs and all(LEAST_PART * each.high <= value <= each.high for value in seen):
            return Rescaled(name, centres[0], each.usual, factor)
    return None


def _by_degrees(episode: Episode) -> Rescaled | None:
    """Return the temperature of a single stream whose newest cluster is in Fahrenheit what it was, or the reverse.

    What it was is usual by the record of an alert, or came before: in a cluster, or with other streams.
    """
    if len(episode.values) != 1 or not episode.is_alone:
        return None
    ((name, each),) = episode.values.items()
    *before, newest = [centre[name] for centre in episode.centres if name in centre] or [each.value]
    before += [own.values[name].value for own in (episode.whole or episode).signs if name in own.values]
    reach = 0.5 * (each.high - each.low)
    if not _TEMPERATURE.search(f"{episode.place} {name}") or abs(each.usual) < (2 * FROM_ZERO + 1) * reach:
        return None
    found = (
        Rescaled(name, newest, usual, newest / mean, is_degrees=True)
        for mean in _in_other_degrees(newest)
        for usual in (each.usual, *before)
        if mean and abs(mean - usual) <= reach
    )
    return next(found, None)


def by_kinds(group: Sequence[Episode], clusters: Mapping[str, Sequence[NewCluster]]) -> Rescaled | None:
    """Return the feature that is in another unit in all streams of a group, by all kinds of records that these have."""
    found = [*takewhile(bool, (_of_kinds(each, clusters.get(each.place, ())) for each in group))]
    return _agreed(found) if len(found) == len(group) else None


def _of_kinds(episode: Episode, clusters: Sequence[NewCluster]) -> Rescaled | None:
    """Return the feature in whose old unit all clusters that came are ones that were there, two far apart or more."""
    # A fault has no reason to keep the other features, and how far the kinds of records are from each other.
    first, last = (bisect_left(clusters, episode.began + late, key=attrgetter("time")) for late in (0.0, ECHO_SECONDS))
    before, came, found = clusters[max(0, first - COMPARED) : first], clusters[first:last], list[Rescaled]()
    for name in sorted({*episode.values, *episode.moves} - {*episode.lacks}) if len(came) > 1 else ():
        degrees = [(1.8, 32.0), (1 / 1.8, -32 / 1.8)] if _TEMPERATURE.search(name) else []
        for factor, zero in [*((each, 0.0) for each in _sure(name, episode.signs)), *degrees]:
            kinds = takewhile(bool, (_was(each, before, name, factor, zero) for each in came))
            ends = [(old.centre[name], old.spread.get(name, 0.0)) for old in kinds if old]
            (low, narrow), (high, wide) = min(ends, default=(0.0, 0.0)), max(ends, default=(0.0, 0.0))
            if len(ends) == len(came) and high - low > FROM_ZERO * (narrow + wide):
                found.append(Rescaled(name, came[0].centre[name], ends[0][0], factor, is_degrees=zero != 0.0))
    return found[0] if len(found) == 1 else None


def _was(new: NewCluster, before: Sequence[NewCluster], name: str, factor: float, zero: float) -> NewCluster | None:
    """Return the nearest of the clusters before that is as a new one in all features, one of them in its old unit."""
    centre = {**new.centre, name: (new.centre.get(name, inf) - zero) / factor}
    spread = {**new.spread, name: new.spread.get(name, 0.0) / factor}

    def apart(old: NewCluster, each: str) -> float:
        return abs(centre[each] - old.centre.get(each, inf)) - spread.get(each, 0.0) - old.spread.get(each, 0.0)

    near = [old for old in before if apart(old, name) <= 0.0]
    rounding = {each: BEYOND * max(abs(old.centre.get(each, 0.0)) for old in before) for each in centre if near}
    same = (old for old in near if all(apart(old, each) <= rounding[each] for each in centre))
    return min(same, key=lambda old: abs(old.centre[name] - centre[name]), default=None)


def _degrees_of_many(features: Sequence[IncidentFeature]) -> Rescaled | None:
    """Return the temperature that is, in the middle of several streams, in Celsius what it was in Fahrenheit, or so."""
    if len(features) != 1 or features[0]["usual"] is None or features[0].keys() & {"ratio", "beside"}:
        return None
    name, value, usual = features[0]["feature"], features[0]["value"], features[0]["usual"]
    # Clusters and records of a few hours do not say how much it varies.
    is_degrees = bool(usual and _TEMPERATURE.search(name)) and (
        _is_in_fahrenheit(usual, value) or _is_in_fahrenheit(value, usual)
    )
    return Rescaled(name, value, usual, value / usual, is_degrees=True) if is_degrees else None


def _is_in_fahrenheit(celsius: float, fahrenheit: float) -> bool:
    """Whether two means are about the same temperature."""
    return abs(1.8 * celsius + 32 - fahrenheit) <= CLOSE * abs(fahrenheit)


def _in_other_degrees(value: float) -> tuple[float, float]:
    """Return what a temperature in Fahrenheit is in Celsius, and one in Celsius in Fahrenheit."""
    return (value - 32) / 1.8, 1.8 * value + 32


def _by_centre(name: str, value: Value, episode: Episode) -> Rescaled | None:
    """Return the only unit in which a record and the first new cluster that came with it would both be usual."""
    if not 1 <= len(episode.centres) <= MOST_CENTRES or name not in episode.centres[0]:
        return None
    low, high, centre, usual = value.low, value.high, episode.centres[0][name], value.usual
    factors = _sure(name, episode.signs)
    # Where nearly all records are of the new cluster, and the usual ones are near each other, a small factor will do.
    if episode.share >= WHOLE and high - low <= NEAR * abs(usual):
        small = _sure(name, episode.signs, 0.0)
        factors = [each for each in small if each in factors or abs(centre / each - usual) <= CLOSE * abs(usual)]
    found = [
        Rescaled(name, centre, usual, factor)
        for factor in factors
        if low * high > 0 and all(low <= each / factor <= high for each in (value.value, centre))
    ]
    # One record does not say how much a feature varies since: its name has to be of a temperature.
    if _TEMPERATURE.search(name) and min(abs(low), abs(high)) >= FROM_ZERO * (high - low):
        before = map(_in_other_degrees, (value.value, centre))
        found += [
            Rescaled(name, centre, usual, centre / mean, is_degrees=True)
            for one, mean in zip(*before, strict=True)
            if low <= one <= high and low <= mean <= high
        ]
    return found[0] if len(found) == 1 else None
