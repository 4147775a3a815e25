"""What enters and leaves a partition task."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

TopicPartition = tuple[str, int]
"""Topic and partition."""


class SourceRecord(Protocol):
    """A record of an input topic; aiokafka's ``ConsumerRecord`` is one."""

    @property
    def topic(self) -> str:
        """Topic it was read from."""

    @property
    def partition(self) -> int:
        """Partition it was read from."""

    @property
    def offset(self) -> int:
        """Its place in the log."""

    @property
    def timestamp(self) -> int:
        """Kafka timestamp in milliseconds since the epoch."""

    @property
    def key(self) -> bytes | None:
        """Key as it stands on the bus."""

    @property
    def value(self) -> bytes | None:
        """Value as it stands on the bus."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Headers as they stand on the bus."""


class Record(NamedTuple):
    """A plain `SourceRecord`, for replays, benchmarks and tests."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


class RoutedRecord(NamedTuple):
    """A feature record that came over the routes: a `SourceRecord` whose offset is that of its route.

    Attributes
    ----------
    topic, partition : str, int
        Where the feature record was read.
    offset : int
        Its place among the routes, which is the order of learning.
    timestamp, key, value, headers
        The feature record's own.
    stream : bytes
        Key of its stream.
    source_offset : int
        Its place in its own log.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    stream: bytes
    source_offset: int


def stream_key(record: SourceRecord) -> bytes | None:
    """Return the key by which a record's stream is found where a partition has several."""
    return record.stream if isinstance(record, RoutedRecord) else record.key


def bytes_beside(record: SourceRecord) -> int:
    """Return the bytes of what a record has beside its value: its key, and the names and values of its headers."""
    own = sum(len(name.encode()) + len(value or b"") for name, value in record.headers or ())
    return len(record.key or b"") + own


class Message(NamedTuple):
    """An output, in the order given.

    Attributes
    ----------
    key, value, headers
        As they stand on the bus.
    partition : int or None
        Where it goes; None for the partition number of the task that made it.
    """

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None = None


@dataclass(slots=True)
class Outputs:
    """What a batch of records became; every record is an assignment or a dead letter.

    Attributes
    ----------
    assignments : list of Message
        Answers.
    events : list of Message
        Events of clusters.
    dead_letters : list of Message
        Records that could not be used.
    clusters : list of Message
        What the compacted topic says of the clusters, keyed by their ids; without a value where one is removed.
    routes : list of Message
        Records on their way to the task that learns them, each with its partition.
    drift_events : list of Message
        Changes of the data themselves.
    """

    assignments: list[Message] = field(default_factory=list)
    events: list[Message] = field(default_factory=list)
    dead_letters: list[Message] = field(default_factory=list)
    clusters: list[Message] = field(default_factory=list)
    routes: list[Message] = field(default_factory=list)
    drift_events: list[Message] = field(default_factory=list)

    def add(self, other: "Outputs") -> None:
        """Take in the outputs of the records that follow."""
        self.assignments += other.assignments
        self.events += other.events
        self.dead_letters += other.dead_letters
        self.clusters += other.clusters
        self.routes += other.routes
        self.drift_events += other.drift_events


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """The state of one stream at a place in the log.

    Attributes
    ----------
    stream : str
        Name of the stream, unique in the deployment.
    next : int
        Offset of the first record of the partition that the state does not contain.
    header : dict
        What the state depends on besides the log: engine, parameters, features, revision, version.
    body : bytes
        The state.
    """

    stream: str
    next: int
    header: dict[str, Any]
    body: bytes


@dataclass(frozen=True, slots=True)
class Counts:
    """What a partition task has seen since it was made, silent records included.

    Attributes
    ----------
    records : int
        Records.
    skipped : int
        Records with a null value.
    letters : Counter of (str, str)
        Dead letters by stage and class.
    outvoted : int
        Records that were answered ``warming_up`` and then had other features than most.
    streams : int
        Streams.
    values_compared, values_outside : int
        Values of features that have a frozen range, and how many of them were outside it; since the streams began.
    snapshot_bytes : int
        Bytes of the newest snapshots of all streams.
    taught : bool
        The models are taught by labels.
    labelled : int
        Records that were learned with labels; since the streams began.
    labels_waiting : int
        Messages of labels whose record has not come yet.
    label_buffer : int
        Records whose features are kept for late labels.
    foreign, repeated : int
        Of the routes: messages that no worker wrote, and those that were dropped because they had come, or come again.
    """

    records: int = 0
    skipped: int = 0
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    outvoted: int = 0
    streams: int = 0
    values_compared: int = 0
    values_outside: int = 0
    snapshot_bytes: int = 0
    taught: bool = False
    labelled: int = 0
    labels_waiting: int = 0
    label_buffer: int = 0
    foreign: int = 0
    repeated: int = 0

    @property
    def dead_letters(self) -> Counter[str]:
        """Dead letters by class."""
        counted: Counter[str] = Counter()
        for (_, kind), count in self.letters.items():
            counted[kind] += count
        return counted
