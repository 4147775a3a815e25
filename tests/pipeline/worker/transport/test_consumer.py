"""Faust's side of the transport: room, order, what is void, and what the worker learns of its consumer."""

import asyncio
import queue
import threading
import time
from types import SimpleNamespace

import faust
import pytest
from confluent_kafka import KafkaError, KafkaException
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.worker.transport import consumer as transport
from resonance.pipeline.worker.transport import log_ends
from resonance.pipeline.worker.transport.chunk import Chunk, Membership
from resonance.pipeline.worker.transport.consumer import MOST_CHUNKS
from resonance.pipeline.worker.transport.log_ends import KNOWN_SECONDS, QUERY_SECONDS, LogEnd

from tests.pipeline.worker.transport.fakes import P0, P1, FakeConsumer, FakeIntake, columns, options

ENOUGH = 20.0
MEMBER = Membership(4, "me", frozenset({P0, P1}))


async def make(**changes):
    """A consumer whose thread is not started, after a seek of both partitions."""
    app = faust.App("test", broker="kafka://127.0.0.1:9", web_enabled=False, table_standby_replicas=0, env={})
    transport.install(app, options(queued_records=2560, **changes))
    app.finalize()
    handed, revoked = [], []

    async def callback(chunk):
        handed.append(chunk)

    async def note(*given):
        revoked.append(given)

    made = app.transport.create_consumer(callback, on_partitions_revoked=note, on_partitions_assigned=note)
    made.handed, made.rebalances = handed, revoked
    client = made.client
    client._consumer, client._intake = FakeConsumer(), FakeIntake()
    client._rebalances.generation = 4
    made.membership = made._current = MEMBER
    sought(made)
    return made


def sought(made, positions=None):
    made.client.seek(positions or {P0: 0, P1: 0}, 4)
    made.client.serve(0.0)
    made.client._consumer.calls.clear()


def chunk(made, first, count, value=b"v"):
    taken = columns(P0, range(first, first + count), value)
    return Chunk(P0, taken, first + count, position=first, seek=made.client.seek_number, generation=4, waiting=0)


def draining(made):
    fetcher = SimpleNamespace(should_stop=False)
    return asyncio.create_task(made._drain_messages(fetcher))


async def until(reached):
    end = time.monotonic() + ENOUGH
    while not reached():
        assert time.monotonic() < end
        await asyncio.sleep(0.001)


# Room.


async def test_there_is_room_until_so_much_is_not_done_and_again_when_it_is():
    made = await make()
    chunks = [chunk(made, 0, 1500), chunk(made, 1500, 1500)]
    assert made.has_room()
    made.hand_over(chunks[:1])
    assert made.has_room()
    made.hand_over(chunks[1:])
    assert not made.has_room()
    assert made.client._inbox.empty
    made.done(chunks[0])
    # The thread was woken.
    assert not made.client._inbox.empty
    made.client.serve(0.0)
    assert made.has_room()
    made.done(chunks[1])
    assert made.client._inbox.empty
    assert made.has_room()


async def test_the_number_of_chunks_is_bounded_however_small_they_are():
    made = await make()
    given = 0
    while made.has_room():
        made.hand_over([chunk(made, given, 1)])
        given += 1
    assert given == MOST_CHUNKS


