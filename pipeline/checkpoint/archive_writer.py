"""Write archives: all models of a partition at one offset, once an interval.

A snapshot replaces the one before it. An archive stays as long as the input's records, so that any range of them can be
learned again from the state at its beginning. It is written with the commit of its position, and does not change the
snapshots.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from threading import Event
from typing import Protocol

from resonance.pipeline import logs
from resonance.pipeline.checkpoint.archive_reader import FIRST_LINE, LOOK_BACK, ArchiveLine, last_manifest, present_line
from resonance.pipeline.checkpoint.archive_records import ArchivedStream, ArchiveManifest, Parts, list_of
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.checkpoint.changelog_writer import CHUNK_BYTES
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import Message, StreamSnapshot, TopicPartition

_log = logging.getLogger(__name__)


class ArchivedTask(Protocol):
    """The part of a partition task that writing an archive needs."""

    def is_consistent_at(self, position: int) -> bool:
        """Return whether `states` and `partition_state` contain every record below an offset, and no other."""

    def states(self) -> Iterator[StreamSnapshot]:
        """Yield the state of every stream; none counts as snapshotted by that."""

    def partition_state(self) -> bytes:
        """Return what the partition knows beside its streams."""


class ArchiveWriter:
    """Writes the archives of one partition task.

    Parameters
    ----------
    topic : str
        The archive topic.
    identity : Identity
        Identity that every manifest contains.
    interval : float
        Seconds between two archives.
    last : (int, float) or None
        Position of the last archive and its age in seconds; None where there is none. Offset 0 is never archived,
        because nothing is known there.
    line : ArchiveLine
        Lineage that the archives continue.
    clock : callable
        Returns seconds that only grow.
    chunk_bytes : int
        Longest value of a chunk.

    Attributes
    ----------
    due_at : float
        Time of the next archive, by the clock.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        identity: Identity,
        interval: float,
        last: tuple[int, float] | None = None,
        line: ArchiveLine = FIRST_LINE,
        clock: Callable[[], float] = time.monotonic,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self.topic = topic
        self._partition = partition
        self._identity = identity
        self._interval = interval
        self._line = line
        self._clock = clock
        self._chunk_bytes = chunk_bytes
        self._position, age = last or (0, interval)
        self.due_at = clock() + interval - age

    def is_due(self, task: ArchivedTask, position: int) -> bool:
        """Return whether the interval ended, something was learned since, and the task is consistent at `position`."""
        return self._clock() >= self.due_at and position != self._position and task.is_consistent_at(position)

    def messages(self, task: ArchivedTask, position: int, timestamp: int) -> Iterator[Message]:
        """Yield an archive, in the order in which it must be written.

        The task has learned every record below `position`, whose outputs are delivered before these messages, or with
        them. `timestamp` is the Kafka timestamp of the newest of these records, in milliseconds; -1 where it is not
        known.
        """
        topic, streams, written, size = self._identity.topic, [], 0, 0
        epoch = self._line.epoch if position >= self._line.position else self._line.next_epoch
        self._line = self._line._replace(epoch=epoch, position=position)
        for snapshot in task.states():
            parts = Parts.of(snapshot.body, self._chunk_bytes)
            streams.append(ArchivedStream(snapshot.stream, snapshot.next, snapshot.header, parts))
            yield from self._cut(snapshot.body, streams[-1].keys(topic, position, epoch))
            written, size = written + parts.chunks, size + parts.size
        listed = list_of(streams)
        parts = Parts.of(listed, self._chunk_bytes)
        state, records = task.partition_state(), written + parts.chunks
        manifest = ArchiveManifest(self._identity, position, timestamp, state, records, parts, epoch)
        yield from self._cut(listed, manifest.list_keys())
        yield Message(manifest.key(), manifest.value(), [])
        self._position, self.due_at = position, self._clock() + self._interval
        emitted = (topic, self._partition, position, len(streams), size)
        _log.info(
            "%s[%d]@%d: archived: %d streams, %d bytes", *emitted, extra=logs.at(topic, self._partition, position)
        )

    def _cut(self, body: bytes, keys: list[bytes]) -> Iterator[Message]:
        size = self._chunk_bytes
        for number, key in enumerate(keys):
            yield Message(key, body[number * size : (number + 1) * size], [])


def archive_writers(
    source: DeploymentContext, assigned: Collection[TopicPartition], interval: float, cancelled: Event | None = None
) -> dict[TopicPartition, ArchiveWriter]:
    """Return the writers of the assigned partitions; each interval counts from the partition's last archive.

    Parameters
    ----------
    interval : float
        Seconds between two archives; 0 for none.
    cancelled : Event, optional
        Ends the reading early, with `RestoreCancelledError`.

    Returns
    -------
    dict of (topic, partition) to ArchiveWriter
        Empty where archives are off, or there is no topic for them.

    Raises
    ------
    BrokerError
        The broker does not answer.
    """
    if not (source.archive and interval and assigned):
        return {}
    with LogReader(source.client, source.group, source.patience, cancelled) as reader:
        if not reader.has((source.archive, max(partition for _, partition in assigned))):
            _log.warning("there is no topic %s for archives: the past cannot be replayed from them", source.archive)
            return {}
        last = {at: last_manifest(reader, source, at) for at in assigned}
        lines = {at: present_line(reader, source, at) for at in assigned}
    now = time.time()
    ages = {at: (found[0], max(0.0, now - found[1] / 1000)) for at, found in last.items() if found is not None}
    return {
        at: ArchiveWriter(source.archive, at[1], source.identities[at[0]], interval, ages.get(at), lines[at])
        for at in assigned
    }


def archive_of(source: DeploymentContext, at: TopicPartition, task: ArchivedTask, position: int) -> list[Message]:
    """Return the archive of a task that begins a new history; empty without an archive topic or a consistent state.

    Without it a replay from there on would start from an archive of the models before.
    """
    if not source.archive:
        return []
    with LogReader(source.client, source.group, source.patience) as reader:
        if not reader.has((source.archive, at[1])) or not task.is_consistent_at(position):
            return []
        first, _ = reader.bounds([at])[at]
        timestamp = -1
        for _, records in reader.read({at: (max(first, position - LOOK_BACK), position)}):
            timestamp = records[-1].timestamp
        line = present_line(reader, source, at)
    writer = ArchiveWriter(source.archive, at[1], source.identities[at[0]], 1.0, line=line)
    return list(writer.messages(task, position, timestamp))
