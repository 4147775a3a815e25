"""The records that the streams of a deployment have processed last, read from the ends of their logs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.inspect.listing import StoredPartition, empty_task, names_of
from resonance.pipeline.kafka.log_reader import LogReader, OffsetRange
from resonance.pipeline.peers import profiles
from resonance.pipeline.peers.profiles import FloatArray, IntArray
from resonance.pipeline.records import Record, RoutedRecord, TopicPartition
from resonance.pipeline.repartition.envelope import read_route
from resonance.pipeline.task.decode.dense import Layout
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.task.decode.stream_names import StreamNames
from resonance.pipeline.task.decode.unpacking import Unpacker

FEWEST_RECORDS: Final = 20_000
"""Offsets at the end of the logs that are read at least, over all partitions."""

MOST_RECORDS: Final = 1_500_000
"""Those that are read at most."""

SAMPLED: Final = 20
"""Messages that show how many records a message has."""

MOST_VALUES: Final = 20_000_000
"""Features of all these records: of wide ones fewer are read."""


class RecentPlan(NamedTuple):
    """What is to be read of the streams' last records."""

    names: list[str]
    """Of all streams."""
    mappings: Mapping[TopicPartition, InputMapping]
    """How the records of each partition are decoded."""
    ranges: Mapping[TopicPartition, OffsetRange]
    columns: Mapping[str, int]
    """Features of all partitions but categories, with their places in the table."""
    is_cut: bool
    """Whether even streams have fewer records there than are compared, though older ones are stored."""

    @property
    def records(self) -> int:
        """Offsets of all ranges."""
        return sum(stop - start for start, stop in self.ranges.values())

    @property
    def values(self) -> int:
        """Features of all these records."""
        return self.records * len(self.columns)


@dataclass(slots=True)
class Recent:
    """Records of the streams, column by column."""

    columns: Mapping[str, int]
    rows: list[tuple[FloatArray, list[int]]] = field(default_factory=list)
    """Parts, each with the columns that it has."""
    streams: list[IntArray] = field(default_factory=list)
    times: list[NDArray[np.bytes_]] = field(default_factory=list)
    newest: dict[int, str] = field(default_factory=dict)
    """The latest time among the records of each stream."""
    places: dict[int, TopicPartition] = field(default_factory=dict)
    """Where the records of each stream were read."""

    def add(
        self, at: TopicPartition, rows: FloatArray, features: Sequence[str], streams: list[int], times: list[str]
    ) -> None:
        """Add records of one partition, in order; the stream of those that belong to none is -1."""
        found = np.array(streams, np.int64)
        self.rows.append((rows[found >= 0], [self.columns[name] for name in features]))
        self.streams.append(found[found >= 0])
        self.times.append(np.array(times, "S24")[found >= 0])
        for stream, time in zip(streams, times, strict=True):
            if time > self.newest.get(stream, ""):
                self.newest[stream] = time
        self.places.update(dict.fromkeys(streams, at))

    def time(self, row: int) -> str:
        """Return the time of a record of the table."""
        for times in self.times:
            if row < len(times):
                return bytes(times[row]).decode()
            row -= len(times)
        raise IndexError(row)

    def milliseconds(self) -> IntArray:
        """Return the time of each record of the table, in milliseconds since 1970."""
        times = np.concatenate([np.zeros(0, "S24"), *self.times])
        # They end with Z, which NumPy does not read.
        return times.astype("S23").astype("M8[ms]").astype(np.int64)

    def table(self) -> tuple[FloatArray, IntArray]:
        """Return one row for each record, NaN where it has not a feature that others have, and its stream."""
        streams = np.concatenate([np.zeros(0, np.int64), *self.streams])
        table = np.full((len(streams), len(self.columns)), np.nan)
        start = 0
        for rows, columns in self.rows:
            table[start : start + len(rows), columns] = rows
            start += len(rows)
        return table, streams


