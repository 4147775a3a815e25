"""Faust's consumer over the thread that owns the Kafka consumer: chunks of records instead of single ones.

Faust keeps the app, its agents, their channels and the order of what a rebalance does. Its own consumers bring a record
at a time, commit by themselves, and use another client of Kafka.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from faust.transport import base
from faust.transport import consumer as faust_consumer
from faust.types import TP
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.worker.transport import log_ends
from resonance.pipeline.worker.transport.chunk import Chunk, Membership
from resonance.pipeline.worker.transport.client import ClientThread, TransportOptions
from resonance.pipeline.worker.transport.fetch_errors import passes
from resonance.pipeline.worker.transport.log_ends import LogEnd, OpenTransaction
from resonance.pipeline.worker.transport.rebalance import Rebalances

MOST_CHUNKS = 256
"""Chunks handed over and not yet done at which nothing more is taken, however small they are."""

COMMIT_SECONDS = 1.0
"""How long a coordinator may take for a commit before it counts as away."""

RETRY_SECONDS = 0.1
"""Between two tries of a commit while the group has no coordinator."""

LEAVE_SECONDS = 5.0
"""How long a stop waits for the thread of the consumer, which no stop of a worker waits out."""

_faust_log = logging.getLogger("faust.transport.chunks")
"""For Faust's messages about the classes of this module."""


