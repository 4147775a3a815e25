"""Models of before, rebuilt under the settings with which they learned."""

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
"""Makes an empty task under some settings for a partition of a topic."""

_log = logging.getLogger(__name__)


def tasks_of(source: DeploymentContext) -> MakeTaskThen:
    """Return what makes the tasks of a deployment, under whatever settings."""
    counts = source.deployment.counts
    return lambda settings, topic, partition: make_task(settings, topic, partition, **counts)


def models_then(
    settings: Settings, source: DeploymentContext, at: TopicPartition, record: PartitionRecord, make_task: MakeTaskThen
) -> RestoredPartition[Task] | None:
    """Return a partition as it stands, with the models that learned it; None where they cannot be rebuilt.

    Parameters
    ----------
    settings : Settings
        The present ones.
    source : DeploymentContext
        The deployment under them.
    at : (topic, partition)
        The partition.
    record : PartitionRecord
        What its snapshots say of it.
    make_task : callable
        Makes its task.
    """
    try:
        learned = settings_then(settings, record.identity)
        # The present program learns again: it has to be the revision that learned before.
        identity = replace(record.identity, revision=program_revision(learned))
        old_source = replace(source, identities={at[0]: identity})
        return restore_partitions(old_source, [at], lambda *own: make_task(learned, *own))[at]
    except (MismatchError, ConfigurationError) as error:
        # Without what would mend it: that is being done.
        why = error.problem if isinstance(error, MismatchError) else error
        _log.warning("%s[%d]: the last snapshots stand for the old models: %s", *at, why)
        return None
