"""Snapshots on a compacted topic: what is written, and how it is read back.

Records of a partition of the snapshots topic (keys are JSON arrays, so that no two of them can be confused):

=========================================  ===========================================================================
key                                        value
=========================================  ===========================================================================
``["chunk", stream, next, i]``             bytes of part i of the state that contains the records below ``next``
``["manifest", stream]``                   which chunks make up the newest version and the one before, checksum, header
``["partition", topic]``                   where a rebuild of the models of an input partition begins, and for whom
=========================================  ===========================================================================

They are written in this order: chunks, their manifest, tombstones of chunks that no manifest names any more, and the
partition record behind them all. A reader that sees a record therefore sees everything it relies on, also where no
transaction binds them together. A manifest describes the version before as well, because compaction keeps only the
newest manifest and its chunks may turn out to be damaged.

Without transactions nothing keeps a worker that was taken for dead from writing once more. Every owner of a partition
therefore counts its epoch one up from what it found: what an earlier owner appends behind a later one is recognised,
and the input is read again from there.
"""

import base64
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Protocol, Self

import orjson
from resonance.pipeline import stops
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.fault_points import reach
from resonance.pipeline.records import Message, SourceRecord, StreamSnapshot

FORMAT: Final = 1
"""Raised with every change that an older release would read wrongly."""

CHUNK_BYTES: Final = 512_000
"""Longest value of a chunk: well below the 1 MB that a topic takes by default, compressed or not."""

_UNREADABLE = (ValueError, KeyError, TypeError)
"""What reading a record raises that another program wrote under one of our keys."""


class Task(Protocol):
    """What a snapshot needs of a partition task."""

    @property
    def replay_from(self) -> int | None:
        """Lowest offset of a record whose stream has not been snapshotted since; None when all are."""

    def due(self) -> list[str]:
        """Streams whose next snapshot is due, the longest dirty first."""

    def dirty(self) -> list[str]:
        """Streams that have learned since their snapshot, the longest dirty first."""

    def snapshot(self, stream: str) -> StreamSnapshot:
        """Return the state of a stream, which is clean then."""

    def restore(self, snapshot: StreamSnapshot) -> None:
        """Continue a stream from a snapshot."""

    def partition_state(self) -> bytes:
        """Return what the partition knows beside its streams."""

    def restore_partition(self, state: bytes) -> None:
        """Continue from `partition_state`."""

    def catch_up(self, records: Sequence[SourceRecord]) -> None:
        """Learn records again without answering."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose snapshots they are, and of which log.

    Attributes
    ----------
    pipeline : str
        Name of the pipeline.
    inputs : tuple of str
        All its input topics.
    topic : str
        The input topic concerned.
    topic_id : str
        Kafka's id of it; ``""`` where there is none.
    partitions : int
        Partitions of it.
    engine : str
        Name of the engine.
    revision : str
        Its revision, and that of everything else that decides bits.
    settings : mapping of str to object
        Everything else on which the models depend besides the log.
    limits : mapping of str to object
        What decides which records are learned at all; it may change where nothing has to be learned again.
    """

    pipeline: str
    inputs: tuple[str, ...]
    topic: str
    topic_id: str
    partitions: int
    engine: str
    revision: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """Where a rebuild of the models of an input partition begins.

    Attributes
    ----------
    identity : Identity
        Who wrote it, for which log.
    replay_from : int
        Lowest offset of a record that no snapshot contains.
    position : int
        Every record below this offset was answered when the record was written.
    committed : int
        The group's committed offset was at least this; -1 when it had none.
    state : bytes
        What the partition knows beside its streams, at `position`.
    epoch : int
        Number of the owner that wrote it.
    """

    identity: Identity
    replay_from: int
    position: int
    committed: int
    state: bytes
    epoch: int = 0

    def value(self) -> bytes:
        """Return the record as it stands on the bus."""
        names = ("replay_from", "position", "committed", "epoch")
        own = {name: getattr(self, name) for name in names}
        state = base64.b64encode(self.state).decode("ascii")
        return orjson.dumps({"format": FORMAT, **own, **asdict(self.identity), "state": state})

    @classmethod
    def parse(cls, value: bytes, where: str) -> Self:
        """Read `value`; `where` names the partition of the snapshots topic for errors."""
        data = orjson.loads(value)
        if data["format"] > FORMAT:
            raise stops.newer_format(where, data["format"], FORMAT)
        names = [entry.name for entry in fields(Identity)]
        identity = Identity(**{name: data[name] for name in names} | {"inputs": tuple(data["inputs"])})
        state = base64.b64decode(data["state"])
        return cls(identity, data["replay_from"], data["position"], data["committed"], state, data["epoch"])


