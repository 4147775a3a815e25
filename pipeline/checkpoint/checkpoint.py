"""A checkpoint of a partition: everything that it had learned of its log, wherever it is stored.

The changelog topic, the archive topic and exported files hold the same value in forms of their own. Recovery reads one,
and writes another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from resonance.pipeline.checkpoint.changelog_records import Identity, PartitionRecord
from resonance.pipeline.records import StreamSnapshot, TopicPartition
from resonance.pipeline.tasks import Task


@dataclass(frozen=True, slots=True)
class PartitionCheckpoint:
    """Everything that a partition had learned."""

    record: PartitionRecord
    """Identity, position, and what the partition knows beside its streams."""
    streams: Sequence[StreamSnapshot]
    """One state for each stream; those of an archive all contain the records below the position, and no other."""
    timestamp: int = -1
    """Kafka timestamp of the newest learned record, in milliseconds; -1 where it is not known."""

    @classmethod
    def of(
        cls, task: Task, identity: Identity, partition: int, position: int, timestamp: int = -1, began: int = -1
    ) -> Self:
        """Return the checkpoint of a task that has learned every record below `position`; states are read when used."""
        record = PartitionRecord(identity, partition, position, position, position, task.partition_state(), began)
        return cls(record, task.models.states(), timestamp)

    @property
    def at(self) -> TopicPartition:
        """The partition."""
        return self.record.identity.topic, self.record.partition

    @property
    def position(self) -> int:
        """Every record below this offset was learned, or waits in the log to be learned again."""
        return self.record.position

    def restore(self, task: Task, before_each: Callable[[], None] = lambda: None) -> None:
        """Restore an empty task of this partition; `before_each` stream may end it with an error.

        Raises MismatchError where the models cannot be read, or were learned with other settings, which it names.
        """
        task.restore_partition(self.record.state)
        for snapshot in self.streams:
            before_each()
            task.restore(snapshot)
