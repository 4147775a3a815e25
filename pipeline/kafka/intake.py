"""What a consumer has fetched, as columns: from a queue of our own, which makes no object of a record.

Only records and the events of partitions come to that queue: librdkafka may call Python where its main queue is
served, which only confluent-kafka's own calls prepare. So a consumer is polled beside this.
"""

import ctypes
import threading
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as Offset
from resonance.pipeline.kafka.librdkafka import MESSAGE, handle_of
from resonance.pipeline.kafka.log_reader import assign_unpaused, records_of
from resonance.pipeline.record_columns import Headers, RecordColumns
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.text import messages as kernels

_BEHIND: Final = 8
"""Bytes behind a text that its kernels may read."""


class Event(NamedTuple):
    """What a client says of a partition, or of its group where the topic is empty."""

    error: KafkaError
    topic: str
    partition: int
    offset: int


Taken = tuple[list[RecordColumns], list[Event]]


class Intake(Protocol):
    """Takes what a consumer has fetched."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Let records come from these positions on, without a pause; none comes that was fetched before."""

    def poll(self, seconds: float = 0.0) -> Event | None:
        """Serve the consumer's callbacks; return an event, if one came within so many seconds."""

    def take(self, seconds: float, most: int) -> Taken:
        """Return the records that have come, by partition, and events; wait so long for the first one."""

    def wake(self) -> None:
        """End the wait for a first record; any thread may call it."""

    def close(self) -> None:
        """Give up the queue, before the consumer is closed."""


class QueueIntake:
    """Takes from a queue of its own by the functions of the bundled library.

    Raises `RuntimeError` where the consumer is closed.
    """

    def __init__(self, library: Any, consumer: Consumer) -> None:
        client = handle_of(consumer)
        if client is None:
            raise RuntimeError("Consumer closed")
        # The consumer is held as long as its address.
        self._library, self._consumer, self._client = library, consumer, client
        self._queue = library.rd_kafka_queue_new(client)
        self._closing = threading.Lock()
        self._forwarded: set[TopicPartition] = set()
        self._messages = np.empty(1, np.int64)
        names = ("rd_kafka_message_timestamp", "rd_kafka_message_headers", "rd_kafka_message_destroy")
        addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
        self._functions = np.array(addresses, np.int64)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """See `Intake`."""
        # A partition that is given up is forwarded no more: that comes later, but before the next assignment was made.
        # What is forwarded before that keeps out of the consumer's own queue, and behind it comes here.
        self._consumer.assign([])
        self._forwarded |= positions.keys()
        self._forward(positions, self._queue)
        _assign(self._consumer, positions)
        self._forward(positions, self._queue)

    def _forward(self, partitions: Iterable[TopicPartition], to: Any) -> None:
        for topic, partition in partitions:
            own = self._library.rd_kafka_queue_get_partition(self._client, topic.encode(), partition)
            self._library.rd_kafka_queue_forward(own, to)
            self._library.rd_kafka_queue_destroy(own)

    def wake(self) -> None:
        """See `Intake`."""
        with self._closing:
            if self._queue is not None:
                self._library.rd_kafka_queue_yield(self._queue)

    def close(self) -> None:
        """See `Intake`; a client whose queue is still there would wait for it without end."""
        with self._closing:
            queue, self._queue = self._queue, None
        if queue is not None:
            self._forward(self._forwarded, None)
            self._library.rd_kafka_queue_destroy(queue)

    def poll(self, seconds: float = 0.0) -> Event | None:
        """See `Intake`; the consumer's own queue has no records."""
        message = self._consumer.poll(seconds)
        return None if message is None else _event(message)

    def take(self, seconds: float, most: int) -> Taken:
        """See `Intake`."""
        if len(self._messages) < most:
            self._messages = np.empty(most, np.int64)
        # A wait for more than one is one for all of them.
        count = self._fetch(0, 1, seconds)
        if count and most > 1:
            count += self._fetch(1, most - 1, 0.0)
        return self._columns(self._messages[:count]) if count else ([], [])

    def _fetch(self, at: int, most: int, seconds: float) -> int:
        place = self._messages.ctypes.data + self._messages.itemsize * at
        count: int = self._library.rd_kafka_consume_batch_queue(self._queue, round(1000 * seconds), place, most)
        return max(count, 0)

    def _columns(self, messages: Any) -> Taken:
        error, topic, partition = (np.empty(len(messages), kind) for kind in (np.int32, np.int64, np.int32))
        sizes = np.zeros(2, np.int64)
        try:
            kernels.look(messages, error, topic, partition, sizes)
            failed = messages[error != 0]
            events = [self._event(address) for address in failed.tolist()]
        except BaseException:
            self._destroy(messages)
            raise
        self._destroy(failed)
        if events:
            messages, topic, partition = (column[error == 0] for column in (messages, topic, partition))
        count = len(messages)
        if not count:
            return [], events
        try:
            cuts = _cuts(topic, partition)
            if len(cuts) > 2:
                # They come in runs; the sort keeps the order of each partition.
                order = np.lexsort((partition, topic))
                messages, topic, partition = (column[order] for column in (messages, topic, partition))
                cuts = _cuts(topic, partition)
            text, keys = np.empty(sizes[0] + count + _BEHIND, np.uint8), np.empty(sizes[1], np.uint8)
            ends, key_ends, offsets, times, numbers, found = (np.empty(count, np.int64) for _ in range(6))
            nulls = np.empty(count, np.uint8)
            columns = (text, ends, keys, key_ends, offsets, times, nulls)
            # Names first: with its last message a topic may end.
            names = [self._name(handle) for handle in topic[cuts[:-1]].tolist()]
        except BaseException:
            self._destroy(messages)
            raise
        some = kernels.unpack(messages, self._functions, *columns, numbers, found)
        try:
            named = zip(numbers[:some].tolist(), map(self._headers, found[:some].tolist()), strict=True)
            headers = {number: own for number, own in named if own}
        finally:
            self._destroy(messages[numbers[:some]])
        whole = RecordColumns("", -1, text[: sizes[0] + count], *columns[1:], headers)
        parts = [whole[first:last] for first, last in pairwise(cuts)]
        for part, name, first in zip(parts, names, cuts, strict=False):
            part.topic, part.partition = name, int(partition[first])
        return parts, events

    def _destroy(self, messages: Any) -> None:
        # A client any of whose messages is still there waits for it at its end, for ever.
        for address in messages.tolist():
            self._library.rd_kafka_message_destroy(address)

    def _name(self, handle: int) -> str:
        name: bytes = self._library.rd_kafka_topic_name(handle)
        return name.decode()

    def _event(self, address: int) -> Event:
        message = np.frombuffer(ctypes.string_at(address, MESSAGE.itemsize), MESSAGE)[0]
        text = (self._library.rd_kafka_message_errstr(address) or b"").decode(errors="replace")
        name = self._name(int(message["topic"])) if message["topic"] else ""
        problem = KafkaError(int(message["error"]), text or None)
        return Event(problem, name, int(message["partition"]), int(message["offset"]))

    def _headers(self, handle: int) -> Headers:
        """Return headers; none where the name of one is not UTF-8, which Kafka requires and no broker checks."""
        name, value, size = ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_size_t()
        places = [ctypes.byref(each) for each in (name, value, size)]
        found: list[tuple[str, bytes | None]] = []
        try:
            while self._library.rd_kafka_header_get_all(handle, len(found), *places) == 0:
                text = ctypes.string_at(value.value, size.value) if value.value else None
                found.append(((name.value or b"").decode(), text))
        except UnicodeDecodeError:
            return ()
        return tuple(found)