@dataclass(frozen=True, slots=True)
class Version:
    """One snapshot of a stream, as its manifest describes it."""

    next: int
    chunks: int
    size: int
    sha256: str
    header: dict[str, Any]

    def keys(self, stream: str) -> list[bytes]:
        """Keys of its chunks, in order."""
        return [chunk_key(stream, self.next, number) for number in range(self.chunks)]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The newest snapshot of a stream and the one before."""

    topic: str
    current: Version
    previous: Version | None
    epoch: int = 0

    def value(self) -> bytes:
        """Return the manifest as it stands on the bus."""
        return orjson.dumps({"format": FORMAT, **asdict(self)})

    @classmethod
    def parse(cls, value: bytes, where: str) -> Self:
        """Read `value`; `where` names the stream for errors."""
        data = orjson.loads(value)
        if data["format"] > FORMAT:
            raise stops.newer_format(where, data["format"], FORMAT)
        previous = data["previous"]
        return cls(data["topic"], Version(**data["current"]), Version(**previous) if previous else None, data["epoch"])


def chunk_key(stream: str, next_: int, number: int) -> bytes:
    """Key of part `number` of the state of `stream` that contains the records below `next_`."""
    return orjson.dumps(["chunk", stream, next_, number])


def manifest_key(stream: str) -> bytes:
    """Key of the manifest of `stream`."""
    return orjson.dumps(["manifest", stream])


def partition_key(topic: str) -> bytes:
    """Key of the partition record of an input topic."""
    return orjson.dumps(["partition", topic])


class SnapshotWriter:
    """Writes the snapshots of one partition task, and knows which chunks stand on the topic.

    Parameters
    ----------
    identity : Identity
        What stands in every partition record.
    manifests : mapping of str to Manifest, optional
        Newest manifest of each stream that has one.
    strays : mapping of str to collection of bytes, optional
        Chunk keys of each stream that no manifest names: a crash came between chunks and manifest.
    epoch : int
        Number of this owner of the partition.
    chunk_bytes : int
        Longest value of a chunk.

    Attributes
    ----------
    replay_from : int or None
        What the last partition record said; a metric.
    """

    def __init__(
        self,
        identity: Identity,
        manifests: Mapping[str, Manifest] | None = None,
        strays: Mapping[str, Collection[bytes]] | None = None,
        epoch: int = 1,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self.identity = identity
        self.epoch = epoch
        self.replay_from: int | None = None
        self._manifests = dict(manifests or {})
        self._strays = {stream: set(keys) for stream, keys in (strays or {}).items()}
        self._chunk_bytes = chunk_bytes

    def messages(self, task: Task, position: int, committed: int, *, everything: bool = False) -> Iterator[Message]:
        """Snapshot the streams that are due and yield the messages in the order in which they must be written.

        The first call after a start yields a partition record in any case: from then on it is known where the models
        began and which revision of the engine learned what follows.

        Parameters
        ----------
        task : Task
            Has learned every record below `position`.
        position : int
            The outputs of every record below this offset are delivered before these messages, or with them.
        committed : int
            The group's committed offset once these messages can be read: `position` in a transaction that commits it
            too, otherwise the last offset whose commit was acknowledged; -1 when there is none.
        everything : bool
            Snapshot every dirty stream, as at a clean stop.
        """
        streams = task.dirty() if everything else task.due()
        if not streams and self.replay_from is not None and not everything:
            return
        for stream in streams:
            yield from self._stream(task.snapshot(stream))
        replay_from = task.replay_from
        self.replay_from = position if replay_from is None else replay_from
        state = task.partition_state()
        record = PartitionRecord(self.identity, self.replay_from, position, committed, state, self.epoch)
        yield Message(partition_key(self.identity.topic), record.value(), [])

    def _stream(self, snapshot: StreamSnapshot) -> Iterator[Message]:
        stream, body, size = snapshot.stream, snapshot.body, self._chunk_bytes
        checksum = hashlib.sha256(body).hexdigest()
        version = Version(snapshot.next, -(-len(body) // size), len(body), checksum, snapshot.header)
        keys = version.keys(stream)
        for number, key in enumerate(keys):
            yield Message(key, body[number * size : (number + 1) * size], [])
            reach("between-snapshot-chunks")
        before = self._manifests.get(stream)
        kept: Version | None = None
        known = self._strays.pop(stream, set())
        if before is not None:
            # A snapshot at the same place overwrites the chunks of the current one.
            kept = before.current if before.current.next != version.next else before.previous
            for old in (before.current, before.previous):
                known.update(old.keys(stream) if old else ())
        manifest = Manifest(self.identity.topic, version, kept, self.epoch)
        yield Message(manifest_key(stream), manifest.value(), [])
        live = {*keys, *(kept.keys(stream) if kept else ())}
        for key in sorted(known - live):
            yield Message(key, None, [])
        self._manifests[stream] = manifest


class SnapshotTable:
    """The live records of one partition of the snapshots topic, gathered by reading it once from its beginning.

    Parameters
    ----------
    topic : str
        The snapshots topic.
    partition : int
        Its partition, which is that of the inputs.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self._where = f"{topic}[{partition}]"
        self._chunks: dict[str, dict[bytes, bytes]] = {}
        self._manifests: dict[str, Manifest] = {}
        self._records: dict[str, PartitionRecord] = {}
        self._epochs: dict[str, int] = {}
        self._overtaken: set[str] = set()
        self._broken: dict[bytes, MismatchError] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take the next record of the topic in; the newest value of a key counts, as compaction has it."""
        try:
            kind, name, *_ = orjson.loads(key or b"")
        except _UNREADABLE:
            # Not a key of ours: another program wrote it, and it is in nobody's way.
            return
        if key is None or kind not in ("chunk", "manifest", "partition"):
            return
        self._broken.pop(key, None)
        try:
            if kind == "chunk":
                self._apply_chunk(name, key, value)
            elif kind == "manifest":
                self._apply_manifest(name, value)
            else:
                self._apply_record(name, value)
        except MismatchError as stop:
            # A reset may have put a tombstone behind it.
            self._broken[key] = stop

    def check(self) -> None:
        """Raise what is wrong with a record, once all are there.

        Raises
        ------
        MismatchError
            A live record was written by a newer release, or by another program under a key of ours.
        """
        for stop in self._broken.values():
            raise stop

    def _apply_manifest(self, stream: str, value: bytes | None) -> None:
        self._manifests.pop(stream, None)
        if value is None:
            return
        try:
            manifest = Manifest.parse(value, f"{self._where}, stream {stream}")
        except _UNREADABLE:
            raise stops.unreadable(self._where, f"the manifest of stream {stream}") from None
        self._manifests[stream] = manifest
        if self._is_latest(manifest.topic, manifest.epoch):
            self._overtaken.discard(stream)
        else:
            self._overtaken.add(stream)

    def _apply_record(self, topic: str, value: bytes | None) -> None:
        before = self._records.pop(topic, None)
        if value is None:
            return
        try:
            record = PartitionRecord.parse(value, self._where)
        except _UNREADABLE:
            raise stops.unreadable(self._where, f"the record of input topic {topic}") from None
        # An owner taken for dead knows less than the one whose record stands before its own.
        if self._is_latest(topic, record.epoch) or before is None:
            before = record
        self._records[topic] = before

    def _apply_chunk(self, stream: str, key: bytes, value: bytes | None) -> None:
        chunks = self._chunks.setdefault(stream, {})
        if value is None:
            chunks.pop(key, None)
        else:
            chunks[key] = value

    def _is_latest(self, topic: str, epoch: int) -> bool:
        """Whether no later owner wrote before this epoch's present record."""
        highest = self._epochs[topic] = max(epoch, self._epochs.get(topic, 0))
        return epoch == highest

    def live_keys(self) -> list[bytes]:
        """Keys of all live records."""
        chunks = [key for keys in self._chunks.values() for key in keys]
        return [*chunks, *map(manifest_key, self._manifests), *map(partition_key, self._records)]

    def records(self) -> dict[str, PartitionRecord]:
        """Partition record of each input topic that has one."""
        return dict(self._records)

    def streams(self, topic: str) -> list[str]:
        """Streams of an input topic that have a manifest, by name."""
        return sorted(stream for stream, manifest in self._manifests.items() if manifest.topic == topic)

    def newest(self, stream: str) -> tuple[StreamSnapshot, bool]:
        """Return the newest complete snapshot of a stream, and whether the partition record was written for it.

        Raises
        ------
        MismatchError
            No version that the manifest names is whole.
        """
        manifest = self._manifests[stream]
        chunks = self._chunks.get(stream, {})
        problems = []
        for version in (manifest.current, manifest.previous):
            if version is None:
                continue
            parts = [chunks[key] for key in version.keys(stream) if key in chunks]
            body = b"".join(parts)
            if len(parts) < version.chunks:
                missing = version.chunks - len(parts)
                problems.append(f"at offset {version.next} {missing} of {version.chunks} chunks are missing")
            elif hashlib.sha256(body).hexdigest() != version.sha256:
                problems.append(f"at offset {version.next} the checksum is wrong")
            else:
                relied_on = version is manifest.current and stream not in self._overtaken
                return StreamSnapshot(stream, version.next, version.header, body), relied_on
        raise stops.damaged(self._where, stream, problems)

    def writer(self, identity: Identity, chunk_bytes: int = CHUNK_BYTES) -> SnapshotWriter:
        """Return the writer that continues here, for the streams of the identity's input topic."""
        manifests = {stream: self._manifests[stream] for stream in self.streams(identity.topic)}
        # A stray is touched only when its own stream is snapshotted: those of other inputs do no harm.
        strays = {stream: set(chunks) for stream, chunks in self._chunks.items()}
        for stream, manifest in manifests.items():
            for version in (manifest.current, manifest.previous):
                strays.get(stream, set()).difference_update(version.keys(stream) if version else ())
        epoch = self._epochs.get(identity.topic, 0) + 1
        return SnapshotWriter(identity, manifests, strays, epoch, chunk_bytes)
