"""Since when a stream may be unlike its peers: what its stored drift events say."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.inspect.stream_outputs import stream_marker
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.peers.comparison import Change
from resonance.pipeline.records import TopicPartition

DRIFT_OFFSETS: Final = 100_000
"""Offsets at the end of a partition of drift events that are searched for the beginning of a change."""

_MARKER: Final = re.compile(rb'"stream":"(?:[^"\\]|\\.)*"')


class Beginnings:
    """When the newest changes of some streams began.

    Parameters
    ----------
    newest : mapping of str to str
        Until when changes of each stream count.
    """

    def __init__(self, newest: Mapping[str, str]) -> None:
        self._newest = newest
        self._markers = {stream_marker(stream) for stream in newest}
        self._single: dict[tuple[str, str, Change], str] = {}
        self._ranges: dict[tuple[str, str, Change], str] = {}
        self._together: dict[str, str] = {}

    def read(self, value: bytes | None) -> None:
        """Read a drift event; values of other programs, or of a form that is not known, are left out."""
        value = value or b""
        marker = _MARKER.search(value)
        # Those of other streams need not be parsed.
        if marker is None or marker[0] not in self._markers:
            return
        try:
            event = orjson.loads(value)
            stream = event["stream"]
            if event["kind"] not in ("drift", "rescaled") or event["time"] > self._newest.get(stream, ""):
                return
            if event["kind"] == "rescaled":
                self._ranges |= {(stream, *change): time for *change, time in _rescaled(event)}
                return
            for feature, change, began in list(_drifted(event)):
                if feature is None or change is None:
                    self._together[stream] = began
                else:
                    self._single[stream, feature, change] = began
        except (AttributeError, KeyError, TypeError, ValueError):
            return

    def of(self, stream: str, feature: str, change: Change) -> tuple[str | None, str | None]:
        """Return when a feature last changed in that way, or features together where it never did; or by when it had.

        A feature gets another range when it has left its own, which may be long after it began to.
        """
        since = self._single.get((stream, feature, change)) or self._together.get(stream)
        return since, None if since else self._ranges.get((stream, feature, change))


def read_beginnings(
    settings: Settings,
    reader: LogReader,
    newest: Mapping[str, str],
    places: Mapping[str, TopicPartition],
    read: Callable[[int], None],
) -> Beginnings:
    """Return what the stored drift events say of streams whose records are in these places."""
    found = Beginnings(newest)
    topic = settings.topic("drift_events")
    there = [place for place in sorted({(topic, at[1]) for at in places.values()}) if reader.has(place)]
    ranges = {place: (max(first, end - DRIFT_OFFSETS), end) for place, (first, end) in reader.bounds(there).items()}
    for _, records in reader.read(ranges) if ranges else ():
        for record in records:
            found.read(record.value)
        read(len(records))
    return found


def _rescaled(event: Mapping[str, Any]) -> Iterator[tuple[str, Change, str]]:
    """Yield feature, change and beginning of what a feature's other range says."""
    (low, high), (low_before, high_before) = event["range"], event["range_before"]
    time = _time(event)
    yield event["feature"], "high" if low + high > low_before + high_before else "low", time
    yield event["feature"], "varies more" if high - low > high_before - low_before else "varies less", time


def _drifted(event: Mapping[str, Any]) -> Iterator[tuple[str | None, Change | None, str]]:
    """Yield feature, change and beginning of the parts of a drift, the strongest last; None of features together."""
    for unit in reversed(event.get("units", [])):
        began = _time(unit.get("since", event))
        if "together" in unit["change"]:
            yield None, None, began
        for each in reversed(unit["features"]):
            change: Change
            if each["change"] == "moved":
                change = "high" if each["after"] > each["before"] else "low"
            else:
                change = "varies more" if each["change"] == "widened" else "varies less"
            yield each["feature"], change, began


def _time(place: Mapping[str, Any]) -> str:
    if not isinstance(place["time"], str):
        raise TypeError
    return place["time"]
