"""The embedded broker: librdkafka's in-process mock cluster, for the demo and for a first contact without Kafka.

It speaks Kafka's protocol on a loopback port, so the real worker joins it as it joins any broker. It is no place for
data that matter, and this module refuses what it would silently get wrong:

- every topic has `PARTITIONS` partitions, never another number, and the first request for a topic creates it;
- records live in memory, about 5 MB a partition; beyond that the oldest are dropped silently. `append` counts and
  refuses; a reader of outputs compares offsets (they have no gaps here) and stops at a missing one;
- nothing is compacted, so that an old snapshot costs room until it is dropped;
- transactions are accepted without effect (an aborted record is visible), so delivery must be set to at least once;
- a group with a second member fails at random, so there is one worker;
- an idle fetch always waits its full time, so the wait is shortened to `FETCH_WAIT_MS`.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Self

from confluent_kafka import Producer
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.errors import translated

PARTITIONS = 4
"""Partitions of every topic; librdkafka's only size knob is the number of brokers."""

FETCH_WAIT_MS = 50
"""Longest wait of an idle fetch: the mock cluster waits it out even when records arrive meanwhile."""

PARTITION_BYTES = 5 * 1024 * 1024
"""What a partition holds, in bytes of record batches as they are stored (librdkafka, measured: 4,899 batches of one
1,000-byte record and 70 bytes around it)."""

BUDGET = PARTITION_BYTES * 9 // 10
"""Bytes that `EmbeddedBroker.append` accepts for a partition; the tenth above is the margin of its estimate."""

RECORD_OVERHEAD = 72
"""Bytes around a record in the worst case: 61 of a batch that holds it alone, and 9 to 11 of its own lengths."""

CLUSTER_ID_PREFIX = "mockCluster"
"""Prefix of the ids of librdkafka's mock clusters."""

_log = logging.getLogger(__name__)
SILENT = logging.Logger("librdkafka", level=logging.CRITICAL + 1)
"""Logger for clients of a broker that comes and goes; without one librdkafka writes to standard error."""


def is_embedded(cluster_id: str | None) -> bool:
    """Return whether a cluster is embedded, by the id in its metadata (`AdminClient.list_topics().cluster_id`)."""
    return cluster_id is not None and cluster_id.startswith(CLUSTER_ID_PREFIX)


class BudgetError(BrokerError):
    """The embedded broker has no room for a record; it would drop the partition's oldest ones silently."""


class EmbeddedBroker:
    """A broker inside this process, on a loopback port, from ``with`` to its end.

    It creates `topics` at the start; `create` creates more. Raises `BrokerError` where the mock cluster does not
    answer.

    Examples
    --------
    >>> with EmbeddedBroker(["features"]) as broker:
    ...     broker.append("features", 0, b'{"features": [1.0, 2.0]}')
    ...     broker.flush()
    """

    def __init__(self, topics: Iterable[str] = ()) -> None:
        self._topics = tuple(topics)
        self._cluster: Producer | None = None
        self._producer: Producer | None = None
        self._used: dict[tuple[str, int], int] = {}
        self._failures: list[str] = []
        # ``host:port`` for clients; set while the broker runs.
        self.bootstrap = ""

    def __enter__(self) -> Self:
        # The cluster lives as long as this client, which has no other use.
        self._cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock"}, logger=SILENT)
        with translated({}, "the embedded broker does not answer: {reason}; start again"):
            brokers = self._cluster.list_topics(timeout=10).brokers.values()
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
        self._producer = Producer(
            self.client_settings() | {"linger.ms": 5, "acks": "all", "enable.idempotence": True}, logger=SILENT
        )
        self.create(self._topics)
        _log.info("embedded broker on %s", self.bootstrap)
        return self

    def __exit__(self, *_: object) -> None:
        self._producer = None
        self._cluster = None
        self.bootstrap = ""

    def client_settings(self) -> dict[str, Any]:
        """Return what every confluent-kafka client of this broker needs."""
        return {"bootstrap.servers": self.bootstrap, "socket.timeout.ms": 5000}

    def create(self, topics: Iterable[str]) -> None:
        """Create topics by requesting them; raise `BrokerError` where one cannot be created."""
        for topic in topics:
            with translated({}, f"topic {topic} on the embedded broker: {{reason}}"):
                found = self._running().list_topics(topic, timeout=5).topics[topic]
            if len(found.partitions) != PARTITIONS:
                raise BrokerError(
                    f"topic {topic} on the embedded broker has {len(found.partitions)} partitions instead of "
                    f"{PARTITIONS}; this version of confluent-kafka behaves otherwise than the one it was written for"
                )

    def append(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Append a record; `flush` waits for it.

        Raises `BudgetError` where the partition has no room, and `BrokerError` where it does not exist; nothing is
        appended then.
        """
        if not 0 <= partition < PARTITIONS:
            raise BrokerError(
                f"{topic}[{partition}]: a topic of the embedded broker has partitions 0..{PARTITIONS - 1}"
            )
        size = RECORD_OVERHEAD + len(value or b"") + len(key or b"")
        size += sum(len(name) + len(text) + 4 for name, text in headers)
        used = self._used.get((topic, partition), 0)
        if used + size > BUDGET:
            raise BudgetError(
                f"{topic}[{partition}] on the embedded broker: {used:,} of {BUDGET:,} bytes are used, a record of "
                f"{size:,} bytes does not fit; send less data, spread it over the {PARTITIONS} partitions, or use Kafka"
            )
        producer = self._running()
        while True:
            try:
                producer.produce(topic, value, key, partition, headers=list(headers), on_delivery=self._delivered)
                break
            except BufferError:
                producer.poll(0.05)
        self._used[topic, partition] = used + size
        producer.poll(0)

    def flush(self, timeout: float = 10) -> None:
        """Wait until everything appended is stored; raise `BrokerError` where a record was not."""
        waiting = self._running().flush(timeout)
        if waiting:
            self._failures.append(f"{waiting} records still wait after {timeout:g} s")
        if self._failures:
            failures, self._failures = self._failures, []
            raise BrokerError(f"the embedded broker did not store every record: {failures[0]}")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failures.append(f"{message.topic()}[{message.partition()}]: {error.str()}")

    def _running(self) -> Producer:
        if self._producer is None:
            raise BrokerError("the embedded broker does not run; use it inside its `with` block")
        return self._producer
