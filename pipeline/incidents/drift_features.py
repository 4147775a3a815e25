"""What the events of a drift say of features, of clusters and of their stream."""

from collections.abc import Container, Mapping
from operator import itemgetter
from typing import Any, Final

from resonance.pipeline.incidents.signs import Move

VARIES: Final = ("widened", "narrowed")
"""Changes of a feature that has not moved."""

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