def _cuts(topic: Any, partition: Any) -> list[int]:
    """Return where another partition begins, and the end."""
    changes = np.flatnonzero((topic[1:] != topic[:-1]) | (partition[1:] != partition[:-1])) + 1
    return [0, *changes.tolist(), len(topic)]


class PublicIntake:
    """Takes by public calls of the consumer, which also serve its callbacks."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        # What came where only events were wanted.
        self._early: list[Message] = []

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """See `Intake`."""
        self._early = []
        _assign(self._consumer, positions)

    def wake(self) -> None:
        """Do nothing: a wait is short."""

    def close(self) -> None:
        """Do nothing."""

    def poll(self, seconds: float = 0.0) -> Event | None:
        """See `Intake`."""
        message = self._consumer.poll(seconds)
        if message is None or (message.error() is not None and not message.topic()):
            return None if message is None else _event(message)
        self._early.append(message)
        return None

    def take(self, seconds: float, most: int) -> Taken:
        """See `Intake`."""
        found, self._early = self._early, []
        found = found or self._consumer.consume(1, seconds)
        if found and most > 1:
            found += self._consumer.consume(most - 1, 0.0)
        groups: dict[TopicPartition, list[Message]] = {}
        for message in found:
            if message.error() is None:
                groups.setdefault((message.topic(), message.partition()), []).append(message)
        events = [_event(message) for message in found if message.error() is not None]
        return [RecordColumns.of(records_of(place, own)) for place, own in groups.items()], events


def _assign(consumer: Consumer, positions: Mapping[TopicPartition, int]) -> None:
    assign_unpaused(consumer, [Offset(*partition, offset) for partition, offset in positions.items()])


def _event(message: Message) -> Event:
    return Event(message.error(), message.topic() or "", message.partition(), message.offset())


def size_of(taken: Collection[RecordColumns]) -> int:
    """Return the bytes of values and keys."""
    return sum(len(part.text) + len(part.keys) for part in taken)
