"""Columns of messages to a transaction's producer by one call, which makes no object of a message.

Only without delivery reports: these come to an object that confluent-kafka has of each message.
"""

from typing import Any

import numpy as np
from confluent_kafka import Producer
from resonance.pipeline.kafka.librdkafka import COPY, MESSAGE, handle_of
from resonance.pipeline.records import Messages


def send(library: Any, producer: Producer, topic: str, partition: int, messages: Messages) -> int:
    """Queue columns for one partition, as the producer's `produce` does with one message after the other.

    Return how many were taken before the first that was not; none of messages with headers, or partitions of their own.
    Where the queue has no room for one, those behind it are not taken either, so that they keep their order.
    """
    # The producer is held while its address is used.
    client = handle_of(producer)
    if client is None or messages.headers or messages.partitions:
        return 0
    table = _table(messages)
    handle = library.rd_kafka_topic_new(client, topic.encode(), None)
    if not handle:
        return 0
    # One partition for all: with one of each message, a topic that the client does not know yet adds a partition to the
    # transaction that does not exist.
    taken: int = library.rd_kafka_produce_batch(handle, partition, COPY, table.ctypes.data, len(table))
    library.rd_kafka_topic_destroy(handle)
    return taken if taken == len(table) else int((table["error"] != 0).argmax())


def _table(messages: Messages) -> np.ndarray[Any, Any]:
    """Return messages as librdkafka takes them."""
    table, keys = np.zeros(len(messages), MESSAGE), messages.keys
    table["value_length"] = np.diff(messages.ends, prepend=0)
    table["value"] = messages.text.ctypes.data + messages.ends - table["value_length"].astype(np.int64)
    table["key_length"] = keys.ends - keys.begins
    table["key"] = keys.text.ctypes.data + keys.begins
    if keys.nulls is not None:
        table["key"][keys.nulls] = 0
    return table
