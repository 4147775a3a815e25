"""Choice of the task for a partition: the same for workers, replays, recovery and inspection."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Counts, Outputs, SourceRecord, StreamSnapshot
from resonance.pipeline.repartition.keyed.root_task import RootTask
from resonance.pipeline.repartition.keyed.subtree_task import SubtreeTask
from resonance.pipeline.repartition.label_router import LabelRouterTask
from resonance.pipeline.repartition.routed_task import RoutedTask
from resonance.pipeline.repartition.router import RouterTask
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.model_health import ModelHealth
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.task.stream_task import NO_CONTEXT, TaskContext


class Task(Protocol):
    """Interface of the task of a partition; `PartitionTask` and `StreamTask` document each member."""

    health: ModelHealth
    first_version: int
    record_after: int

    def process(self, records: Sequence[SourceRecord]) -> Outputs:
        """Process records in offset order and return their outputs."""

    def catch_up(self, records: Sequence[SourceRecord]) -> None:
        """Process records again, without any output."""

    @property
    def counts(self) -> Counts:
        """Counters so far; other threads may read them."""

    @property
    def dead_letter_run(self) -> tuple[str, int]:
        """Class and number of the dead letters in a row at the end of the processed records."""

    @property
    def streams(self) -> list[str]:
        """Names of the streams that are learned here."""

    def model(self, stream: str) -> StreamModel:
        """Return the model of a stream."""

    @property
    def recovery_offset(self) -> int | None:
        """Lowest offset of a record that neither a snapshot nor `partition_state` contains; None if there is none."""

    def pending(self, *, everything: bool = False) -> list[str]:
        """Return the streams whose next snapshot is due, or all that have learned since their last snapshot."""

    def changes(self, streams: Iterable[str]) -> Iterator[tuple[str, StreamSnapshot | None]]:
        """Yield the snapshots of streams, clean from then on; then None for each stream that ended meanwhile."""

    def states(self) -> Iterator[StreamSnapshot]:
        """Yield the state of every stream."""

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Restore a stream from a snapshot, after `restore_partition`."""

    def partition_state(self) -> bytes:
        """Return the state of the partition beside its streams."""

    def restore_partition(self, state: bytes) -> None:
        """Restore a `partition_state`."""

    def adopt(self, other: Any, *, position: bool = True) -> None:
        """Emit from the same offset as another task of the partition; with its `position` continue there, too."""

    def emit_from_setting(self, offset: int) -> None:
        """Apply the present `emit_from` setting to the records from an offset on."""


MakeTask = Callable[[str, int], Task]
"""Makes an empty task for a partition of a topic."""


def make_task(
    settings: Settings,
    topic: str,
    partition: int,
    routes: int = 0,
    inputs: int = 0,
    labels: int = 0,
    context: TaskContext = NO_CONTEXT,
) -> Task:
    """Return an empty task for a partition.

    Parameters
    ----------
    topic : str
        An input topic, the labels topic or the routes topic.
    routes : int
        Number of partitions of the routes topic, where there is one.
    inputs, labels : int
        Number of partitions of every input topic, and of the labels topic (`Deployment.counts`); 0 where no outputs are
        written. A record that no output partition exists for stops the task.
    """
    if not settings.is_routed:
        return PartitionTask(settings, topic, partition, context)
    if topic == settings.topic("routes"):
        if settings.is_keyed:
            return SubtreeTask(settings, topic, partition, inputs, context)
        return RoutedTask(settings, topic, partition, inputs, labels, context)
    if topic == settings.labels.topic:
        return LabelRouterTask(settings, topic, partition, routes, context)
    if settings.is_keyed:
        return RootTask(settings, topic, partition, routes, context)
    return RouterTask(settings, topic, partition, routes, context)
