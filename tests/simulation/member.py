"""What stands in for Faust and the transport: membership in the group as librdkafka's consumer has it, and fetches."""

import asyncio
from contextlib import suppress

from confluent_kafka import KafkaError
from faust.types import TP
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.intake import Event
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Record
from resonance.pipeline.worker.transport.chunk import Fetched
from resonance.pipeline.worker.transport.fetch_errors import explained
from resonance.pipeline.worker.transport.rebalance import membership_of

from tests.simulation.broker import Broker
from tests.simulation.clients import WAITED_FOR, exception, group_metadata
from tests.simulation.group import Who
from tests.simulation.logs import RefusedError
from tests.simulation.network import BrokenError, Network

HEARTBEAT = 0.7
FETCH_WAIT = 0.4
MOST = 50
"""Records of a partition in one fetch."""
QUEUED = 64
"""Records handed over and not yet done at which fetching pauses."""


class Consumer:
    """Faust's consumer as `ChunkConsumer` makes it, a static member of the group."""

    broker: Broker
    network: Network

    def __init__(self, worker, options):
        self._worker, self._options = worker, options
        self._sim = self.network.sim
        self._process = self._sim.current.process
        self._loop = asyncio.get_running_loop()
        self._in_flight = self._seek = 0
        self._positions = {}
        self._rejoin = asyncio.Event()
        self._rejoin.set()
        self._who = self._nobody = Who(instance=options.client["client.id"])
        # The membership that the group has not revoked, and whether it has lost that.
        self._current = None
        self._lost = False
        self._joining = self._over = False
        self._heard = 0.0
        self._chunks = asyncio.Queue()
        # Until when no heartbeat arrives.
        self.silent_until = 0.0
        self.membership = None
        self.flow_active = False
        self.polled = None
        self.has_coordinator = True
        self.missing_topics = []
        self.size = self._sim.random.choice((3, 10, 40))

    # As the worker calls them.

    def stop_flow(self):
        self.flow_active = False

    def done(self, chunk):
        if chunk.seek == self._seek:
            self._in_flight -= max(len(chunk.value), 1)

    def is_current(self, chunk):
        return bool(chunk.seek == self._seek)

    async def is_member(self, membership):
        return self._current == membership

    async def leave_group(self):
        self._over = True
        member, self._who = self._who.member, self._nobody
        if member:
            with suppress(BrokenError, RefusedError):
                await self._ask(self.broker.group.leave, member)

    def commit_positions(self, membership, offsets, notes, timeout):
        who, end = self._who, self._sim.now + timeout
        what = {(tp.topic, tp.partition): (offset, notes.get(tp, "")) for tp, offset in offsets.items()}
        if self._current != membership:
            raise exception(KafkaError.UNKNOWN_MEMBER_ID)
        while True:
            try:
                return self.network.call(self._process, "commit", lambda: self.broker.commit(who, what), timeout)
            except BrokenError:
                pass
            except RefusedError as refused:
                if refused.code not in WAITED_FOR:
                    self._loop.call_soon_threadsafe(self._refused, who, refused.code)
                    raise exception(refused.code) from refused
            if self._sim.now > end:
                raise TimeoutError
            self._sim.wait(0.1)

    # The group.

    async def _ask(self, call, *args):
        """Send a request of the group's protocol and wait for the answer."""
        return await self._sent("group", lambda: self.broker.ask_group(call, *args))

    async def _sent(self, kind, request):
        answer = self._loop.create_future()

        def done(found, error):
            def settle():
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

    async def heartbeats(self):
        """Stay a member, and notice what the group does, or that it is silent."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            who = self._who
            if not who.member or self._joining:
                continue
            try:
                if self._sim.now >= self.silent_until:
                    await self._ask(self.broker.group.heartbeat, who)
                    self._heard = self._sim.now
            except RefusedError as refused:
                self._refused(who, refused.code)
            except BrokenError:
                pass
            if self._sim.now > self._heard + self._options.session_seconds:
                self._refused(who, KafkaError.UNKNOWN_MEMBER_ID)

    def _refused(self, who, code):
        """Do what librdkafka does where a heartbeat or a commit is refused, or a session has run out."""
        if who != self._who or self._joining:
            return
        if code == KafkaError.REBALANCE_IN_PROGRESS:
            self._heard = self._sim.now
            self._rejoin.set()
        elif code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
            self._who, self._lost = self._nobody, True
            self._rejoin.set()
        elif code == KafkaError.FENCED_INSTANCE_ID:
            self._fenced()

    def _fenced(self):
        self._who, own = self._nobody, self._options
        event = Event(KafkaError(KafkaError.FENCED_INSTANCE_ID), "", -1, -1)
        self._fail(explained(event, own.client, own.group, own.memory))

    def _fail(self, error):
        """End as the thread of the consumer does: it serves no rebalance and brings no record any more."""
        self._over = True
        self._options.failed(error)

    async def membership_loop(self):
        """Join, restore, and give up again with each rebalance."""
        restoring = None
        while True:
            await self._rejoin.wait()
            if self._over:
                return
            if self._current is not None:
                self._void()
                self.stop_flow()
                await self._options.before_revoke(self._lost)
                self._current = None
                # A seek may have come meanwhile.
                self._void()
            if restoring is not None:
                await asyncio.wait((restoring,))
            self._joining = True
            membership = await self._joined()
            # What came before has shown the rebalance that ends here.
            self._joining = self._lost = False
            self._rejoin.clear()
            self._void()
            self._heard = self._sim.now
            self.membership = self._current = membership
            restoring = asyncio.ensure_future(self._restore(membership))

    async def _joined(self):
        while True:
            try:
                member = await self._ask(self.broker.group.join, self._who.member, self._nobody.instance)
                self._who = self._nobody._replace(member=member)
                while (found := await self._ask(self.broker.group.joined, *self._who[1:])) is None:
                    await asyncio.sleep(0.1)
                self._who = self._who._replace(generation=found[0])
                metadata = group_metadata(self._options.group, self._who)
                return membership_of(metadata, (TP(*at) for at in found[1]))
            except BrokenError:
                pass
            except RefusedError as refused:
                if refused.code == KafkaError.UNKNOWN_MEMBER_ID:
                    self._who = self._nobody
                if refused.code == KafkaError.FENCED_INSTANCE_ID:
                    self._fenced()
            if self._over:
                await asyncio.Event().wait()
            await asyncio.sleep(0.1)

    async def _restore(self, membership):
        await self._worker.restore(None)
        positions = self._options.positions(membership)
        if positions and self._current == membership and not self._rejoin.is_set():
            self._void()
            self._positions = dict(sorted(positions.items()))
            self.flow_active = True

    def _void(self):
        """Forget the positions: whatever was fetched until now is not current any more."""
        self._positions, self._in_flight = {}, 0
        self._seek += 1

    # Records.

    async def fetches(self):
        """Fetch while records flow."""
        while not self._over:
            self.polled = self._sim.now
            if not self.flow_active or self._in_flight >= QUEUED:
                await asyncio.sleep(0.1)
                continue
            fetched = Fetched(self._seek, self._who.generation)
            positions = {(tp.topic, tp.partition): offset for tp, offset in self._positions.items()}
            try:
                answer = await self._sent("fetch", lambda wanted=positions: self.broker.fetch(wanted, MOST))
            except BrokenError:
                await asyncio.sleep(0.1)
                continue
            if fetched.seek != self._seek or not self.flow_active:
                continue
            for at, got in answer.items():
                if isinstance(got, RefusedError):
                    self._fail(BrokerError(f"{at}: {got}"))
                    return
                self._take(fetched, TP(*at), *got)
            for chunk in fetched.chunks(self.size):
                self._in_flight += max(len(chunk.value), 1)
                self._chunks.put_nowait(chunk)
            await asyncio.sleep(0.02 if fetched.next_offsets else FETCH_WAIT)

    def _take(self, fetched, tp, entries, after, end):
        if after == self._positions[tp]:
            return
        if entries:
            records = [Record(*tp, e.offset, e.timestamp, e.key, e.value, e.headers) for e in entries]
            fetched.records[tp] = RecordColumns.of(records)
        fetched.positions[tp] = self._positions[tp]
        fetched.next_offsets[tp] = self._positions[tp] = after
        if len(entries) == MOST:
            fetched.ends[tp] = end

    def noack(self):
        return self

    async def events(self):
        """Yield what was fetched, as Faust's agents get it."""
        while True:
            yield _Event(await self._chunks.get())


class _Event:
    def __init__(self, message):
        self.message = message


class App:
    """Faust's app as the worker uses it."""

    consumer_class: type[Consumer]

    def __init__(self, settings, worker, options):
        self.consumer = self._consumer = self.consumer_class(worker, options)
        self.rebalancing = self.unassigned = False
        self._worker = worker
        self._tasks = []

    async def start(self):
        own = self.consumer
        for call in (own.heartbeats(), own.membership_loop(), own.fetches(), self._worker.consume(own)):
            task = asyncio.ensure_future(call)
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    def _ended(self, task):
        """Report an error of this stand-in; the worker's own are its end."""
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.consumer._sim.fail(error)

    async def stop(self):
        await self._worker.before_stop()
        for task in self._tasks:
            task.cancel()
        await self.consumer.leave_group()
