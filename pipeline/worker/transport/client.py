"""The thread that owns the worker's Kafka consumer: its membership, what it fetches, and commits at least once.

A consumer of confluent-kafka serves one thread at a time: a call from a second one waits until the first has left its
poll, or the callback within it. So every call is made here. What others want of the consumer is a command, served
between two rounds, and also while a rebalance waits for the worker, whose last commit may be such a command.

The first records behind a quiet time are taken at once; from then on rounds begin so far apart that each becomes one
commit (`gather_seconds`). Records that wait for the next round wait where they are: nothing is visible before a commit.
"""

import logging
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from faust.types import TP
from resonance.pipeline.kafka.access import Refusals
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.intake import Event, Intake, PublicIntake, QueueIntake, size_of
from resonance.pipeline.kafka.log_reader import sizes
from resonance.pipeline.kafka.self_check import checked
from resonance.pipeline.kafka.threads import require_threads
from resonance.pipeline.memory_budget import RECORD, MemoryBudget
from resonance.pipeline.worker.command_queue import Inbox
from resonance.pipeline.worker.transport.chunk import Chunk, Fetched, Membership
from resonance.pipeline.worker.transport.fetch_errors import MISSING, explained, passes
from resonance.pipeline.worker.transport.log_ends import LogEnd
from resonance.pipeline.worker.transport.rebalance import Rebalances
from resonance.pipeline.worker.transport.time_order import TimeOrder

if TYPE_CHECKING:
    from resonance.pipeline.worker.transport.consumer import ChunkConsumer

HEARTBEAT_SECONDS: Final = 0.25
"""A member learns of a rebalance with its next heartbeat: this bounds how long a joining worker waits for others, and
how long the partitions of a leaving one wait for them."""

FETCH_WAIT_MS: Final = 500
"""How long a broker may hold an idle fetch."""

FETCH_SECONDS: Final = 0.25
"""Longest wait for a first record, and so about the time between two looks at the group."""

ROUND_SECONDS: Final = {"exactly_once": 0.07, "at_least_once": 0.015}
"""By delivery, the longest time between the beginnings of two rounds that records wait for; less where commits are to
be closer together."""

LOOK_SECONDS: Final = 1.0
"""Between two looks at what the cluster refuses, and for topics and brokers that are missing."""

ANSWER_SECONDS: Final = FETCH_WAIT_MS / 1000 + 0.2
"""How long such a look waits for the cluster, where a request may wait behind an idle fetch."""

LEFT_SECONDS: Final = 3.5
"""How long the group may take to let this member leave: its join, if one goes on, has to end before."""

GOODBYE_SECONDS: Final = 10.0
"""How long a consumer that has failed stays a member, while the worker aborts what is open."""

MOST_RECORDS: Final = 32_768
"""Most records of a round; so many are all that may be handed over and not done."""

FEW_RECORDS: Final = 64
"""Most records of a round before their size is known."""