async def test_large_values_leave_room_for_fewer():
    made = await make(memory=MemoryBudget(2**20))
    made.hand_over([chunk(made, 0, 10, b"v" * (made.options.memory.queued // 10))])
    assert not made.has_room()


async def test_what_a_seek_has_voided_takes_no_room_and_is_never_counted_again():
    made = await make()
    old = chunk(made, 0, 3000)
    made.hand_over([old])
    assert not made.has_room()
    made.client.void()
    assert made.has_room()
    sought(made)
    new = chunk(made, 0, 3000)
    made.hand_over([new])
    made.done(old)
    assert not made.has_room()
    made.done(new)
    assert made.has_room()
    assert made._in_flight == 0


async def test_no_chunk_that_another_thread_has_done_is_missed():
    made, chunks, full = await make(), queue.SimpleQueue(), threading.Event()

    def process():
        assert full.wait(ENOUGH)
        for _ in range(300):
            made.done(chunks.get(timeout=ENOUGH))

    def hand_over():
        for at in range(300):
            while not made.has_room():
                full.set()
                # Ends at once where the other thread has woken this one; else the test takes minutes.
                made.client.serve(ENOUGH)
            given = chunk(made, 1000 * at, 1000)
            made.hand_over([given])
            chunks.put(given)

    began = time.monotonic()
    await asyncio.gather(asyncio.to_thread(process), asyncio.to_thread(hand_over))
    assert made._in_flight == 0
    assert time.monotonic() - began < ENOUGH


# Order, and what is void.


async def test_current_chunks_wait_for_the_flow_and_void_ones_are_dropped():
    made = await make()
    made.stop_flow()
    task = draining(made)
    made.hand_over([chunk(made, 0, 10), chunk(made, 10, 10)])
    await asyncio.sleep(0.02)
    assert made.handed == []
    # What waits while another seek comes is void; what was fetched behind that is not.
    sought(made, {P0: 3})
    made.hand_over([chunk(made, 3, 10)])
    made.hand_over([chunk(made, 13, 10)])
    await asyncio.sleep(0.02)
    assert made.handed == []
    made.resume_flow()
    await until(lambda: len(made.handed) == 2)
    await asyncio.sleep(0)
    assert [own.position for own in made.handed] == [3, 13]
    task.cancel()


async def test_a_flow_that_stops_between_two_chunks_holds_the_second():
    made = await make()

    async def callback(given):
        made.handed.append(given)
        made.stop_flow()

    made.callback = callback
    task = draining(made)
    made.hand_over([chunk(made, 0, 10), chunk(made, 10, 10)])
    await until(lambda: made.handed)
    await asyncio.sleep(0.01)
    assert len(made.handed) == 1
    made.resume_flow()
    await until(lambda: len(made.handed) == 2)
    task.cancel()


async def test_nothing_flows_between_a_seek_and_the_next_resumption():
    made = await make(positions=lambda membership: {P0: 8} if membership == MEMBER else {})
    # As Faust leaves it when a rebalance has ended the restore before this one.
    made.resume_flow()
    seeking = asyncio.create_task(made.perform_seek())
    await asyncio.sleep(0)
    assert not made.flow_active
    made.client.serve(0.0)
    await seeking
    assert not made.flow_active
    assert made.client.positions == {P0: 8}


async def test_without_positions_nothing_is_sought():
    made = await make()
    number = made.client.seek_number
    await made.perform_seek()
    made.membership = None
    await made.perform_seek()
    assert (made.client.seek_number, made.flow_active) == (number, True)


async def test_what_an_agent_cannot_take_ends_the_worker():
    errors = []
    made = await make(failed=errors.append)

    async def callback(given):
        raise ZeroDivisionError

    made.callback = callback
    made.hand_over([chunk(made, 0, 1)])
    await draining(made)
    assert [type(error) for error in errors] == [ZeroDivisionError]


# Membership.


@pytest.mark.parametrize("lost", [False, True])
async def test_the_worker_closes_what_is_open_before_faust_throws_it_away(lost):
    order = []

    async def before_revoke(gone):
        assert not made.flow_active
        order.append(("closed", gone, await made.is_member(MEMBER), len(made.rebalances)))

    made = await make(before_revoke=before_revoke)
    await made._revoked({P0, P1}, lost)
    assert order == [("closed", lost, not lost, 0)]
    assert not await made.is_member(MEMBER)
    assert len(made.rebalances) == 1
    after = MEMBER._replace(generation=5)
    await made._assigned(after)
    assert await made.is_member(after)
    assert (made.assignment(), made.app.consumer_generation_id) == ({P0, P1}, 5)


async def test_a_member_commits_until_its_partitions_are_revoked():
    made = await make()
    consumer = made.client._consumer
    consumer.answers["commit"] = lambda offsets, asynchronous: offsets
    answers = []

    def commit(membership):
        try:
            made.commit_positions(membership, {P0: 8}, {P0: "note"}, ENOUGH)
        except KafkaException as error:
            answers.append(error.args[0].code())
        else:
            answers.append(None)

    for membership in (MEMBER, MEMBER._replace(generation=3)):
        other = threading.Thread(target=commit, args=(membership,))
        other.start()
        while other.is_alive():
            made.client.serve(0.01)
    await made._revoked({P0, P1}, lost=False)
    other = threading.Thread(target=commit, args=(MEMBER,))
    other.start()
    while other.is_alive():
        made.client.serve(0.01)
    assert answers == [None, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.UNKNOWN_MEMBER_ID]
    assert consumer.names == ["commit"]


async def test_a_consumer_that_was_never_started_leaves_at_once():
    made = await make()
    await asyncio.wait_for(made.on_stop(), ENOUGH)
    assert not made.client.leaving.is_set()


async def test_the_group_is_joined_once_and_left_once(monkeypatch):
    made = await make()
    monkeypatch.setattr(made.client, "_connect", lambda: None)
    await made.subscribe(["in", "routes", "in"])
    await made.subscribe(["in", "routes"])
    assert made.client._topics == ["in", "routes"]
    await asyncio.wait_for(made.leave_group(), ENOUGH)
    assert made.client.left.is_set()
    assert made.client._consumer.names == ["unsubscribe", "consumer_group_metadata", "close"]
    await asyncio.to_thread(made.client.join, ENOUGH)
    await made.on_stop()
    # Not again, whatever Faust does while it stops.
    await made.subscribe(["in"])
    assert not made.client.is_alive()


async def test_a_stop_does_not_wait_for_a_thread_that_hangs(monkeypatch):
    made, release = await make(), threading.Event()
    monkeypatch.setattr(made.client, "_connect", lambda: release.wait(ENOUGH))
    monkeypatch.setattr(transport, "LEAVE_SECONDS", 0.05)
    await made.subscribe(["in"])
    await asyncio.wait_for(made.leave_group(), ENOUGH / 2)
    assert not made.client.left.is_set()
    release.set()
    await asyncio.to_thread(made.client.join, ENOUGH)


# What the worker shows of it.


async def test_a_thread_whose_records_rested_counts_as_having_gone_round():
    made = await make()
    made.stop_flow()
    assert made.polled is None
    made.client.polled = 1.0
    made.resume_flow()
    assert made.flow_active
    assert made.polled > 1.0


async def test_brokers_and_topics_that_are_away_are_shown():
    made = await make()
    assert (made.has_coordinator, made.missing_topics) == (True, [])
    made.client.away, made.client.missing = True, {"routes", "in"}
    assert (made.has_coordinator, made.missing_topics) == (False, ["in", "routes"])


async def test_ends_that_no_broker_has_reported_for_long_are_unknown():
    made, now = await make(), time.time()
    client = made.client
    assert (made.ends(), made.silent()) == ({}, [])
    client.reported = {P0: (now, LogEnd(90, 100)), P1: (now - KNOWN_SECONDS - 1, LogEnd(7, 7))}
    assert (made.ends(), made.silent()) == ({P0: LogEnd(90, 100)}, [])
    client.sought = now - 60
    assert made.silent() == [P1]
    client.positions = {P0: 5}
    client.reported[P1] = now, LogEnd(7, 7)
    assert (made.ends(), made.silent()) == ({P0: LogEnd(90, 100)}, [])


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_leaders_are_queried_for_the_ends_that_no_fetch_brings(monkeypatch, meanwhile):
    made, queried = await make(), []

    def query(admin, places):
        queried.append(places)
        if meanwhile:
            made.client.void()
        return dict.fromkeys(places, LogEnd(9, 40))

    monkeypatch.setattr(log_ends, "query", query)
    made._admin = object()
    made.client.reported = {P0: (time.time(), LogEnd(1, 1)), P1: (time.time() - QUERY_SECONDS - 1, LogEnd(2, 2))}
    await made.query_ends()
    await made.query_ends()
    assert queried == [[P1]]
    assert made.ends() == ({} if meanwhile else {P0: LogEnd(1, 1), P1: LogEnd(9, 40)})
