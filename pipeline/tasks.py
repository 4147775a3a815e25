"""Choice of the task for a partition: the same for workers, replays, recovery and inspection."""

from collections.abc import Callable, Sequence
from typing import Protocol

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Outputs, SourceRecord, StreamSnapshot
from resonance.pipeline.repartition.keyed.operation_writer import OperationWriter
from resonance.pipeline.repartition.keyed.subtree_task import SubtreeTask
from resonance.pipeline.repartition.routed_task import RoutedTask
from resonance.pipeline.repartition.router import RouterTask
from resonance.pipeline.task.counts import Counts
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.task.model_health import ModelHealth
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.task.stream_task import NO_CONTEXT, TaskContext
from resonance.pipeline.task.streams import Streams


class Task(Protocol):
    """Interface of the task of a partition; `PartitionTask` and `StreamTask` document each member."""

    health: ModelHealth

    @property
    def models(self) -> Streams:
        """The models that are learned here, and their snapshots."""

    @property
    def mapping(self) -> InputMapping:
        """Decodes the records that are learned here, once their features are known."""

    def process(self, records: Sequence[SourceRecord]) -> Outputs:
        """Process records in offset order and return their outputs."""

    def catch_up(self, records: Sequence[SourceRecord]) -> None:
        """Process records without any output."""

    @property
    def open_alerts(self) -> set[str]:
        """Keys of the open alerts."""

    @property
    def counts(self) -> Counts:
        """Counters so far; other threads may read them."""

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Restore a stream from a snapshot, after `restore_partition`."""

    def partition_state(self) -> bytes:
        """Return the state of the partition beside its streams."""

    def restore_partition(self, state: bytes) -> None:
        """Restore a `partition_state`."""

    def announce(self) -> None:
        """Let the next records announce what was learned without output."""

    def go_on_at(self, offset: int) -> None:
        """Continue at an offset, whatever the offsets of the records so far."""


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
