"""New models, under the present settings, where the old ones cannot go on; the place in the log stays."""

import logging
from collections.abc import Callable
from dataclasses import replace

from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.archive_writer import archive_of
from resonance.pipeline.checkpoint.changelog_records import PartitionRecord
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import read_tables, restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader
from resonance.pipeline.records import StreamSnapshot, TopicPartition
from resonance.pipeline.recovery.drain_subtrees import Below
from resonance.pipeline.recovery.past_models import MakeTaskThen, models_then
from resonance.pipeline.recovery.rewrite import Change, acknowledged, inputs_of, write
from resonance.pipeline.repartition.routed_task import RoutedTask
from resonance.pipeline.tasks import Task

_log = logging.getLogger(__name__)


def begin_versions(
    settings: Settings,
    source: DeploymentContext,
    make_task: MakeTaskThen,
    alone: Callable[[], None] = lambda: None,
    *,
    atomic: bool = True,
) -> int:
    """Begin new models, under the present settings, where the old ones cannot go on; the place in the log stays.

    Where the log still allows it the old models are rebuilt up to that place first, under the settings they were
    learned with; otherwise their last snapshots stand for them.

    Parameters
    ----------
    settings : Settings
        The present ones.
    source : DeploymentContext
        The deployment under them.
    make_task : callable
        Makes an empty task under some settings for an input partition.
    alone : callable
        As in `resume_from_snapshots`.
    atomic : bool
        The broker has transactions.

    Returns
    -------
    int
        Partitions that got new models; the others go on as they are.

    Raises
    ------
    MismatchError
        Something that new models do not mend.
    """
    logs = inputs_of(source)

    def stop(at: TopicPartition) -> MismatchError | None:
        """Why a partition cannot go on as it is."""
        try:
            restore_partitions(source, [at], lambda topic, partition: make_task(settings, topic, partition))
        except MismatchError as found:
            return found
        return None

    # Other stops may be nothing but a group that works meanwhile; they come again where they are real.
    if not any(found and mismatches.NEW_VERSION in found.remedies for found in map(stop, logs)):
        return 0
    alone()
    with LogReader(source.client, source.group, source.patience) as reader:
        tables = read_tables(reader, source, range(source.deployment.state_partitions), settle=source.patience)
        committed = reader.committed(logs)
        bounds = reader.bounds(logs)
    stopped = {at: found for at in logs if (found := stop(at)) is not None}
    for found in stopped.values():
        if mismatches.NEW_VERSION not in found.remedies:
            raise found
        _log.info("new models, because %s", found.problem)
    begun, below = list(stopped), None
    if settings.is_keyed:
        # Roots know nothing of what is lost below them, and would go on asking it.
        lost = any(at[0] == source.routes for at in stopped)
        begun = [at for at in logs if at[0] != source.routes and (lost or at in stopped)]
    records = {at: tables[at[1]].records().get(at[0]) for at in begun}
    begins = {at: _begin_of(records[at], committed[at], bounds[at]) for at in begun}
    if settings.is_keyed:
        below = Below(settings, source, tables, make_task, begins)
        below.end(source, begun)
    changes = []
    for at in begun:
        table, start = tables[at[1]], begins[at]
        task, count = _new_models(settings, source, at, table, (bounds[at][0], start), make_task)
        if below is not None:
            below.tell(task)
        writer = table.writer(source.identities[at[0]])
        writer.began = NO_OFFSET
        messages = writer.messages(task, start, acknowledged(committed[at], start), everything=True)
        changes.append(Change(at, messages, start, archive=archive_of(source, at, task, start)))
        _log.warning("%s[%d]: %d streams begin new models at offset %d", *at, count, start)
    write(source, changes if below is None else [*changes, *below.changes(source)], atomic=atomic)
    return len(changes)


def _begin_of(record: PartitionRecord | None, committed: int, bounds: tuple[int, int]) -> int:
    """Return where the new models of a partition begin: behind all that its group, or its snapshots, say was told."""
    first, end = bounds
    return min(max(committed, record.position if record else first, first), end)


def _new_models(
    settings: Settings,
    source: DeploymentContext,
    at: TopicPartition,
    table: ChangelogTable,
    span: tuple[int, int],
    make_task: MakeTaskThen,
) -> tuple[Task, int]:
    """Return the task whose models begin anew, and how many did; `span` is where the log begins, and where they do."""
    first, start = span
    record = table.records().get(at[0])
    task = make_task(settings, *at)
    old, learned = _old_models(settings, source, at, table, make_task)
    if old:
        _take_over(settings, task, record)
    known = [snapshot.header["version"] for snapshot in old]
    before = learned or make_task(settings, *at)
    if learned is None:
        if record is not None:
            before.restore_partition(record.state)
        _pass_over(source, before, record.position if record else 0, first, start)
    task.adopt_position(before)
    # A stream that learned and was never snapshotted has used ids too, below this version.
    task.first_version = max([before.first_version, *known]) + (learned is None)
    for snapshot in old:
        task.restore(replace(snapshot, next=start), new_version=True)
    return task, len(old)


def _pass_over(source: DeploymentContext, before: Task, position: int, first: int, end: int) -> None:
    """Let a second hop that stands at a position see which routes were learned since, though by nobody who is left."""
    if not isinstance(before, RoutedTask) or position >= end:
        return
    if first > position:
        # Deleted: any of them may be the predecessor of the next.
        before.accept_any_predecessor()
    at = before.topic, before.partition
    with LogReader(source.client, source.group, source.patience) as reader:
        for _, records in reader.read({at: (max(first, position), end)}):
            before.mark_seen(records)


def _take_over(settings: Settings, task: Task, record: PartitionRecord | None) -> None:
    """Give a task what the partition knew of its records' features, where they stand where they stood."""
    before = record.identity.settings.get("input.features") if record else None
    if not settings.finds_features:
        return
    if before != settings.input.features:
        raise ConfigurationError(
            f"input.features = {settings.input.features!r} was {before!r}: what stands there is not known before "
            "records are read, so new models cannot take over; list the paths one by one, or use --reset"
        )
    if record is not None:
        task.restore_partition(record.state)


def _old_models(
    settings: Settings,
    source: DeploymentContext,
    at: TopicPartition,
    table: ChangelogTable,
    make_task: MakeTaskThen,
) -> tuple[list[StreamSnapshot], Task | None]:
    """Return the old models of a partition, and the task that has learned them up to its place in the log.

    Without it they are those that were snapshotted, as they were then.
    """
    record = table.records().get(at[0])
    snapshots = {stream: table.newest(stream)[0] for stream in table.streams(at[0])}
    if record is None:
        return list(snapshots.values()), None
    part = models_then(settings, source, at, record, make_task)
    if part is None:
        return list(snapshots.values()), None
    snapshots |= {stream: part.task.snapshot(stream) for stream in part.task.dirty()}
    return list(snapshots.values()), part.task
