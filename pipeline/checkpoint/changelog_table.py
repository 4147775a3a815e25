"""Read snapshots back: which records are live, which snapshots are complete, and which can be relied on."""

import hashlib
import logging
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import groupby

import orjson
from resonance.pipeline import logs, mismatches
from resonance.pipeline.checkpoint.changelog_records import (
    UNREADABLE,
    ArchiveIndex,
    Identity,
    Manifest,
    PartitionRecord,
)
from resonance.pipeline.checkpoint.changelog_writer import CHUNK_BYTES, NO_ARCHIVES, ChangelogWriter
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint, StoredStreams
from resonance.pipeline.checkpoint.manifests import Manifests, StoredManifest
from resonance.pipeline.disk_map import DiskMap
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.records import StreamSnapshot

_log = logging.getLogger(__name__)


class ChangelogTable:
    """The live records of one partition of the snapshots topic, gathered by reading it once from its beginning.

    The partition has the number of the input partitions whose snapshots it holds. What grows with the number of streams
    is in temporary files.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self._where = f"{topic}[{partition}]"
        self._chunks = DiskMap()
        # By input topic.
        self._manifests: dict[str, Manifests] = {}
        self._topic_ids: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._records: dict[str, PartitionRecord] = {}
        self._indexes: dict[str, ArchiveIndex] = {}
        self._epochs: dict[str, int] = {}
        self._broken: dict[bytes, MismatchError] = {}

    def apply(self, key: bytes | None, value: bytes | None, timestamp: int = -1) -> None:
        """Apply the next record of the topic; the newest value of a key counts, as in compaction.

        `timestamp` is the time of writing, in milliseconds since 1970; -1 where it is not needed.
        """
        try:
            kind, name, *_ = orjson.loads(key or b"")
        except UNREADABLE:
            # Another program wrote this key; it does no harm.
            return
        if key is None or kind not in ("chunk", "manifest", "partition", "archives") or not isinstance(name, str):
            return
        self._broken.pop(key, None)
        try:
            if kind == "chunk":
                self._apply_chunk(key, value)
            elif kind == "manifest":
                self._apply_manifest(name, value, timestamp)
            elif kind == "archives":
                self._apply_index(name, value)
            else:
                self._apply_record(name, value)
        except MismatchError as stop:
            # A tombstone behind it, as of a reset, may still remove it.
            self._broken[key] = stop

    def check(self) -> None:
        """Check the live records, once all are applied.

        Raises MismatchError where a newer release wrote one, or another program under one of this program's keys.
        """
        for stop in self._broken.values():
            raise stop
        for topic, record in self._records.items():
            own = record.identity.topic_id
            for topic_id, count in self._topic_ids[topic].items():
                if count and topic_id != own:
                    what = f"the snapshot of stream {self._of(topic).stream_with(topic_id)}"
                    raise mismatches.copied(self._where, what, f"the topic with id {topic_id}")
            if topic in self._indexes and (topic_id := self._indexes[topic].topic_id) != own:
                what = f"the list of the archives of input topic {topic}"
                raise mismatches.copied(self._where, what, f"the topic with id {topic_id}")

    def _apply_manifest(self, stream: str, value: bytes | None, timestamp: int) -> None:
        before: StoredManifest | None = None
        for topic, manifests in self._manifests.items():
            if (found := manifests.pop(stream)) is not None:
                self._topic_ids[topic][found.manifest.topic_id] -= 1
                before = found
        if value is None:
            return
        try:
            manifest = Manifest.parse(value, f"{self._where}, stream {stream}")
        except UNREADABLE:
            raise mismatches.unreadable(self._where, f"the manifest of stream {stream}") from None
        self._check_origin(f"the snapshot of stream {stream}", manifest, stream, manifest.stream)
        overtaken = not self._is_latest(manifest.topic, manifest.epoch)
        if before is not None:
            owners = [(it.topic, it.topic_id, it.epoch) for it in (before.manifest, manifest)]
            # Owners that found the same records have the same epoch; of one alone the offsets only rise.
            overtaken |= owners[0] == owners[1] and manifest.next < before.manifest.next
        stored = StoredManifest(manifest, timestamp, overtaken)
        if before is not None and stored.overtaken and self._outlives(before, stored):
            stored = before
        self._of(manifest.topic).put(stream, stored)
        self._topic_ids[manifest.topic][stored.manifest.topic_id] += 1

    def _outlives(self, before: StoredManifest, overtaken: StoredManifest) -> bool:
        """Return whether a snapshot is better than one that an owner wrote behind it that was taken for dead."""
        own, other = before.manifest, overtaken.manifest
        complete = all(self._chunks.get(key) is not None for key in own.keys)
        same = (own.topic, own.topic_id) == (other.topic, other.topic_id)
        return same and not before.overtaken and own.next >= other.next and complete

    def _of(self, topic: str) -> Manifests:
        """Return the manifests of the streams of an input topic."""
        return self._manifests.setdefault(topic, Manifests())

    def _apply_record(self, topic: str, value: bytes | None) -> None:
        before = self._records.pop(topic, None)
        if value is None:
            return
        try:
            record = PartitionRecord.parse(value, self._where)
        except UNREADABLE:
            raise mismatches.unreadable(self._where, f"the record of input topic {topic}") from None
        self._check_origin(f"the record of input topic {topic}", record, topic, record.identity.topic)
        # An owner that was taken for dead knows less than its successor, whose record stands before its own.
        is_latest = self._is_latest(topic, record.epoch)
        if before is None or (is_latest and (record.epoch, record.position) >= (before.epoch, before.position)):
            before = record
        self._records[topic] = before

    def _apply_index(self, topic: str, value: bytes | None) -> None:
        before = self._indexes.pop(topic, None)
        if value is None:
            return
        try:
            index = ArchiveIndex.parse(value, self._where)
        except UNREADABLE:
            # Workers do without it.
            _log.warning("%s: the list of the archives of input topic %s cannot be read", self._where, topic)
            return
        self._check_origin(f"the list of the archives of input topic {topic}", index)
        self._indexes[topic] = index if before is None or self._is_latest(topic, index.epoch) else before

    def _check_origin(
        self, what: str, found: Manifest | PartitionRecord | ArchiveIndex, key: str = "", named: str = ""
    ) -> None:
        """Raise MismatchError where a record names another partition than this one, or another thing than its key."""
        if found.partition != self.partition:
            raise mismatches.copied(self._where, what, f"partition {found.partition}")
        if named != key:
            raise mismatches.copied(self._where, what, named)

    def _apply_chunk(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._chunks.pop(key)
        else:
            self._chunks.put(key, value)

    def _is_latest(self, topic: str, epoch: int) -> bool:
        """Return whether no record of a later owner was applied before this one."""
        highest = self._epochs[topic] = max(epoch, self._epochs.get(topic, 0))
        return epoch == highest

    def records(self) -> dict[str, PartitionRecord]:
        """Return the partition record of each input topic that has one."""
        return dict(self._records)

    def archives(self, topic: str) -> ArchiveIndex:
        """Return the archives of an input topic."""
        return self._indexes.get(topic, NO_ARCHIVES)

    def streams(self, topic: str) -> list[str]:
        """Return the streams of an input topic that have a manifest, by name."""
        return list(self._of(topic))

    def written(self, stream: str) -> int:
        """Return when the newest manifest of a stream was written, in milliseconds since 1970."""
        return self._stored(stream).written

    def _stored(self, stream: str) -> StoredManifest:
        found = (manifests.find(stream) for manifests in self._manifests.values())
        return next(stored for stored in found if stored is not None)

    def checkpoint(self, topic: str) -> PartitionCheckpoint | None:
        """Return the newest checkpoint of an input topic; None where none was completed.

        A snapshot that a later owner does not know of lacks what the record counts on: the input must be read again
        from there.
        """
        record = self._records.get(topic)
        if record is None:
            return None
        streams = self.streams(topic)
        for manifest, _, overtaken in map(self._stored, streams):
            if overtaken:
                where = (self.topic, self.partition)
                _log.warning(
                    "%s[%d]: the snapshot of stream %s at offset %d is of a worker that was taken for dead",
                    *where,
                    manifest.stream,
                    manifest.next,
                    extra=logs.at(*where),
                )
                record = replace(record, recovery_offset=min(record.recovery_offset, manifest.next))
        return PartitionCheckpoint(record, StoredStreams(streams, self.newest))

    def newest(self, stream: str) -> StreamSnapshot:
        """Return the newest snapshot of a stream; MismatchError where it is not whole."""
        manifest = self._stored(stream).manifest
        parts = [part for key in manifest.keys if (part := self._chunks.get(key)) is not None]
        body = b"".join(parts)
        if (missing := manifest.chunks - len(parts)) > 0:
            problem = f"{missing} of its {manifest.chunks} chunks are missing"
            raise mismatches.damaged(self._where, stream, manifest.next, problem)
        if hashlib.sha256(body).hexdigest() != manifest.sha256:
            raise mismatches.damaged(self._where, stream, manifest.next, "its checksum is wrong")
        return StreamSnapshot(stream, manifest.next, manifest.header, body)

    def writer(self, identity: Identity, chunk_bytes: int = CHUNK_BYTES) -> ChangelogWriter:
        """Return the writer that continues here, for the streams of the identity's input topic.

        It replaces their manifests in this table.
        """
        epoch = self._epochs.get(identity.topic, 0) + 1
        record = self._records.get(identity.topic)
        began = record.began if record is not None and record.identity == identity else -1
        return ChangelogWriter(
            identity,
            self.partition,
            self._of(identity.topic),
            self._orphan_chunks(),
            epoch,
            chunk_bytes,
            began,
            self.archives(identity.topic),
        )

    def _orphan_chunks(self) -> dict[str, set[bytes]]:
        """Return the keys of each stream's chunks that no manifest names."""
        found: dict[str, set[bytes]] = {}
        # The keys are sorted, so those of a stream stand together.
        for stream, keys in groupby(self._chunks, lambda key: str(orjson.loads(key)[1])):
            manifests = (manifests.get(stream) for manifests in self._manifests.values())
            named = (manifest.keys for manifest in manifests if manifest is not None)
            if orphans := {*keys}.difference(*named):
                found.setdefault(stream, set()).update(orphans)
        return found
