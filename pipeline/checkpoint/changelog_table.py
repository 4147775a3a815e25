"""Read snapshots back: which records are live, which snapshots are complete, and which can be relied on."""

import hashlib
import logging
from dataclasses import replace

import orjson
from resonance.pipeline import logs, mismatches
from resonance.pipeline.checkpoint.changelog_records import (
    UNREADABLE,
    UNSTATED,
    ArchiveIndex,
    Identity,
    Manifest,
    PartitionRecord,
    archives_key,
    manifest_key,
    partition_key,
)
from resonance.pipeline.checkpoint.changelog_writer import CHUNK_BYTES, NO_ARCHIVES, ChangelogWriter
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.records import StreamSnapshot

_log = logging.getLogger(__name__)


class ChangelogTable:
    """The live records of one partition of the snapshots topic, gathered by reading it once from its beginning.

    The partition has the number of the input partitions whose snapshots it holds.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self._where = f"{topic}[{partition}]"
        self._chunks: dict[str, dict[bytes, bytes]] = {}
        self._manifests: dict[str, Manifest] = {}
        self._records: dict[str, PartitionRecord] = {}
        self._indexes: dict[str, ArchiveIndex] = {}
        self._epochs: dict[str, int] = {}
        self._overtaken: set[str] = set()
        self._broken: dict[bytes, MismatchError] = {}
        self._written: dict[str, int] = {}

    def apply(self, key: bytes | None, value: bytes | None, timestamp: int = -1) -> None:
        """Apply the next record of the topic; the newest value of a key counts, as in compaction.

        `timestamp` is the time of writing, in milliseconds since 1970; -1 where it is not needed.
        """
        try:
            kind, name, *_ = orjson.loads(key or b"")
        except UNREADABLE:
            # Another program wrote this key; it does no harm.
            return
        if key is None or kind not in ("chunk", "manifest", "partition", "archives"):
            return
        self._broken.pop(key, None)
        try:
            if kind == "chunk":
                self._apply_chunk(name, key, value)
            elif kind == "manifest":
                self._apply_manifest(name, value)
                self._written[name] = timestamp
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
            ids = {f"the snapshot of stream {name}": self._manifests[name].topic_id for name in self.streams(topic)}
            ids[f"the list of the archives of input topic {topic}"] = self.archives(topic).topic_id
            for what, topic_id in ids.items():
                if topic_id not in ("", record.identity.topic_id):
                    raise mismatches.copied(self._where, what, f"the topic with id {topic_id}")

    def _apply_manifest(self, stream: str, value: bytes | None) -> None:
        self._manifests.pop(stream, None)
        if value is None:
            return
        try:
            manifest = Manifest.parse(value, f"{self._where}, stream {stream}")
        except UNREADABLE:
            raise mismatches.unreadable(self._where, f"the manifest of stream {stream}") from None
        self._check_origin(f"the snapshot of stream {stream}", manifest, stream, manifest.stream)
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
        except UNREADABLE:
            raise mismatches.unreadable(self._where, f"the record of input topic {topic}") from None
        self._check_origin(f"the record of input topic {topic}", record, topic, record.identity.topic)
        # An owner that was taken for dead knows less than its successor, whose record stands before its own.
        if self._is_latest(topic, record.epoch) or before is None:
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
        if found.partition == UNSTATED:
            return
        if found.partition != self.partition:
            raise mismatches.copied(self._where, what, f"partition {found.partition}")
        if named != key:
            raise mismatches.copied(self._where, what, named)

    def _apply_chunk(self, stream: str, key: bytes, value: bytes | None) -> None:
        chunks = self._chunks.setdefault(stream, {})
        if value is None:
            chunks.pop(key, None)
        else:
            chunks[key] = value

    def _is_latest(self, topic: str, epoch: int) -> bool:
        """Return whether no record of a later owner was applied before this one."""
        highest = self._epochs[topic] = max(epoch, self._epochs.get(topic, 0))
        return epoch == highest

    def live_keys(self) -> list[bytes]:
        """Return the keys of all live records."""
        chunks = [key for keys in self._chunks.values() for key in keys]
        indexes = map(archives_key, self._indexes)
        return [*chunks, *map(manifest_key, self._manifests), *map(partition_key, self._records), *indexes]

    def records(self) -> dict[str, PartitionRecord]:
        """Return the partition record of each input topic that has one."""
        return dict(self._records)

    def archives(self, topic: str) -> ArchiveIndex:
        """Return the archives of an input topic."""
        return self._indexes.get(topic, NO_ARCHIVES)

    def streams(self, topic: str) -> list[str]:
        """Return the streams of an input topic that have a manifest, by name."""
        return sorted(stream for stream, manifest in self._manifests.items() if manifest.topic == topic)

    def written(self, stream: str) -> int:
        """Return when the newest manifest of a stream was written, in milliseconds since 1970."""
        return self._written[stream]

    def checkpoint(self, topic: str) -> PartitionCheckpoint | None:
        """Return the newest checkpoint of an input topic; None where none was completed.

        The snapshot before a damaged one lacks what that one contained: the input must be read again from there. Raises
        MismatchError where a stream has no complete snapshot.
        """
        record = self._records.get(topic)
        if record is None:
            return None
        streams = []
        for stream in self.streams(topic):
            snapshot, relied_on = self.newest(stream)
            streams.append(snapshot)
            if not relied_on:
                where = (self.topic, self.partition)
                _log.warning(
                    "%s[%d]: the newest snapshot of stream %s is damaged or lost, the one at offset %d is used",
                    *where,
                    stream,
                    snapshot.next,
                    extra=logs.at(*where),
                )
                record = replace(record, recovery_offset=min(record.recovery_offset, snapshot.next))
        return PartitionCheckpoint((topic, self.partition), record, streams)

    def newest(self, stream: str) -> tuple[StreamSnapshot, bool]:
        """Return the newest complete snapshot of a stream, and whether the partition record takes it into account.

        Raises MismatchError where no version that the manifest names is complete.
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
        raise mismatches.damaged(self._where, stream, problems)

    def writer(self, identity: Identity, chunk_bytes: int = CHUNK_BYTES) -> ChangelogWriter:
        """Return the writer that continues here, for the streams of the identity's input topic."""
        manifests = {stream: self._manifests[stream] for stream in self.streams(identity.topic)}
        # An orphan chunk is removed only when its own stream is snapshotted: those of other inputs do no harm.
        orphan_chunks = {stream: set(chunks) for stream, chunks in self._chunks.items()}
        for stream, manifest in manifests.items():
            for version in (manifest.current, manifest.previous):
                orphan_chunks.get(stream, set()).difference_update(version.keys(stream) if version else ())
        epoch = self._epochs.get(identity.topic, 0) + 1
        record = self._records.get(identity.topic)
        began = record.began if record is not None and record.identity == identity else -1
        archives = self.archives(identity.topic)
        return ChangelogWriter(identity, self.partition, manifests, orphan_chunks, epoch, chunk_bytes, began, archives)
