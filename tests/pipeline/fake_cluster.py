"""A cluster whose topics a test makes up; no broker is needed."""

from resonance.pipeline.kafka.admin import ClusterAdmin, FoundTopic

CONFIG = {"cleanup.policy": "delete", "max.message.bytes": "1048588", "retention.ms": "604800000"}
"""Of a topic that was made with nothing but its name."""


class FakeCluster(ClusterAdmin):
    """Answers from partitions and configuration (beside `CONFIG`) of each topic; keeps those that are made."""

    def __init__(self, topics):
        self.servers = "kafka:9092"
        self._client = {"bootstrap.servers": self.servers, "sasl.username": "shop"}
        self.embedded = False
        self.copies = -1
        self.topics = dict(topics)
        self.operations = {}

    def find(self, topics, operations=None):
        there = {name: self.topics[name] for name in topics if name in self.topics}
        return {
            name: FoundTopic(f"id-{name}", n, self.operations.get(name), copies=3) for name, (n, _) in there.items()
        }

    def configs(self, topics):
        return {name: {**CONFIG, **self.topics[name][1]} for name in topics}

    def partition_counts(self):
        return {name: partitions for name, (partitions, _) in self.topics.items()}

    def create(self, topic, partitions, config, command):
        self.topics[topic] = partitions, config

    def wait_for_leaders(self, topics):
        """All have leaders."""