class ChunkConsumer(faust_consumer.Consumer):  # type: ignore[misc] # Faust's modules are untyped for mypy
    """Faust's consumer, handing over chunks."""

    logger = _faust_log
    options: TransportOptions
    membership: Membership | None = None
    """Of the last assignment."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rebalances = Rebalances(lambda: self.loop, self._assigned, self._revoked, self.options.revoke_seconds)
        self.client = ClientThread(self.options, self, rebalances)
        self._chunks: asyncio.Queue[list[Chunk]] = asyncio.Queue()
        # The membership that the group has not revoked.
        self._current: Membership | None = None
        # What is handed over since the last seek and not done, and whether the thread waits for it to become less.
        self._seek_number, self._in_flight, self._is_full = 0, 0, False
        self._counting = threading.Lock()
        self._admin: AdminClient | None = None
        self._rested = 0.0

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group; Faust calls this with every topic of an agent."""
        if not self.client.is_alive() and not self.client.left.is_set():
            self.client.subscribe(set(topics))

    async def on_stop(self) -> None:
        """Leave the group, where that was not done; there is nothing to commit."""
        await self.leave_group()

    # In the event loop, while the thread of the consumer waits.

    async def _assigned(self, membership: Membership) -> None:
        self.membership = self._current = membership
        self.app.consumer_generation_id = membership.generation
        await self.on_partitions_assigned(set(membership.partitions), membership.generation)

    async def _revoked(self, revoked: set[TP], lost: bool) -> None:
        self.app.on_rebalance_start()
        self.stop_flow()
        if lost:
            # No commit of what was a member is tried again.
            self._current = None
        # Before Faust's own part, which throws away what closing needs.
        await self.options.before_revoke(lost)
        self._current = None
        await self.on_partitions_revoked(revoked)

    async def perform_seek(self) -> None:
        """Seek to where the restored state ends; the stock method uses the group's committed offsets."""
        membership = self.membership
        if membership is not None and (positions := self.options.positions(membership)):
            # Faust lets the flow go on behind a restore that a rebalance has ended, too, and its next resumption clears
            # the channels: nothing may be handed over between this seek and that.
            self.stop_flow()
            await asyncio.wrap_future(self.client.seek(positions, membership.generation))

    def resume_flow(self) -> None:
        """Let records flow; the thread, whose records rested, counts as having just gone round."""
        self._rested = time.monotonic()
        super().resume_flow()

    async def _drain_messages(self, fetcher: Any) -> None:
        # Replaces the stock loop, which makes four tasks for each record.
        try:
            while not (self.should_stop or fetcher.should_stop):
                for chunk in await self._chunks.get():
                    while not self.flow_active:
                        await self.can_resume_flow.wait()
                    # What is void is read again: the seek that makes it so precedes the flow.
                    if self.is_current(chunk):
                        await self.callback(chunk)
        except Exception as error:  # whatever it is, no further record comes
            if not self.app.should_stop:
                self.options.failed(error)

    # In the thread of the consumer.

    def has_room(self) -> bool:
        """Return whether more may be handed over; where not, the thread is woken once there is."""
        with self._counting:
            current = self._seek_number == self.client.seek_number
            self._is_full = current and self._in_flight >= self.options.queued_records
            return not self._is_full

    def hand_over(self, chunks: list[Chunk]) -> None:
        """Take chunks."""
        with self._counting:
            if chunks[0].seek != self._seek_number:
                self._seek_number, self._in_flight = chunks[0].seek, 0
            self._in_flight += sum(map(self._weight, chunks))
        self.loop.call_soon_threadsafe(self._chunks.put_nowait, chunks)

    def _weight(self, chunk: Chunk) -> int:
        # Small chunks count for more than their records, so that their number is bounded, too; and so do large values.
        most = self.options.queued_records
        return max(len(chunk.value), most // MOST_CHUNKS, chunk.size * most // self.options.memory.queued)

    # For the worker.

    def done(self, chunk: Chunk) -> None:
        """Make room for further chunks; must be called for each chunk that was handed over, from any thread."""
        with self._counting:
            if chunk.seek != self._seek_number:
                return
            self._in_flight -= self._weight(chunk)
            # The thread wakes only where it waits: that costs as much as the records of a live stream.
            wanted = self._is_full and self._in_flight < self.options.queued_records
        if wanted:
            self.client.wake()

    def is_current(self, chunk: Chunk) -> bool:
        """Return whether no rebalance and no seek has voided the chunk."""
        return bool(chunk.seek == self.client.seek_number)

    async def is_member(self, membership: Membership) -> bool:
        """Return whether the group still has `membership`, as far as this member knows."""
        return self._current == membership

    async def leave_group(self) -> None:
        """Leave at once, so that the other members need not wait for the session's timeout."""
        if self.client.is_alive():
            self.client.leave()
            await asyncio.to_thread(self.client.left.wait, LEAVE_SECONDS)

    def commit_positions(
        self, membership: Membership, offsets: Mapping[TP, int], notes: Mapping[TP, str], timeout: float
    ) -> None:
        """Commit offsets and their metadata as a member, from another thread, and wait for the answer.

        Raises `KafkaException` where they were not committed, `TimeoutError` where that is unknown after `timeout`
        seconds.
        """
        end = time.monotonic() + timeout
        while True:
            try:
                left = max(end - time.monotonic(), RETRY_SECONDS)
                return self.client.commit(offsets, notes, lambda: self._current == membership, left)
            except KafkaException as error:
                if not passes(error.args[0]) or time.monotonic() > end:
                    raise
            time.sleep(RETRY_SECONDS)

    @property
    def polled(self) -> float | None:
        """Monotonic time of the thread's last round, whether or not it brought records."""
        return self.client.polled and max(self.client.polled, self._rested)

    @property
    def has_coordinator(self) -> bool:
        """Whether brokers answer."""
        since = self.client.committing
        return not self.client.away and (since is None or time.monotonic() - since < COMMIT_SECONDS)

    @property
    def missing_topics(self) -> list[str]:
        """Topics of the group that no broker has described: none of their partitions is assigned."""
        return sorted(self.client.missing)

    def assignment(self) -> set[TP]:
        """Return the partitions of the last assignment."""
        return set(self.membership.partitions) if self.membership is not None else set()

    # The ends of the logs.

    def _reported(self) -> dict[TP, tuple[float, LogEnd]]:
        positions = self.client.positions
        return {tp: seen for tp, seen in self.client.reported.copy().items() if tp in positions}

    def ends(self) -> dict[TP, LogEnd]:
        """Return the ends of the assigned partitions' logs, without those that are unknown; any thread may call it."""
        oldest = time.time() - log_ends.KNOWN_SECONDS
        return {tp: end for tp, (at, end) in self._reported().items() if at >= oldest}

    def silent(self) -> list[TP]:
        """Return the partitions of which no broker has reported the ends for long; any thread may call it."""
        seen, oldest = self._reported(), time.time() - log_ends.KNOWN_SECONDS
        at = {tp: max(seen[tp][0] if tp in seen else 0.0, self.client.sought) for tp in self.client.positions.copy()}
        return sorted(tp for tp, last in at.items() if last < oldest)

    async def query_ends(self) -> None:
        """Query the ends of those partitions' logs that no fetch has reached of late."""
        seen, oldest = self._reported(), time.time() - log_ends.QUERY_SECONDS
        old = [tp for tp in self.client.positions.copy() if tp not in seen or seen[tp][0] < oldest]
        if old:
            number, reported = self.client.seek_number, self.client.reported
            self._admin = self._admin or new_client(AdminClient, {"log_level": 0, **self.options.client})
            found = await asyncio.to_thread(log_ends.query, self._admin, old)
            if number == self.client.seek_number:
                reported |= {tp: (time.time(), end) for tp, end in found.items()}

    async def open_transaction(self, tp: TP, offset: int) -> OpenTransaction | None:
        """See `log_ends.open_transaction`."""
        return await asyncio.to_thread(log_ends.open_transaction, self.options.client, tp, offset)


class NoProducer(base.Producer):  # type: ignore[misc]
    """Faust has one; outputs are the delivery's, and nothing is sent by this."""

    logger = _faust_log


# What else they are to have, Faust calls for its tables and its own commits, of which there are none.
ChunkConsumer.__abstractmethods__ = frozenset()
NoProducer.__abstractmethods__ = frozenset()


def install(app: Any, options: TransportOptions) -> None:
    """Give a Faust app, not started yet, the chunk transport; its topics need `RawSchema`."""
    consumer = type("ChunkConsumer", (ChunkConsumer,), {"options": options})
    parts = {"Consumer": consumer, "Producer": NoProducer, "driver_version": "confluent-kafka"}
    app.transport = type("ChunkTransport", (base.Transport,), parts)(app.conf.broker_consumer, app)
    app.producer_transport = app.transport
