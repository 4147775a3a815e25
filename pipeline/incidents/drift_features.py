"""What the events of a drift say of features, of clusters and of their stream."""

from collections.abc import Container, Iterable, Mapping
from math import inf, log
from operator import itemgetter
from typing import Any, Final

from resonance.pipeline.incidents.signs import Move, NewCluster

VARIES: Final = ("widened", "narrowed")
"""Changes of a feature that has not moved."""

DUST: Final = 1e-5
"""Part of what a feature has in clusters of its stream by which a mean is 0, as of a pump that mostly rests."""

Moves = dict[str, Move]
_MOVED: Final = itemgetter("before", "after", "shift", "ratio")


def moves_of(changes: Container[str], is_beside: bool, *events: Mapping[str, Any] | None) -> dict[str, Move]:
    """Return the features that changed so, by a drift or beside the others; the end, which comes first, knows more."""
    found: dict[str, tuple[tuple[Any, Any], Move]] = {}
    # The last event is the drift: what it named is farther off than what only the mean of later records differs in.
    for event in reversed(events):
        own: dict[str, tuple[tuple[Any, Any], Move]] = {}
        for unit in (event or {}).get("units", ()):
            for feature in unit["features"] if bool(unit.get("beside")) is is_beside else ():
                # Of the same cluster and what it was, or the whole stream, where that is in both: each has a mean.
                name, place = feature["feature"], (unit["cluster"], unit.get("was"))
                if feature["change"] in changes and (name not in own or (name in found and found[name][0] == place)):
                    own[name] = place, _move(feature)
        found |= own
    return {name: move for name, (_, move) in found.items()}


def clearest(moves: Moves, varies: Moves, by_drift: Moves, known: Iterable[NewCluster]) -> tuple[Moves, Moves]:
    """Return what moved, without what varies otherwise more clearly and hardly moved, and what varies otherwise.

    Those `by_drift` vary by the drift itself, unless its end says that they moved more clearly. Means are 0 that are
    dust in the clusters `known` before it.
    """
    noisy, dust = dict[str, Move](), dict[str, float]()
    for name in moves.keys() & by_drift.keys():
        # The end of a drift knows more of what was hardly noisy so far.
        most = by_drift[name] if by_drift[name].is_noise else max(by_drift[name], moves[name], key=_by_spread)
        if _by_spread(most) > 0.5 * moves[name].shift * moves[name].shift:
            noisy[name] = most._replace(shift=0.0)
    for cluster in known:
        for name, mean in cluster.centre.items():
            dust[name] = max(dust.get(name, 0.0), DUST * (abs(mean) + cluster.spread.get(name, 0.0)))
    clear = (moves.keys() & by_drift.keys()) - noisy.keys()
    varies = {name: move for name, move in varies.items() if name not in clear}
    moved = {name: move for name, move in moves.items() if name not in noisy or abs(move.shift) > 1.0}
    for own in (moved, noisy := {**varies, **noisy}):
        for name, move in own.items():
            before, after = (0.0 if abs(mean) <= dust.get(name, 0.0) else mean for mean in move[:2])
            own[name] = move._replace(before=before, after=after)
    return moved, noisy


def _by_spread(move: Move) -> float:
    """Return how far a normal distribution is from one with the same mean that varied otherwise."""
    return 0.5 * (move.ratio * move.ratio - 1.0) - log(move.ratio) if 0.0 < move.ratio < inf else 0.0


def instead_of(ended: Mapping[str, Any] | None) -> dict[str, Move]:
    """Return the features in which the first cluster that took the place of another differs from that."""
    taken = [unit for unit in (ended or {}).get("units", ()) if "was" in unit]
    return {each["feature"]: _move(each) for unit in taken[:1] for each in unit["features"]}


def _move(feature: Mapping[str, Any]) -> Move:
    before, after, shift, ratio = map(float, _MOVED(feature))
    return Move(before, after, shift, ratio, bool(feature.get("steps")))


def without_features(unit: Mapping[str, Any]) -> str:
    """Return what changed of a cluster, or of its stream, where that is no feature; else nothing."""
    name = unit["cluster"] or "the stream"
    if "share" in unit:
        before, after = (f"{100 * unit['share'][when]:.3g} %" for when in ("before", "after"))
        return f"{name} has {after} of the records, {before} before"
    return f"features of {name} vary together differently" if "together" in unit["change"] else ""
