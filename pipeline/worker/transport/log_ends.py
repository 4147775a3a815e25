"""Where the logs of the assigned partitions end: as far as they can be read, and behind their last records.

Fetches bring both ends. Of a partition that is not fetched at present, because it is paused or much of it waits
already, its leader is queried; and the first record of an open transaction is read for what it shows of its sender.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from faust.types import TP
from resonance.pipeline.errors import ResourceError
from resonance.pipeline.kafka.admin import latest_offsets
from resonance.pipeline.kafka.log_reader import POLL_SECONDS
from resonance.pipeline.kafka.threads import require_threads
from resonance.pipeline.logs import printable
from resonance.pipeline.text.times import LAST
from resonance.pipeline.timestamps import canonical
from resonance.schemas.output_reader import headers_of

QUERY_SECONDS: Final = 3.0
"""Age of a partition's ends from which its leader is queried, and about the time between two queries."""

KNOWN_SECONDS: Final = 10.0
"""Age above which they are unknown: its leader answers neither fetches nor queries."""

ANSWER_SECONDS: Final = 2.0
"""How long a broker may take to answer a query."""

SHOWN: Final = 100
"""Bytes that are shown of a key, or of the name or the value of a header."""

HEADERS: Final = 10
"""Headers of a record that are shown."""


class LogEnd(NamedTuple):
    """Both ends of a log."""

    stable: int
    """Offset up to which records can be read, the last stable offset: there the first open transaction begins."""
    high: int
    """Offset behind the last record, the high watermark."""


class Lag(NamedTuple):
    """Offsets between the last committed answer and the end of the log; a few of them have no record."""

    readable: int = 0
    """Up to the last stable offset."""
    unstable: int = 0
    """Behind it: an open transaction holds them back."""

    @property
    def waiting(self) -> int:
        """All of them."""
        return self.readable + self.unstable

    @classmethod
    def of(cls, answered: int, end: LogEnd) -> Self:
        """Return the lag of a partition whose records are answered up to an offset."""
        return cls(max(end.stable - answered, 0), max(end.high - max(end.stable, answered), 0))

    @classmethod
    def total(cls, lags: Iterable["Lag | None"]) -> "Lag | None":
        """Return the sums; None where one of the lags is unknown."""
        total = cls()
        for lag in lags:
            if lag is None:
                return None
            total = cls(total.readable + lag.readable, total.unstable + lag.unstable)
        return total


class OpenTransaction(NamedTuple):
    """What the first record of an open transaction shows of its sender."""

    timestamp: int
    """Milliseconds since 1970; negative where it has none."""
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def __str__(self) -> str:
        time_text = canonical(self.timestamp) if 0 <= self.timestamp <= LAST else "an unknown time"
        parts = [f"its first record: {time_text}"]
        parts.append("no key" if self.key is None else f"key {_text(self.key)}")
        parts += [f"header {printable(name[:SHOWN])}: {_text(value or b'')}" for name, value in self.headers[:HEADERS]]
        return ", ".join(parts)


def _text(value: bytes) -> str:
    return printable(value[:SHOWN].decode(errors="backslashreplace"))


def query(admin: AdminClient, places: Iterable[TP]) -> dict[TP, LogEnd]:
    """Return the ends of some logs as their leaders report them, without those that no leader reports in time."""
    stable = latest_offsets(admin, places, IsolationLevel.READ_COMMITTED, ANSWER_SECONDS, some=True)
    # After it, so that it is never the lower one.
    high = latest_offsets(admin, stable, IsolationLevel.READ_UNCOMMITTED, ANSWER_SECONDS, some=True)
    return {TP(*place): LogEnd(stable[place], end) for place, end in high.items()}


def open_transaction(client: Mapping[str, Any], place: TP, offset: int) -> OpenTransaction | None:
    """Return what begins at an offset where a transaction is open; None where no broker shows it in time.

    librdkafka does not say whose a record is: the brokers show its producer to Kafka's own tool.
    """
    own = {
        "group.id": client.get("client.id", "resonance"),
        "isolation.level": "read_uncommitted",
        "enable.auto.commit": False,
        # What is not there is an event, and no wait.
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        # One batch is enough, and comes whatever its size.
        "fetch.message.max.bytes": 1,
    }
    with suppress(KafkaException, ResourceError):
        require_threads()
        consumer = Consumer({"log_level": 0, **client, **own})
        try:
            consumer.assign([TopicPartition(*place, offset)])
            record = _first(consumer)
        finally:
            consumer.close()
        if record is not None and record.offset() == offset:
            return OpenTransaction(record.timestamp()[1], record.key(), tuple(headers_of(record)))
    return None


def _first(consumer: Consumer) -> Message | None:
    end = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < end:
        message = consumer.poll(POLL_SECONDS)
        if message is None:
            continue
        problem = message.error()
        if problem is None:
            return message
        if problem.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._PARTITION_EOF):
            return None
    return None
