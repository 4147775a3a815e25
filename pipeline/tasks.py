"""Which task a partition gets: the one place that decides it, for workers, replays, recovery and inspection alike."""

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
    """What every task of a partition can be asked; the meaning of each member stands at `PartitionTask`."""

    topic: str
    partition: int
    health: ModelHealth
    event_bytes: int
    first_version: int
    topic_ids: Mapping[str, str]
    record_after: int

    def process(self, records: Sequence[SourceRecord]) -> Outputs:
        """Take records in offset order and return what becomes of them."""

    def catch_up(self, records: Sequence[SourceRecord]) -> None:
        """Take records again, without any output."""

    @property
    def counts(self) -> Counts:
        """What was seen so far; may be asked for in another thread."""

    @property
    def dead_letter_run(self) -> tuple[str, int]:
        """Class and number of the dead letters in a row at the end of what was seen."""

    @property
    def streams(self) -> list[str]:
        """Names of the streams that are learned here."""

    def model(self, stream: str) -> StreamModel:
        """Return the model of a stream."""

    def clusters(self, stream: str) -> list[ClusterSnapshot]:
        """Return the present clusters of a stream."""

    @property
    def recovery_offset(self) -> int | None:
        """Lowest offset of a record that neither a snapshot nor `partition_state` contains; None when all are there."""

    def due(self) -> list[str]:
        """Return the streams whose next snapshot is due."""

    def dirty(self) -> list[str]:
        """Return the streams that have learned since their snapshot."""

    def snapshot(self, stream: str) -> StreamSnapshot:
        """Return the state of a stream, which is clean then."""

    def dropped(self) -> list[str]:
        """Return the streams that ended since the last call; their snapshots are to go."""

    def is_consistent_at(self, position: int) -> bool:
        """Whether `states` and `partition_state` hold what the records below an offset left, and nothing else."""

    def states(self) -> Iterator[StreamSnapshot]:
        """Yield the state of every stream."""

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Continue a stream from a snapshot, after `restore_partition`."""

    def partition_state(self) -> bytes:
        """Return what the partition knows beside its streams."""

    def restore_partition(self, state: bytes) -> None:
        """Continue from `partition_state`."""

    def adopt_emission(self, other: Any) -> None:
        """Tell from where another task of the partition does."""

    def adopt_position(self, other: Any) -> None:
        """Go on, with other models, where another task of the partition stands."""

    def emit_from_setting(self, offset: int) -> None:
        """Let the present setting say from when on to tell, of the records from an offset on."""


MakeTask = Callable[[str, int], Task]
"""Makes an empty task for a partition of a topic."""


def make_task(
    settings: Settings, topic: str, partition: int, routes: int = 0, inputs: int = 0, labels: int = 0
) -> Task:
    """Return an empty task for a partition.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    topic : str
        An input topic, that of the labels, or that of the routes.
    partition : int
        Partition of it.
    routes : int
        Partitions of the topic of the routes, where there is one.
    inputs, labels : int
        Partitions of every input, and of the topic of labels, where outputs are written (`Deployment.counts`): what no
        output has a place for stops the task. 0 where nothing is written.
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
    """Return what makes the tasks of a deployment; parameters as in `make_task`."""
    return lambda topic, partition: make_task(settings, topic, partition, routes)
