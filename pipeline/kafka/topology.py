"""The topics of a deployment as the cluster reports them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Deployment:
    """Partitions, ids and limits of a deployment's topics, as the broker reports them."""

    partitions: int
    """Partitions of every input."""
    topic_ids: Mapping[str, str]
    """Kafka's id of each input topic and of the routes; another one when a topic is deleted and created again.

    ``""`` where the broker gives none (the embedded one).
    """
    message_bytes: Mapping[str, int] = field(default_factory=dict)
    """``max.message.bytes`` of each topic, where the broker reports it."""
    embedded: bool = False
    """The broker is the embedded one: no transactions, no topic configuration."""
    routes: int = 0
    """Partitions of the topic of the routes; 0 where there is none."""
    labels: int = 0
    """Partitions of the topic of labels; 0 where there is none."""
    output_ids: Mapping[str, str] = field(default_factory=dict)
    """Kafka's id of every other topic, where all were described."""

    @property
    def state_partitions(self) -> int:
        """Partitions of the topics of states (snapshots and archive): one for each task of a worker."""
        return max(self.partitions, self.routes, self.labels)

    @property
    def counts(self) -> dict[str, int]:
        """Partitions of everything that workers process, as tasks need them."""
        return {"routes": self.routes, "inputs": self.partitions, "labels": self.labels}

    @property
    def dead_letters(self) -> int:
        """Partitions of the dead letters: one for each partition that is read and can yield them."""
        return max(self.partitions, self.labels)
