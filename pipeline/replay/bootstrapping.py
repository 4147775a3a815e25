"""A whole bootstrap: learns recorded data silently, so that a worker continues without alerts about the past."""

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
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
from resonance.pipeline.records import Record, TopicPartition
from resonance.pipeline.recovery import rewrite
from resonance.pipeline.recovery.rewrite import Change, wait_for_empty_group
from resonance.pipeline.recovery.routes import settled_routes
from resonance.pipeline.replay.bootstrap import (
    BootstrapResult,
    LearningPlan,
    learn_file,
    learn_partition,
    learn_rekeyed,
)
from resonance.pipeline.replay.file_partitions import route, share
from resonance.pipeline.replay.jobs import Report, run_jobs
from resonance.pipeline.replay.opening import PartitionRange
from resonance.pipeline.replay.spool import unspool
from resonance.pipeline.replay.two_stage_file import by_time, read_rows
from resonance.pipeline.tasks import make_task
from resonance.pipeline.topics.start_check import check_start


@dataclass(frozen=True, slots=True)
class FromFile:
    """A file to learn from."""

    path: Path
    columns: Columns
    """The columns that are used."""
    skip_bad: bool = False
    """Leave out rows that cannot be used."""


def bootstrap(
    settings: Settings,
    source_of: Collection[str] | FromFile,
    span: Span,
    *,
    processes: int = 1,
    report: Report = lambda _: None,
) -> list[BootstrapResult]:
    """Learn recorded data and write snapshots and offsets from which a worker continues.

    Parameters
    ----------
    settings : Settings
        Missing topics of the deployment are created as a worker creates them.
    source_of : collection of str, or FromFile
        Input topics, learned from their beginning, with the labels; or a file, learned as if its records preceded those
        of the first input topic.
    span : Span
        Only the end is used: topics are learned up to it, and at most up to the records committed now.

    Raises
    ------
    MismatchError
        The deployment has already learned something.
    BrokerError
        The group has members, the broker does not answer, or there is nothing to learn.
    ConfigurationError
        The settings do not fit the topics, or the file cannot be used.
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
            starts = offsets_of(start, reader.bounds(partitions), reader.offsets_at)
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
        if settings.is_rekeyed:
            read: Callable[[], Iterator[list[Record]]] = partial(
                by_time, [PartitionRange(source, at, *ranges[at]) for at in partitions]
            )
            if file:
                rows_of = partial(read_rows, file.path, file.columns, topics[0], len(partitions))
                read = partial(rows_of, skip_bad=file.skip_bad, encode=encoder(settings, file.path))
            ((learned,), _) = run_jobs(settings, [partial(learn_rekeyed, source, plans, read)], 1, report)
        elif file:
            run = partial(learn_file, source)
            rows = partial(route, settings, file.path, file.columns, len(plans), skip_bad=file.skip_bad)
            learned, _ = share(settings, run, plans, rows, processes, report)
            learned.sort(key=lambda part: part.partition)
        else:
            jobs = [partial(learn_partition, source, plan) for plan in plans]
            learned, _ = run_jobs(settings, jobs, processes, report)
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
