"""What stands in for Faust, aiokafka and the transport: membership in the group, and fetches."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

from aiokafka.errors import CommitFailedError, RequestTimedOutError
from confluent_kafka import KafkaError
from faust.types import TP
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.records import Record
from resonance.pipeline.worker.transport.chunk import Chunk, Fetched, Membership
from resonance.pipeline.worker.transport.group_metadata import group_metadata, membership_of
from resonance.pipeline.worker.transport.predecessors import SILENT_SECONDS

from tests.simulation.broker import Broker
from tests.simulation.logs import RefusedError
from tests.simulation.network import BrokenError, Network

HEARTBEAT = 0.7
FETCH_WAIT = 0.4
QUEUED = 64
"""Records handed over and not yet done at which fetching pauses."""

NO_MEMBER = -1, ""


class Consumer:
    """Faust's consumer as `ChunkConsumer` makes it."""

    broker: Broker
    network: Network

    def __init__(self, worker: Any, options: Any) -> None:
        self._worker, self._options = worker, options
        self._sim = self.network.sim
        self._process = self._sim.current.process
        self._loop = asyncio.get_running_loop()
        self._in_flight = self._seek = 0
        self._positions: dict[TP, int] = {}
        self._rejoin = asyncio.Event()
        self._rejoin.set()
        self._member = NO_MEMBER
        self._chunks: asyncio.Queue[Chunk] = asyncio.Queue()
        # Until when no heartbeat arrives.
        self.silent_until = 0.0
        self.membership: Membership | None = None
        self.flow_active = False
        self.polled: float | None = None
        self.has_coordinator = True
        self.missing_topics: list[str] = []
        self.size = self._sim.random.choice((3, 10, 40))
        # Without any patience also a predecessor that is well is removed.
        self.silent_seconds = (SILENT_SECONDS, 0.0)[self.size == 10]

    # As the worker calls them.

    def stop_flow(self) -> None:
        self.flow_active = False

    def done(self, chunk: Chunk) -> None:
        if chunk.seek == self._seek:
            self._in_flight -= max(len(chunk.value), 1)

    def is_current(self, chunk: Chunk) -> bool:
        return chunk.seek == self._seek and chunk.generation_id == self._member[0]

    async def is_member(self, membership: Membership) -> bool:
        return self._member == membership[:2] and not self._rejoin.is_set()

    async def leave_group(self) -> None:
        member, self._member = self._member[1], NO_MEMBER
        if member:
            with suppress(BrokenError, RefusedError):
                await self._ask(self.broker.group.leave, member)

    def commit_positions(
        self, membership: Membership, offsets: Mapping[TP, int], notes: Mapping[TP, str], timeout: float
    ) -> None:
        member, end = membership[:2], self._sim.now + timeout
        what = {(tp.topic, tp.partition): (offset, notes.get(tp, "")) for tp, offset in offsets.items()}
        while True:
            try:
                return self.network.call(self._process, "commit", lambda: self.broker.commit(member, what), timeout)
            except BrokenError:
                error: Exception = RequestTimedOutError()
            except RefusedError as refused:
                if refused.code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
                    self._loop.call_soon_threadsafe(self._lose)
                    raise CommitFailedError(refused.args[0]) from refused
                error = refused
            if self._sim.now > end:
                raise TimeoutError from error
            self._sim.wait(0.1)

    # The group.

    async def _ask(self, call: Callable[..., Any], *args: Any) -> Any:
        """Send a request of the group's protocol and wait for the answer."""
        return await self._sent("group", lambda: self.broker.ask_group(call, *args))

    async def _sent(self, kind: str, request: Callable[[], Any]) -> Any:
        answer = self._loop.create_future()

        def done(found: Any, error: Exception | None) -> None:
            def settle() -> None:
                if answer.done():
                    return
                if error is None:
                    answer.set_result(found)
                else:
                    answer.set_exception(error)

            self._loop.call_soon_threadsafe(settle)

        self.network.send(self._process, kind, request, done)
        try:
            return await asyncio.wait_for(answer, 3.0)
        except TimeoutError:
            raise BrokenError from None

    def _lose(self) -> None:
        self._member = NO_MEMBER
        self._rejoin.set()

    async def heartbeats(self) -> None:
        """Stay a member, and notice what the group does."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            member = self._member
            if not member[1] or self._sim.now < self.silent_until:
                continue
            try:
                await self._ask(self.broker.group.heartbeat, *member)
            except RefusedError as refused:
                if self._member != member:
                    continue
                if refused.code == KafkaError.REBALANCE_IN_PROGRESS:
                    self._rejoin.set()
                elif refused.code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
                    self._lose()
            except BrokenError:
                continue

    async def membership_loop(self) -> None:
        """Join, restore, and give up again with each rebalance."""
        restoring = None
        while True:
            await self._rejoin.wait()
            self.stop_flow()
            if self.membership is not None:
                await self._options.before_revoke()
            if restoring is not None:
                await asyncio.wait((restoring,))
            self._forget()
            membership = await self._joined()
            # Heartbeats of before have shown the rebalance that ends here.
            self._rejoin.clear()
            self._member = membership[:2]
            self.membership = membership
            restoring = asyncio.ensure_future(self._restore(self.membership))

    async def _remove_predecessors(self, client: str) -> None:
        """What `predecessors` does beside the first join."""
        before = self.broker.group.processes(client)
        gone = [member for member, process in before.items() if process.dead]
        with suppress(BrokenError, RefusedError):
            for member in gone:
                await self._ask(self.broker.group.leave, member)
            await asyncio.sleep(self.silent_seconds)
            for member in sorted(before.keys() - gone) if self._member == NO_MEMBER else ():
                await self._ask(self.broker.group.leave, member)

    async def _joined(self) -> Membership:
        member, client = self._member[1], self._worker._settings.transactional_id
        if self.membership is None:
            self._removing = asyncio.ensure_future(self._remove_predecessors(client))
        while True:
            try:
                member = await self._ask(self.broker.group.join, member, client, self._process)
                # Before its first answer a member has no generation.
                while (found := await self._ask(self.broker.group.joined, member)) is None:
                    await asyncio.sleep(0.1)
                metadata = group_metadata(self._worker._settings.group, found[0], member)
                return membership_of(metadata, (TP(*at) for at in found[1]))
            except BrokenError:
                await asyncio.sleep(0.1)
            except RefusedError as refused:
                if refused.code == KafkaError.UNKNOWN_MEMBER_ID:
                    member = ""
                await asyncio.sleep(0.1)

    async def _restore(self, membership: Membership) -> None:
        await self._worker.restore(None)
        positions = self._options.positions(membership)
        if positions and self.membership == membership and not self._rejoin.is_set():
            self._positions = dict(sorted(positions.items()))
            self._seek += 1
            self._in_flight = 0
            self.flow_active = True

    def _forget(self) -> None:
        self._positions, self._in_flight = {}, 0

    # Records.

    async def fetches(self) -> None:
        """Fetch while records flow."""
        while True:
            self.polled = self._sim.now
            if not self.flow_active or self._in_flight >= QUEUED:
                await asyncio.sleep(0.1)
                continue
            fetched = Fetched(self._seek, self._member[0])
            positions = {(tp.topic, tp.partition): offset for tp, offset in self._positions.items()}
            try:
                answer = await self._sent("fetch", lambda wanted=positions: self.broker.fetch(wanted, 50))
            except BrokenError:
                await asyncio.sleep(0.1)
                continue
            if fetched.seek != self._seek or fetched.generation != self._member[0] or not self.flow_active:
                continue
            for at, got in answer.items():
                if isinstance(got, RefusedError):
                    self._options.failed(BrokerError(f"{at}: {got}"))
                    return
                self._take(fetched, TP(*at), *got)
            for chunk in fetched.chunks(self.size):
                self._in_flight += max(len(chunk.value), 1)
                self._chunks.put_nowait(chunk)
            await asyncio.sleep(0.02 if fetched.next_offsets else FETCH_WAIT)

    def _take(self, fetched: Fetched, tp: TP, entries: list[Any], after: int, end: int) -> None:
        if after == self._positions[tp]:
            return
        fetched.records[tp] = [Record(*tp, e.offset, e.timestamp, e.key, e.value, e.headers) for e in entries]
        fetched.positions[tp] = self._positions[tp]
        fetched.next_offsets[tp] = self._positions[tp] = after
        fetched.ends[tp] = end

    def noack(self) -> "Consumer":
        return self

    async def events(self) -> AsyncIterator[Any]:
        """Yield what was fetched, as Faust's agents get it."""
        while True:
            yield _Event(await self._chunks.get())


class _Event:
    def __init__(self, message: Chunk) -> None:
        self.message = message


class App:
    """Faust's app as the worker uses it."""

    consumer_class: type[Consumer]

    def __init__(self, settings: Any, worker: Any, options: Any) -> None:
        self.consumer = self._consumer = self.consumer_class(worker, options)
        self.rebalancing = self.unassigned = False
        self._worker = worker
        self._tasks: list[Any] = []

    async def start(self) -> None:
        own = self.consumer
        for call in (own.heartbeats(), own.membership_loop(), own.fetches(), self._worker.consume(own)):
            self._tasks.append(asyncio.ensure_future(call))

    async def stop(self) -> None:
        await self._worker.before_stop()
        for task in self._tasks:
            task.cancel()
        await self.consumer.leave_group()
