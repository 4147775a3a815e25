"""What a transaction has left open: partitions, and offsets of the group.

A coordinator that ends a transaction writes a marker into each of its partitions, the group's offsets included. One
that has just begun takes a partition whose leader is not known yet for deleted, and leaves its marker out (seen on
Kafka 4.3 after the broker was killed). The transaction stays open there: the next commit of the same producer would
commit its aborted records, and offsets that it has sent hold back the committed ones from every start.

A group's coordinator that has just begun may also answer with old offsets, until something is written there (seen on
Kafka 4.3: 18,554 for 130,080, which the log of the offsets had).
"""

import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.acl import for_topic
from resonance.pipeline.kafka.admin import latest_offsets
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.errors import missing_right, reason_of
from resonance.pipeline.kafka.groups import group_offsets

RETRY_SECONDS = 0.2
ANSWER_SECONDS = 5.0


class LeftOpen(NamedTuple):
    """What transactions have open, of any producer."""

    partitions: list[TopicPartition]
    """Those with records that do not count yet."""
    offsets: list[TopicPartition]
    """The group's committed offsets and their metadata, as far as the broker knows them."""


def left_open(
    client: Mapping[str, Any], written: Collection[str], group: str, read: Collection[str], seconds: float
) -> LeftOpen:
    """Return what is open in the topics that are written, and a group's offsets in the topics that are read.

    A partition may be without a leader for a moment, and a group without a coordinator. Raises `BrokerError` where one
    still is after so many seconds.
    """
    admin = new_client(AdminClient, {"log_level": 0, **client})
    end = time.monotonic() + seconds
    while True:
        try:
            known = admin.list_topics(timeout=ANSWER_SECONDS).topics
            outputs = [(topic, number) for topic in written for number in known[topic].partitions]
            inputs = [TopicPartition(topic, number) for topic in read for number in known[topic].partitions]
            ends, counting = (
                latest_offsets(admin, outputs, level, ANSWER_SECONDS)
                for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
            )
            return LeftOpen(
                [TopicPartition(*place) for place in outputs if counting[place] < ends[place]],
                group_offsets(client, group, inputs, ANSWER_SECONDS),
            )
        except (KafkaException, TimeoutError, KeyError) as error:
            if time.monotonic() > end:
                reason = f"{reason_of(error)}; look at the brokers"
                if isinstance(error, KeyError):
                    # Kafka hides topics that a user may not see.
                    (topic,) = error.args
                    right = for_topic(topic, ["Write" if topic in written else "Read"])
                    reason = f"topic {topic} does not exist, or {missing_right(client, right)}"
                raise BrokerError(f"it is not known what transactions have left open: {reason}") from error
            time.sleep(RETRY_SECONDS)
