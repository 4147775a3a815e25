"""A cluster whose topics a test makes up; nothing is asked of a broker."""

from collections.abc import Mapping, Sequence

from resonance.pipeline.kafka.admin import ClusterAdmin, FoundTopic

CONFIG = {"cleanup.policy": "delete", "max.message.bytes": "1048588", "retention.ms": "604800000"}
"""Of a topic that was made with nothing but its name."""


class FakeCluster(ClusterAdmin):
    """Answers from partitions and configuration (beside `CONFIG`) of each topic; keeps those that are made."""

    def __init__(self, topics: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
        self.servers = "kafka:9092"
        self._client = {"bootstrap.servers": self.servers, "sasl.username": "shop"}
        self.embedded = False
        self.topics = dict(topics)
        self.operations: dict[str, frozenset[str]] = {}

    def find(
        self, topics: Sequence[str], operations: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, FoundTopic]:
        there = {name: self.topics[name] for name in topics if name in self.topics}
        return {name: FoundTopic(f"id-{name}", n, self.operations.get(name)) for name, (n, _) in there.items()}

    def configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        return {name: {**CONFIG, **self.topics[name][1]} for name in topics}

    def partition_counts(self) -> dict[str, int]:
        return {name: partitions for name, (partitions, _) in self.topics.items()}

    def create(self, topic: str, partitions: int, config: Mapping[str, str], command: str) -> None:
        self.topics[topic] = partitions, config

    def wait_for_leaders(self, topics: Sequence[str]) -> None:
        """All have leaders."""
