"""Old models, rebuilt under the settings with which they were learned."""

import logging
from collections.abc import Callable
from dataclasses import replace

from resonance.pipeline.checkpoint.changelog_records import PartitionRecord
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, program_revision, settings_then
from resonance.pipeline.checkpoint.restore import RestoredPartition, restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, MismatchError
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.tasks import Task, make_task

MakeTaskThen = Callable[[Settings, str, int], Task]
"""Makes an empty task for a partition of a topic, under the given settings."""

_log = logging.getLogger(__name__)


def tasks_of(source: DeploymentContext) -> MakeTaskThen:
    """Return the function that makes a deployment's tasks under any settings."""
    context = source.task_context
    return lambda settings, topic, partition: make_task(settings, topic, partition, context)


def models_then(
    settings: Settings, source: DeploymentContext, at: TopicPartition, record: PartitionRecord, make_task: MakeTaskThen
) -> RestoredPartition[Task] | None:
    """Return a partition restored with the models that learned it; None where they cannot be rebuilt.

    `settings` are the present ones; `record` holds what the models were learned with.
    """
    try:
        learned = settings_then(settings, record.identity)
        # The present program relearns the records, so its revision must be the one that learned them before.
        identity = replace(record.identity, revision=program_revision(learned))
        old_source = replace(source, identities={at[0]: identity})
        return restore_partitions(old_source, [at], lambda *own: make_task(learned, *own))[at]
    except (MismatchError, ConfigurationError) as error:
        # The remedies are left out: one of them is being carried out.
        why = error.problem if isinstance(error, MismatchError) else error
        _log.warning("%s[%d]: the last snapshots stand for the old models: %s", *at, why)
        return None
