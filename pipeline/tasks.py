"""Choice of the task for a partition: the same for workers, replays, recovery and inspection."""

from collections.abc import Callable

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.repartition.keyed.operation_writer import OperationWriter
from resonance.pipeline.repartition.keyed.subtree_task import SubtreeTask
from resonance.pipeline.repartition.routed_task import RoutedTask
from resonance.pipeline.repartition.router import RouterTask
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.task.stream_task import NO_CONTEXT, StreamTask, TaskContext

Task = StreamTask
"""What works on a partition."""

MakeTask = Callable[[str, int], Task]
"""Makes an empty task for a partition of a topic."""


def make_task(settings: Settings, topic: str, partition: int, context: TaskContext = NO_CONTEXT) -> Task:
    """Return an empty task for a partition of an input topic, of the labels topic or of the routes topic."""
    if not settings.is_routed:
        return PartitionTask(settings, topic, partition, context)
    if topic == settings.topic("routes"):
        return (SubtreeTask if settings.is_keyed else RoutedTask)(settings, topic, partition, context)
    if settings.is_keyed and topic != settings.labels.topic:
        sender = OperationWriter(settings, topic, partition, context.routes) if context.routes else None
        return PartitionTask(settings, topic, partition, context, sender)
    return RouterTask(settings, topic, partition, context)
