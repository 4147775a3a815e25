"""Reads output topics for `watch`, `alerts` and the demo: chosen partitions from chosen offsets, without a group.

It reads committed records only, so it never sees an output of an aborted transaction. With at-least-once delivery an
output may come again with the same bytes in key, value and headers, but for those of CloudEvents; it is recognised by
them and dropped. Records of
compacted topics are not dropped: there the newest value of a key counts, even where it repeats an earlier one.
"""

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, TopicPartition
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.access import Refusals
from resonance.pipeline.kafka.acl import for_topic
from resonance.pipeline.kafka.errors import right_refused, translated
from resonance.pipeline.kafka.log_reader import headers_of
from resonance.pipeline.records import Record
from resonance.schemas import without_envelope
from resonance.schemas.repeats import REMEMBERED, Repeats

BATCH = 2_000
"""Most outputs that one poll returns."""


class OutputReader:
    """Reads output topics, each output once.

    Parameters
    ----------
    client : mapping
        librdkafka configuration of the connection.
    starts : mapping of (topic, partition) to int
        The partitions to read, and the offset at which the reading of each starts.
    group : str
        A group to name, where rights are given by group; it is never joined.
    remembered : int
        Outputs that are recognised when they are repeated.
    compacted : collection of str
        Topics of which every record is returned.

    Attributes
    ----------
    positions : dict of (topic, partition) to int
        The next offset of each partition.
    trouble : str
        Why the broker cannot be reached at the moment; empty while it can.

    Examples
    --------
    >>> with OutputReader({"bootstrap.servers": "localhost:9092"}, {("checkout.assignments", 0): 0}) as outputs:
    ...     for record in outputs.poll(1.0):
    ...         print(orjson.loads(record.value)["cluster"])
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        starts: Mapping[tuple[str, int], int],
        *,
        group: str = "resonance-watch",
        remembered: int = REMEMBERED,
        compacted: Collection[str] = (),
    ) -> None:
        self.positions = dict(starts)
        self.trouble = ""
        self._compacted = frozenset(compacted)
        self._repeats = Repeats(remembered)
        self._client = dict(client)
        self._refusals = Refusals(self._client)
        self._consumer = Consumer(
            {
                "log_level": 0,
                **client,
                # Partitions are assigned directly and offsets are not committed, so the group has no members.
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                # Offsets have gaps (transactions leave markers): only this event shows that the end is reached.
                "enable.partition.eof": True,
                # Records that were deleted meanwhile are lost: reading continues with the first that exists.
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

        Raises `BrokerError` where a topic can no longer be read, and `DeniedError` where the cluster refuses the log-in
        or the right to read.
        """
        with translated(self._client, "the outputs cannot be read: {reason}"):
            messages = self._consumer.consume(BATCH, timeout)
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
                # This concerns only the group, which is not used: no right on it is needed.
                continue
            elif denied := right_refused(self._client, problem, for_topic(at[0] or "", ["Read"])):
                raise denied
            elif not problem.retriable():
                where = f"{at[0]}[{at[1]}]" if at[0] else "the outputs"
                raise BrokerError(f"{where} cannot be read: {problem.str()}")
        return found

    @property
    def repeats(self) -> int:
        """Outputs that came again."""
        return self._repeats.count

    def has_reached(self, ends: Mapping[tuple[str, int], int]) -> bool:
        """Whether everything below some offsets has been read."""
        return all(self.positions[at] >= end for at, end in ends.items())

    def _is_new(self, record: Record) -> bool:
        if record.topic in self._compacted:
            return True
        # An assignment names its record and an event its number, but only the headers of a dead letter say which record
        # it was. The envelope does not count: `output.envelope` may have changed between the two.
        return not self._repeats.has_seen((record.topic, record.key, record.value, without_envelope(record.headers)))

    def _note(self, error: KafkaError) -> None:
        self._refusals.note(error)
        if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            self.trouble = error.str()


def _record(message: Any) -> Record:
    place = message.topic(), message.partition(), message.offset()
    return Record(*place, message.timestamp()[1], message.key(), message.value(), headers_of(message))
