"""Models that commands load: old ones under the settings of their time, and others as the next start will load them."""

import logging
from dataclasses import replace

from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, PartitionRecord
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, program_revision, settings_then
from resonance.pipeline.checkpoint.restore import RestoredPartition, restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, MismatchError
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
