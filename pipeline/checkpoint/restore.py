"""Restore the models of the assigned partitions, as they were at the place where the group stands.

The newest snapshots are loaded first. Then the input is read again, without emitting, from where a snapshot no longer
covers it up to the committed offset, and each stream skips what its snapshot contains. State and outputs then equal
those of a run that never stopped. Where log, offsets and snapshots do not belong together, the restore ends with a
startup mismatch (`mismatches`).

A restore changes nothing on the broker, so it can be cancelled at any time and repeated.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.compatibility import begin, check_owner, check_record, locate
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_metadata import CommittedOffset
from resonance.pipeline.crash_points import reach
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader, OffsetRange, RestoreCancelledError
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.tasks import Task

SETTLE_SECONDS: Final = 1.0
"""Longest wait of a restore for transactions on the snapshots topic to end.

What they hold saves reading input again; without it the models come out the same, as long as the input is there.
"""

TaskT = TypeVar("TaskT", bound=Task)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RestoredPartition(Generic[TaskT]):
    """A partition that can go on."""

    task: TaskT
    """Has learned every record below `start`."""
    writer: ChangelogWriter
    """Continues the snapshots of the partition."""
    start: int
    """First offset to process; the outputs of every record below it were delivered."""
    committed: int
    """-1 for none; below `start` where an at-least-once worker ended between its snapshots and its commit."""
    recovery_offset: int
    """First offset to learn again, up to `start`."""
    pinned: bool = True
    """False where a setting chose `start`, until it is committed: another start may choose another offset."""
    metadata: str = ""
    """What is committed beside the offset."""
    replayed: int = 0
    """Records that were learned again without emitting."""


@dataclass(slots=True)
class RestoreProgress:
    """Progress of a restore; written by its thread, readable from any."""

    partitions: int = 0
    wanted: int = 0
    """Offsets to read again, which may hold fewer records; 0 until the snapshots are read."""
    replayed: int = 0
    """Records learned again so far."""


def restore_partitions(
    source: DeploymentContext,
    assigned: Collection[TopicPartition],
    make_task: Callable[[str, int], TaskT],
    cancelled: threading.Event | None = None,
    progress: RestoreProgress | None = None,
) -> dict[TopicPartition, RestoredPartition[TaskT]]:
    """Return every assigned partition with its models, ready to process records from `RestoredPartition.start` on.

    Raises `MismatchError`, which names the remedies, where log, offsets, snapshots or settings do not belong together,
    `BrokerError` where the broker does not answer, and `RestoreCancelledError` once `cancelled` is set.
    """
    if not assigned:
        return {}
    began = time.monotonic()
    with source.reader(cancelled) as reader:
        loader = _Loader(reader, source, assigned, make_task, cancelled)
        restored = {at: loader.load(at) for at in assigned}
        ranges = {at: (part.recovery_offset, part.start) for at, part in restored.items()}
        reach("during-restore")
        progress = progress or RestoreProgress()
        progress.wanted = sum(end - begin for begin, end in ranges.values())
    if progress.wanted:
        with source.reader(cancelled, foreign=True) as reader:
            for at, records in reader.read(ranges):
                restored[at].task.catch_up(records)
                restored[at].replayed += len(records)
                progress.replayed += len(records)
                reach("during-restore")
    replayed = sum(part.replayed for part in restored.values())
    seconds = time.monotonic() - began
    _log.info("restored %d partitions in %.2f s, %d records learned again", len(restored), seconds, replayed)
    return restored


def find_mismatches(
    source: DeploymentContext, assigned: Collection[TopicPartition], make_task: Callable[[str, int], Task]
) -> dict[TopicPartition, MismatchError]:
    """Return why partitions cannot be restored, of those that cannot; nothing is learned again."""
    found = {}
    with source.reader() as reader:
        for at in assigned:
            try:
                # One at a time: the snapshots of all partitions need not fit into memory.
                _Loader(reader, source, [at], make_task).load(at)
            except MismatchError as error:
                found[at] = error
    return found


class _Loader(Generic[TaskT]):
    """Loads the checkpoints of partitions, as the broker holds them at one moment, and checks that they fit."""

    def __init__(
        self,
        reader: LogReader,
        source: DeploymentContext,
        assigned: Collection[TopicPartition],
        make_task: Callable[[str, int], TaskT],
        cancelled: threading.Event | None = None,
    ) -> None:
        self._reader, self._source, self._make_task, self._cancelled = reader, source, make_task, cancelled
        self._committed: dict[TopicPartition, tuple[int, str]] = {}
        self._tables: dict[int, ChangelogTable] = {}
        self._bounds: dict[TopicPartition, OffsetRange] = {}
        self._read(assigned)

    def load(self, at: TopicPartition) -> RestoredPartition[TaskT]:
        """Return a partition that still lacks the records from its recovery offset on."""
        while True:
            known = self._known(at)
            try:
                return self._load(at)
            except MismatchError:
                # Whatever is still open may hold the snapshots that are missing.
                self._read([at], self._source.patience)
                if self._known(at) == known:
                    raise
                # Another member has committed since the offsets were read: this one was silent for so long that the
                # group gave it up, or has not joined yet. Or the transaction that wrote the snapshots has ended only
                # now, long after its offsets could be read.

    def _known(self, at: TopicPartition) -> object:
        """Return the committed offset and the record of the snapshots of a partition, as they were last read."""
        topic, partition = at
        return self._committed[at], self._tables[partition].records().get(topic)

    def _read(self, places: Collection[TopicPartition], settle: float = SETTLE_SECONDS) -> None:
        # Offsets come first: the snapshots can then only be as new or newer.
        self._committed |= self._reader.committed_with_metadata(places)
        self._tables |= read_tables(self._reader, self._source, {partition for _, partition in places}, settle)
        self._bounds |= self._reader.bounds(places)

    def _load(self, at: TopicPartition) -> RestoredPartition[TaskT]:
        source, (topic, partition) = self._source, at
        table, (first, end) = self._tables[partition], self._bounds[at]
        place = locate(source, table, at, CommittedOffset(*self._committed[at]), first, end)
        if place.record is None and place.committed == NO_OFFSET and source.start_of(topic) != "earliest":
            place = begin(source, self._reader, at, first, end)
        if place.record is not None:
            check_record(source, at, place.record, place.start)
        if first > place.recovery_offset:
            raise mismatches.truncated(topic, partition, first, place.recovery_offset, first - place.recovery_offset)
        task = self._make_task(topic, partition)
        if (checkpoint := table.checkpoint(topic)) is not None:
            checkpoint.restore(task, self._check_cancelled)
        identity = source.identities[topic]
        writer = table.writer(identity)
        if place.record is None:
            writer.began = place.recovery_offset
        elif replace(place.record.identity, partitions=identity.partitions) == identity:
            # Added partitions of the input count as no change: where they matter, the checks above have raised.
            writer.began = place.record.began
        return RestoredPartition(
            task, writer, place.start, place.committed, place.recovery_offset, place.pinned, self._committed[at][1]
        )

    def _check_cancelled(self) -> None:
        if self._cancelled is not None and self._cancelled.is_set():
            raise RestoreCancelledError


def read_tables(
    reader: LogReader,
    source: DeploymentContext,
    partitions: Collection[int],
    settle: float = SETTLE_SECONDS,
    *,
    strict: bool = True,
) -> dict[int, ChangelogTable]:
    """Read partitions of the snapshots topic to their end, and check which pipeline they belong to.

    Transactions that are open when the reading begins are waited for, `settle` seconds at most. `strict` is that of
    `ChangelogTable`.
    """
    tables = {partition: ChangelogTable(source.snapshots, partition, strict=strict) for partition in partitions}
    wanted = [(source.snapshots, partition) for partition in partitions]
    for (_, partition), records in reader.read(reader.settled_bounds(wanted, settle)):
        for entry in records:
            tables[partition].apply(entry.key, entry.value, entry.timestamp)
    for table in tables.values():
        table.check_owner(next(iter(source.identities.values())).pipeline)
        for record in table.records().values() if strict else ():
            check_owner(source, record.identity)
        if strict:
            table.check()
    return tables
