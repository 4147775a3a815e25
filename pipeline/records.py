"""Records that enter a partition task, and outputs that leave it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, repeat
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.columns import NO_TEXTS, Texts

TopicPartition = tuple[str, int]

NameT = TypeVar("NameT")

STREAM_BYTES: Final = 256
"""Bytes of a stream's name, at most; a record with a longer one is a dead letter."""


MOST_ELEMENTS: Final = 10_000
"""Records of one message, at most."""


class Record(NamedTuple):
    """A record as Kafka stores it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Kafka's, in milliseconds since the epoch."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    element: int | None = None
    """Which record of its message it is, from 0; None where it is the message."""


class RoutedRecord(NamedTuple):
    """A feature record that came over the routes, with the offset of its route.

    All other fields, topic and partition included, are the feature record's own.
    """

    topic: str
    partition: int
    offset: int
    """Offset among the routes, which is the order of learning."""
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    stream: bytes
    """Key of the stream."""
    source_offset: int
    """Offset of the feature record in its own partition."""
    element: int | None = None
    """As in `Record`."""


SourceRecord = Record | RoutedRecord
"""What a partition task takes."""


def record_number(offset: int, element: int | None) -> int:
    """Return a number that orders the records of a partition, whether or not messages have many."""
    return offset * MOST_ELEMENTS + (element or 0)


def routes_offset_header(name: str, offset: int) -> tuple[str, bytes | None]:
    """Return the header with which outputs of the second stage order those of a stream.

    It has the offset, in the routes topic, of the record that caused the output; `name` is the deployment's.
    """
    return f"{name}.routes_offset", b"%d" % offset


def stream_key(record: SourceRecord) -> bytes | None:
    """Return the key that selects a record's stream where a partition has several streams."""
    return record.stream if isinstance(record, RoutedRecord) else record.key


def bytes_beside(record: SourceRecord) -> int:
    """Return the bytes of a record without its value: its key, and the names and values of its headers."""
    own = sum(len(name.encode()) + len(value or b"") for name, value in record.headers or ())
    return len(record.key or b"") + own


class Message(NamedTuple):
    """An output record."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None = None
    """Target partition; None for the partition number of the task that made the message."""


@dataclass(slots=True, eq=False, repr=False)
class Messages(Sequence[Message]):
    """Messages as columns, all values in one text: no Python object is made for each of them.

    Each becomes a `Message` when it is read; none is without a value.
    """

    __hash__ = None  # type: ignore[assignment] # it equals lists

    text: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    """All values, one behind the other."""
    ends: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Where each value ends."""
    keys: Texts[bytes | None] = field(default_factory=lambda: NO_TEXTS)
    headers: Sequence[list[tuple[str, bytes | None]]] | None = None
    """None where no message has any."""
    partitions: Sequence[int | None] | None = None
    """None where all are for the partition number of the task."""

    @classmethod
    def of(cls, messages: Iterable[Message]) -> "Messages":
        """Return messages as columns."""
        if isinstance(messages, Messages):
            return messages
        keys, values, headers, partitions = [*zip(*messages, strict=True)] or [()] * 4
        ends = np.cumsum(list(map(len, values)), dtype=np.int64)
        to = None if set(partitions) == {None} else partitions
        text = np.frombuffer(b"".join(values), np.uint8)
        return cls(text, ends, Texts.of(keys), headers if any(headers) else None, to)

    @classmethod
    def joined(cls, parts: Iterable[Iterable[Message]]) -> "Messages":
        """Return the messages of some parts, one part behind the other."""
        found = [part for part in map(cls.of, parts) if len(part)]
        if len(found) < 2:
            return found[0] if found else cls()
        begins = np.cumsum([0, *(len(part.text) for part in found[:-1])])
        headers = [part.headers or [[]] * len(part) for part in found]
        partitions = [part.partitions or [None] * len(part) for part in found]
        return cls(
            np.concatenate([part.text for part in found]),
            np.concatenate([begin + part.ends for begin, part in zip(begins, found, strict=True)]),
            Texts.joined([part.keys for part in found]),
            [*chain.from_iterable(headers)] if any(part.headers for part in found) else None,
            [*chain.from_iterable(partitions)] if any(part.partitions for part in found) else None,
        )

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[Message]:
        return self.behind(0)

    def behind(self, first: int) -> Iterator[Message]:
        """Yield the messages from one on."""
        ends = self.ends[first:].tolist()
        begins = (int(self.ends[first - 1]) if first else 0, *ends)
        values = map(self.text.tobytes().__getitem__, map(slice, begins, ends))
        # One list for all, to which nothing is added: so many lists would be most of what the collector looks at.
        headers = repeat([]) if self.headers is None else self.headers[first:]
        partitions = repeat(None) if self.partitions is None else self.partitions[first:]
        return map(Message, self.keys[first:], values, headers, partitions)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> "Messages": ...
    def __getitem__(self, at: int | slice) -> "Message | Messages":
        if isinstance(at, slice):
            return Messages.of(list(self)[at])
        return next(self.behind(range(len(self))[at]))

    def __add__(self, other: Iterable[Message]) -> "Messages":
        return Messages.joined((self, other))

    def __repr__(self) -> str:
        return f"Messages.of({list(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Messages | list) and list(self) == list(other)


