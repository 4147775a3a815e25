"""Write snapshots to the compacted topic (`changelog_records`), in an order that a crash cannot spoil.

The order is: chunks, their manifest, tombstones of chunks that no manifest names any more, and the partition record
last. A reader that sees a record therefore sees everything that the record relies on, even without transactions. No
chunk is overwritten with other bytes while a manifest names it.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Final

from resonance.pipeline.checkpoint.changelog_records import (
    ArchiveEntry,
    ArchiveIndex,
    Identity,
    Manifest,
    Manifests,
    PartitionRecord,
    archives_key,
    manifest_key,
    partition_key,
)
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.crash_points import reach
from resonance.pipeline.records import Message, StreamSnapshot
from resonance.pipeline.tasks import Task

CHUNK_BYTES: Final = 512_000
"""Longest value of a chunk: well below the 1 MB that a topic takes by default, compressed or not."""

NO_ARCHIVES: Final = ArchiveIndex("", -1)

_MANIFEST: Final = b'["manifest",'
_RECORD: Final = b'["partition",'


class ChangelogWriter:
    """Writes the snapshots of one partition task, and knows which chunks stand on the topic.

    Every partition record contains the `identity`. The newest `manifests` are kept up to date, and no value of a chunk
    is longer than `chunk_bytes`; `began` is that of `PartitionRecord`.
    """

    def __init__(
        self,
        identity: Identity,
        partition: int,
        manifests: Manifests | None = None,
        chunk_bytes: int = CHUNK_BYTES,
        began: int = -1,
        archives: ArchiveIndex = NO_ARCHIVES,
    ) -> None:
        self.identity = identity
        self.partition = partition
        self.archives = replace(archives, topic_id=identity.topic_id, partition=partition)
        self.began = began
        self._recorded = 0
        self.recovery_offset: int | None = None
        self.manifests = Manifests() if manifests is None else manifests
        self._chunk_bytes = chunk_bytes

    @property
    def keys(self) -> set[bytes]:
        """The keys of everything that is stored of the partition, as far as it is known."""
        topic = self.identity.topic
        found = {partition_key(topic), archives_key(topic)}
        for stream in self.manifests:
            if (manifest := self.manifests.get(stream)) is not None:
                found.update((manifest_key(stream), *manifest.keys))
        return found

    def messages(
        self,
        task: Task,
        position: int,
        committed: int,
        *,
        everything: bool = False,
        go_on: Callable[[], bool] = lambda: True,
    ) -> Iterator[Message]:
        """Snapshot the streams that are due and yield the messages in the order in which they must be written.

        The first call after a start always yields a partition record: from then on it is known where the models began
        and which revision of the engine learned what follows.

        The task has learned every record below `position`, whose outputs are delivered before these messages, or with
        them. `committed` is the group's offset once these messages can be read: `position` in a transaction that
        commits it too, otherwise the last offset whose commit was acknowledged; -1 when there is none. With
        `everything` each dirty stream is snapshotted, as at a clean stop. Where `go_on` returns False, which is called
        before each snapshot, the streams that are left stay dirty.
        """
        models = task.models
        streams = models.pending(everything=everything)
        known = self.recovery_offset is not None and not 0 < models.record_after <= position - self._recorded
        if not streams and known and not everything and not models.has_expired:
            return
        # An ended stream no longer counts in the recovery offset: its snapshot goes before the record that shows that.
        for stream, snapshot in models.changes(takewhile(lambda _: go_on(), streams)):
            yield from self._end(stream) if snapshot is None else self._stream(snapshot)
        recovery_offset = models.recovery_offset
        recovery_offset = position if recovery_offset is None else recovery_offset
        yield self._record(position, recovery_offset, committed, task.partition_state())

    def rewrite(
        self,
        checkpoint: PartitionCheckpoint,
        committed: int,
        stored: Collection[bytes] = (),
        listed: Iterable[Message] = (),
    ) -> Iterator[Message]:
        """Yield the messages that write a whole checkpoint in place of what is stored; `committed` is as in `messages`.

        Of the `stored` keys those that are not written are removed: before the record, with which the change is
        complete, and records of other partitions behind it. The record relies on the list of the archives, `listed`.
        """
        record, written = checkpoint.record, {partition_key(self.identity.topic), archives_key(self.identity.topic)}
        for snapshot in checkpoint.streams:
            for message in self._stream(snapshot):
                written.add(message.key or b"")
                yield message
        # Manifests first: without its manifest a chunk is never read.
        removed = sorted({*stored} - written, key=lambda key: (not key.startswith(_MANIFEST), key))
        others = [key for key in removed if key.startswith(_RECORD)]
        for key in (key for key in removed if not key.startswith(_RECORD)):
            yield Message(key, None, [])
        yield from listed
        yield self._record(record.position, record.recovery_offset, committed, record.state)
        for key in others:
            yield Message(key, None, [])

    def closed(self, record: PartitionRecord, committed: int) -> Message:
        """Return the message after which no start goes on from a record, until it is overwritten.

        It claims an offset beyond everything that the group, or a recovery of its offset, can show.
        """
        claimed = max(committed, record.position) + 1
        return Message(partition_key(self.identity.topic), replace(record, committed=claimed).value(), [])

    def archived(self, position: int, written: int) -> Message:
        """Return the message that lists one archive more: it follows the archive, or comes with it."""
        self.archives = self.archives.plus(ArchiveEntry(position, written, self.identity.digest))
        return Message(archives_key(self.identity.topic), self.archives.value(), [])

    def _record(self, position: int, recovery_offset: int, committed: int, state: bytes) -> Message:
        self.recovery_offset, self._recorded = recovery_offset, position
        record = PartitionRecord(self.identity, self.partition, recovery_offset, position, committed, state, self.began)
        return Message(partition_key(self.identity.topic), record.value(), [])

    def _end(self, stream: str) -> Iterator[Message]:
        """Remove the records of a stream: its manifest first, because without it the chunks are never read."""
        if (stored := self.manifests.pop(stream)) is not None:
            for key in (manifest_key(stream), *sorted(stored.keys)):
                yield Message(key, None, [])

    def _stream(self, snapshot: StreamSnapshot) -> Iterator[Message]:
        stream, body, size = snapshot.stream, snapshot.body, self._chunk_bytes
        origin = self.identity.topic, self.identity.topic_id, self.partition, stream
        described = -(-len(body) // size), len(body), hashlib.sha256(body).hexdigest()
        manifest = Manifest(*origin, snapshot.next, *described, snapshot.header)
        before = self.manifests.get(stream)
        if before is not None and before.next == manifest.next:
            # The one before counts until the new manifest is there: other chunks take other numbers.
            free = 0 if before.begin >= manifest.chunks else before.begin + before.chunks
            same = (before.size, before.chunks, before.sha256) == (manifest.size, manifest.chunks, manifest.sha256)
            manifest = replace(manifest, begin=before.begin if same else free)
        keys = manifest.keys
        for number, key in enumerate(keys):
            yield Message(key, body[number * size : (number + 1) * size], [])
            reach("between-snapshot-chunks")
        if before is not None and manifest.next < before.next:
            # No snapshot may be replaced by an earlier one.
            yield Message(manifest_key(stream), None, [])
        yield Message(manifest_key(stream), manifest.value(), [])
        for key in sorted({*(before.keys if before is not None else ())}.difference(keys)):
            yield Message(key, None, [])
        self.manifests.put(stream, manifest)
