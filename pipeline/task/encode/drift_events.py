"""What a drift event says: clusters by their ids, features by name, values in the units of the input."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson
from resonance.engine.base import GroupChange
from resonance.engine.drift import BESIDE, ChangedChannel, ChangedUnit, DriftChange, Mark
from resonance.engine.prepare.rescaling import RangeChange
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.pipeline.task.encode.message_sizes import UNITS_BYTES
from resonance.pipeline.task.model.stream_drift import Links, WatchedChange
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.timestamps import TimeTexts
from resonance.schemas import DriftFeature, DriftPlace, DriftUnit, UnitChange

MOST_UNITS: Final = 32
"""Most units that an event lists."""

MOST_FEATURES: Final = 5
"""Most features of a unit that an event lists."""

Change = RangeChange | GroupChange | WatchedChange


def kind_of(change: Change) -> str:
    """Return the kind of the drift event of a change."""
    if isinstance(change, WatchedChange):
        return change.change.kind
    return "rescaled" if isinstance(change, RangeChange) else "regrouped"


def describe_drift(model: StreamModel, texts: StreamTexts, change: Change, links: Links | None) -> dict[str, Any]:
    """Return the members of a drift event that follow from its change; `links` are those of a watched one."""
    if isinstance(change, RangeChange):
        (low, high), (low_before, high_before) = change.after, change.before
        return {
            "detector": "prepare",
            "criterion": "range_width",
            "value": high - low,
            "threshold": high_before - low_before,
            "range": [low, high],
            "range_before": [low_before, high_before],
            "feature": change.feature,
        }
    if isinstance(change, GroupChange):
        value, threshold = float(change.after), float(change.before)
        return {
            "detector": model.engine.name,
            "criterion": "attribute_groups",
            "value": value,
            "threshold": threshold,
        }
    return _watched(change.change, model.preparation, texts, links or Links(None, None))


def _watched(change: DriftChange, preparation: Any, texts: StreamTexts, links: Links) -> dict[str, Any]:
    units: list[DriftUnit] = []
    room = UNITS_BYTES
    for unit in change.units[:MOST_UNITS]:
        described = _unit(unit, change.kind, preparation, texts)
        if units and (room := room - len(orjson.dumps(described))) < 0:
            # Ids and names of features can be long; what a topic takes in one message is not.
            break
        units.append(described)
    members: dict[str, Any] = {
        "detector": "watch",
        "criterion": "evidence",
        "value": change.evidence,
        "threshold": change.threshold,
    }
    if units:
        if units[0]["features"]:
            members["feature"] = units[0]["features"][0]["feature"]
        if units[0]["cluster"] is not None:
            members["cluster"] = units[0]["cluster"]
    members["scope"] = _scope(change)
    members |= {name: seq for name, seq in zip(links._fields, links, strict=True) if seq is not None}
    if places := [unit["since"] for unit in units if "since" in unit]:
        members["since"] = min(places, key=lambda place: place["offset"])
    return members | {"units": units}


def _scope(change: DriftChange) -> str:
    cells = sum(unit.unit > 0 for unit in change.units)
    if cells == 0 or (cells > 1 and 2 * cells >= change.cells):
        return "stream"
    return "clusters" if cells > 1 else "cluster"


def _unit(unit: ChangedUnit, kind: str, preparation: Any, texts: StreamTexts) -> DriftUnit:
    """Return a unit as an event lists it."""
    features = _features(unit, preparation)
    described: DriftUnit = {"cluster": _id(unit, unit.cluster, texts), "change": [], "features": features}
    if unit.unit == BESIDE:
        described["beside"] = True
    if unit.unit and unit.was != unit.cluster and (was := _id(unit, unit.was, texts)) is not None:
        described["was"] = was
    changes: list[UnitChange] = list(dict.fromkeys(feature["change"] for feature in features))
    begins = kind == "drift"
    if begins and unit.features and not features:
        # A sum of all features gave the alarm, and none of them is clear.
        changes.append("together")
    if not begins and ((unit.features and not unit.settled) or (unit.share and not unit.share_settled)):
        changes.append("unsettled")
    if unit.share and (begins or unit.share_settled):
        described["share"] = {"before": unit.share_before, "after": unit.share_after}
        changes.append("more" if unit.share_after >= unit.share_before else "fewer")
    if unit.since is not None:
        described["since"] = _place(unit.since)
    described["change"] = changes
    return described


def _id(unit: ChangedUnit, cluster: int, texts: StreamTexts) -> str | None:
    return texts.cluster_id((), cluster) if unit.unit and cluster >= 0 else None


def _place(mark: Mark) -> DriftPlace:
    return {"offset": mark.offset, "time": TimeTexts()[mark.time]}


def _features(unit: ChangedUnit, preparation: Any) -> list[DriftFeature]:
    """Return the features of a unit that changed, the strongest first; sums of features are none."""
    own = [each for each in unit.channels if each.channel < len(unit.before)]
    if not unit.features or not len(unit.before):
        return []
    names = list(preparation.columns)
    before, spread = preparation.to_input_units(unit.before, unit.spread)
    after, _ = preparation.to_input_units(unit.after, np.zeros_like(unit.spread))
    if not preparation.projects:
        chosen: Sequence[tuple[int, ChangedChannel]] = [(each.channel, each) for each in own]
    elif own:
        # A principal axis is no feature: those are named that moved most along the axes.
        shifts = np.abs(after - before) / np.where(spread > 0.0, spread, np.inf)
        chosen = [(int(at), own[0]) for at in np.argsort(-shifts, kind="stable")[:MOST_FEATURES]]
    else:
        chosen = []
    return [
        _feature(names[at], each, *(float(values[at]) for values in (before, after, spread))) for at, each in chosen
    ]


def _feature(name: str, channel: ChangedChannel, before: float, after: float, spread: float) -> DriftFeature:
    # What stays at one place is so wherever that is.
    moved = abs(after - before) >= spread and channel.ratio > 0.0
    described: DriftFeature = {
        "feature": name,
        "change": "moved" if moved else channel.change,
        "before": before,
        "after": after,
        "spread": spread,
        "shift": (after - before) / spread if spread > 0.0 else 0.0,
        "ratio": channel.ratio,
    }
    if channel.evidence:
        described["evidence"] = channel.evidence
    if channel.steps:
        described["steps"] = True
    return described
