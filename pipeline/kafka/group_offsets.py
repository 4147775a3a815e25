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


class OffsetReader:
    """Reads the offsets of a group over connections that stay open.

    Offsets of open transactions do not hold back those of before.
    """

    def __init__(self, client: Mapping[str, Any], group: str) -> None:
        reads = {"isolation.level": "read_uncommitted", "enable.auto.commit": False}
        self._consumer = Consumer({"log_level": 0, **client, "group.id": group, **reads})

    def committed(self, places: Collection[TopicPartition], seconds: float) -> list[TopicPartition]:
        """Return the offset and its metadata of each partition, a negative offset where none is committed.

        Raises `KafkaException` where the group gives none within `seconds`.
        """
        end = time.monotonic() + seconds
        while True:
            try:
                left = max(end - time.monotonic(), 0.1)
                found: list[TopicPartition] = self._consumer.committed(list(places), timeout=left)
                return found
            except KafkaException as error:
                if not is_passing(error.args[0]) or time.monotonic() > end:
                    raise
                time.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()


def group_offsets(
    client: Mapping[str, Any], group: str, places: Collection[TopicPartition], seconds: float
) -> list[TopicPartition]:
    """Return what `OffsetReader.committed` does, once."""
    reader = OffsetReader(client, group)
    try:
        return reader.committed(places, seconds)
    finally:
        reader.close()
