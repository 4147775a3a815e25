"""What the cluster says of a deployment's topics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the broker says of a deployment's topics.

    Attributes
    ----------
    partitions : int
        Partitions of every input.
    topic_ids : mapping of str to str
        Kafka's id of each input topic and of the routes, which changes when a topic is deleted and made again; ``""``
        where the broker gives none (the embedded one).
    message_bytes : mapping of str to int
        ``max.message.bytes`` of each topic, where the broker tells.
    embedded : bool
        The broker is the embedded one: no transactions, no topic configuration.
    routes : int
        Partitions of the topic of the routes; 0 where there is none.
    labels : int
        Partitions of the topic of labels; 0 where there is none.
    """

    partitions: int
    topic_ids: Mapping[str, str]
    message_bytes: Mapping[str, int] = field(default_factory=dict)
    embedded: bool = False
    routes: int = 0
    labels: int = 0

    @property
    def state_partitions(self) -> int:
        """Partitions of the topics of states, snapshots and archive: one for each task of a worker."""
        return max(self.partitions, self.routes, self.labels)

    @property
    def counts(self) -> dict[str, int]:
        """Partitions of everything that workers process, as `tasks.make_task` takes them."""
        return {"routes": self.routes, "inputs": self.partitions, "labels": self.labels}

    @property
    def letters(self) -> int:
        """Partitions of the dead letters: of what is read, and has a place there."""
        return max(self.partitions, self.labels)