def plan(settings: Settings, reader: LogReader, states: Sequence[StoredPartition]) -> RecentPlan:
    """Return what is read of the partitions that the streams are learned in."""
    names = names_of(states)
    # What a stream learns stands on the routes where records are re-keyed, and else on the input.
    routes, labels = settings.topic("routes"), settings.labels.topic
    mappings: dict[TopicPartition, InputMapping] = {}
    own, committed = {}, {}
    for state in states:
        if state.checkpoint is None or (state.at[0] == routes) != settings.is_rekeyed or state.at[0] == labels:
            continue
        mapping = empty_task(settings, state.checkpoint).mapping
        streams = len(names_of([state]))
        if streams and isinstance(mapping.layout, Layout):
            mappings[state.at], own[state.at], committed[state.at] = mapping, streams, state.committed
    columns = columns_of(mappings.values())
    total = sum(own.values())
    most = wanted(total, len(columns))
    ranges, older = {}, False
    for at, (first, end) in reader.bounds(list(mappings)).items():
        stop = min(end, committed[at])
        each = _each(settings, reader, at, first, stop)
        start = max(first, stop - max(int(most * own[at] // total / each), 1))
        ranges[at] = start, max(start, stop)
        older = older or start > first
    return RecentPlan(names, mappings, ranges, columns, older and most < total * profiles.RECENT)


def columns_of(mappings: Iterable[InputMapping]) -> dict[str, int]:
    """Return the place of each feature, of all partitions, that is no category."""
    names = dict.fromkeys(name for mapping in mappings for name in _numbers(mapping)[1])
    return {name: place for place, name in enumerate(names)}


def wanted(streams: int, columns: int) -> int:
    """Return how many records at the end of the logs are compared."""
    most = max(streams * profiles.RECENT * profiles.LONGER, FEWEST_RECORDS)
    return min(most, MOST_RECORDS, MOST_VALUES // max(columns, 1))


def _each(settings: Settings, reader: LogReader, at: TopicPartition, first: int, stop: int) -> float:
    """Return how many records the last messages of a log have on average."""
    unpacker = None if at[0] == settings.topic("routes") else Unpacker.of(settings)
    if unpacker is None:
        return 1.0
    last = [record for _, part in reader.read({at: (max(first, stop - SAMPLED), stop)}) for record in part]
    return max(len(list(unpacker.records(last))) / max(len(last), 1), 1.0)


def read(settings: Settings, reader: LogReader, plan: RecentPlan, read: Callable[[int], None]) -> Recent:
    """Return the records of a plan; `read` is called with numbers of records."""
    recent = Recent(plan.columns)
    numbers = {name: number for number, name in enumerate(plan.names)}
    known: dict[TopicPartition, dict[bytes | None, int]] = {at: {} for at in plan.mappings}
    for at, records in reader.read(plan.ranges) if plan.ranges else ():
        take(recent, plan.mappings[at], settings, numbers, known[at], at, records)
        read(len(records))
    return recent


def _numbers(mapping: InputMapping) -> tuple[list[int], list[str]]:
    """Return places and names of the features that are no categories."""
    layout = mapping.layout
    if not isinstance(layout, Layout):
        return [], []
    kept = [place for place in range(layout.dimension) if not layout.is_category(place)]
    return kept, [layout.features[place] for place in kept]


def take(
    recent: Recent,
    mapping: InputMapping,
    settings: Settings,
    numbers: Mapping[str, int],
    known: dict[bytes | None, int],
    at: TopicPartition,
    records: Sequence[Record],
) -> None:
    """Decode records of one partition; `known` has the numbers of the streams of keys there."""
    names = StreamNames.of(settings, *at)
    found: Sequence[Record | RoutedRecord] = records
    if names.prefix and (unpacker := Unpacker.of(settings)) is not None:
        found = list(unpacker.records(records))
    if not names.prefix:
        routed = [route for record in records if (route := read_route(record)) is not None]
        # Labels take the way of their records.
        found = [record for record in routed if record.topic != settings.labels.topic]
    batch = mapping.decode(found)
    if not len(batch):
        return
    keys = batch.streams if names.by_key else [None] * len(batch)
    for key in set(keys) - known.keys():
        # A stream without a snapshot is not listed either.
        known[key] = numbers.get(names.name_of(key), -1)
    kept, features = _numbers(mapping)
    recent.add(at, batch.rows[:, kept], features, [known[key] for key in keys], list(batch.times))
