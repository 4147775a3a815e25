"""The chunk transport, without a broker: what a fetch becomes, and what it refuses."""

import asyncio
import queue
import ssl
import time
from types import SimpleNamespace

import faust
import pytest
from aiokafka import errors as kafka
from aiokafka.consumer.subscription_state import SubscriptionState
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage
from resonance.pipeline.errors import BrokerError, ConfigurationError, DeniedError, MismatchError
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.records import Record
from resonance.pipeline.worker.transport import log_ends, transport
from resonance.pipeline.worker.transport.chunk import Chunk, Fetched, Membership, RawSchema
from resonance.pipeline.worker.transport.fetch_errors import explained
from resonance.pipeline.worker.transport.log_ends import KNOWN_SECONDS, LogEnd
from resonance.pipeline.worker.transport.unpack import Taken

P0, P1 = TP("in", 0), TP("in", 1)


def records(partition, offsets):
    return Taken(Record("in", partition, offset, 1000 * offset, None, b"") for offset in offsets)


def offsets(chunk):
    return [record.offset for record in chunk.value]


def test_chunks_take_partitions_by_turns_and_keep_their_order():
    taken = {P0: records(0, range(5)), P1: records(1, [10, 12])}
    fetched = Fetched(3, 7, taken, {P0: 6, P1: 15}, {P0: 6, P1: 20}, positions={P0: 0, P1: 8})
    chunks = list(fetched.chunks(2))
    assert [(c.partition, c.position, offsets(c), c.next_offset, c.waiting) for c in chunks] == [
        (0, 0, [0, 1], 2, 4),
        (1, 8, [10, 12], 15, 5),
        (0, 2, [2, 3], 4, 2),
        (0, 4, [4], 6, 0),
    ]
    assert {(c.seek, c.generation_id) for c in chunks} == {(3, 7)}


def test_a_position_that_moved_without_records_is_an_empty_chunk():
    (chunk,) = Fetched(1, 1, {}, {P0: 8}, {P0: 8}, positions={P0: 5}).chunks(100)
    assert (offsets(chunk), chunk.position, chunk.next_offset, chunk.offset, chunk.waiting) == ([], 5, 8, 7, 0)


def test_faust_neither_tracks_nor_acks_a_chunk():
    chunk = Chunk(P0, records(0, [4]), 5, position=4, seek=1, generation=1, waiting=0)
    assert chunk.tracked
    assert type(chunk).on_final_ack is not ConsumerMessage.on_final_ack
    assert chunk.timestamp == 4.0


def test_the_raw_schema_hands_on_what_it_gets():
    made = []
    app = SimpleNamespace(create_event=lambda *parts: made.append(parts) or "event")
    chunk = Chunk(P0, records(0, [4]), 5, position=4, seek=1, generation=1, waiting=0)
    assert (asyncio.run(RawSchema().compile(app)(chunk)), made) == ("event", [(None, chunk.value, (), chunk)])


@pytest.mark.parametrize(
    ("membership", "fenced"),
    [((3, "m"), True), ((0, "m"), True), ((-1, "m"), False), ((3, ""), False), ((-1, ""), False)],
)
def test_a_membership_that_kafka_would_not_fence_is_known(membership, fenced):
    assert Membership(*membership, frozenset()).fenced is fenced


class State(SimpleNamespace):
    """A partition's state as aiokafka's fetcher keeps it."""

    has_valid_position = True
    highwater = lso = 100

    def __init__(self, **given):
        super().__init__(timestamp=1000 * time.time())
        self.__dict__.update(given)


@pytest.fixture
def thread(monkeypatch):
    """A consumer thread without the thread, whose driver's fetch is `thread.fetch`."""
    thread = object.__new__(transport.ConsumerThread)
    thread.positions, thread.seek_number = {P0: 5, P1: 7}, 2
    thread.sought, thread.reported = time.time(), {}
    thread.app = SimpleNamespace(consumer_generation_id=4)
    thread.paused, thread.queried = set(), []
    options = SimpleNamespace(isolation_level="read_committed", paused=lambda: thread.paused)
    thread.consumer = SimpleNamespace(options=options)
    thread.states = {P0: State(position=5), P1: State(position=7)}
    thread.fetch = dict

    async def fetch_records(self, consumer, active, timeout=None, max_records=None):
        self.queried.append(active)
        return self.fetch()

    monkeypatch.setattr(driver.AIOKafkaConsumerThread, "_fetch_records", fetch_records)
    return thread


