"""Columns of messages to a transaction's producer by one call, which makes no object of a message.

Only without delivery reports: these come to an object that confluent-kafka has of each message.
"""

import functools
import logging
from contextlib import closing
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Offset
from resonance.pipeline.errors import ResourceError
from resonance.pipeline.kafka.embedded import SILENT
from resonance.pipeline.kafka.librdkafka import COPY, MESSAGE, LibraryError, handle_of, load
from resonance.pipeline.kafka.threads import CLIENT_THREADS, require_threads
from resonance.pipeline.records import Message, Messages

CHECK_SECONDS: Final = 5.0
"""How long the messages of the check may take."""

_CHECKED: Final = [Message(b"key", b'{"a":1}', []), Message(None, b"", []), Message(b"", b"\0", [])]
"""What the check sends: keys that are there, null and empty."""

_log = logging.getLogger(__name__)


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


@functools.cache
def checked() -> Any:
    """Return the bundled library once messages that went by it came as the same went by public calls; else None."""
    try:
        library = load()
        _check(library)
    except (LibraryError, KafkaException, ResourceError) as error:
        _log.warning("outputs are sent by a call each, which takes more processor time: %s", error)
        return None
    return library


def _check(library: Any) -> None:
    """Raise `LibraryError` where messages do not come through librdkafka's mock cluster as by public calls."""
    name = "resonance-check"
    require_threads(2 * CLIENT_THREADS)
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": name, "client.id": name}, logger=SILENT)
    client = handle_of(producer)
    found = library.rd_kafka_name(client) if client else None
    if not (found or b"").startswith(f"{name}#producer-".encode()):
        raise LibraryError(f"librdkafka calls its client {found}")
    # The request makes the topic.
    brokers = producer.list_topics(name, CHECK_SECONDS).brokers.values()
    for message in _CHECKED:
        producer.produce(name, message.value, message.key, 0)
    taken = send(library, producer, name, 1, Messages.of(_CHECKED))
    left = producer.flush(CHECK_SECONDS)
    if taken != len(_CHECKED) or left:
        raise LibraryError(f"librdkafka took {taken} of {len(_CHECKED)} messages and stored all but {left}")
    address = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    public, own = (_read(address, name, partition) for partition in (0, 1))
    if public != own or len(own) != len(_CHECKED):
        raise LibraryError(f"librdkafka stored {own} instead of {public}")


def _read(address: str, topic: str, partition: int) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values of the messages in a partition, in order."""
    settings = {"bootstrap.servers": address, "group.id": topic, "fetch.wait.max.ms": 10}
    with closing(Consumer(settings, logger=SILENT)) as consumer:
        consumer.assign([Offset(topic, partition, 0)])
        found = consumer.consume(len(_CHECKED), CHECK_SECONDS)
    return [(message.key(), message.value()) for message in found if message.error() is None]
