"""Choice of the task for a partition: the same for workers, replays, recovery and inspection."""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from resonance.schemas import ClusterSnapshot


class Task(Protocol):
    """Interface of the task of a partition; `PartitionTask` documents each member."""

    topic: str
    partition: int
    health: ModelHealth
    event_bytes: int
    first_version: int
    topic_ids: Mapping[str, str]
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

    def clusters(self, stream: str) -> list[ClusterSnapshot]:
        """Return the present clusters of a stream."""

    @property
    def recovery_offset(self) -> int | None:
        """Lowest offset of a record that neither a snapshot nor `partition_state` contains; None if there is none."""

    def due(self) -> list[str]:
        """Return the streams whose next snapshot is due."""

    def dirty(self) -> list[str]:
        """Return the streams that have learned since their last snapshot."""

    def snapshot(self, stream: str) -> StreamSnapshot:
        """Return the state of a stream and mark it clean."""

    def dropped(self) -> list[str]:
        """Return the streams that ended since the last call; their snapshots must be deleted."""

    def is_consistent_at(self, position: int) -> bool:
        """Return whether `states` and `partition_state` hold exactly the effect of the records below an offset."""

    def states(self) -> Iterator[StreamSnapshot]:
        """Yield the state of every stream."""

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Restore a stream from a snapshot, after `restore_partition`."""

    def partition_state(self) -> bytes:
        """Return the state of the partition beside its streams."""

    def restore_partition(self, state: bytes) -> None:
        """Restore a `partition_state`."""

    def adopt_emission(self, other: Any) -> None:
        """Emit from the same offset as another task of the partition."""

    def adopt_position(self, other: Any) -> None:
        """Continue, with other models, at the position of another task of the partition."""

    def emit_from_setting(self, offset: int) -> None:
        """Apply the present `emit_from` setting to the records from an offset on."""


MakeTask = Callable[[str, int], Task]
"""Makes an empty task for a partition of a topic."""


def make_task(
    settings: Settings, topic: str, partition: int, routes: int = 0, inputs: int = 0, labels: int = 0
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
        return PartitionTask(settings, topic, partition)
    if topic == settings.topic("routes"):
        if settings.is_keyed:
            return SubtreeTask(settings, topic, partition, inputs)
        return RoutedTask(settings, topic, partition, inputs, labels)
    if topic == settings.labels.topic:
        return LabelRouterTask(settings, topic, partition, routes)
    if settings.is_keyed:
        return RootTask(settings, topic, partition, routes)
    return RouterTask(settings, topic, partition, routes)


def task_maker(settings: Settings, routes: int = 0) -> MakeTask:
    """Return the function that makes the tasks of a deployment; the parameters are those of `make_task`."""
    return lambda topic, partition: make_task(settings, topic, partition, routes)