def fetch(thread):
    return asyncio.run(thread._fetch_records(library_consumer(thread), {P0, P1}, timeout=0.01))


def library_consumer(thread):
    assignment = SimpleNamespace(state_value=thread.states.get)
    subscription = SimpleNamespace(subscription=SimpleNamespace(assignment=assignment))
    return SimpleNamespace(
        seek=lambda tp, offset: thread.states[TP(*tp)].__dict__.update(position=offset),
        _subscription=subscription,
        _fetcher=SimpleNamespace(_records=SimpleNamespace(begin=lambda active: None)),
    )


def test_a_fetch_carries_positions_beyond_markers(thread):
    def read():
        thread.states[P0].position = 9
        thread.states[P0].lso = 12
        return {P0: records(0, [5, 6])}

    thread.fetch = read
    fetched = fetch(thread)
    assert (fetched.seek, fetched.generation, fetched.next_offsets, fetched.ends) == (2, 4, {P0: 9}, {P0: 12})
    assert thread.positions == {P0: 9, P1: 7}


def test_a_fetch_says_whether_more_can_be_read_at_once(thread):
    for state in thread.states.values():
        state.lso = state.position
    assert fetch(thread).more is False
    # Nothing of P1 has been fetched, but something waits there; its records are wanted unless it is paused.
    thread.states[P1].lso = 8
    assert fetch(thread).more is True
    thread.paused = {P1}
    assert fetch(thread).more is False


def test_markers_alone_move_a_position_once(thread):
    thread.fetch = lambda: thread.states[P1].__dict__.update(position=8) or {}
    assert (fetch(thread).next_offsets, fetch(thread).next_offsets) == ({P1: 8}, {})


@pytest.mark.parametrize("change", ["seek", "rebalance", "error"])
def test_records_that_a_fetch_took_across_a_change_are_read_again(thread, change):
    def read():
        """Take what has come since, as a fetch does that has waited for it all the time."""
        thread.states[P0].position = 9
        if change == "seek":
            thread.seek_number += 1
        elif change == "rebalance":
            thread.app.consumer_generation_id = 5
        else:
            raise kafka.NodeNotReadyError
        return {P0: records(0, [5])}

    thread.fetch = read
    if change == "error":
        with pytest.raises(kafka.NodeNotReadyError):
            fetch(thread)
    else:
        assert fetch(thread).next_offsets == {}
    thread.fetch = dict
    assert fetch(thread).next_offsets == {}
    assert thread.states[P0].position == 5


def test_an_error_of_a_fetch_across_a_change_is_none_of_what_was_sought(thread):
    def read():
        thread.seek_number += 1
        raise kafka.OffsetOutOfRangeError({P0: 2})

    thread.fetch = read
    assert fetch(thread).next_offsets == {}
    thread.positions.clear()
    thread.seek_number -= 1
    assert fetch(thread).next_offsets == {}


def test_records_of_a_partition_that_was_never_sought_are_dropped(thread):
    thread.positions.clear()
    thread.fetch = lambda: {P0: records(0, [0])}
    assert fetch(thread).records == {}


def test_the_search_for_a_committed_offset_is_not_ours(thread):
    def read():
        raise kafka.NoOffsetForPartitionError(P0)

    thread.fetch = read
    assert fetch(thread).records == {}


def test_nothing_is_taken_of_paused_partitions(thread):
    thread.paused = {P1}
    thread.fetch = lambda: {P0: records(0, [5])}
    assert list(fetch(thread).records) == [P0]
    thread.paused = {P0, P1}
    consumer = library_consumer(thread)
    counted = SubscriptionState(loop=object())
    counted._last_fetch_ended -= 48 * 3600
    consumer._subscription.fetch_context = counted.fetch_context
    assert asyncio.run(thread._fetch_records(consumer, {P0, P1}, timeout=0.01)).next_offsets == {}
    assert counted.fetcher_idle_time < 3600
    # None at all would mean all of them to aiokafka.
    assert thread.queried == [{P0}]


