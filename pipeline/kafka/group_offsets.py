"""The committed offsets of a consumer group, read without being its member.

Not by librdkafka's admin client: it ends the process where the coordinator of the group is another broker than it was,
or has just begun (librdkafka issue 5040, seen on a broker that had just started). A consumer requests them again.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from resonance.pipeline.kafka.log_reader import is_passing

PAUSE_SECONDS: Final = 0.1


def group_offsets(
    client: Mapping[str, Any], group: str, places: Collection[TopicPartition], seconds: float
) -> list[TopicPartition]:
    """Return the offset and its metadata of each partition, a negative offset where none is committed.

    Offsets of open transactions do not hold back those of before. Raises `KafkaException`.
    """
    reads = {"isolation.level": "read_uncommitted", "enable.auto.commit": False}
    end = time.monotonic() + seconds
    consumer = Consumer({"log_level": 0, **client, "group.id": group, **reads})
    try:
        while True:
            try:
                found: list[TopicPartition] = consumer.committed(list(places), timeout=max(end - time.monotonic(), 0.1))
                return found
            except KafkaException as error:
                if not is_passing(error.args[0]) or time.monotonic() > end:
                    raise
                time.sleep(PAUSE_SECONDS)
    finally:
        consumer.close()
