"""The transport under Faust that hands over chunks of records instead of single ones.

Faust keeps group membership, rebalances, flow control and hooks. This module replaces how records come from its
consumer to its channels, because the stock way costs 75 microseconds a record, and corrects what would lose or repeat
records. It depends on internals of three packages, so `versions` allows only those it was written for; each place that
depends on them says so.
"""

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from aiokafka import errors as aiokafka_errors
from confluent_kafka.admin import AdminClient
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode import Service
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.worker.transport import group_member, log_ends
from resonance.pipeline.worker.transport.chunk import Chunk, Fetched, Membership
from resonance.pipeline.worker.transport.connections import WATCH, watch_connections
from resonance.pipeline.worker.transport.fetch_errors import LASTING_ERRORS, explained
from resonance.pipeline.worker.transport.group_metadata import group_metadata, membership_of
from resonance.pipeline.worker.transport.log_ends import LogEnd, OpenTransaction
from resonance.pipeline.worker.transport.predecessors import NamingAssignor, remove_predecessors
from resonance.pipeline.worker.transport.unpack import Taken, WholeBatches, keep_bytes

FETCH_BYTES = 2 * 1024 * 1024
"""Most bytes of a partition in one fetch, where there are few enough partitions."""

FETCH_WAIT_MS = 500
"""How long a broker may hold an idle fetch."""

MOST_CHUNKS = 256
"""Chunks handed over and not yet done at which fetching pauses, however small they are."""

FETCH_SECONDS = 0.25
"""Longest wait of one fetch, and so of a position that moved over transaction markers without a record."""

GATHER_SECONDS = {"exactly_once": 0.05, "at_least_once": 0.02}
"""By delivery, how long records gather at the broker behind a fetch that brought all there was: a fetch of a single one
would cost a round of all threads, and a transaction of its own."""

START_AGAIN_SECONDS = 0.2

_Answer = TypeVar("_Answer")

_log = logging.getLogger(__name__)
_faust_log = logging.getLogger("faust.transport.chunks")
"""For Faust's messages about the classes of this module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportOptions:
    """The worker's settings and callbacks for its transport."""

    before_revoke: Callable[[], Awaitable[None]]
    """Awaited before partitions are revoked and before any part of Faust runs: whatever is open is closed here."""
    positions: Callable[[Membership], Mapping[TP, int]]
    """Where each partition of a membership resumes; empty while that is not known."""
    failed: Callable[[BaseException], None]
    """Called with an error after which no records will come."""
    memory: MemoryBudget
    """What may be taken of the memory for what is fetched and what is handed over."""
    paused: Callable[[], Collection[TP]] = tuple
    """Partitions to fetch nothing of; called before each fetch, in the consumer's thread."""
    isolation_level: str = "read_committed"
    """``read_committed`` or ``read_uncommitted``; by default Faust's driver reads records of aborted transactions."""
    chunk_records: int = 8192
    """Most records of a chunk: the more there are, the more has each of many streams, and the less costs a record."""
    queued_records: int = 32_768
    """Records handed over and not yet done at which fetching pauses."""
    fetch_wait_ms: int = FETCH_WAIT_MS
    """How long a broker may hold an idle fetch; Faust's driver has 1500 fixed."""
    gather_seconds: float = GATHER_SECONDS["exactly_once"]
    """See `GATHER_SECONDS`."""
    answer_timeout: float = 0.0
    """Seconds that a start waits for a broker."""
    client: Mapping[str, Any] = field(default_factory=lambda: {"bootstrap.servers": "the broker"})
    """librdkafka configuration of the same connection, for the messages when it is refused."""