def test_the_ends_are_those_of_the_last_fetch(thread):
    thread._consumer = None
    assert thread.ends() == {}
    thread.states[P0].lso, thread.states[P1] = 90, State(position=7, highwater=None, lso=None)
    thread._consumer = library_consumer(thread)
    assert thread.ends() == {P0: LogEnd(90, 100)}
    thread.states[P1] = State(position=7, timestamp=None)
    assert thread.ends() == {P0: LogEnd(90, 100)}


def test_ends_that_no_broker_has_reported_for_long_are_unknown(thread):
    thread._consumer = library_consumer(thread)
    now = time.time()
    thread.states[P1] = State(position=7, timestamp=1000 * (now - KNOWN_SECONDS - 1))
    assert (thread.ends(), thread.silent()) == ({P0: LogEnd(100, 100)}, [])
    thread.sought = now - 60
    assert thread.silent() == [P1]
    thread.reported = {P1: (now - 1, LogEnd(7, 12))}
    assert (thread.ends()[P1], thread.silent()) == (LogEnd(7, 12), [])


def test_leaders_are_queried_for_the_ends_that_no_fetch_brings(thread, monkeypatch):
    queried = []

    def query(admin, places):
        queried.append(places)
        return dict.fromkeys(places, LogEnd(9, 40))

    monkeypatch.setattr(log_ends, "query", query)
    thread._consumer = library_consumer(thread)
    thread._admin = None
    thread.states[P1] = State(position=7, timestamp=1000 * (time.time() - log_ends.QUERY_SECONDS - 1))
    asyncio.run(thread.query_ends())
    asyncio.run(thread.query_ends())
    assert (queried, thread.ends()) == ([[P1]], {P0: LogEnd(100, 100), P1: LogEnd(9, 40)})


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (kafka.OffsetOutOfRangeError({P0: 17}), MismatchError, r"truncated.*in\[0\]@17 is gone.*--new-version"),
        (kafka.UnsupportedCodecError("no zstd"), BrokerError, "compressed.*no zstd"),
        (kafka.GroupAuthorizationFailedError("shop"), DeniedError, "kafka:9092 gives User:NAME no right to Read group"),
        (kafka.TopicAuthorizationFailedError("in"), DeniedError, "no right to Read topic in; .*--topic in --operation"),
        (kafka.SaslAuthenticationFailed("bad"), DeniedError, r"refuses the log-in.*broker\.sasl_password"),
        (ssl.SSLError("bad"), DeniedError, r"no secure connection to kafka:9092.*broker\.ssl_ca_location"),
        (kafka.InvalidSessionTimeoutError(), ConfigurationError, r"broker\.session_timeout.*group\.min\.session"),
        (kafka.InconsistentGroupProtocolError(), ConfigurationError, "name: .*another program"),
        (kafka.InvalidGroupIdError(), ConfigurationError, "name: .*choose another"),
        (ValueError("ours"), ValueError, "ours"),
    ],
)
def test_errors_that_last_are_explained(error, kind, text):
    with pytest.raises(kind, match=text):
        raise explained(error, {"bootstrap.servers": "kafka:9092"})


def options(**changes):
    async def nothing():
        pass

    settings = {"before_revoke": nothing, "positions": lambda membership: {}, "failed": lambda error: None} | changes
    return transport.TransportOptions(**{"memory": MemoryBudget(1024**3), **settings})


@pytest.fixture
def consumer():
    handed = []

    async def callback(chunk):
        handed.append(chunk)

    async def make(**changes):
        app = faust.App("test", broker="kafka://127.0.0.1:9", web_enabled=False, table_standby_replicas=0, env={})
        transport.install(app, options(chunk_records=10, queued_records=25, **changes))
        app.finalize()
        made = app.transport.create_consumer(callback, on_partitions_revoked=None, on_partitions_assigned=None)
        made.handed = handed
        return made

    return make


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_start_without_a_broker_raises_once_its_time_is_over(consumer):
    async def run():
        made = await consumer(answer_timeout=0.3)
        began = time.monotonic()
        with pytest.raises(kafka.KafkaConnectionError, match="bootstrap"):
            await made._thread.start()
        assert time.monotonic() - began >= 0.3
        await asyncio.to_thread(made._thread._thread.join, 10)

    asyncio.run(run())


