"""Read snapshots back: which records are live, which snapshots are complete, and which can be relied on."""

import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson
from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.changelog_records import (
    UNREADABLE,
    ArchiveIndex,
    Identity,
    Manifest,
    Manifests,
    PartitionRecord,
    archives_key,
    manifest_key,
    partition_key,
)
from resonance.pipeline.checkpoint.changelog_writer import CHUNK_BYTES, NO_ARCHIVES, ChangelogWriter
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.disk_map import DiskMap
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.records import StoredStreams, StreamSnapshot

_log = logging.getLogger(__name__)


class ChangelogTable:
    """The live records of one partition of the snapshots topic, gathered by reading it once from its beginning.

    The partition has the number of the input partitions whose snapshots it holds. What grows with the number of streams
    is in temporary files. Unless `strict` it takes what can be read, and no states: it is for what replaces all of it.
    """

    def __init__(self, topic: str, partition: int, *, strict: bool = True) -> None:
        self.topic = topic
        self.partition = partition
        self._strict = strict
        self._where = f"{topic}[{partition}]"
        self._chunks = DiskMap()
        # By input topic.
        self._manifests: dict[str, Manifests] = {}
        self._topic_ids: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._records: dict[str, PartitionRecord] = {}
        self._indexes: dict[str, ArchiveIndex] = {}
        # By their keys: what is wrong with live records, and lists of archives that cannot be read. The pipelines.
        self._broken: dict[bytes, MismatchError] = {}
        self._lists: set[bytes] = set()
        self._owners: dict[str, Any] = {}

    def apply(self, key: bytes | None, value: bytes | None, timestamp: int = -1) -> None:
        """Apply the next record of the topic; the newest value of a key counts, as in compaction.

        `timestamp` is the time of writing, in milliseconds since 1970; -1 where it is not needed.
        """
        try:
            kind, name, *_ = parsed = orjson.loads(key or b"")
        except UNREADABLE:
            # Another program wrote this key; it does no harm.
            return
        ours = kind in ("chunk", "manifest", "partition", "archives") and isinstance(name, str)
        if key is None or not ours or orjson.dumps(parsed) != key:
            return
        self._broken.pop(key, None)
        self._lists.discard(key)
        try:
            if kind == "chunk":
                self._apply_chunk(key, value)
            elif kind == "manifest":
                self._apply_manifest(name, value, timestamp)
            elif kind == "archives":
                self._apply_index(key, name, value)
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
        before: Manifest | None = None
        for topic, manifests in self._manifests.items():
            if (found := manifests.pop(stream)) is not None:
                self._topic_ids[topic][found.topic_id] -= 1
                before = found
        if value is None:
            return
        try:
            manifest = Manifest.parse(value, f"{self._where}, stream {stream}", timestamp)
        except UNREADABLE:
            raise mismatches.unreadable(self._where, f"the manifest of stream {stream}") from None
        self._check_origin(f"the snapshot of stream {stream}", manifest, stream, manifest.stream)
        self._of(manifest.topic).put(stream, manifest)
        self._topic_ids[manifest.topic][manifest.topic_id] += 1
        same = before is not None and before.topic_id == manifest.topic_id
        if self._strict and before is not None and same and manifest.next < before.next:
            # The record counts on the one before it. Without transactions nothing keeps a worker that has lost its
            # partitions from writing once more.
            raise mismatches.set_back(self._where, stream, before.next, manifest.next)

    def _of(self, topic: str) -> Manifests:
        """Return the manifests of the streams of an input topic."""
        return self._manifests.setdefault(topic, Manifests())

    def _apply_record(self, topic: str, value: bytes | None) -> None:
        self._records.pop(topic, None)
        self._owners.pop(topic, None)
        if value is None:
            return
        with suppress(*UNREADABLE):
            self._owners[topic] = orjson.loads(value)["pipeline"]
        try:
            record = PartitionRecord.parse(value, self._where)
        except UNREADABLE:
            raise mismatches.unreadable(self._where, f"the record of input topic {topic}") from None
        self._check_origin(f"the record of input topic {topic}", record, topic, record.identity.topic)
        self._records[topic] = record

    def _apply_index(self, key: bytes, topic: str, value: bytes | None) -> None:
        self._indexes.pop(topic, None)
        if value is None:
            return
        try:
            index = ArchiveIndex.parse(value, self._where)
        except UNREADABLE:
            # Workers do without it.
            self._lists.add(key)
            _log.warning("%s: the list of the archives of input topic %s cannot be read", self._where, topic)
            return
        self._check_origin(f"the list of the archives of input topic {topic}", index)
        self._indexes[topic] = index

    def _check_origin(
        self, what: str, found: Manifest | PartitionRecord | ArchiveIndex, key: str = "", named: str = ""
    ) -> None:
        """Raise MismatchError where a record names another partition than this one, or another thing than its key."""
        if self._strict and found.partition != self.partition:
            raise mismatches.copied(self._where, what, f"partition {found.partition}")
        if self._strict and named != key:
            raise mismatches.copied(self._where, what, named)

    def _apply_chunk(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._chunks.pop(key)
        else:
            self._chunks.put(key, value if self._strict else b"")

    @property
    def keys(self) -> set[bytes]:
        """The keys of all live records."""
        streams = (manifest_key(stream) for manifests in self._manifests.values() for stream in manifests)
        others = (*map(partition_key, self._records), *map(archives_key, self._indexes))
        return {*self._chunks, *streams, *others, *self.unreadable}

    @property
    def unreadable(self) -> set[bytes]:
        """Those of them whose records cannot be read, or, where it is strict, cannot be relied on."""
        return {*self._broken, *self._lists}

    def manifests(self) -> Iterator[Manifest]:
        """Yield the newest manifest of each stream of all input topics."""
        for manifests in self._manifests.values():
            yield from filter(None, map(manifests.get, manifests))

    def check_owner(self, pipeline: str) -> None:
        """Raise MismatchError where a record names another pipeline, even if it cannot be read beyond that."""
        for owner in self._owners.values():
            if owner != pipeline:
                raise mismatches.other_pipeline(self.topic, owner, pipeline)

    def records(self) -> dict[str, PartitionRecord]:
        """Return the partition record of each input topic that has one."""
        return dict(self._records)

    def archives(self, topic: str) -> ArchiveIndex:
        """Return the archives of an input topic."""
        return self._indexes.get(topic, NO_ARCHIVES)

    def streams(self, topic: str) -> list[str]:
        """Return the streams of an input topic that have a manifest, by name."""
        return list(self._of(topic))

    def manifest(self, stream: str) -> Manifest | None:
        """Return the newest manifest of a stream; None where it has none."""
        return next(filter(None, (manifests.get(stream) for manifests in self._manifests.values())), None)

    def checkpoint(self, topic: str) -> PartitionCheckpoint | None:
        """Return the newest checkpoint of an input topic; None where none was completed."""
        record = self._records.get(topic)
        return None if record is None else PartitionCheckpoint(record, StoredStreams(self.streams(topic), self.newest))

    def newest(self, stream: str) -> StreamSnapshot:
        """Return the newest snapshot of a stream that has a manifest; MismatchError where it is not whole."""
        manifest = self.manifest(stream)
        assert manifest is not None  # noqa: S101 - only streams that have one are read
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
        record = self._records.get(identity.topic)
        began = record.began if record is not None and record.identity == identity else -1
        manifests, archives = self._of(identity.topic), self.archives(identity.topic)
        return ChangelogWriter(identity, self.partition, manifests, chunk_bytes, began, archives)