class RebalanceListener(driver.ConsumerRebalanceListener):  # type: ignore[misc] # Faust's modules are untyped for mypy
    """Reads generation and member id in the very step that assigns the partitions."""

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Set the membership in the consumer's thread, inside aiokafka's rebalance: nothing changes meanwhile."""
        thread = self._thread
        coordinator = thread._ensure_consumer()._coordinator
        partitions = frozenset(TP(tp.topic, tp.partition) for tp in assigned)
        metadata = group_metadata(coordinator.group_id, coordinator.generation, coordinator.member_id)
        thread.consumer.membership = membership_of(metadata, partitions)
        thread.positions.clear()
        await super().on_partitions_assigned(assigned)


class ConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """The thread in which aiokafka's consumer lives."""

    logger = _faust_log
    consumer: "ChunkConsumer"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.positions: dict[TP, int] = {}
        self.seek_number = 0
        # When partitions were sought, and the ends that were queried since, with the times of the answers.
        self.sought = 0.0
        self.reported: dict[TP, tuple[float, LogEnd]] = {}
        self._removing: asyncio.Future[None] | None = None

    def _create_worker_consumer(self, transport: Any) -> Any:
        # Faust's driver has fixed values for these, or reads them from a setting that it also uses for changelogs.
        # aiokafka keeps them as attributes until its fetcher is made, in `start`.
        consumer = super()._create_worker_consumer(transport)
        options = self.consumer.options
        consumer._isolation_level = options.isolation_level
        consumer._fetch_max_wait_ms = options.fetch_wait_ms
        consumer._fetch_max_bytes = options.memory.fetched
        # A log that was truncated under a running worker is an error to report, never a jump over what is lost.
        consumer._auto_offset_reset = "none"
        consumer._partition_assignment_strategy = [NamingAssignor]
        return consumer

    async def on_start(self) -> None:
        """Start aiokafka's consumer; a broker that answered the checks may be gone, and come back."""
        keep_bytes()
        watch_connections()
        end = time.monotonic() + self.consumer.options.answer_timeout
        start = super().on_start
        while True:
            try:
                await start()
                break
            except aiokafka_errors.KafkaConnectionError:
                # Before anything of the consumer is made: `start` may be called again.
                if time.monotonic() >= end or WATCH.refusal() is not None:
                    raise
                await asyncio.sleep(START_AGAIN_SECONDS)
                start = self._consumer.start
        self._ensure_consumer()._fetcher._records = WholeBatches(self.consumer.options.memory)
        self._removing = asyncio.ensure_future(remove_predecessors(self._ensure_consumer()))

    def _start_thread(self) -> None:
        # The app has its error by now; Python would print it once more, with a traceback.
        with suppress(Exception):
            super()._start_thread()

    async def seek_all(self, positions: Mapping[TP, int]) -> int:
        """Seek to `positions`, which voids everything fetched before; return the number of this seek."""
        consumer = self._ensure_consumer()
        # What was fetched of a partition stays until it is taken, and all of them together must have room.
        most = self.consumer.options.memory.fetched // max(len(positions), 1)
        consumer._fetcher._max_partition_fetch_bytes = min(FETCH_BYTES, most)
        for tp, offset in positions.items():
            consumer.seek(driver.TopicPartition(tp.topic, tp.partition), offset)
        self.positions = dict(positions)
        self.sought, self.reported = time.time(), {}
        self.seek_number += 1
        return self.seek_number

    async def _fetch_records(
        self, consumer: Any, active_partitions: Any, timeout: float | None = None, max_records: int | None = None
    ) -> Fetched:
        # Runs in this thread, as rebalances and seeks do: what it reads before and after the call belongs together.
        fetched = Fetched(self.seek_number, self.app.consumer_generation_id)
        active = set(active_partitions).difference(self.consumer.options.paused())
        if not active:
            # aiokafka would take an empty set to mean all partitions. What it has fetched of paused ones stays there.
            # This counts as a fetch: after a day without any the member would leave its group and lose what it holds.
            with consumer._subscription.fetch_context():
                await asyncio.sleep(timeout or 0.0)
            return fetched
        for tp, state in self._states(consumer):
            if state.position != self.positions[tp]:
                # An earlier fetch took records and did not bring them here: its positions were sought, or it failed.
                consumer.seek(driver.TopicPartition(tp.topic, tp.partition), self.positions[tp])
        consumer._fetcher._records.begin(active)
        try:
            records = await super()._fetch_records(consumer, active, timeout, max_records)
        except aiokafka_errors.KafkaError as error:
            # Left from the moment between assignment and seek, when aiokafka looks for a committed offset itself.
            is_left = isinstance(error, aiokafka_errors.NoOffsetForPartitionError)
            if self.positions and self._is_current(fetched) and not is_left:
                raise
            return fetched
        if not self._is_current(fetched):
            return fetched
        for tp, state in self._states(consumer):
            before = self.positions[tp]
            fetched.more = fetched.more or (tp in active and state.position < self._end(state))
            if state.position == before and tp not in records:
                continue
            fetched.records[tp] = taken = records.get(tp, Taken())
            fetched.sizes[tp] = taken.size
            fetched.positions[tp] = before
            fetched.next_offsets[tp] = self.positions[tp] = state.position
            fetched.ends[tp] = self._end(state)
        return fetched

    def _is_current(self, fetched: Fetched) -> bool:
        """Return whether no rebalance and no seek has voided a fetch."""
        return (fetched.seek, fetched.generation) == (self.seek_number, self.app.consumer_generation_id)

    def _states(self, consumer: Any) -> list[tuple[TP, Any]]:
        """Return aiokafka's states of the partitions that were sought, without those that it is still to position."""
        subscription = consumer._subscription.subscription if consumer is not None else None
        assignment = subscription and subscription.assignment
        states = [(tp, assignment.state_value(tp)) for tp in list(self.positions)] if assignment else []
        return [(tp, state) for tp, state in states if state is not None and state.has_valid_position]

    def _end(self, state: Any) -> int:
        """Return the end of a partition's readable records, by the last answer to a fetch; -1 before the first."""
        end = state.lso if self.consumer.options.isolation_level == "read_committed" else state.highwater
        end = state.highwater if end is None else end
        return -1 if end is None else int(end)

    def _reported(self) -> dict[TP, tuple[float, LogEnd]]:
        """Return the newest ends of the assigned partitions' logs, and when a broker reported them."""
        states = dict(self._states(self._consumer))
        found = {tp: seen for tp, seen in self.reported.copy().items() if tp in states}
        for tp, state in states.items():
            # The time is set last, in another thread.
            if state.timestamp is not None and (end := self._end(state)) >= 0:
                fetched = state.timestamp / 1000, LogEnd(end, max(state.highwater, end))
                found[tp] = max(found.get(tp, fetched), fetched)
        return found

    def ends(self) -> dict[TP, LogEnd]:
        """Return the ends of the assigned partitions' logs, without those that are unknown; any thread may call it."""
        oldest = time.time() - log_ends.KNOWN_SECONDS
        return {tp: end for tp, (at, end) in self._reported().items() if at >= oldest}

    def silent(self) -> list[TP]:
        """Return the partitions of which no broker has reported the ends for long; any thread may call it."""
        seen, oldest = self._reported(), time.time() - log_ends.KNOWN_SECONDS
        at = {tp: max(seen[tp][0] if tp in seen else 0.0, self.sought) for tp in list(self.positions)}
        return sorted(tp for tp, last in at.items() if last < oldest)

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"log_level": 0, **self.consumer.options.client})

    async def query_ends(self) -> None:
        """Query the ends of those partitions' logs that no fetch has brought of late."""
        seen, oldest = self._reported(), time.time() - log_ends.QUERY_SECONDS
        old = [tp for tp in self.positions if tp not in seen or seen[tp][0] < oldest]
        if old:
            number, found = self.seek_number, await asyncio.to_thread(log_ends.query, self._admin, old)
            if number == self.seek_number:
                self.reported |= {tp: (time.time(), end) for tp, end in found.items()}

    async def on_thread_stop(self) -> None:
        """Stop aiokafka's consumer; while the broker is away its fetcher ends by a stray cancellation, dropped here."""
        if self._removing is not None:
            self._removing.cancel()
        with suppress(asyncio.CancelledError):
            await super().on_thread_stop()

    def on_crash(self, msg: str, *fmt: Any, **kwargs: Any) -> None:
        """Log the crash at debug level; the stock method prints a traceback on stderr."""
        _log.debug(msg.format(*fmt), exc_info=True)


