"""Partitions in which a transaction is open.

A coordinator that ends a transaction writes a marker into each of its partitions. One that has just begun takes a
partition whose leader is not known yet for deleted, and leaves its marker out (seen on Kafka 4.3 after the broker was
killed). The transaction stays open there, and the next commit of the same producer would commit its aborted records.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.errors import reason_of

RETRY_SECONDS = 0.2
ANSWER_SECONDS = 5.0


def open_partitions(client: Mapping[str, Any], topics: Collection[str], seconds: float) -> list[TopicPartition]:
    """Return the partitions of topics whose records do not all count yet, of any producer.

    A partition may be without a leader for a moment. Raises `BrokerError` where one still is after so many seconds.
    """
    admin = AdminClient({"log_level": 0, **client})
    end = time.monotonic() + seconds
    while True:
        try:
            known = admin.list_topics(timeout=ANSWER_SECONDS).topics
            places = [TopicPartition(topic, number) for topic in topics for number in known[topic].partitions]
            written, counting = (
                _ends(admin, places, level)
                for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
            )
            return [place for place in places if counting[place] < written[place]]
        except (KafkaException, KeyError) as error:
            if time.monotonic() > end:
                reason = reason_of(error) if isinstance(error, KafkaException) else f"topic {error} is not described"
                raise BrokerError(
                    f"the ends of the output topics are not known: {reason}; look at the brokers"
                ) from error
            time.sleep(RETRY_SECONDS)


def _ends(admin: AdminClient, places: list[TopicPartition], level: IsolationLevel) -> dict[TopicPartition, int]:
    latest = dict.fromkeys(places, OffsetSpec.latest())
    answers = admin.list_offsets(latest, isolation_level=level, request_timeout=ANSWER_SECONDS)
    return {place: answer.result().offset for place, answer in answers.items()}
