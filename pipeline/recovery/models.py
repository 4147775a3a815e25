"""Models that commands load, old ones under the settings of their time, and the versions that models have used.

An id of a cluster contains the version: one that begins on request must never have been used before.
"""

import logging
import time
from contextlib import suppress
from dataclasses import replace
from typing import Final

import orjson
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, PartitionRecord
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, program_revision, settings_then
from resonance.pipeline.checkpoint.restore import RestoredPartition, restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.recovery.rewrite import is_stream_of
from resonance.pipeline.tasks import MakeTask, Task, make_task

_log = logging.getLogger(__name__)


def tasks_of(source: DeploymentContext, settings: Settings | None = None) -> MakeTask:
    """Return the function that makes a deployment's empty tasks, under its own settings or others."""
    settings, context = settings or source.settings, source.task_context
    return lambda topic, partition: make_task(settings, topic, partition, context)


def models_then(
    source: DeploymentContext, at: TopicPartition, record: PartitionRecord
) -> RestoredPartition[Task] | None:
    """Return a partition restored with the models that learned it; None where they cannot be rebuilt.

    `record` holds what they were learned with.
    """
    try:
        learned = settings_then(source.settings, record.identity)
        # The present program relearns the records, so its revision must be the one that learned them before.
        identity = replace(record.identity, revision=program_revision(learned))
        old_source = replace(source, identities={at[0]: identity})
        return restore_partitions(old_source, [at], tasks_of(source, learned))[at]
    except (MismatchError, ConfigurationError) as error:
        # The remedies are left out: one of them is being carried out.
        why = error.problem if isinstance(error, MismatchError) else error
        _log.warning("%s[%d]: the last snapshots stand for the old models: %s", *at, why)
        return None


def check_models(source: DeploymentContext, checkpoint: PartitionCheckpoint) -> Task:
    """Load the models that are to be written, and return a task with them.

    Raises `MismatchError` where a model cannot be loaded or contradicts its own header.
    """
    at = checkpoint.at
    where = f"{at[0]}[{at[1]}]"
    task = tasks_of(source)(*at)
    task.restore_partition(checkpoint.record.state)
    for snapshot in checkpoint.streams:
        name, header = snapshot.stream, snapshot.header
        if not is_stream_of(source, at, name):
            raise MismatchError(f"{where}: stream {name} is none of this partition")
        try:
            task.restore(snapshot)
            model = task.models.named(name)
            stands = (model.next, model.version, list(model.preparation.features))
            fits = stands == (snapshot.next, header["version"], header["features"])
        except (*UNREADABLE, AttributeError, IndexError, ArithmeticError, MemoryError) as error:
            raise MismatchError(f"{where}: the state of stream {name} cannot be loaded ({error!r})") from None
        if not fits:
            raise MismatchError(f"{where}: the state of stream {name} contradicts its header")
    return task


TTL: Final = "limits.stream_ttl"

_UNREADABLE: Final = (MismatchError, AttributeError, *UNREADABLE)


def highest_version(source: DeploymentContext, at: TopicPartition, table: ChangelogTable, committed: int) -> int:
    """Return a version that is no lower than any that the models of a partition may have used."""
    # A record or a committed offset proves that version 1 was used.
    highest = int(bool(table.keys) or committed != NO_OFFSET)
    # Every owner writes the partition's record with its first commit.
    known = not table.unreadable and (committed == NO_OFFSET or at[0] in table.records())
    try:
        versions = [int(manifest.header["version"]) for manifest in table.manifests()]
        used = [table.archives(topic).used for topic in {at[0], *table.records()}]
        begun = [_begun(source, at, record, committed) for record in table.records().values()]
        highest = max([highest, *versions, *used, *begun])
    except _UNREADABLE:
        known = False
    return highest if known else max(highest, _beyond())


def used_versions(source: DeploymentContext, at: TopicPartition, table: ChangelogTable, committed: int) -> int:
    """Return the highest version that an `ArchiveIndex` must keep where a partition goes back; 0 for none.

    The versions of streams that have ended are in no snapshot, and the log lets them begin again only later.
    """
    used, record = table.archives(at[0]).used, table.records().get(at[0])
    if record is not None and TTL in record.identity.limits:
        return max(used, highest_version(source, at, table, committed))
    return used


def version_of_new(source: DeploymentContext, at: TopicPartition, table: ChangelogTable) -> int | None:
    """Return the version with which new streams of a partition start now; None where it cannot be read."""
    with suppress(MismatchError):
        if (record := table.records().get(at[0])) is not None:
            task = tasks_of(source)(*at)
            task.restore_partition(record.state)
            return task.models.first_version
    return None


def _beyond() -> int:
    """Return a version above all that can be in use: there were never more than one for each millisecond since 1970."""
    return time.time_ns() // 1_000_000


def _begun(source: DeploymentContext, at: TopicPartition, record: PartitionRecord, committed: int) -> int:
    """Return the highest version that streams may have begun with, others having ended before."""
    content = orjson.loads(record.state)
    if "expiry" not in content:
        return int(content["first_version"])
    task = tasks_of(source)(record.identity.topic, at[1])
    task.restore_partition(record.state)
    version = task.models.new_version
    if record.identity.topic != at[0] or TTL not in record.identity.limits:
        return version
    # Of the records behind the snapshots each can have ended a stream, or let it begin once more.
    return version + max(committed - record.position, 0)