_Part = tuple[Sequence[int], Sequence[Message]]

OUTPUT_KINDS: Final = ("assignments", "cluster_events", "dead_letters", "clusters", "drift_events", "alerts", "routes")
"""Kinds of topics that `Outputs` are for."""


@dataclass(slots=True)
class Outputs:
    """Outputs of a batch by the kind of their topic; every record is an assignment or a dead letter.

    `put` collects them in any order of their records, `sort` brings them into it.
    """

    assignments: Messages = field(default_factory=Messages)
    cluster_events: list[Message] = field(default_factory=list)
    dead_letters: list[Message] = field(default_factory=list)
    """Records that could not be used."""
    clusters: list[Message] = field(default_factory=list)
    """Messages of the compacted topic, keyed by cluster id; without a value where a cluster is removed."""
    routes: list[Message] = field(default_factory=list)
    """Records on their way to the task that learns them, each with its partition."""
    drift_events: list[Message] = field(default_factory=list)
    """Changes of the data themselves."""
    alerts: list[Message] = field(default_factory=list)
    """Alerts that opened or cleared."""
    _parts: dict[str, list[_Part]] = field(default_factory=dict, repr=False, compare=False)

    def of(self, kind: str) -> list[Message] | Messages:
        """Return the messages for a kind of topic."""
        messages: list[Message] | Messages = getattr(self, kind)
        return messages

    def put(self, kind: str, offsets: Sequence[int], messages: Sequence[Message]) -> None:
        """Add messages, each with the offset of the record that caused it; the offsets ascend."""
        if messages:
            self._parts.setdefault(kind, []).append((offsets, messages))

    def sort(self) -> Self:
        """Bring what was put into the order of the records; messages of one record keep theirs."""
        parts, self._parts = self._parts, {}
        for kind, own in parts.items():
            if all(before[-1] <= after[0] for (before, _), (after, _) in pairwise(own)):
                self._extend(kind, [messages for _, messages in own])
            else:
                entries = [entry for offsets, messages in own for entry in zip(offsets, messages, strict=True)]
                entries.sort(key=itemgetter(0))
                self._extend(kind, [[message for _, message in entries]])
        return self

    def add(self, other: "Outputs") -> None:
        """Append the outputs of the records that follow."""
        for kind in OUTPUT_KINDS:
            self._extend(kind, [other.of(kind)])

    def _extend(self, kind: str, parts: Sequence[Iterable[Message]]) -> None:
        to = self.of(kind)
        if isinstance(to, Messages):
            setattr(self, kind, Messages.joined([to, *parts]))
        else:
            to.extend(chain.from_iterable(parts))


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """State of one stream at an offset of its partition."""

    stream: str
    """Name of the stream, unique in the deployment."""
    next: int
    """Offset of the first record of the partition that the state does not contain."""
    header: dict[str, Any]
    """What the state depends on besides the log: engine, parameters, features, revision, version."""
    body: bytes


class StoredStreams(Sequence[StreamSnapshot], Generic[NameT]):
    """Snapshots of streams, each read when it is used: all of them need not fit into memory."""

    def __init__(self, names: Sequence[NameT], read: Callable[[NameT], StreamSnapshot]) -> None:
        self._names, self._read = names, read

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> StreamSnapshot: ...

    @overload
    def __getitem__(self, index: slice) -> "StoredStreams[NameT]": ...

    def __getitem__(self, index: int | slice) -> "StreamSnapshot | StoredStreams[NameT]":
        if isinstance(index, slice):
            return StoredStreams(self._names[index], self._read)
        return self._read(self._names[index])
