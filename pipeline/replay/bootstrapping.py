"""A whole bootstrap: learns recorded data silently, so that a worker continues without alerts about the past."""

import struct
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import BinaryIO, Final

from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, MismatchError
from resonance.pipeline.files.arrays import encoder
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka import clients
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader
from resonance.pipeline.kafka.positions import Position, Span, offsets_of, resolve
from resonance.pipeline.mismatches import RESET
from resonance.pipeline.records import Message, Outputs, Record, TopicPartition
from resonance.pipeline.recovery import rewrite
from resonance.pipeline.recovery.models import tasks_of
from resonance.pipeline.recovery.rewrite import Change, wait_for_empty_group
from resonance.pipeline.recovery.routes import settled_routes
from resonance.pipeline.repartition.router import RouterTask
from resonance.pipeline.replay.file_partitions import Read, route, share
from resonance.pipeline.replay.jobs import Report, run_jobs
from resonance.pipeline.replay.opening import PartitionRange
from resonance.pipeline.replay.two_stage_file import Routes, by_time, read_rows, take_all
from resonance.pipeline.tasks import make_task
from resonance.pipeline.topics.start_check import check_start

_LENGTH: Final = struct.Struct("<q")
_NONE: Final = -1


def spool(path: Path, messages: Iterable[Message]) -> int:
    """Write messages, which have no headers, to a file and return their total bytes."""
    size = 0
    with path.open("wb") as file:
        for message in messages:
            for part in (message.key, message.value):
                file.write(_LENGTH.pack(_NONE if part is None else len(part)))
                file.write(part or b"")
                size += len(part or b"")
    return size


def unspool(path: Path) -> Iterator[Message]:
    """Yield the messages of a file, one at a time."""
    with path.open("rb") as file:
        while head := file.read(_LENGTH.size):
            key = _part(file, head)
            yield Message(key, _part(file, file.read(_LENGTH.size)), [])


def _part(file: BinaryIO, head: bytes) -> bytes | None:
    (length,) = _LENGTH.unpack(head)
    return None if length == _NONE else file.read(length)


@dataclass(slots=True)
class BootstrapResult:
    """Result of one input partition."""

    topic: str
    partition: int
    records: int = 0
    """Records learned."""
    streams: int = 0
    clusters: int = 0
    """Clusters that exist in these streams at the end."""
    dead_letters: int = 0
    """Records that could not be used; no dead letters are emitted for them."""
    offset: int = 0
    """Offset at which the worker continues."""
    bytes: int = 0
    """Size of the snapshots."""
    archived: bool = False
    """Whether an archive was written, so that a replay can start here."""


@dataclass(frozen=True, slots=True)
class LearningPlan:
    """What the learning of one partition begins with, and where it leaves its results."""

    at: TopicPartition
    version: int
    """First version of the models."""
    begin: int
    """Offset of the first record; where the records are not in this log, that at which a worker continues."""
    end: int
    """Offset at which a worker continues."""
    snapshots: Path
    """Written with the messages of the snapshots."""

    @property
    def archive(self) -> Path:
        """Written with the messages of the archive."""
        return self.snapshots.with_suffix(".archive")


class Learning:
    """A partition whose history is being learned, or routed to where it is learned."""

    def __init__(self, source: DeploymentContext, plan: LearningPlan) -> None:
        self.task = tasks_of(source)(*plan.at)
        self.task.models.first_version = plan.version
        self.found = BootstrapResult(*plan.at)
        self._source, self._plan = source, plan

    def take(self, batch: list[Record]) -> Outputs:
        """Learn the next records; return their routes where they are learned elsewhere, and nothing else."""
        if isinstance(self.task, RouterTask):
            return self.task.process(batch)
        self.task.catch_up(batch)
        self.found.records += len(batch)
        return Outputs()

    def close(self) -> BootstrapResult:
        """Write the snapshots and the archive to files and return the result."""
        found, task, plan = self.found, self.task, self._plan
        task.announce()
        if plan.begin == plan.end:
            # The records are in no log that can be read again.
            task.go_on_at(plan.end)
        found.offset = plan.end
        found.streams = len(task.models)
        found.clusters = sum(len(model.engine.clusters()) for model in task.models)
        found.dead_letters = sum(task.counts.dead_letters.values())
        checkpoint = PartitionCheckpoint.of(task, self._source.identities[plan.at[0]], plan.at[1], plan.end)
        made = rewrite.rewrite(self._source, checkpoint, task=task)
        found.archived = spool(plan.archive, made.archive) > 0
        found.bytes = spool(plan.snapshots, made.messages)
        return found


def learn(
    source: DeploymentContext, plans: Sequence[LearningPlan], read: Read, report: Report
) -> list[BootstrapResult]:
    """Learn some partitions and write their snapshots to files; `read` gives the records in the order of learning.

    The plans of inputs come before those of the routes, which stand in memory alone.
    """
    learned = {plan.at: Learning(source, plan) for plan in plans}

    def take(batch: list[Record]) -> Outputs:
        return learned[batch[0].topic, batch[0].partition].take(batch)

    take_all(take, read(), Routes(source.settings, source.deployment.routes), report)
    return [learning.close() for learning in learned.values()]