def test_a_broker_that_comes_back_during_the_start_is_used(consumer, monkeypatch):
    async def run():
        made = await consumer(answer_timeout=30)
        answers = [kafka.KafkaConnectionError(), kafka.KafkaConnectionError(), None]

        async def start(self):
            if (error := answers.pop(0)) is not None:
                raise error
            self._fetcher = SimpleNamespace()

        monkeypatch.setattr("aiokafka.AIOKafkaConsumer.start", start)
        made._thread.thread_loop = asyncio.get_running_loop()
        await made._thread.on_start()
        assert not answers
        assert type(made._thread._consumer._fetcher._records).__name__ == "WholeBatches"

    asyncio.run(run())


def test_handing_over_pauses_until_there_is_room(consumer):
    async def run():
        made = await consumer()
        made.app.consumer_generation_id = 0
        fetched = Fetched(0, 0, {P0: records(0, range(60))}, {P0: 60}, {P0: 60}, positions={P0: 0})
        going = asyncio.create_task(made._hand_over(fetched, SimpleNamespace(should_stop=False)))
        await asyncio.sleep(0.01)
        assert len(made.handed) == 3
        made.done(made.handed[0])
        await asyncio.sleep(0.01)
        assert len(made.handed) == 4
        for chunk in made.handed:
            made.done(chunk)
        await asyncio.wait_for(going, 1)
        assert [offset for chunk in made.handed for offset in offsets(chunk)] == list(range(60))

    asyncio.run(run())


def test_a_chunk_that_is_done_wakes_the_event_loop_only_where_it_waits_for_room(consumer, monkeypatch):
    async def run():
        made, loop, woken = await consumer(), asyncio.get_running_loop(), []
        wake = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *call: woken.append(call) or wake(*call))
        made.app.consumer_generation_id = 0
        few, many = (
            Fetched(0, 0, {P0: records(0, range(count))}, {P0: count}, {P0: count}, positions={P0: 0})
            for count in (20, 60)
        )
        await made._hand_over(few, SimpleNamespace(should_stop=False))
        await asyncio.gather(*(asyncio.to_thread(made.done, chunk) for chunk in made.handed))
        own = [call for call in woken if call[0] == made._room.set]
        assert (made._in_flight, own) == (0, [])
        going, before = asyncio.create_task(made._hand_over(many, SimpleNamespace(should_stop=False))), len(made.handed)
        for at in range(before, before + 6):
            await asyncio.sleep(0.01)
            await asyncio.to_thread(made.done, made.handed[at])
        # Sooner than the time after which the loop looks again.
        await asyncio.wait_for(going, transport.FETCH_SECONDS)
        assert made._in_flight == 0

    asyncio.run(run())


def test_no_chunk_that_another_thread_has_done_is_missed(consumer, monkeypatch):
    monkeypatch.setattr(transport, "FETCH_SECONDS", 1000)

    async def run():
        made, chunks = await consumer(), queue.SimpleQueue()
        made.app.consumer_generation_id = 0

        async def callback(chunk):
            chunks.put(chunk)

        def process():
            for _ in range(1_000):
                made.done(chunks.get(timeout=30))

        made.callback = callback
        fetched = Fetched(0, 0, {P0: records(0, range(10_000))}, {P0: 10_000}, {P0: 10_000}, positions={P0: 0})
        processing = asyncio.create_task(asyncio.to_thread(process))
        await asyncio.wait_for(made._hand_over(fetched, SimpleNamespace(should_stop=False)), 30)
        await processing
        assert made._in_flight == 0

    asyncio.run(run())


