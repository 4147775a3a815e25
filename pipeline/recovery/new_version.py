"""Start new models under the present settings where the old ones cannot continue, at the same offset of the log."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.changelog_records import PartitionRecord
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import find_mismatches, read_tables
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.records import StreamSnapshot, TopicPartition
from resonance.pipeline.recovery import rewrite
from resonance.pipeline.recovery.forgotten_alerts import ForgottenAlerts
from resonance.pipeline.recovery.models import models_then, tasks_of
from resonance.pipeline.recovery.rewrite import rewrite_models
from resonance.pipeline.tasks import Task

_log = logging.getLogger(__name__)


def begin_versions(source: DeploymentContext, alone: Callable[[], None] = lambda: None) -> int:
    """Start new models where the old ones cannot continue, and return in how many partitions; the offset stays.

    Where the log still allows it, the old models are first rebuilt up to that offset under the settings they were
    learned with; otherwise their last snapshots are used. `alone` is that of `resume_from_snapshots`. Raises
    `MismatchError` for a mismatch that new models do not resolve.
    """
    logs, tasks = source.logs, tasks_of(source)
    # Other mismatches may only come from workers that still run; real ones are found again once the group is empty.
    if not any(mismatches.NEW_VERSION in found.remedies for found in find_mismatches(source, logs, tasks).values()):
        return 0
    alone()
    stopped = find_mismatches(source, logs, tasks)
    with source.reader() as reader:
        tables = read_tables(reader, source, range(source.deployment.state_partitions), settle=source.patience)
        committed = reader.committed(logs)
        bounds = reader.bounds(logs)
        alerts = ForgottenAlerts.read(reader, source)
    for found in stopped.values():
        if mismatches.NEW_VERSION not in found.remedies:
            raise found
        _log.info("new models, because %s", found.problem)
    changes = []
    for at in stopped:
        table = tables[at[1]]
        # Behind every record that the group or its snapshots show as processed.
        record, (first, end) = table.records().get(at[0]), bounds[at]
        start = min(max(committed[at], record.position if record else first, first), end)
        task, count = _new_models(source, at, table, start)
        change = rewrite_models(source, at, task, start, table.writer(source.identities[at[0]]), committed[at])
        # Those that the task has open clear with its next record.
        kept = task.open_alerts
        cleared = alerts.clear(at, "new_version", lambda found, kept=kept: found.key in kept)  # type: ignore[misc]
        changes.append(replace(change, outputs=cleared))
        _log.warning("%s[%d]: %d streams begin new models at offset %d", *at, count, start)
    rewrite.write(source, changes)
    return len(changes)


def _new_models(source: DeploymentContext, at: TopicPartition, table: ChangelogTable, start: int) -> tuple[Task, int]:
    """Return a task with new models that begin at an offset, and their number."""
    record, make_task = table.records().get(at[0]), tasks_of(source)
    task = make_task(*at)
    old, learned = _old_models(source, at, table)
    if old:
        _take_over(source.settings, task, record)
    known = [snapshot.header["version"] for snapshot in old]
    before = learned or make_task(*at)
    if learned is None and record is not None:
        before.restore_partition(record.state)
    # A stream that learned but was never snapshotted has used cluster ids too, below this version.
    task.models.used = table.archives(at[0]).used
    task.models.first_version = max([before.models.new_version, *known]) + (learned is None)
    task.models.first_version = max(task.models.first_version, task.models.used + 1)
    for snapshot in old:
        task.restore(replace(snapshot, next=start), new_version=True)
    return task, len(old)


def _take_over(settings: Settings, task: Task, record: PartitionRecord | None) -> None:
    """Restore what a partition knew of its records' features; refuse where `input.features` has changed."""
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
    source: DeploymentContext, at: TopicPartition, table: ChangelogTable
) -> tuple[Sequence[StreamSnapshot], Task | None]:
    """Return a partition's old models, and the task that has learned them up to its offset.

    The task is None where they cannot be rebuilt; the models are then those of the last snapshots.
    """
    checkpoint = table.checkpoint(at[0])
    if checkpoint is None:
        return (), None
    part = models_then(source, at, checkpoint.record)
    return (checkpoint.streams, None) if part is None else (part.task.models.states(), part.task)
