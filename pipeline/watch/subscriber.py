"""A consumer of the outputs, as anybody would write one: everything that a subscriber must know is in this file.

It reads what transactions committed (``isolation.level=read_committed``), so that an answer of an aborted transaction
is never seen. With deliveries at least once an output may come again, with the same bytes: key, value and headers; it
is known by them and dropped. What a compacted topic says is not: there the newest word on a key counts, though it may
be one that was said before. It joins no group: whoever wants to go on where it stopped keeps `positions`.
"""

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.access import Refusals, right_refused
from resonance.pipeline.kafka.acl import for_topic
from resonance.pipeline.kafka.log_reader import headers_of
from resonance.pipeline.records import Record

REMEMBERED = 200_000
"""Outputs that are known again when they are repeated; repeats come within the commit interval of a worker."""

BATCH = 2_000
"""Outputs handed over at once, at most."""


class OutputIdentity(NamedTuple):
    """What two deliveries of one output have in common."""

    topic: str
    key: bytes | None
    content: int


class Subscriber:
    """Reads output topics, each output once.

    Parameters
    ----------
    client : mapping
        librdkafka configuration of the connection.
    starts : mapping of (topic, partition) to int
        The partitions to read, and the offset at which the reading of each begins.
    group : str
        A group to be named, where rights are given by group; it is never joined.
    remembered : int
        Outputs that are known again when they are repeated.
    compacted : collection of str
        Topics of which every record is handed over.

    Attributes
    ----------
    positions : dict of (topic, partition) to int
        The next offset of each partition.
    repeats : int
        Outputs that came again.
    trouble : str
        Why the broker cannot be reached at the moment; empty while it can.

    Examples
    --------
    >>> with Subscriber({"bootstrap.servers": "localhost:9092"}, {("checkout.assignments", 0): 0}) as outputs:
    ...     for record in outputs.poll(1.0):
    ...         print(orjson.loads(record.value)["cluster"])
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        starts: Mapping[tuple[str, int], int],
        *,
        group: str = "resonance-subscriber",
        remembered: int = REMEMBERED,
        compacted: Collection[str] = (),
    ) -> None:
        self.positions = dict(starts)
        self.repeats = 0
        self.trouble = ""
        self._remembered = remembered
        self._compacted = frozenset(compacted)
        self._seen: dict[OutputIdentity, None] = {}
        self._client = dict(client)
        self._refusals = Refusals(self._client)
        self._consumer = Consumer(
            {
                "log_level": 0,
                **client,
                # Partitions are assigned and offsets are not committed: the group stays without members.
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                # Offsets have gaps (transactions leave markers): only this event tells that the end is reached.
                "enable.partition.eof": True,
                # What was deleted meanwhile cannot be had: go on with what is there.
                "auto.offset.reset": "earliest",
                "error_cb": self._note,
            }
        )
        self._consumer.assign([TopicPartition(*at, offset) for at, offset in starts.items()])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._consumer.close()

    def poll(self, timeout: float) -> list[Record]:
        """Return the next outputs, each partition in order, after at most `timeout` seconds.

        Raises
        ------
        BrokerError
            A topic can no longer be read.
        DeniedError
            The cluster refuses the log-in, or the right to read.
        """
        try:
            messages = self._consumer.consume(BATCH, timeout)
        except KafkaException as error:
            raise BrokerError(f"the outputs cannot be read: {error.args[0].str()}") from error
        if not messages:
            self._refusals.check()
        found = []
        for message in messages:
            at = (message.topic(), message.partition())
            problem = message.error()
            if problem is None:
                self.trouble = ""
                self.positions[at] = message.offset() + 1
                record = _record(message)
                if self._is_new(record):
                    found.append(record)
            elif problem.code() == KafkaError._PARTITION_EOF:
                self.trouble = ""
                self.positions[at] = message.offset()
            elif problem.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                # Said of the group, which nothing is asked of: there is no need for a right on it.
                continue
            elif denied := right_refused(self._client, problem, for_topic(at[0] or "", ["Read"])):
                raise denied
            elif not problem.retriable():
                where = f"{at[0]}[{at[1]}]" if at[0] else "the outputs"
                raise BrokerError(f"{where} cannot be read: {problem.str()}")
        return found

    def has_reached(self, ends: Mapping[tuple[str, int], int]) -> bool:
        """Whether everything below some offsets has been read."""
        return all(self.positions[at] >= end for at, end in ends.items())

    def _is_new(self, record: Record) -> bool:
        if record.topic in self._compacted:
            return True
        # All of it: an answer names its record and an event its number, but of a dead letter only the headers say
        # which record it was, and its ``ce_id``, if any, is the sender's.
        identity = OutputIdentity(record.topic, record.key, hash((record.value, record.headers)))
        if identity in self._seen:
            self.repeats += 1
            return False
        self._seen[identity] = None
        if len(self._seen) > self._remembered:
            del self._seen[next(iter(self._seen))]
        return True

    def _note(self, error: KafkaError) -> None:
        self._refusals.note(error)
        if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            self.trouble = error.str()


def _record(message: Any) -> Record:
    place = message.topic(), message.partition(), message.offset()
    return Record(*place, message.timestamp()[1], message.key(), message.value(), headers_of(message))
