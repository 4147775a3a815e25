"""Bounded reads of committed records, for restores: from an offset to the end that was read at the start."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat
from operator import itemgetter, methodcaller
from typing import Any, ClassVar, Final, Self

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.access import Refusals
from resonance.pipeline.kafka.acl import for_group, for_topic
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.errors import UNREACHED, code_of, missing_right, reason_of, right_refused
from resonance.pipeline.kafka.listeners import wrong_listener
from resonance.pipeline.kafka.threads import require_threads
from resonance.pipeline.memory_budget import RECORD, MemoryBudget
from resonance.pipeline.records import Record, TopicPartition
from resonance.schemas.output_reader import headers_of

OffsetRange = tuple[int, int]

POLL_SECONDS: Final = 0.1
"""Longest wait between two checks for a cancellation."""

QUESTION_SECONDS: Final = 1.0
"""Longest wait for one answer before the request is repeated."""

SETTLING_SECONDS: Final = 0.02
"""First pause before the ends of logs are looked at again; each is twice as long as the last one."""

BATCH: Final = 5_000
"""Most records handed over at once."""

FETCH_BYTES: Final = 4 * 1024 * 1024
"""Most bytes of a partition in one answer."""

FEW: Final = 64
"""Records handed over at once before their size is known, where the memory is limited."""

NO_OFFSET: Final = -1
"""Stands for a committed offset that does not exist."""

_SETTINGS: Final[Mapping[str, Any]] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    # Offsets have gaps (transaction markers, aborted records, compaction): the end of a read is known by this event.
    "enable.partition.eof": True,
    # A range that is deleted while it is read is an error, not a jump.
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 50,
    "fetch.queue.backoff.ms": 10,
    # Also the most that librdkafka unpacks a zstd batch to: no less than a worker has learned (`MemoryBudget.batch`).
    "receive.message.max.bytes": 2_000_000_000,
}

# A message is read column by column: a third of the time that it takes one by one.
_offset, _timestamp, _key, _value = map(methodcaller, ("offset", "timestamp", "key", "value"))
_error: Final = methodcaller("error")
_milliseconds: Final = itemgetter(1)
_make: Callable[[Iterable[Any]], Record] = partial(tuple.__new__, Record)


class RestoreCancelledError(Exception):
    """Another rebalance began, so that this restore's result would be of no use."""


