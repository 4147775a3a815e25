"""The committed offsets of a consumer group, read without being its member.

Not by librdkafka's admin client: it ends the process where the coordinator of the group is another broker than it was,
or has just begun (librdkafka issue 5040, seen on a broker that had just started). A consumer requests them again.
"""

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition


def group_offsets(
    client: Mapping[str, Any], group: str, places: Collection[TopicPartition], seconds: float
) -> list[TopicPartition]:
    """Return the offset and its metadata of each partition, a negative offset where none is committed.

    Offsets of open transactions do not hold back those of before. Raises `KafkaException`.
    """
    reads = {"isolation.level": "read_uncommitted", "enable.auto.commit": False}
    consumer = Consumer({"log_level": 0, **client, "group.id": group, **reads})
    try:
        found: list[TopicPartition] = consumer.committed(list(places), timeout=seconds)
        return found
    finally:
        consumer.close()
