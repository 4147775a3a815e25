"""Check the topics that other programs write: whether they exist, and how many partitions they have."""

from collections.abc import Mapping, Sequence

from resonance.pipeline.errors import BrokerError, nearest
from resonance.pipeline.kafka.admin import EVERY_MESSAGE, ClusterAdmin, FoundTopic
from resonance.pipeline.topics.kinds import Topics


def check_inputs(cluster: ClusterAdmin, inputs: Sequence[str], found: Mapping[str, FoundTopic]) -> int:
    """Return the number of partitions that all input topics have.

    Raises BrokerError, with the command that helps, where one is missing or their numbers differ.
    """
    for topic in inputs:
        if topic not in found:
            raise BrokerError(
                f"input topic {topic} does not exist on {cluster.servers}{nearest(topic, cluster.partition_counts())}; "
                f"check input.topics, or create it: {cluster.command(topic, '<n>')}"
            )
    counts = {topic: found[topic].partitions for topic in inputs}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{topic} has {number}" for topic, number in counts.items())
        most = max(counts.values())
        fewer = [topic for topic, number in counts.items() if number < most]
        raise BrokerError(
            f"input.topics on {cluster.servers} must have the same number of partitions, but {listed}; "
            f"run one pipeline for each of them, or add partitions: {cluster.alter(fewer[0], most)}"
        )
    return counts[inputs[0]]


def check_labels(cluster: ClusterAdmin, topic: str, found: Mapping[str, FoundTopic]) -> int:
    """Return the number of partitions that the labels topic has.

    Raises BrokerError, with the command that creates it, where it is missing.
    """
    if topic not in found:
        raise BrokerError(
            f"there is no topic {topic} with labels on {cluster.servers}{nearest(topic, cluster.partition_counts())}; "
            f"check labels.topic, or create it: {cluster.command(topic, '<n>')}"
        )
    return found[topic].partitions


def make_inputs(cluster: ClusterAdmin, topics: Topics, partitions: int) -> list[str]:
    """Create the missing topics of other programs, which happens on request only; return their names."""
    names = [topic.name for topic in topics.of_others]
    there = cluster.find(names)
    made = [name for name in names if name not in there]
    for name in made:
        cluster.create(name, partitions, EVERY_MESSAGE, cluster.command(name, str(partitions), EVERY_MESSAGE))
    if made:
        cluster.wait_for_leaders(made)
    return made