def test_handing_over_pauses_for_large_values_too(consumer):
    async def run():
        made = await consumer(memory=MemoryBudget(8 * 25_000))
        made.app.consumer_generation_id = 0
        fetched = Fetched(0, 0, {P0: records(0, range(60))}, {P0: 60}, {P0: 60}, {P0: 60 * 2000}, {P0: 0})
        going = asyncio.create_task(made._hand_over(fetched, SimpleNamespace(should_stop=False)))
        await asyncio.sleep(0.01)
        assert len(made.handed) == 2
        for at in range(6):
            made.done(made.handed[at])
            await asyncio.sleep(0.01)
        await asyncio.wait_for(going, 1)
        assert [offset for chunk in made.handed for offset in offsets(chunk)] == list(range(60))

    asyncio.run(run())


def test_a_fetch_loop_that_rested_counts_as_having_gone_round(consumer):
    async def run():
        made = await consumer()
        made.stop_flow()
        made.polled = 1.0
        made.resume_flow()
        assert made.flow_active
        assert made.polled > 1.0

    asyncio.run(run())


class Rounds:
    """A consumer's fetch loop over given fetches, with what it does noted in `steps`."""

    def __init__(self, made, fetches):
        self.made, self.fetches, self.steps = made, list(fetches), []
        self.should_stop = False
        made.app.consumer_generation_id = 0
        made._wait_next_records = self.fetch

    async def fetch(self, timeout):
        self.steps.append("fetch")
        self.should_stop = not self.fetches
        return (self.fetches.pop(0), {P0, P1}) if self.fetches else (None, None)

    async def run(self):
        await asyncio.wait_for(self.made._drain_messages(self), 30)


def fetch_of(start, stop, *, more=False):
    return Fetched(0, 0, {P0: records(0, range(start, stop))}, {P0: stop}, {P0: stop}, positions={P0: start}, more=more)


def test_records_gather_behind_a_fetch_that_brought_all_there_was(consumer):
    async def run():
        made = await consumer()
        rounds = Rounds(made, [Fetched(0, 0), fetch_of(0, 3), fetch_of(3, 5, more=True), fetch_of(5, 7)])

        async def gather():
            rounds.steps.append("gather")

        made._gather = gather
        await rounds.run()
        # Behind a fetch that brought nothing, and in a backlog, the next one follows at once.
        assert rounds.steps == ["fetch", "fetch", "gather", "fetch", "fetch", "gather", "fetch"]
        assert [offset for chunk in made.handed for offset in offsets(chunk)] == list(range(7))

    asyncio.run(run())


@pytest.mark.parametrize("seconds", sorted(transport.GATHER_SECONDS.values()))
def test_records_gather_for_a_while(consumer, seconds):
    async def run():
        made = await consumer(gather_seconds=seconds)
        began = time.monotonic()
        await made._gather()
        assert time.monotonic() - began >= seconds

    asyncio.run(run())


def test_a_revocation_and_a_stop_do_not_wait_for_records_that_gather(consumer):
    async def run():
        made = await consumer(gather_seconds=60)
        asyncio.get_running_loop().call_later(0.05, made.stop_flow)
        await Rounds(made, [fetch_of(0, 3)]).run()

    asyncio.run(run())


def test_nothing_flows_between_a_seek_and_the_next_resumption(consumer):
    async def run():
        made = await consumer(positions=lambda membership: {P0: 0})
        made.membership = Membership(1, "m", frozenset({P0}))
        # As Faust leaves it when a rebalance has ended the restore before this one.
        made.resume_flow()

        async def call_thread(call, positions):
            assert not made.flow_active
            return 1

        made._thread.call_thread = call_thread
        await made.perform_seek()
        assert not made.flow_active

    asyncio.run(run())


@pytest.mark.parametrize("change", ["flow", "generation", "seek"])
def test_what_became_void_is_not_handed_over(consumer, change):
    async def run():
        made = await consumer()
        made.app.consumer_generation_id = 1 if change == "generation" else 0
        made._seek_number = 1 if change == "seek" else 0
        if change == "flow":
            made.stop_flow()
        fetched = Fetched(0, 0, {P0: records(0, range(5))}, {P0: 5}, {P0: 5}, positions={P0: 0})
        await made._hand_over(fetched, SimpleNamespace(should_stop=False))
        assert made.handed == []

    asyncio.run(run())