class ChunkConsumer(driver.Consumer):  # type: ignore[misc]
    """Faust's consumer, handing over chunks."""

    logger = _faust_log
    RebalanceListener = RebalanceListener
    options: TransportOptions
    membership: Membership | None = None
    """Of the last assignment."""
    polled: float | None = None
    """Monotonic time of the fetch loop's last round, whether or not it brought records."""
    _thread: ConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._room = asyncio.Event()
        # What is handed over and not done, and whether the fetch loop waits for it to become less.
        self._in_flight, self._is_full = 0, False
        self._counting = threading.Lock()
        self._seek_number = 0

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Close what is open before Faust's own part, which throws away what closing needs."""
        self.stop_flow()
        await self.options.before_revoke()
        self._forget_chunks()
        await super().on_partitions_revoked(revoked)

    def resume_flow(self) -> None:
        """Let records flow; the fetch loop, which rested, counts as having just gone round."""
        self.polled = time.monotonic()
        super().resume_flow()

    async def perform_seek(self) -> None:
        """Seek to where the restored state ends.

        The stock method uses aiokafka's committed offsets; aiokafka requests them without "require stable" and may get
        an offset from before a transaction that is about to be completed.
        """
        membership = self.membership
        positions = self.options.positions(membership) if membership is not None else {}
        if not positions:
            return
        # Faust lets the flow go on behind a restore that a rebalance has ended, too, and its next resumption clears the
        # channels: nothing may be handed over between this seek and that.
        self.stop_flow()
        self._seek_number = await self._thread.call_thread(self._thread.seek_all, positions)
        self._forget_chunks()

    def _forget_chunks(self) -> None:
        with self._counting:
            self._in_flight = 0
        self._room.set()

    def _weight(self, chunk: Chunk) -> int:
        # Small chunks count for more than their records, so that their number is bounded, too; and so do large values.
        most = self.options.queued_records
        return max(len(chunk.value), most // MOST_CHUNKS, chunk.size * most // self.options.memory.queued)

    def ends(self) -> dict[TP, LogEnd]:
        """See `ConsumerThread.ends`."""
        return self._thread.ends() if self._thread is not None else {}

    def silent(self) -> list[TP]:
        """See `ConsumerThread.silent`."""
        return self._thread.silent() if self._thread is not None else []

    async def query_ends(self) -> None:
        """See `ConsumerThread.query_ends`."""
        await self._in_thread(self._thread.query_ends())

    async def open_transaction(self, tp: TP, offset: int) -> OpenTransaction | None:
        """See `log_ends.open_transaction`."""
        return await asyncio.to_thread(log_ends.open_transaction, self.options.client, tp, offset)

    async def _in_thread(self, question: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Await in the consumer's thread what may take long: Faust's own queue of calls has few places."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(question, self._thread.thread_loop))

    @property
    def _client(self) -> Any:
        """The consumer of aiokafka, None before its start."""
        return self._thread._consumer if self._thread is not None else None

    @property
    def has_coordinator(self) -> bool:
        """See `group_member.has_coordinator`."""
        return group_member.has_coordinator(self._client)

    @property
    def missing_topics(self) -> list[str]:
        """See `group_member.missing_topics`."""
        return group_member.missing_topics(self._client)

    def done(self, chunk: Chunk) -> None:
        """Make room for further chunks; must be called for each chunk that was handed over, from any thread."""
        with self._counting:
            if chunk.seek != self._seek_number:
                return
            self._in_flight -= self._weight(chunk)
            # The event loop wakes only for a fetch loop that waits: that costs as much as the records of a live stream.
            if not self._is_full:
                return
        self.loop.call_soon_threadsafe(self._room.set)

    def is_current(self, chunk: Chunk) -> bool:
        """Return whether no rebalance and no seek has voided the chunk."""
        return chunk.seek == self._seek_number and chunk.generation_id == self.app.consumer_generation_id

    async def is_member(self, membership: Membership) -> bool:
        """See `group_member.is_member`."""
        thread = self._thread
        return bool(await thread.call_thread(group_member.is_member, thread._ensure_consumer(), membership))

    async def leave_group(self) -> None:
        """See `group_member.leave_group`."""
        await self._thread.call_thread(group_member.leave_group, self._client)

    def commit_positions(
        self, membership: Membership, offsets: Mapping[TP, int], notes: Mapping[TP, str], timeout: float
    ) -> None:
        """Commit offsets and their metadata as a member, from another thread, and wait for the answer.

        Raises aiokafka's `KafkaError` where they were not committed (`CommitFailedError` when the group has
        rebalanced), and `TimeoutError` where that is unknown after `timeout` seconds.
        """
        thread = self._thread
        committing = group_member.commit(thread._ensure_consumer(), membership, offsets, notes)
        asyncio.run_coroutine_threadsafe(committing, thread.thread_loop).result(timeout)

    async def _drain_messages(self, fetcher: Any) -> None:
        # Replaces the stock loop, which makes four tasks for each record and never waits for its channels: when they
        # are full it takes partitions out of the fetch and sleeps a second.
        try:
            while not (self.should_stop or fetcher.should_stop):
                self.polled = time.monotonic()
                try:
                    fetched, _ = await self._wait_next_records(FETCH_SECONDS)
                except aiokafka_errors.KafkaError as error:
                    if isinstance(error, (*LASTING_ERRORS, *self.consumer_stopped_errors)):
                        raise
                    _log.warning("fetch: %s; trying again", error or type(error).__name__)
                    await asyncio.sleep(FETCH_SECONDS)
                    continue
                if isinstance(fetched, Fetched):
                    await self._hand_over(fetched, fetcher)
                    if fetched.next_offsets and not fetched.more:
                        await self._gather()
                # Let other tasks run: without partitions nothing above waits for long.
                await asyncio.sleep(0)
        except (asyncio.CancelledError, *self.consumer_stopped_errors):
            if not self.app.should_stop:
                raise
        except Exception as error:  # whatever it is, no further record comes
            if not self.app.should_stop:
                self.options.failed(explained(error, self.options.client))

    async def _gather(self) -> None:
        """Wait while records gather at the broker; a revocation and a stop suspend the flow, which ends the wait."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.suspend_flow.wait(), self.options.gather_seconds)

    async def _hand_over(self, fetched: Fetched, fetcher: Any) -> None:
        for tp in fetched.ends:
            self.app.monitor.track_tp_end_offset(tp, fetched.ends[tp])
        for chunk in fetched.chunks(self.options.chunk_records):
            while self._fills() and self.flow_active:
                # The timeout is for a stop, which this loop would not notice otherwise.
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._room.wait(), FETCH_SECONDS)
                self.polled = time.monotonic()
                if self.should_stop or fetcher.should_stop:
                    return
            if not self.flow_active or not self.is_current(chunk):
                # What is dropped here is read again: a seek precedes every resumption of the flow.
                return
            with self._counting:
                self._in_flight += self._weight(chunk)
            await self.callback(chunk)

    def _fills(self) -> bool:
        """Return whether nothing more may be handed over; a chunk that is done then sets `_room`."""
        with self._counting:
            self._is_full = self._in_flight >= self.options.queued_records
            if self._is_full:
                self._room.clear()
            return self._is_full

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: Faust looks for commits of its own, finds none, and would report a livelock."""

    @Service.task  # type: ignore[untyped-decorator]
    async def _watch_coordinator(self) -> None:
        async for _ in self.itertimer(1.0, name="coordinator-watchdog"):
            try:
                await self._thread.call_thread(group_member.check_coordinator, self._client)
            except (ssl.SSLError, *LASTING_ERRORS) as error:
                self.options.failed(explained(error, self.options.client))
            except Exception as error:  # the coordinator continues once its error has been read
                if self._client._coordinator._coordination_task.done():
                    self.options.failed(explained(error, self.options.client))
                else:
                    _log.warning("group coordinator: %s; joining again", error or type(error).__name__)


def install(app: Any, options: TransportOptions) -> None:
    """Give a Faust app, not started yet, the chunk transport; its topics need `RawSchema`."""
    consumer = type("ChunkConsumer", (ChunkConsumer,), {"options": options})
    transport = type("ChunkTransport", (driver.Transport,), {"Consumer": consumer})
    app.transport = transport(app.conf.broker_consumer, app)
