"""Write snapshots to the compacted topic (`changelog_records`), in an order that a crash cannot spoil.

The order is: chunks, their manifest, tombstones of chunks that no manifest names any more, and the partition record
last. A reader that sees a record therefore sees everything that the record relies on, even without transactions.

Without transactions nothing keeps a worker that was taken for dead from writing once more. Every owner of a partition
therefore counts its epoch one up from the one it found. Records that an earlier owner appends behind those of a later
one are recognised, and the input is read again from there.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from resonance.pipeline.checkpoint.changelog_records import (
    Identity,
    Manifest,
    PartitionRecord,
    Version,
    manifest_key,
    partition_key,
)
from resonance.pipeline.crash_points import reach
from resonance.pipeline.records import Counts, Message, SourceRecord, StreamSnapshot

CHUNK_BYTES: Final = 512_000
"""Longest value of a chunk: well below the 1 MB that a topic takes by default, compressed or not."""


class Snapshotted(Protocol):
    """The part of a partition task that writing snapshots needs."""

    record_after: int
    """Offsets after which the partition's state is written even where no stream is due; 0 for never."""

    @property
    def recovery_offset(self) -> int | None:
        """Lowest offset of a record that its stream's snapshot lacks; None where there is none."""

    def due(self) -> list[str]:
        """Return the streams whose next snapshot is due, the longest dirty first."""

    def dirty(self) -> list[str]:
        """Return the streams that have learned since their snapshot, the longest dirty first."""

    def snapshot(self, stream: str) -> StreamSnapshot:
        """Return the state of a stream, which is clean afterwards."""

    def dropped(self) -> list[str]:
        """Return the streams that ended since the last call; their snapshots must be removed."""

    def partition_state(self) -> bytes:
        """Return what the partition knows beside its streams."""


class SnapshottedTask(Snapshotted, Protocol):
    """The part of a partition task that snapshots and a restore need."""

    event_bytes: int
    """Bytes that the topics of events and clusters take in one message."""
    first_version: int
    """Version of the models of new streams."""
    topic_ids: Mapping[str, str]
    """Kafka's id of each input topic, as far as it is known."""

    @property
    def counts(self) -> Counts:
        """What the task has seen so far; can be read from another thread."""

    def restore(self, snapshot: StreamSnapshot) -> None:
        """Continue a stream from a snapshot."""

    def restore_partition(self, state: bytes) -> None:
        """Continue from `partition_state`."""

    def catch_up(self, records: Sequence[SourceRecord]) -> None:
        """Learn records again without emitting."""

    def emit_from_setting(self, offset: int) -> None:
        """Apply the present `Settings.emit_from` to the records from an offset on."""


class GivenStates:
    """States that were made elsewhere, to be written as a task's own are.

    `state` is what the partition knows beside its streams. `recovery_offset` is the lowest offset of a record that no
    snapshot contains; None where there is none.
    """

    record_after = 0

    def __init__(self, snapshots: Iterable[StreamSnapshot], state: bytes, recovery_offset: int | None = None) -> None:
        self._snapshots = {snapshot.stream: snapshot for snapshot in snapshots}
        self._state = state
        self.recovery_offset = recovery_offset

    def due(self) -> list[str]:
        """Return all streams."""
        return list(self._snapshots)

    def dirty(self) -> list[str]:
        """Return all streams."""
        return list(self._snapshots)

    def snapshot(self, stream: str) -> StreamSnapshot:
        """Return the snapshot of a stream."""
        return self._snapshots[stream]

    def dropped(self) -> list[str]:
        """Return no stream."""
        return []

    def partition_state(self) -> bytes:
        """Return the given state."""
        return self._state


class ChangelogWriter:
    """Writes the snapshots of one partition task, and knows which chunks stand on the topic.

    Parameters
    ----------
    identity : Identity
        Identity that every partition record contains.
    manifests : mapping of str to Manifest, optional
        Newest manifest of each stream that has one.
    orphan_chunks : mapping of str to collection of bytes, optional
        Keys of each stream's chunks that no manifest names: a crash came between chunks and manifest.
    epoch : int
        Number of this owner of the partition.
    chunk_bytes : int
        Longest value of a chunk.
    began : int
        As in `PartitionRecord`.

    Attributes
    ----------
    recovery_offset : int or None
        That of the last partition record; the health page shows it.
    """

    def __init__(
        self,
        identity: Identity,
        manifests: Mapping[str, Manifest] | None = None,
        orphan_chunks: Mapping[str, Collection[bytes]] | None = None,
        epoch: int = 1,
        chunk_bytes: int = CHUNK_BYTES,
        began: int = -1,
    ) -> None:
        self.identity = identity
        self.began = began
        self._recorded = 0
        self.epoch = epoch
        self.recovery_offset: int | None = None
        self._manifests = dict(manifests or {})
        self._strays = {stream: set(keys) for stream, keys in (orphan_chunks or {}).items()}
        self._chunk_bytes = chunk_bytes

    def snapshot_at(self, stream: str) -> int | None:
        """Return the offset of the newest snapshot of a stream; None where it has none."""
        manifest = self._manifests.get(stream)
        return manifest.current.next if manifest else None

    def messages(
        self, task: Snapshotted, position: int, committed: int, *, everything: bool = False
    ) -> Iterator[Message]:
        """Snapshot the streams that are due and yield the messages in the order in which they must be written.

        The first call after a start always yields a partition record: from then on it is known where the models began
        and which revision of the engine learned what follows.

        Parameters
        ----------
        task : Snapshotted
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
        known = self.recovery_offset is not None and not 0 < task.record_after <= position - self._recorded
        if not streams and known and not everything:
            return
        for stream in streams:
            yield from self._stream(task.snapshot(stream))
        # An ended stream no longer counts in the recovery offset: its snapshot goes before the record that shows that.
        for stream in task.dropped():
            yield from self._end(stream)
        recovery_offset = task.recovery_offset
        self.recovery_offset = position if recovery_offset is None else recovery_offset
        state, self._recorded = task.partition_state(), position
        record = PartitionRecord(
            self.identity, self.recovery_offset, position, committed, state, self.epoch, self.began
        )
        yield Message(partition_key(self.identity.topic), record.value(), [])

    def _end(self, stream: str) -> Iterator[Message]:
        """Remove the records of a stream: its manifest first, because without it the chunks are never read."""
        manifest, known = self._manifests.pop(stream, None), self._strays.pop(stream, set())
        if manifest is not None:
            yield Message(manifest_key(stream), None, [])
            for old in (manifest.current, manifest.previous):
                known.update(old.keys(stream) if old else ())
        for key in sorted(known):
            yield Message(key, None, [])

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
            # A snapshot at the same offset overwrites the chunks of the current one.
            kept = before.current if before.current.next != version.next else before.previous
            for old in (before.current, before.previous):
                known.update(old.keys(stream) if old else ())
        manifest = Manifest(self.identity.topic, version, kept, self.epoch)
        yield Message(manifest_key(stream), manifest.value(), [])
        live = {*keys, *(kept.keys(stream) if kept else ())}
        for key in sorted(known - live):
            yield Message(key, None, [])
        self._manifests[stream] = manifest
