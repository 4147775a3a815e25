"""Compare the streams of a deployment by their recent records, as the logs have them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import orjson
from resonance.pipeline.checkpoint.listing import StoredPartition, empty_task, names_of
from resonance.pipeline.checkpoint.stream_outputs import stream_marker
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.peers import comparison
from resonance.pipeline.peers.comparison import FloatArray, IntArray
from resonance.pipeline.records import Record, RoutedRecord, TopicPartition
from resonance.pipeline.repartition.envelope import read_route
from resonance.pipeline.task.decode.dense import Layout
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.task.decode.stream_names import StreamNames

FEWEST_OFFSETS: Final = 20_000
"""Offsets at the end of the logs that are read at least, over all partitions."""

MOST_OFFSETS: Final = 500_000
"""Those that are read at most."""

MOST_VALUES: Final = 20_000_000
"""Features of all these records: of wide ones fewer are read."""

UNEVEN: Final = 2
"""Records that are read for each one wanted: some streams have more than others."""

DRIFT_OFFSETS: Final = 100_000
"""Offsets at the end of a partition of drift events that are searched for the beginning of a change."""


@dataclass(frozen=True, slots=True)
class UnlikeFeature:
    """A feature in which a stream is unlike its peers; members but the first two as in `comparison.Deviation`."""

    stream: str
    feature: str
    change: comparison.Change
    value: float
    median: float
    low: float
    high: float
    far: float
    since: str | None
    """Time at which the newest drift of the feature in that direction began, or one of the features together; None
    where no such event is stored."""


@dataclass(frozen=True, slots=True)
class ComparedStreams:
    """The streams of a deployment beside each other."""

    streams: int
    """Streams that have a snapshot."""
    compared: int
    """Those with records enough among the recent ones."""
    unlike: list[UnlikeFeature]
    """The farthest stream first, and of each stream the farthest feature."""

    @property
    def names(self) -> list[str]:
        """The streams that are unlike their peers."""
        return list(dict.fromkeys(each.stream for each in self.unlike))

    def as_json(self) -> dict[str, Any]:
        """Return all members as plain values."""
        return asdict(self)


@dataclass(slots=True)
class _Recent:
    """Records of the streams, column by column."""

    names: list[str]
    features: dict[str, int] = field(default_factory=dict)
    """The columns."""
    rows: list[tuple[FloatArray, list[int]]] = field(default_factory=list)
    """Parts, each with the columns that it has."""
    streams: list[IntArray] = field(default_factory=list)
    newest: dict[int, str] = field(default_factory=dict)
    """Time of the last record of each stream."""
    places: dict[int, TopicPartition] = field(default_factory=dict)
    """Where the records of each stream were read."""

    def add(
        self, at: TopicPartition, rows: FloatArray, features: Sequence[str], streams: list[int], times: list[str]
    ) -> None:
        """Add records of one partition, in order; the stream of those that belong to none is -1."""
        columns = [self.features.setdefault(name, len(self.features)) for name in features]
        found = np.array(streams, np.int64)
        self.rows.append((rows[found >= 0], columns))
        self.streams.append(found[found >= 0])
        self.newest.update(zip(streams, times, strict=True))
        self.places.update(dict.fromkeys(streams, at))

    def table(self) -> tuple[FloatArray, IntArray]:
        """Return one row for each record, NaN where it has not a feature that others have, and its stream."""
        streams = np.concatenate([np.zeros(0, np.int64), *self.streams])
        table = np.full((len(streams), len(self.features)), np.nan)
        start = 0
        for rows, columns in self.rows:
            table[start : start + len(rows), columns] = rows
            start += len(rows)
        return table, streams


def compare_streams(
    settings: Settings,
    reader: LogReader,
    states: Sequence[StoredPartition],
    read: Callable[[int], None] = lambda _: None,
) -> ComparedStreams:
    """Return which streams are unlike the others, from what the group has processed last.

    Features that are categories are left out. `read` is called with numbers of records. Raises `ConfigurationError`
    where records are sparse.
    """
    if settings.input.sparse is not None:
        raise ConfigurationError("--peers compares features that every record has; sparse records have none")
    names = names_of(states)
    if len(names) < comparison.FEWEST_STREAMS:
        return ComparedStreams(len(names), 0, [])
    recent = _recent(settings, reader, states, names, read)
    found, compared = comparison.compare(*recent.table(), len(names))
    features = list(recent.features)
    since = _beginnings(settings, reader, recent, {each.stream for each in found})
    unlike = []
    for each in found:
        feature = features[each.feature]
        shown = names[each.stream], feature, each.change, each.value, each.median, each.low, each.high, each.far
        unlike.append(UnlikeFeature(*shown, _since(since.get(each.stream, ()), feature, each.change)))
    return ComparedStreams(len(names), compared, unlike)


def _recent(
    settings: Settings,
    reader: LogReader,
    states: Sequence[StoredPartition],
    names: list[str],
    read: Callable[[int], None],
) -> _Recent:
    """Read the last records of the partitions that the streams are learned in."""
    # What a stream learns stands on the routes where records are re-keyed, and else on the input.
    routes, labels = settings.topic("routes"), settings.labels.topic
    places = [
        state
        for state in states
        if state.checkpoint is not None and (state.at[0] == routes) == settings.is_rekeyed and state.at[0] != labels
    ]
    recent = _Recent(names)
    mappings: dict[TopicPartition, InputMapping] = {}
    for state in places:
        if state.checkpoint is not None:
            mapping = empty_task(settings, state.checkpoint).mapping
            if isinstance(mapping.layout, Layout):
                mappings[state.at] = mapping
    if not mappings:
        return recent
    widest = max(mapping.layout.dimension for mapping in mappings.values() if isinstance(mapping.layout, Layout))
    wanted = min(max(len(names) * comparison.RECENT * UNEVEN, FEWEST_OFFSETS), MOST_OFFSETS, MOST_VALUES // widest)
    share = wanted // len(mappings) + 1
    ranges = {}
    for at, (first, end) in reader.bounds(list(mappings)).items():
        stop = min(end, next(state.committed for state in places if state.at == at))
        ranges[at] = max(first, stop - share), stop
    numbers = {name: number for number, name in enumerate(names)}
    known: dict[TopicPartition, dict[bytes | None, int]] = {at: {} for at in mappings}
    for at, records in reader.read(ranges):
        _take(recent, mappings[at], StreamNames.of(settings, *at), numbers, known[at], at, records)
        read(len(records))
    return recent


def _take(
    recent: _Recent,
    mapping: InputMapping,
    own: StreamNames,
    numbers: Mapping[str, int],
    known: dict[bytes | None, int],
    at: TopicPartition,
    records: Sequence[Record],
) -> None:
    """Decode records of one partition; `known` has the numbers of the streams of keys there."""
    found: Sequence[Record | RoutedRecord] = records
    if not own.prefix:
        found = [route.record for record in records if (route := read_route(record)) is not None]
    batch = mapping.decode(found)
    if not isinstance(mapping.layout, Layout) or not len(batch):
        return
    keys = batch.streams if own.by_key else [None] * len(batch)
    for key in set(keys) - known.keys():
        # A stream without a snapshot is not listed either.
        known[key] = numbers.get(own.name_of(key), -1)
    kept = [place for place, name in enumerate(mapping.layout.features) if not mapping.layout.is_category(place)]
    features = [mapping.layout.features[place] for place in kept]
    recent.add(at, batch.rows[:, kept], features, [known[key] for key in keys], batch.times)


def _beginnings(
    settings: Settings, reader: LogReader, recent: _Recent, streams: set[int]
) -> dict[int, list[dict[str, Any]]]:
    """Return the stored drift events of some streams up to their newest records, in order."""
    markers = {stream_marker(recent.names[number]): number for number in streams}
    places = {(settings.topic("drift_events"), recent.places[number][1]) for number in streams}
    places = {place for place in places if reader.has(place)}
    ranges = {place: (max(first, end - DRIFT_OFFSETS), end) for place, (first, end) in reader.bounds(places).items()}
    found: dict[int, list[dict[str, Any]]] = {}
    for _, records in reader.read(ranges) if ranges else ():
        for value in (record.value for record in records if record.value is not None):
            number = next((number for marker, number in markers.items() if marker in value), None)
            if number is None:
                continue
            with suppress(orjson.JSONDecodeError):
                event = orjson.loads(value)
                if event["kind"] in ("drift", "rescaled") and event["time"] <= recent.newest[number]:
                    found.setdefault(number, []).append(event)
    return found


def _since(events: Sequence[Mapping[str, Any]], feature: str, change: comparison.Change) -> str | None:
    """Return when the newest drift began that brought a feature where it is, or that may concern any feature."""
    whole = None
    for event in reversed(events):
        if event["kind"] == "rescaled" and event["feature"] == feature:
            return str(event["time"])
        for unit in event.get("units", ()):
            began = str(unit.get("since", event)["time"])
            for each in unit["features"]:
                fits = change not in ("high", "low") or (each["after"] > each["before"]) == (change == "high")
                if each["feature"] == feature and fits:
                    return began
            if whole is None and "together" in unit["change"]:
                whole = began
    return whole