_log = logging.getLogger(__name__)
_librdkafka = logging.getLogger("resonance.librdkafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportOptions:
    """The worker's settings and callbacks for its transport."""

    before_revoke: Callable[[bool], Awaitable[None]]
    """Awaited before partitions are given up and before any part of Faust runs, with whether they are lost already:
    then whatever is open is aborted, else closed."""
    positions: Callable[[Membership], Mapping[TP, int]]
    """Where each partition of a membership resumes; empty while that is not known."""
    failed: Callable[[BaseException], None]
    """Called with an error after which no records will come."""
    memory: MemoryBudget
    """What may be taken of the memory for what is fetched and what is handed over."""
    client: Mapping[str, Any]
    """librdkafka configuration of the connection; its client id is also the member's name in the group."""
    group: str = "resonance"
    partitions: str = "0"
    """How many the topics have, as part of the member's name."""
    paused: Callable[[], Collection[TP]] = tuple
    """Partitions to fetch nothing of; called before each round, in the consumer's thread."""
    in_time_order: Collection[str] = ()
    """Topics whose records are handed over in the order of time, across their partitions (`TimeOrder`)."""
    chunk_records: int = 8192
    """Most records of a chunk: the more there are, the more has each of many streams, and the less costs a record."""
    queued_records: int = MOST_RECORDS
    """Records handed over and not yet done at which nothing more is taken."""
    fetch_wait_ms: int = FETCH_WAIT_MS
    """How long a broker may hold an idle fetch."""
    gather_seconds: float = ROUND_SECONDS["exactly_once"]
    """See `ROUND_SECONDS`."""
    session_seconds: float = 45.0
    revoke_seconds: float = 150.0
    """How long a rebalance waits for what the worker has to close."""
    answer_timeout: float = 10.0
    """Seconds that a start waits for a broker."""


def consumer_settings(options: TransportOptions) -> dict[str, Any]:
    """Return librdkafka's configuration of the worker's consumer."""
    return {
        **options.client,
        "group.id": options.group,
        # A process that starts again is the same member: it takes over from the one that was killed, and no other one
        # has to join again. Where partitions were added the group has to share them anew.
        "group.instance.id": f"{options.client['client.id']}-{options.partitions}",
        "partition.assignment.strategy": "roundrobin",
        "session.timeout.ms": round(1000 * options.session_seconds),
        "heartbeat.interval.ms": round(1000 * min(HEARTBEAT_SECONDS, options.session_seconds / 3)),
        # Also how long the group waits for this member in a rebalance, and no less than a session.
        "max.poll.interval.ms": round(1000 * (max(options.revoke_seconds, options.session_seconds) + 30)),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # It has the position behind transaction markers and aborted records.
        "enable.partition.eof": True,
        # A log that was truncated under a running worker is an error to report, never a jump over what is lost.
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": options.fetch_wait_ms,
        "fetch.queue.backoff.ms": 10,
        "fetch.error.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        **sizes(options.memory, foreign=True),
        # Also the most that librdkafka unpacks a batch of zstd to, the one codec without a limit of its own.
        "receive.message.max.bytes": max(options.memory.batch, 2 * options.memory.foreign_answer),
        "queued.max.messages.kbytes": options.memory.taken // 1024,
    }


class ClientThread(threading.Thread):
    """Polls the consumer; everything but `run` may be called by any thread."""

    def __init__(self, options: TransportOptions, owner: "ChunkConsumer", rebalances: Rebalances) -> None:
        super().__init__(name="consumer", daemon=True)
        self._options, self._owner, self._rebalances = options, owner, rebalances
        self._inbox = Inbox()
        self._refusals = Refusals(options.client)
        self._topics: list[str] = []
        self._consumer: Consumer
        self._intake: Intake
        self._joins = False
        self.leaving = threading.Event()
        self.left = threading.Event()
        self.polled: float | None = None
        """Monotonic time of the last round, whether or not it brought records."""
        self.missing: set[str] = set()
        """Topics of the group that no broker has described."""
        self.away = False
        """Whether no broker answers."""
        self.committing: float | None = None
        """Monotonic time since when a commit waits for its answer."""
        # Set by commands and callbacks of this thread alone; each assignment voids what was taken before.
        self.seek_number = 0
        self.positions: dict[TP, int] = {}
        self.sought = 0.0
        self.reported: dict[TP, tuple[float, LogEnd]] = {}
        self._paused: set[TP] = set()
        self._order = TimeOrder(options.in_time_order, options.memory.taken)
        self._most, self._more = FEW_RECORDS, False
        self._began = self._looked = float("-inf")
        self._looks = 0

    def subscribe(self, topics: Collection[str]) -> None:
        """Join the group, as a member that reads topics."""
        self._topics = sorted(topics)
        self.start()

    def call(self, do: Callable[[], None]) -> "Future[None]":
        """Let the thread carry out a command; an error ends it."""
        answer = self._inbox.call(do)
        if hasattr(self, "_intake"):
            self._intake.wake()
        return answer

    def wake(self) -> None:
        """End a wait for room."""
        self._inbox.put(lambda: None)

    def seek(self, positions: Mapping[TP, int], generation: int) -> "Future[None]":
        """Fetch from these positions on, unless the membership of that generation has ended."""
        return self.call(lambda: self._seek(positions) if generation == self._rebalances.generation else None)

    def commit(
        self, offsets: Mapping[TP, int], notes: Mapping[TP, str], wanted: Callable[[], bool], timeout: float
    ) -> None:
        """Commit offsets and their metadata where that is still `wanted`, and wait so long for the answer.

        Raises `KafkaException` or `TimeoutError`.
        """
        errors = []
        places = [Place(tp.topic, tp.partition, at, notes.get(tp, "")) for tp, at in offsets.items()]

        def commit() -> None:
            # Nothing else is seen meanwhile: a coordinator that is away is waited for by the one who commits.
            self.committing = self.polled = time.monotonic()
            self.polled += timeout
            try:
                if not wanted():
                    raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID))
                for place in self._consumer.commit(offsets=places, asynchronous=False):
                    if place.error is not None:
                        raise KafkaException(place.error)
            except KafkaException as error:
                errors.append(error)
            finally:
                self.committing = None

        self.call(commit).result(timeout)
        if errors:
            raise errors[0]

    def leave(self) -> None:
        """Begin to leave the group; `left` is set when that is done."""
        self.leaving.set()
        self.call(lambda: None)

    # This thread.

    def run(self) -> None:
        """Be a member until the group is left, or an error comes."""
        try:
            self._connect()
            while not self.leaving.is_set():
                self._round()
        except BaseException as error:  # whatever it is, no further record comes
            if isinstance(error, KafkaException):
                error = self._explained(Event(error.args[0], "", -1, -1))
            self._inbox.refuse_all(error)
            self._options.failed(error)
            self.leaving.wait(GOODBYE_SECONDS)
        finally:
            with suppress(Exception):
                self._leave()
            self._inbox.refuse_all(KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID)))
            self.left.set()

    def _connect(self) -> None:
        require_threads()
        callbacks = {"error_cb": self._note}
        self._consumer = consumer = new_client(
            Consumer, {**consumer_settings(self._options), **callbacks}, logger=_librdkafka
        )
        library = checked()
        self._intake = PublicIntake(consumer) if library is None else QueueIntake(library, consumer)
        try:
            # A broker that answered the checks may be gone, and come back.
            consumer.list_topics(self._topics[0], self._options.answer_timeout)
        except KafkaException as error:
            self._refusals.check(at_once=True)
            raise self._explained(Event(error.args[0], "", -1, -1)) from error
        consumer.subscribe(self._topics, **self._rebalances.callbacks(self))
        self._joins = True

    def _round(self) -> None:
        self.serve(0.0)
        self.polled = time.monotonic()
        self._pause()
        if (event := self._intake.poll()) is not None:
            self._event(event)
        self._look()
        if not self._owner.has_room() or not self.positions:
            self.serve(FETCH_SECONDS)
        elif (left := self._began + self._options.gather_seconds - time.monotonic()) > 0 and not self._more:
            self.serve(min(left, FETCH_SECONDS))
        else:
            self._take()

    def serve(self, seconds: float) -> None:
        """Carry out the commands that wait; wait so long for the first one."""
        with suppress(queue.Empty):
            while True:
                if callable(command := self._inbox.get(seconds)):
                    command()
                seconds = 0.0

    def _take(self) -> None:
        number, most = self.seek_number, self._most
        taken, events = self._intake.take(FETCH_SECONDS, most)
        if number != self.seek_number:
            # A rebalance came within a public call.
            return
        now = time.monotonic()
        fetched = Fetched(number, self._rebalances.generation)
        for columns in taken:
            tp = TP(columns.topic, columns.partition)
            if tp in self.positions:
                fetched.records[tp] = columns
                fetched.next_offsets[tp] = int(columns.offsets[-1]) + 1
        for event in events:
            self._event(event, fetched)
        count = sum(map(len, taken))
        if count:
            self._began = now
            most_bytes, size = self._options.memory.taken, size_of(taken) + RECORD * count
            self._most = min(max(most_bytes * count // size, 1), MOST_RECORDS)
        self._more = count + len(events) >= most
        if self._more:
            # The event loop may add some meanwhile.
            fetched.ends = {tp: end.stable for tp, (_, end) in self.reported.copy().items()}
        chunks = list[Chunk]()
        for part in self._order.pass_on(fetched, self.reported, self._paused, now):
            part.positions = {tp: self.positions[tp] for tp in part.next_offsets}
            self.positions |= part.next_offsets
            chunks += part.chunks(self._options.chunk_records)
        if chunks:
            self._owner.hand_over(chunks)

    def _event(self, event: Event, fetched: Fetched | None = None) -> None:
        tp = TP(event.topic, event.partition)
        if event.error.code() == KafkaError._PARTITION_EOF:
            if fetched is not None and tp in self.positions:
                # Behind markers and aborted records there is no record, only the end.
                if event.offset > fetched.next_offsets.get(tp, self.positions[tp]):
                    fetched.next_offsets[tp] = event.offset
                self.reported[tp] = time.time(), LogEnd(event.offset, event.offset)
        elif event.error.code() in MISSING:
            self.missing.add(event.topic)
        elif passes(event.error):
            _log.warning("consumer: %s; trying again", event.error.str())
        else:
            raise self._explained(event)

    def _explained(self, event: Event) -> Exception:
        return explained(event, self._options.client, self._options.group, self._options.memory)

    def _note(self, error: KafkaError) -> None:
        self._refusals.note(error)
        self.away = self.away or error.code() == KafkaError._ALL_BROKERS_DOWN

    def _look(self) -> None:
        if (now := time.monotonic()) - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        self._refusals.check()
        if self.away or self.missing:
            # One at a time. With the answer the group's client learns of a topic that it waits for.
            self._looks += 1
            topics = sorted(self.missing) or self._topics
            topic = topics[self._looks % len(topics)]
            with suppress(KafkaException):
                found = self._consumer.list_topics(topic, ANSWER_SECONDS).topics.get(topic)
                self.away = False
                if found is not None and found.error is None:
                    self.missing.discard(topic)

    def _pause(self) -> None:
        wanted = {tp for tp in self._options.paused() if tp in self.positions} | self._order.ahead
        if wanted != self._paused:
            self._consumer.resume([Place(*tp) for tp in self._paused - wanted])
            self._consumer.pause([Place(*tp) for tp in wanted - self._paused])
            self._paused = wanted

    def void(self) -> None:
        """Forget the positions: whatever was taken until now is not current any more."""
        self.positions, self.reported, self._more = {}, {}, False
        self._order.begin({})
        self.seek_number += 1

    def _seek(self, positions: Mapping[TP, int]) -> None:
        self.void()
        self._intake.assign(positions)
        self._paused = set()
        self._order.begin(positions)
        self.missing -= {tp.topic for tp in positions}
        self.positions, self.sought, self._began = dict(positions), time.time(), float("-inf")

    def _leave(self) -> None:
        """Leave at once, so that the other members need not wait for the session's timeout.

        A member with an instance id stays one when its consumer is closed; it leaves where it unsubscribes before, and
        has no member id once that is sent.
        """
        self.leaving.set()
        if not hasattr(self, "_consumer"):
            return
        end = time.monotonic() + LEFT_SECONDS
        try:
            # Who joins is a member, or becomes one, and can leave only then.
            while self._joins and self._rebalances.generation < 0 and not self.away and time.monotonic() < end:
                self._consumer.poll(0.02)
            self._consumer.unsubscribe()
            while self._rebalances.is_member(self._consumer) and time.monotonic() < end:
                self._consumer.poll(0.02)
        finally:
            # A consumer that has failed refuses all but this.
            if hasattr(self, "_intake"):
                self._intake.close()
            self._consumer.close()
