"""Read archives back: the index in the changelog says where they stand, and when each was written."""

import io
import logging
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

from resonance.pipeline.checkpoint.archive_writer import archive_key
from resonance.pipeline.checkpoint.changelog_records import ArchiveEntry, PartitionRecord
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.codec import decode
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.errors import InputFileError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader
from resonance.pipeline.kafka.positions import one_by_one
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.timestamps import TimeTexts

_AT_ONCE: Final = 64
"""Records that are read at once: each may have half a megabyte."""

_log = logging.getLogger(__name__)


class Archives:
    """The archives of an input partition that its topic still has, of the `entries` of the index, by position."""

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
        """Read an archive from its parts in a range; None where they are not whole."""
        try:
            (found,) = decode(io.BufferedReader(_Parts(self._parts(entry, first, end))))
        except (InputFileError, ValueError) as error:
            _log.debug("%s[%d]: the archive at offset %d %s", *self._topic, entry.position, error)
            return None
        if found.at != self._at:
            _log.warning("%s[%d]: an archive of %s[%d] was copied here", *self._topic, *found.at)
            return None
        return found

    def _parts(self, entry: ArchiveEntry, first: int, end: int) -> Iterator[bytes]:
        number = 0
        for _, records in self._reader.read({self._topic: (first, end)}, _AT_ONCE):
            for record in records:
                if record.key == archive_key(self._at[0], entry.position, entry.written, number):
                    number += 1
                    yield record.value or b""


class _Parts(io.RawIOBase):
    """The parts of an archive as a file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._rest = parts, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._parts, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def archive_name(archived: PartitionCheckpoint) -> str:
    """Return an archive as users know it: by its offset, and by the time of the newest record that it has learned."""
    # An archive written before any record was read has no time.
    time = f" ({TimeTexts()[archived.timestamp]})" if archived.timestamp >= 0 else ""
    return f"the archive at offset {archived.position:,}{time}"
