"""Read archives back: the index in the changelog says where they stand, and when each was written."""

import logging
import sys
from collections.abc import Iterable
from typing import Final, Self

from resonance.pipeline.checkpoint.archive_records import ArchivedStream, ArchiveKey, ArchiveManifest, streams_of
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, ArchiveEntry, PartitionRecord
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint, StoredStreams
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.disk_map import DiskMap
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader
from resonance.pipeline.kafka.log_search import one_by_one
from resonance.pipeline.records import StreamSnapshot, TopicPartition
from resonance.pipeline.timestamps import TimeTexts

_AT_ONCE: Final = 64
"""Records that are read at once: each may have half a megabyte."""

_log = logging.getLogger(__name__)


class Archives:
    """The archives of an input partition that the archive topic still has.

    Parameters
    ----------
    entries : iterable of ArchiveEntry
        What the index lists, by position.

    Attributes
    ----------
    entries : list of ArchiveEntry
        Those that are not deleted.
    """

    def __init__(
        self, reader: LogReader, source: DeploymentContext, at: TopicPartition, entries: Iterable[ArchiveEntry]
    ) -> None:
        self._reader, self._source, self._at, self._topic = reader, source, at, (source.archive, at[1])
        self.entries: list[ArchiveEntry] = []
        if source.archive and reader.has(self._topic):
            first, end = reader.bounds([self._topic])[self._topic]
            oldest = next((record.timestamp for record in one_by_one(reader, self._topic, first, end)), sys.maxsize)
            listed = list(entries)
            # Of those that were begun before the first record was written, only the last can still be there.
            kept = max((number for number, entry in enumerate(listed) if entry.written < oldest), default=0)
            self.entries = listed[kept:] if first < end else []

    @classmethod
    def of(
        cls, reader: LogReader, source: DeploymentContext, at: TopicPartition
    ) -> tuple[Self, PartitionRecord | None]:
        """Return the archives that the changelog lists, and its partition record; none of another log."""
        if reader.has((source.snapshots, at[1])):
            table = read_tables(reader, source, [at[1]])[at[1]]
            record = table.records().get(at[0])
            if record is not None and source.is_same_log(record.identity):
                return cls(reader, source, at, table.archives(at[0]).entries), record
        return cls(reader, source, at, ()), None

    def newest(self, offset: int) -> PartitionCheckpoint | None:
        """Return the newest complete archive at or before an offset; None where there is none."""
        before = (entry for entry in reversed(self.entries) if entry.position <= offset)
        return next((found for entry in before if (found := self.read(entry)) is not None), None)

    def read(self, entry: ArchiveEntry) -> PartitionCheckpoint | None:
        """Read an archive; None where it is incomplete."""
        first, end = self._reader.bounds([self._topic])[self._topic]
        begin = self._reader.offsets_at([self._topic], entry.written)[self._topic]
        # A broker that writes times of its own may show a later one: then the topic is read from its beginning.
        for start in dict.fromkeys((begin, first)):
            if start != NO_OFFSET and (found := self._gather(entry, max(start, first), end)) is not None:
                return found if self._source.is_same_log(found.record.identity) else None
        _log.warning(
            "%s[%d]: the archive at offset %d is not whole, an older one is used", *self._topic, entry.position
        )
        return None

    def _gather(self, entry: ArchiveEntry, first: int, end: int) -> PartitionCheckpoint | None:
        """Read the records of an archive in a range, up to its manifest."""
        own = (self._at[0], entry.position)
        found = DiskMap()
        for _, records in self._reader.read({self._topic: (first, end)}, _AT_ONCE):
            for record in records:
                key = ArchiveKey.of(record.key)
                if key is None or (key.topic, key.position) != own:
                    continue
                if key.kind != "archive":
                    found.put(record.key or b"", record.value or b"")
                    continue
                try:
                    manifest = ArchiveManifest.parse(record.value or b"", f"{self._topic[0]}[{self._topic[1]}]")
                    if manifest.partition != self._at[1]:
                        named = f"{manifest.identity.topic}[{manifest.partition}]"
                        _log.warning("%s[%d]@%d: an archive of %s was copied here", *self._topic, record.offset, named)
                    elif manifest.written == entry.written:
                        return _assembled(self._at, manifest, found)
                except (*UNREADABLE, IndexError, MismatchError) as error:
                    _log.warning("%s[%d]@%d: an archive cannot be read: %s", *self._topic, record.offset, error)
        return None


def _assembled(at: TopicPartition, manifest: ArchiveManifest, found: DiskMap) -> PartitionCheckpoint | None:
    """Assemble an archive; None where a part is missing."""

    def body_of(stream: ArchivedStream) -> bytes | None:
        return stream.parts.join(stream.keys(at[0], manifest.position), found)

    listed = manifest.streams.join(manifest.list_keys(), found)
    streams = [] if listed is None else streams_of(listed)
    if listed is None or any(body_of(stream) is None for stream in streams):
        return None
    stored = StoredStreams(
        streams, lambda stream: StreamSnapshot(stream.stream, stream.next, stream.header, body_of(stream) or b"")
    )
    position = manifest.position
    record = PartitionRecord(manifest.identity, at[1], position, position, position, manifest.state)
    return PartitionCheckpoint(at, record, stored, timestamp=manifest.timestamp)


def archive_name(archived: PartitionCheckpoint) -> str:
    """Return an archive as users know it: by its offset, and by the time of the newest record that it has learned."""
    # An archive written before any record was read has no time.
    time = f" ({TimeTexts()[archived.timestamp]})" if archived.timestamp >= 0 else ""
    return f"the archive at offset {archived.position:,}{time}"