class LogReader:
    """A consumer that never joins its group: it requests the group's offsets and reads assigned ranges.

    The broker is given up after `patience` seconds without any progress; every wait ends with `RestoreCancelledError`
    once `cancelled` is set. What is `foreign` is written by other producers, which may compress it to a thousandth.
    """

    memory: ClassVar[MemoryBudget | None] = None
    """What the readers of this process may take, where it has a budget: one of them reads at a time."""

    def __init__(
        self,
        client: Mapping[str, Any],
        group: str,
        patience: float,
        cancelled: threading.Event | None = None,
        *,
        foreign: bool = False,
    ) -> None:
        self._client = dict(client)
        self._servers = str(client["bootstrap.servers"])
        self._group = group
        self._patience = patience
        self._cancelled = cancelled or threading.Event()
        # Partitions of topics, and when that was.
        self._counts: dict[str, tuple[int, float]] = {}
        self._refusals = Refusals(self._client)
        callbacks = {"error_cb": self._refusals.note}
        require_threads()
        own = {"group.id": group, **_SETTINGS, **sizes(self.memory, foreign=foreign), **callbacks}
        # Until the size of a record is known.
        self._most = BATCH if self.memory is None else FEW
        self._consumer = new_client(Consumer, {"log_level": 0, **client, **own})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the group's committed offsets, `NO_OFFSET` where there is none.

        A consumer that reads committed records requests them with "require stable": while a dead worker's transaction
        is being ended the broker answers "not yet", and an older offset is never seen.
        """
        return {at: offset for at, (offset, _) in self.committed_with_metadata(partitions).items()}

    def committed_with_metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """Return the offsets of `committed`, each with the metadata beside it, ``""`` where there is none."""
        places = [Place(*partition) for partition in partitions]
        found: list[Place] = self._patiently(
            lambda: self._consumer.committed(places, timeout=QUESTION_SECONDS), "committed offsets"
        )
        return {(place.topic, place.partition): (max(place.offset, NO_OFFSET), _metadata(place)) for place in found}

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
        """Return where each log begins and where its committed part ends."""
        firsts, ends = (self._offsets(self._consumer, partitions, each) for each in (OFFSET_BEGINNING, OFFSET_END))
        return {partition: (firsts[partition], ends[partition]) for partition in partitions}

    def _offsets(
        self, consumer: Consumer, partitions: Collection[TopicPartition], which: int
    ) -> dict[TopicPartition, int]:
        """Return the first offsets of logs, or their ends: one request of each topic, which goes to all its leaders."""
        found = {}
        for topic in dict.fromkeys(topic for topic, _ in partitions):
            places = [Place(*partition, which) for partition in partitions if partition[0] == topic]
            # Stands for a time: what is before all times, or behind them, of the log as this consumer sees it.
            request = partial(consumer.offsets_for_times, places, timeout=QUESTION_SECONDS)
            for place in self._patiently(lambda request=request: _answered(request()), "log ends", topic):
                found[place.topic, place.partition] = place.offset
        return found

    def offsets_at(self, partitions: Collection[TopicPartition], moment: int) -> dict[TopicPartition, int]:
        """Return the first offset of each log whose timestamp is at or after a moment, `NO_OFFSET` where none is.

        The moment is in milliseconds since 1970.
        """
        places = [Place(*partition, max(moment, 0)) for partition in partitions]
        answers = self._patiently(
            lambda: _answered(self._consumer.offsets_for_times(places, timeout=QUESTION_SECONDS)), "offsets of a time"
        )
        return {(place.topic, place.partition): max(place.offset, NO_OFFSET) for place in answers}

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of the logs, what open transactions hold back included."""
        settings = {"log_level": 0, **self._client, "group.id": self._group, "isolation.level": "read_uncommitted"}
        everything = new_client(Consumer, settings)
        try:
            return self._offsets(everything, partitions, OFFSET_END)
        finally:
            everything.close()

    def settled_bounds(
        self, partitions: Collection[TopicPartition], seconds: float
    ) -> dict[TopicPartition, OffsetRange]:
        """Return `bounds` once every transaction that was open has ended, or after `seconds`.

        The broker ends a transaction in each partition separately: committed offsets can be visible before the records
        of the same transaction.
        """
        ends = self.high_watermarks(partitions)
        until, pause = time.monotonic() + seconds, SETTLING_SECONDS
        left = list(partitions)
        while left and time.monotonic() < until:
            found = self._offsets(self._consumer, left, OFFSET_END)
            if left := [partition for partition in left if found[partition] < ends[partition]]:
                time.sleep(pause)
                pause = min(2 * pause, QUESTION_SECONDS)
        return self.bounds(partitions)

    def has(self, partition: TopicPartition) -> bool:
        """Return whether a partition exists; the request creates nothing, and is one for all partitions of a topic."""
        topic, number = partition
        count, since = self._counts.get(topic, (0, float("-inf")))
        if number >= count and time.monotonic() - since > QUESTION_SECONDS:
            known = self._patiently(lambda: self._consumer.list_topics(topic, timeout=QUESTION_SECONDS), "topics")
            count = len(known.topics[topic].partitions)
            self._counts[topic] = count, time.monotonic()
        return number < count

    def read(
        self, ranges: Mapping[TopicPartition, OffsetRange], batch: int = BATCH
    ) -> Iterator[tuple[TopicPartition, list[Record]]]:
        """Yield the committed records of each range in order, at most `batch` at once; a caller may stop early.

        A range is its first offset and the one before which the read ends, which need not exist. Raises `BrokerError`
        where no record came for `patience` seconds, or where the first offset no longer exists.
        """
        ends = {partition: end for partition, (first, end) in ranges.items() if first < end}
        assign_unpaused(self._consumer, [Place(*partition, ranges[partition][0]) for partition in ends])
        moved = time.monotonic()
        while ends:
            self._check_cancelled()
            before = len(ends)
            batches = self._next(ends, min(batch, self._most))
            came = bool(batches)
            for partition in list(batches):
                # Nothing of it is held here while more is read.
                yield partition, batches.pop(partition)
            if came or len(ends) < before:
                moved = time.monotonic()
            elif denied := self._refusals.error():
                raise denied
            elif time.monotonic() - moved > self._patience:
                raise self._no_answer("records")
        self._consumer.unassign()

    def _next(self, ends: dict[TopicPartition, int], most: int) -> dict[TopicPartition, list[Record]]:
        """Return some of the records before the ends, and remove the ends that were reached."""
        batches: dict[TopicPartition, list[Record]] = {}
        # With a batch of 1 the first record comes without a wait for others.
        messages = self._consumer.consume(most, POLL_SECONDS)
        if any(map(_error, messages)):
            problems = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
        else:
            problems = []
        done = []
        for partition, own in _by_partition(messages, ends):
            end = ends[partition]
            if own[-1].offset() >= end:
                own = [message for message in own if message.offset() < end]  # noqa: PLW2901
                done.append(partition)
            if own:
                batches[partition] = records_of(partition, own)
        for message in problems:
            partition, problem = (message.topic(), message.partition()), message.error()
            if partition not in ends:
                continue
            if problem.code() == KafkaError._PARTITION_EOF:
                # The end of the log, which can lie before a late marker.
                if message.offset() >= ends[partition]:
                    done.append(partition)
            elif problem.code() == KafkaError._AUTO_OFFSET_RESET:
                raise BrokerError(f"{partition[0]}[{partition[1]}]: deleted while it was read; start again")
            elif denied := right_refused(self._client, problem, for_topic(partition[0], ["Read"])):
                raise denied
            elif not is_passing(problem):
                raise BrokerError(f"{partition[0]}[{partition[1]}] cannot be read: {problem.str()}")
        for partition in done:
            if ends.pop(partition, None) is not None:
                # What was fetched behind the end goes; after an incremental unassign librdkafka would keep it.
                self._consumer.pause([Place(*partition)])
        if self.memory is not None and messages:
            size = sum(RECORD + len(record.value or b"") for records in batches.values() for record in records)
            self._most = max(self.memory.handed * len(messages) // max(size, 1), 1)
        return batches

    def _patiently(self, request: Any, what: str, topic: str = "") -> Any:
        end = time.monotonic() + self._patience
        tried = False
        while True:
            self._check_cancelled()
            try:
                return request()
            except KafkaException as error:
                right = for_topic(topic, ["Describe"]) if topic else for_group(self._group)
                if denied := right_refused(self._client, error, right):
                    raise denied from error
                # A poll returns refusals that came meanwhile; it takes no records, because nothing is assigned.
                message = self._consumer.poll(0)
                problem = message.error() if message is not None else None
                # A refusal of the group matters only to a request about the group.
                if problem is not None and not topic and (denied := right_refused(self._client, problem, right)):
                    raise denied from error
                self._refusals.check()
                is_unknown = code_of(error) in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
                # A client that reaches no broker knows no topic either.
                if not tried and (is_unknown or code_of(error) in UNREACHED):
                    tried = True
                    if wrong := wrong_listener(self._client, all_of_them=True):
                        raise wrong from error
                if topic and is_unknown:
                    # Kafka hides topics that a user may not see.
                    raise BrokerError(
                        f"topic {topic} does not exist on {self._servers}, or lacks the partition, or "
                        f"{missing_right(self._client, right)}"
                    ) from error
                if not is_passing(error.args[0]):
                    raise BrokerError(f"{self._servers}: {what} of group {self._group}: {reason_of(error)}") from error
                if time.monotonic() > end:
                    raise self._no_answer(what) from error

    def _no_answer(self, what: str) -> BrokerError:
        known = self._refusals.error(at_once=True) or wrong_listener(self._client, all_of_them=False)
        return known or BrokerError(
            f"{self._servers} gave no {what} for group {self._group} within {self._patience:g} s; look at the brokers, "
            "and for a transaction that never ends (kafka-transactions.sh find-hanging)"
        )

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise RestoreCancelledError


def assign_unpaused(consumer: Consumer, places: Collection[Place]) -> None:
    """Assign partitions and end their pauses, which outlive an assignment; ends an earlier read, too.

    Whether a partition goes on is requested before it is assigned: librdkafka drops a request that comes while it
    starts the partition, and the pause would have no end (confluentinc/librdkafka, issue 5591).
    """
    consumer.resume([Place(place.topic, place.partition) for place in places])
    consumer.assign(list(places))


def sizes(memory: MemoryBudget | None, *, foreign: bool) -> dict[str, int]:
    """Return how much librdkafka fetches: it unpacks an answer of a broker as a whole."""
    if memory is None:
        return {"fetch.message.max.bytes": FETCH_BYTES}
    answer = memory.foreign_answer if foreign else memory.answer
    return {
        "fetch.message.max.bytes": min(FETCH_BYTES, answer),
        "fetch.max.bytes": answer,
        # A limit of producers below which librdkafka allows no fetch.
        "message.max.bytes": min(FETCH_BYTES, answer),
        "queued.max.messages.kbytes": memory.restored // 1024,
    }


def _metadata(place: Place) -> str:
    """Return the metadata beside a committed offset; ``""`` where there is none that can be read.

    That of other programs can have no zero byte at its end, without which confluent-kafka does not know the end.
    """
    try:
        return place.metadata or ""
    except UnicodeDecodeError:
        return ""


def _answered(places: list[Place]) -> list[Place]:
    """Return the answers for some partitions; raise the first error among them."""
    for place in places:
        if place.error is not None:
            raise KafkaException(place.error)
    return places


def is_passing(problem: KafkaError) -> bool:
    """Return whether the same request may succeed later."""
    return bool(problem.retriable()) or problem.code() in (
        *UNREACHED,
        KafkaError._WAIT_COORD,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        # A topic that was created a moment ago, or whose leader moves.
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    )


def _by_partition(
    messages: list[Message], wanted: Collection[TopicPartition]
) -> Iterable[tuple[TopicPartition, list[Message]]]:
    """Return the messages of each wanted partition, in order."""
    if not messages:
        return ()
    if len(wanted) == 1:
        (only,) = wanted
        # Messages fetched for an earlier read could only come first.
        if (messages[0].topic(), messages[0].partition()) == only:
            return ((only, messages),)
    groups: dict[TopicPartition, list[Message]] = {}
    for message in messages:
        partition = (message.topic(), message.partition())
        if partition in wanted:
            groups.setdefault(partition, []).append(message)
    return groups.items()


def records_of(partition: TopicPartition, messages: list[Message]) -> list[Record]:
    """Return the records of a partition's messages."""
    headers = map(tuple, map(headers_of, messages))
    columns = (map(_offset, messages), map(_milliseconds, map(_timestamp, messages)), map(_key, messages))
    place, rest = map(repeat, partition), (map(_value, messages), headers, repeat(None))
    return list(map(_make, zip(*place, *columns, *rest, strict=False)))
