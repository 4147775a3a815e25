"""Write archives: all models of a partition at one offset, once an interval.

A snapshot replaces the one before it. An archive stays as long as the input's records, so that any range of them can be
learned again from the state at its beginning. It is written with the commit of its position, and does not change the
snapshots. Its records, in the archive topic's partition of the same number, hold the bytes of `codec` in order, under
keys ``["archive", topic, position, written, i]``. The changelog lists it (`changelog_records.ArchiveIndex`).
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Event

import orjson
from resonance.pipeline import logs
from resonance.pipeline.checkpoint.changelog_records import ArchiveEntry
from resonance.pipeline.checkpoint.changelog_writer import CHUNK_BYTES, ChangelogWriter
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.codec import encoded
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.records import Message, TopicPartition
from resonance.pipeline.tasks import Task

LOOK_BACK = 4
"""Offsets before a position in which its last record stands, markers of transactions included."""

_log = logging.getLogger(__name__)


class ArchiveWriter:
    """Writes the archives of one partition task; offset 0 is never archived, because nothing is known there.

    The `changelog` writes the snapshots of the same task and the list of its archives. The `interval` is in seconds,
    and counts from the `last` archive that the topic still has. `clock` gives seconds that only grow, `now` those since
    1970.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        changelog: ChangelogWriter,
        interval: float,
        last: ArchiveEntry | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self.topic = topic
        self._partition = partition
        self._changelog = changelog
        self._interval = interval
        self._clock, self._now = clock, now
        self._chunk_bytes = chunk_bytes
        self._position = last.position if last else 0
        age = max(0.0, now() - last.written / 1000) if last else interval
        self.due_at = clock() + interval - age

    def is_due(self, task: Task, position: int) -> bool:
        """Return whether the interval ended, something was learned since, and the task is consistent at `position`."""
        return self._clock() >= self.due_at and position != self._position and is_consistent_at(task, position)

    def messages(self, task: Task, position: int, timestamp: int) -> Iterator[Message]:
        """Yield an archive, in the order in which it must be written, and note when that began.

        The task has learned every record below `position`, whose outputs are delivered before these messages, or with
        them. `timestamp` is the Kafka timestamp of the newest of these records, in milliseconds; -1 where it is not
        known. The message of `listed` must follow.
        """
        identity, size = self._changelog.identity, 0
        self._written = int(self._now() * 1000)
        checkpoint = PartitionCheckpoint.of(task, identity, self._partition, position, timestamp)
        for number, part in enumerate(_cut(encoded([checkpoint]), self._chunk_bytes)):
            yield Message(archive_key(identity.topic, position, self._written, number), part, [])
            size += len(part)
        self._position, self.due_at = position, self._clock() + self._interval
        emitted = (identity.topic, self._partition, position, size)
        _log.info("%s[%d]@%d: archived: %d bytes", *emitted, extra=logs.at(*emitted[:3]))

    def listed(self) -> Message:
        """Return the message for the snapshots topic that lists the archive written last."""
        return self._changelog.archived(self._position, self._written)


def archive_key(topic: str, position: int, written: int, number: int) -> bytes:
    """Return the key of a part of an archive; position and time of writing are those of its `ArchiveEntry`."""
    return orjson.dumps(["archive", topic, position, written, number])


def _cut(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the same bytes in parts of a size, of which only the last may be shorter."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)


def is_consistent_at(task: Task, position: int) -> bool:
    """Return whether the states of a task hold exactly the effect of the records below an offset."""
    return task.models.furthest <= position


def archive_writers(
    source: DeploymentContext,
    writers: Mapping[TopicPartition, ChangelogWriter],
    interval: float,
    cancelled: Event | None = None,
) -> dict[TopicPartition, ArchiveWriter]:
    """Return the writers of the archives of some partitions; each interval counts from the partition's last archive.

    None are returned where `interval` is 0 seconds or there is no topic for them. Raises `BrokerError` where the broker
    does not answer, and `RestoreCancelledError` once `cancelled` is set.
    """
    if not (source.archive and interval and writers):
        return {}
    with source.reader(cancelled) as reader:
        if not reader.has((source.archive, max(partition for _, partition in writers))):
            _log.warning("there is no topic %s for archives: the past cannot be replayed from them", source.archive)
            return {}
        bounds = reader.bounds([(source.archive, partition) for _, partition in writers])
    found = {}
    for at, writer in writers.items():
        (first, end), entries = bounds[source.archive, at[1]], writer.archives.entries
        # Retention deletes the last one last.
        last = entries[-1] if entries and first < end else None
        found[at] = ArchiveWriter(source.archive, at[1], writer, interval, last)
    return found


def archive_of(
    source: DeploymentContext, at: TopicPartition, task: Task, writer: ChangelogWriter, position: int
) -> tuple[Iterator[Message], Iterator[Message]]:
    """Return the archive of a task that begins a new history, and the message that lists it: it must be read later.

    Both are made when they are read: an archive may be larger than the memory.

    Without it a replay from there on would start from an archive of the models before. Both are empty without an
    archive topic or a consistent state.
    """
    if not source.archive:
        return iter(()), iter(())
    with source.reader() as reader:
        if not reader.has((source.archive, at[1])) or not is_consistent_at(task, position):
            return iter(()), iter(())
        first, _ = reader.bounds([at])[at]
        timestamp = -1
        for _, records in reader.read({at: (max(first, position - LOOK_BACK), position)}):
            timestamp = records[-1].timestamp
    archives = ArchiveWriter(source.archive, at[1], writer, 1.0)
    return archives.messages(task, position, timestamp), (listed() for listed in (archives.listed,))
