"""Which clusters have a mean that is of before the range of a feature changed, as with another unit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resonance.pipeline.task.range_changes import RangeChanges


@dataclass(frozen=True, slots=True)
class ChangedRange:
    """The newest change of the range to which the records of a feature are scaled."""

    feature: str
    time: str
    """Time of the record with which it changed."""
    range: tuple[float, float]
    """From lowest to highest, since then."""
    range_before: tuple[float, float]

    def is_of_before(self, value: float) -> bool:
        """Whether a value is nearer to the range of before than to that of now, in widths of these."""
        return _widths_from(value, self.range_before) < _widths_from(value, self.range)


def changed_ranges(drift_events: Iterable[Mapping[str, Any]], version: int) -> list[ChangedRange]:
    """Return the newest change of each feature from the drift events of a stream, those of a version of its model."""
    found = {
        event["feature"]: ChangedRange(
            event["feature"], event["time"], tuple(event["range"]), tuple(event["range_before"])
        )
        for event in drift_events
        if event["kind"] == "rescaled" and event["version"] == version
    }
    return list(found.values())


def range_hint(stream: str, drift_events: Iterable[Mapping[str, Any]], version: int) -> str:
    """Return a sentence on the features whose range changed often in a version of a stream, or none."""
    changes = RangeChanges()
    for event in drift_events:
        if event["kind"] == "rescaled" and event["version"] == version:
            changes.looked(stream)
            changes.changed(stream, event["feature"], event["time"])
    return changes.found().hint


def features_of_before(centre: Mapping[str, float], changes: Sequence[ChangedRange]) -> list[str]:
    """Return the features in which the mean of a cluster is of before a change."""
    return [each.feature for each in changes if each.feature in centre and each.is_of_before(centre[each.feature])]


def _widths_from(value: float, of: tuple[float, float]) -> float:
    low, high = of
    return max(low - value, value - high, 0.0) / (high - low)
