"""Read archives back: find the newest one at or before an offset without reading the whole topic."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from resonance.pipeline.checkpoint.archive_records import ArchiveKey, ArchiveManifest, snapshot_of, streams_of
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, Identity
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.log_search import first_offset
from resonance.pipeline.records import Record, StreamSnapshot, TopicPartition

LOOK_BACK: Final = 4
"""Records to read first where a manifest should be: room for it and the marker of its transaction."""

_log = logging.getLogger(__name__)


class RestoredTask(Protocol):
    """The part of a partition task that restoring an archive needs."""

    def restore_partition(self, state: bytes) -> None:
        """Continue from `partition_state`; comes before any stream is restored."""

    def restore(self, snapshot: StreamSnapshot) -> None:
        """Continue a stream from a snapshot."""


@dataclass(frozen=True, slots=True)
class Archived:
    """Everything that an input partition had learned at one offset."""

    at: TopicPartition
    position: int
    """Every record below this offset was learned, and no other."""
    timestamp: int
    """Kafka timestamp of the newest learned record, in milliseconds; -1 where it is not known."""
    identity: Identity
    """Pipeline, log and settings of the models."""
    state: bytes
    """`PartitionTask.partition_state` at `position`."""
    snapshots: list[StreamSnapshot]
    """One for each stream."""

    def restore(self, task: RestoredTask) -> None:
        """Restore an empty task of this partition; the next record that it needs is the one at `position`.

        Raises MismatchError where the models cannot be read, or were learned with other settings, which it names.
        """
        task.restore_partition(self.state)
        for snapshot in self.snapshots:
            task.restore(snapshot)


@dataclass(frozen=True, slots=True)
class ListedArchive:
    """An archive of which only the manifest has been read."""

    manifest: ArchiveManifest
    _reader: LogReader
    _place: TopicPartition
    _first: int
    _entry: Record
    _at: TopicPartition

    def read(self) -> Archived | None:
        """Read the whole archive; None where it is incomplete."""
        found = _gather(self._reader, self._place, self._at, self._first, self._entry, self.manifest)
        if found is None:
            place, position = self._place, self.manifest.position
            _log.warning("%s[%d]: the archive at offset %d is not whole, an older one is used", *place, position)
        return found


def archives_before(
    reader: LogReader, source: DeploymentContext, at: TopicPartition, offset: int
) -> Iterator[ListedArchive]:
    """Yield the archives of an input partition at or before an offset, the newest first; only manifests are read.

    Yields
    ------
    ListedArchive
        Those of the newest lineage first, where a reset or a resume has moved positions back.

    Raises
    ------
    BrokerError
        The broker does not answer.
    """
    topic, partition = at
    archive = (source.archive, partition)
    if not source.archive or not reader.has(archive):
        return

    first, end = reader.bounds([archive])[archive]
    while (line := _last_key(reader, archive, topic, first, end)) is not None:
        begin, behind = _line(reader, archive, topic, line.epoch, offset)
        for entry, manifest in _manifests(reader, archive, topic, max(begin, first), min(behind, end)):
            if manifest.position <= offset and _is_ours(source, at, manifest):
                yield ListedArchive(manifest, reader, archive, first, entry, at)
        end = begin


def newest_archive(reader: LogReader, source: DeploymentContext, at: TopicPartition, offset: int) -> Archived | None:
    """Return the newest complete one of `archives_before`; None where there is none, or no archive topic."""
    read = (listed.read() for listed in archives_before(reader, source, at, offset))
    return next((archived for archived in read if archived is not None), None)


def _line(reader: LogReader, archive: TopicPartition, topic: str, epoch: int, offset: int) -> tuple[int, int]:
    """Return where a lineage begins, and where positions in it pass an offset."""

    def asked(holds: Callable[[ArchiveKey], bool]) -> Callable[[Record], bool | None]:
        def emitted(record: Record) -> bool | None:
            key = ArchiveKey.of(record.key)
            return None if key is None or key.topic != topic else holds(key)

        return emitted

    begin = first_offset(reader, archive, asked(lambda key: key.epoch >= epoch)) if epoch else 0
    return begin, first_offset(reader, archive, asked(lambda key: (key.epoch, key.position) > (epoch, offset)))


def _last_key(reader: LogReader, archive: TopicPartition, topic: str, first: int, end: int) -> ArchiveKey | None:
    """Return the last key of an input topic in a range, reading as few records as possible."""
    return next((key for _, key in _back(reader, archive, first, end) if key.topic == topic), None)


def _back(reader: LogReader, archive: TopicPartition, first: int, end: int) -> Iterator[tuple[Record, ArchiveKey]]:
    """Yield the entries of a range, the last first; of an archive in one piece only the manifest."""
    width = LOOK_BACK
    while first < end:
        start = max(first, end - width)
        records = [record for _, some in reader.read({archive: (start, end)}) for record in some]
        end, width = start, width * 8
        for record in reversed(records):
            key = ArchiveKey.of(record.key)
            if key is None:
                continue
            yield record, key
            begin = _begin_of(reader, archive, first, record, key) if key.kind == "archive" else None
            if begin is not None:
                end, width = begin, LOOK_BACK
                break


def _begin_of(reader: LogReader, archive: TopicPartition, first: int, entry: Record, key: ArchiveKey) -> int | None:
    """Return where an archive begins; None where other records stand between its own, or some are deleted."""
    try:
        begin = entry.offset - ArchiveManifest.parse(entry.value or b"", "").records
    except (*UNREADABLE, MismatchError):
        return None
    if begin < first:
        return None
    # The range is as long as the archive: if its first record belongs to the archive, all of them do.
    found = (record for _, some in reader.read({archive: (begin, begin + 1)}) for record in some)
    keys = (ArchiveKey.of(record.key) for record in found)
    return begin if any(one is not None and one[1:] == key[1:] for one in keys) else None


class ArchiveLine(NamedTuple):
    """Lineages of the archives of an input partition."""

    epoch: int = 0
    """Current lineage."""
    position: int = 0
    """An archive below this offset begins a new lineage."""
    next_epoch: int = 0
    """Number of that new lineage, higher than all that were used."""


FIRST_LINE: Final = ArchiveLine()
"""Nothing is archived yet."""


def present_line(reader: LogReader, source: DeploymentContext, at: TopicPartition) -> ArchiveLine:
    """Return the lineage that new archives of an input partition continue; a new one where it has no archive."""
    archive = (source.archive, at[1])
    first, end = reader.bounds([archive])[archive]
    if first == end:
        return FIRST_LINE
    # Every epoch is a former end of the partition, so the present end is higher than all of them.
    last = _last_key(reader, archive, at[0], first, end)
    return ArchiveLine(end, 0, end) if last is None else ArchiveLine(last.epoch, last.position, end)


def last_manifest(reader: LogReader, source: DeploymentContext, at: TopicPartition) -> tuple[int, int] | None:
    """Return position and Kafka timestamp, in milliseconds, of the archive that was begun last.

    None where there is none, or where it was not finished. Archives of other inputs, or of the routes, may stand behind
    it.
    """
    archive = (source.archive, at[1])
    first, end = reader.bounds([archive])[archive]
    entry, key = next((found for found in _back(reader, archive, first, end) if found[1].topic == at[0]), (None, None))
    if entry is None or key is None or key.kind != "archive":
        return None
    try:
        manifest = ArchiveManifest.parse(entry.value or b"", f"{archive[0]}[{archive[1]}]")
    except (*UNREADABLE, MismatchError):
        return None
    return (manifest.position, entry.timestamp) if _is_ours(source, at, manifest) else None


def _is_ours(source: DeploymentContext, at: TopicPartition, manifest: ArchiveManifest) -> bool:
    """Return whether an archive belongs to this deployment and to the log that exists now."""
    found, now = manifest.identity, source.identities[at[0]]
    named = (found.pipeline, len(found.inputs) == 1)
    return named == (now.pipeline, len(now.inputs) == 1) and source.is_same_log(found)


def _manifests(
    reader: LogReader, archive: TopicPartition, topic: str, first: int, end: int
) -> Iterator[tuple[Record, ArchiveManifest]]:
    """Yield the manifests of an input topic in a range, the last first, reading as few records as possible."""
    width = LOOK_BACK
    while first < end:
        start = max(first, end - width)
        entries = []
        for _, records in reader.read({archive: (start, end)}):
            entries += [record for record in records if _is_manifest(record, topic)]
        for entry in reversed(entries):
            try:
                yield entry, ArchiveManifest.parse(entry.value or b"", f"{archive[0]}[{archive[1]}]")
            except (*UNREADABLE, MismatchError) as error:
                _log.warning("%s[%d]@%d: an archive cannot be read: %s", *archive, entry.offset, error)
        end, width = start, width * 8


def _is_manifest(record: Record, topic: str) -> bool:
    key = ArchiveKey.of(record.key)
    return key is not None and (key.kind, key.topic) == ("archive", topic)


def _gather(
    reader: LogReader, archive: TopicPartition, at: TopicPartition, first: int, entry: Record, manifest: ArchiveManifest
) -> Archived | None:
    """Read the records of a manifest's archive; None where it is incomplete."""
    width = manifest.records + LOOK_BACK
    while True:
        start = max(first, entry.offset - width)
        found: dict[bytes, bytes] = {}
        for _, records in reader.read({archive: (start, entry.offset)}):
            for record in records:
                key = ArchiveKey.of(record.key)
                if key is not None and key[1:] == (at[0], manifest.position, manifest.epoch):
                    found[record.key or b""] = record.value or b""
        archived = _whole(at, manifest, found)
        if archived is not None or start == first:
            return archived
        # Archives of other inputs, or aborted transactions, stand between its records.
        width *= 4


def _whole(at: TopicPartition, manifest: ArchiveManifest, found: dict[bytes, bytes]) -> Archived | None:
    """Assemble an archive; None where a part is missing."""
    listed = manifest.streams.join(manifest.list_keys(), found)
    if listed is None:
        return None
    try:
        streams = streams_of(listed)
    except (*UNREADABLE, IndexError):
        return None
    snapshots = []
    for stream in streams:
        body = stream.parts.join(stream.keys(at[0], manifest.position, manifest.epoch), found)
        if body is None:
            return None
        snapshots.append(snapshot_of(stream, body))
    return Archived(at, manifest.position, manifest.timestamp, manifest.identity, manifest.state, snapshots)
