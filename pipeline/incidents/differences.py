"""How much of what a stream has had a difference is."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import copysign, inf
from typing import Final

from resonance.pipeline.incidents.signs import STUCK, Move, NewCluster, Sign, Value

LITTLE: Final = 0.01
"""Part of the range that a feature had in the cluster where it varied most: the least that it varies, or moves by."""

SLIGHT: Final = 0.02
"""Part of what a feature has had in all clusters of its stream by which a value is hardly another."""

BESIDE: Final = 0.05
"""The same of the mean of a cluster that comes beside another: no alert says where its records are."""

SCALES: Final = 1e4
"""How many times a value what its feature has had may be at most, so that both are of one scale."""

STEPS: Final = 3.0
"""Steps of a coarse sensor beyond the usual values up to which one is hardly another."""

QUANTITY: Final = 5
"""Different whole values from which on a feature is a quantity; fewer may be codes for kinds of things."""

POINT: Final = 1e-4
"""Part of its mean that a feature varies by in a cluster with a single value of it; of a step a hundredth."""

PROJECTED: Final = 33
"""Features from which on alerts name none, as records are projected."""

MANY_RECORDS: Final = 90
"""Records that are unlike all before from which an alert is news though it names nothing."""

COMPARED: Final = 200
"""Newest clusters that are looked at."""


def is_little(sign: Sign, clusters: Sequence[NewCluster], left: Sequence[NewCluster]) -> bool:
    """Whether records that are unlike all before differ by next to nothing beside what their stream has had.

    A cluster of hours in which nothing happens, as at night, may be far narrower than what comes in all of a day. Where
    the alert names no feature, though it could, what came meanwhile has to be beside what was there; or nothing came,
    and it is over.
    """
    before, spans = _before(sign, clusters, left)
    if sign.values:
        # Those that are farther than what they usually are from end to end are why the records are unlike all before.
        far = [(name, each) for name, each in sign.values.items() if each.is_far] or [*sign.values.items()]
        is_near = all(_is_next(each, name, before) for name, each in far)
        return is_near or all(_is_slight(each, spans.get(name, 0.0)) for name, each in sign.values.items())
    known = [cluster for cluster in before if cluster.time < sign.onset]
    end = sign.ended or inf
    came = [cluster for cluster in clusters if sign.onset <= cluster.time <= end][:COMPARED]
    if not came:
        return bool(known) and len(spans) < PROJECTED and sign.ended > 0 and not sign.is_learned
    return all(any(_is_beside(each, other, spans) for other in known) for each in came)


def _before(
    sign: Sign, clusters: Sequence[NewCluster], left: Sequence[NewCluster]
) -> tuple[list[NewCluster], dict[str, float]]:
    """Return what was there before an alert opened, and how much of each feature that was."""
    before = [one for own in (clusters, left) for one in [each for each in own if each.time <= sign.time][-COMPARED:]]
    spans = dict[str, float]()
    for name in {name for cluster in before for name in cluster.centre}:
        ends = [(each.centre[name], 2 * each.spread.get(name, 0.0)) for each in before if name in each.centre]
        spans[name] = max(at + by for at, by in ends) - min(at - by for at, by in ends)
    return before, spans


def named_by_cluster(sign: Sign, clusters: Sequence[NewCluster], left: Sequence[NewCluster]) -> dict[str, Value]:
    """Return the feature that an alert without any is about: that in which the first cluster that came differs most.

    It is compared with the nearest of those that were there.
    """
    before, spans = _before(sign, clusters, left)
    came = next((each for each in clusters if sign.time < each.time <= (sign.ended or inf)), None)
    if came is None or not before or len(spans) >= PROJECTED:
        return {}

    def far(other: NewCluster) -> dict[str, float]:
        names = came.centre.keys() & other.centre.keys()
        return {name: abs(came.centre[name] - other.centre[name]) / (spans[name] or inf) for name in names}

    nearest = min(before, key=lambda each: (sum(far(each).values()), each.key))
    name, way = max(far(nearest).items(), key=lambda each: (each[1], each[0]), default=("", 0.0))
    if way <= BESIDE:
        return {}
    at, by = nearest.centre[name], 3 * nearest.spread.get(name, 0.0)
    return {name: Value(came.centre[name], at - by, at + by)}


def says_nothing(sign: Sign) -> bool:
    """Whether a sign is over that names no feature, or shows nothing which differs from what was there."""
    if sign.rule == "drift":
        is_calm = bool(sign.varies) and all(STUCK < move.ratio < 1 for move in sign.varies.values())
        return sign.ended > 0 and (sign.is_little or (is_calm and not sign.moves))
    # Many records that nothing explains are news by themselves.
    return sign.is_little and not sign.values and sign.ended > 0 and sign.count <= MANY_RECORDS


def _is_slight(value: Value, span: float) -> bool:
    """Whether a value is hardly another beside all that a feature has had, unless that is of many scales."""
    far, size = abs(value.value - value.usual), max(abs(value.value), abs(value.usual))
    return far <= SLIGHT * span and span <= SCALES * size


def _is_next(value: Value, name: str, clusters: Sequence[NewCluster]) -> bool:
    """Whether a value is a few steps of a coarse sensor outside of what is usual.

    Clusters with a single value each, and the value itself, show the steps. Whole ones may stand for kinds.
    """
    known = [(each.centre[name], each.spread.get(name, inf)) for each in clusters if name in each.centre]
    means = {mean for mean, spread in known if spread <= POINT * abs(mean)}
    points = sorted({*means, value.value})
    gaps = [after - before for before, after in pairwise(points) if after - before > POINT * abs(after)]
    is_whole = all(abs(each - round(each)) <= POINT for each in points)
    if len(gaps) < 2 or (is_whole and len(means - {value.value}) < QUANTITY):
        return False
    step = min(gaps)
    is_even = all(abs(gap - step * round(gap / step)) <= 100 * POINT * step for gap in gaps)
    return is_even and max(value.low - value.value, value.value - value.high) <= STEPS * step


def _is_beside(one: NewCluster, other: NewCluster, spans: Mapping[str, float]) -> bool:
    """Whether a cluster came beside another, or within a spread of it."""
    return all(
        name in other.centre
        and abs(at - other.centre[name]) <= max(BESIDE * spans.get(name, 0.0), other.spread.get(name, 0.0))
        for name, at in one.centre.items()
    )


def not_little(moves: dict[str, Move], clusters: Sequence[NewCluster]) -> dict[str, Move]:
    """Return the moves that are not little beside what the stream has had, in spreads no finer than that says.

    A rare count that is nearly always 0 in one cluster varies by next to nothing there, as a mean of logarithms.
    """
    found = {}
    for name, move in moves.items():
        least = LITTLE * 6 * max((cluster.spread.get(name, 0.0) for cluster in clusters), default=0.0)
        way = abs(move.after - move.before)
        if way >= least:
            most = way / least if least else inf
            found[name] = move._replace(shift=copysign(min(abs(move.shift), most), move.shift))
    return found