@dataclass(frozen=True, slots=True)
class FromFile:
    """A file to learn from."""

    path: Path
    columns: Columns
    """The columns that are used."""


def bootstrap(
    settings: Settings,
    source_of: Collection[str] | FromFile,
    span: Span,
    *,
    processes: int = 1,
    report: Report = lambda _: None,
) -> list[BootstrapResult]:
    """Learn recorded data and write snapshots and offsets from which a worker continues.

    Missing topics are created as a worker creates them. Input topics are learned from their beginning, with the labels,
    up to the end of the `span`, and at most up to the records committed now; a file as if its records preceded those of
    the first input topic. Raises `MismatchError` where the deployment has learned already, `BrokerError` where the
    group has members, the broker does not answer, or there is nothing to learn, and `ConfigurationError` where the
    settings do not fit the topics, or the file cannot be used.
    """
    client = clients.librdkafka(settings)
    deployment = check_start(settings, client, create=settings.topics.create)
    source = DeploymentContext.of(settings, client, deployment)
    wait_for_empty_group(source, Event(), at_once=True)
    file = source_of if isinstance(source_of, FromFile) else None
    if isinstance(source_of, FromFile):
        topics = list(settings.input.topics[:1])
    else:
        topics = [*source_of, *filter(None, [settings.labels.topic])]
    partitions = [at for at in source.logs if at[0] in topics]
    routes = [at for at in source.logs if at[0] == source.routes]
    with source.reader() as reader:
        tables = read_tables(reader, source, range(deployment.state_partitions), settle=source.patience)
        versions = _check_new(source, reader, tables)
        if file:
            start = Position.parse(settings.start, "start")
            starts = offsets_of(reader, start, reader.bounds(partitions))
            ranges = {at: (offset, offset) for at, offset in starts.items()}
        else:
            ranges = resolve(reader, Span(end=span.end), partitions)
            if all(first >= end for first, end in ranges.values()):
                raise BrokerError(
                    f"{', '.join(topics)} on {settings.broker.bootstrap} has no committed records to learn from; a "
                    "worker can simply begin"
                )
        ranges |= {at: (end, end) for at, (_, end) in settled_routes(reader, source).items()}
    with tempfile.TemporaryDirectory(prefix="resonance-") as folder:
        plans = [
            LearningPlan(at, versions[at], *ranges[at], Path(folder, str(number)))
            for number, at in enumerate([*partitions, *routes])
        ]
        parts = [PartitionRange(source, at, *ranges[at]) for at in [*partitions, *routes]]
        if settings.is_rekeyed:
            read: Read = partial(by_time, parts[: len(partitions)])
            if file:
                encode = encoder(settings, file.path)
                read = partial(read_rows, [file.path], file.columns, topics[0], len(partitions), encode=encode)
            ((learned,), _) = run_jobs(settings, [partial(learn, source, plans, read)], 1, report)
        elif file:
            rows = partial(route, settings, [file.path], file.columns, len(plans))
            learned, _ = share(settings, partial(learn, source), plans, rows, processes, report)
            learned.sort(key=lambda part: part.partition)
        else:
            jobs = [partial(learn, source, [plan], part.batches) for plan, part in zip(plans, parts, strict=True)]
            learned = [one for (one,) in run_jobs(settings, jobs, processes, report)[0]]
        changes = [Change(plan.at, unspool(plan.snapshots), plan.end, unspool(plan.archive)) for plan in plans]
        # A worker may have started in the meantime.
        wait_for_empty_group(source, Event(), at_once=True)
        rewrite.write(source, changes)
    return learned


def _check_new(
    source: DeploymentContext, reader: LogReader, tables: Mapping[int, ChangelogTable]
) -> dict[TopicPartition, int]:
    """Return the model version with which each partition begins.

    Raises MismatchError where a partition has already learned something; the remedies are another name and a reset.
    """
    inputs = source.logs
    committed = reader.committed(inputs)
    versions = {}
    for at in inputs:
        topic, partition = at
        record = tables[partition].records().get(topic)
        # A reset leaves a partition record and an offset, but no models.
        untouched = record is None or record.position == record.began == committed[at]
        learned = bool(tables[partition].streams(topic)) or not untouched
        if learned or (record is None and committed[at] != NO_OFFSET):
            raise MismatchError(
                f"{source.settings.name} has learned from {topic}[{partition}] already, up to offset "
                f"{committed[at]:,}; a bootstrap is for a deployment that begins: choose another name "
                f"(--name), or forget what is there first: `resonance worker {RESET}`, or `resonance reset`",
                [RESET],
            )
        task = make_task(source.settings, topic, partition)
        if record is not None:
            task.restore_partition(record.state)
        versions[at] = task.models.first_version
    return versions
