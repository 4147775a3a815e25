"""A typical consumer of the demo's outputs: delivery is at least once, so it drops repeats by their id."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, TopicPartition
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.embedded import PARTITIONS, SILENT
from resonance.pipeline.kafka.errors import translated
from resonance.pipeline.records import Message


class ReceivedOutput(NamedTuple):
    """An output that is received for the first time."""

    topic: str
    partition: int
    message: Message


class Follower:
    """Reads all partitions of output topics from their beginning; `client` configures the connection."""

    def __init__(self, client: Mapping[str, Any], topics: Sequence[str]) -> None:
        # Number of outputs that came again.
        self.repeats = 0
        # Ids of repeats with other bytes than the first time, which delivery must not produce.
        self.differing: list[str] = []
        self._seen: dict[tuple[str, str], Message] = {}
        # The embedded broker's offsets have no gaps: a missing one was dropped before it was read.
        self._next = {(topic, partition): 0 for topic in topics for partition in range(PARTITIONS)}
        self._consumer = Consumer(
            {
                **client,
                "group.id": "resonance-demo-follower",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
            },
            logger=SILENT,
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in self._next])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._consumer.close()

    def poll(self, timeout: float) -> list[ReceivedOutput]:
        """Return new outputs, waiting at most `timeout` seconds for them.

        Raises `BrokerError` where outputs cannot be read, or were dropped before they were read; then fewer records
        must be sent, or Kafka used.
        """
        with translated({}, "the outputs cannot be read: {reason}"):
            received = self._consumer.consume(5000, timeout)
        return [found for message in received if (found := self._take(message)) is not None]

    def _take(self, received: Any) -> ReceivedOutput | None:
        error = received.error()
        if error is not None:
            if error.retriable():
                return None
            raise BrokerError(f"the outputs cannot be read: {error.str()}; the embedded broker may have dropped some")
        topic, partition, offset = received.topic(), received.partition(), received.offset()
        expected = self._next[topic, partition]
        if offset != expected:
            raise BrokerError(
                f"{topic}[{partition}]: the embedded broker dropped offsets {expected} to {offset - 1} before they "
                "were read; feed fewer records, or use Kafka"
            )
        self._next[topic, partition] = offset + 1
        message = Message(received.key(), received.value(), list(received.headers() or []))
        name = next((value.decode() for header, value in message.headers if header == "ce_id" and value), "")
        known = self._seen.setdefault((topic, name), message)
        if known is message:
            return ReceivedOutput(topic, partition, message)
        self.repeats += 1
        if known != message:
            self.differing.append(name)
        return None
