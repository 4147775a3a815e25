"""A rebalance, by stand-ins of the consumer: the event loop does what it needs, and the thread serves meanwhile."""

import asyncio
import threading
import time
from concurrent.futures import CancelledError

import pytest
from confluent_kafka import TopicPartition as Place
from resonance.pipeline.errors import DeliveryError
from resonance.pipeline.worker.transport.rebalance import Rebalances

from tests.pipeline.worker.transport.fakes import (
    P0,
    P1,
    FakeConsumer,
    FakeIntake,
    client_thread,
    event_loop,
    metadata,
    nothing,
)

ENOUGH = 20.0
PLACES = [Place(*P0), Place(*P1)]


@pytest.fixture
def loop():
    with event_loop() as running:
        yield running


@pytest.fixture
def rebalancing(loop):
    """A thread whose rebalances run in a loop, with its callbacks."""

    def make(assigned=nothing, revoked=nothing, seconds=ENOUGH):
        thread = client_thread(FakeIntake(), FakeConsumer(consumer_group_metadata=metadata(5, b"me")))
        thread._rebalances = Rebalances(lambda: loop, assigned, revoked, seconds)
        thread._rebalances.generation = 4
        return thread, thread._rebalances.callbacks(thread)

    return make


def test_nothing_is_fetched_before_the_restore_says_from_where(rebalancing):
    seen = []

    async def assigned(membership):
        seen.append((membership, list(thread._consumer.calls), dict(thread.positions), thread.seek_number))

    thread, calls = rebalancing(assigned)
    number = thread.seek_number
    calls["on_assign"](thread._consumer, PLACES)
    ((membership, before, positions, voided),) = seen
    assert (membership.generation, membership.member_id, membership.partitions) == (5, "me", {P0, P1})
    assert membership.metadata == metadata(5, b"me")
    assert before == [("consumer_group_metadata",), ("assign", [])]
    assert (positions, voided) == ({}, number + 1)
    assert thread._rebalances.generation == 5


@pytest.mark.parametrize("lost", [False, True])
def test_partitions_are_given_up_once_the_worker_has_closed_what_is_open(rebalancing, lost):
    seen = []

    async def revoked(partitions, lost):
        seen.append((partitions, lost, list(thread._consumer.calls), dict(thread.positions), thread.seek_number))

    thread, calls = rebalancing(revoked=revoked)
    number = thread.seek_number
    calls["on_lost" if lost else "on_revoke"](thread._consumer, PLACES)
    assert seen == [({P0, P1}, lost, [], {}, number + 1)]
    assert thread._consumer.calls == [("unassign",)]


def test_a_seek_that_comes_while_partitions_are_given_up_moves_nothing(rebalancing):
    async def revoked(partitions, lost):
        await asyncio.wrap_future(thread.seek({P0: 3}, 4))
        late.append(thread.seek({P0: 3}, 4))

    late = []
    thread, calls = rebalancing(revoked=revoked)
    thread._intake.calls.clear()
    calls["on_revoke"](thread._consumer, PLACES)
    thread.serve(0.0)
    late[0].result(0)
    assert thread.positions == {}
    assert [call for call in thread._intake.calls if call != ("wake",)] == []


def test_a_seek_that_comes_while_an_assignment_is_announced_is_its_own(rebalancing):
    async def assigned(membership):
        await asyncio.wrap_future(thread.seek({P0: 3}, 4))
        await asyncio.wrap_future(thread.seek({P1: 9}, membership.generation))

    thread, calls = rebalancing(assigned)
    calls["on_assign"](thread._consumer, PLACES)
    assert thread.positions == {P1: 9}


@pytest.mark.parametrize("callback", ["on_assign", "on_revoke", "on_lost"])
def test_a_rebalance_waits_for_so_long_and_no_longer(rebalancing, callback):
    ended = threading.Event()

    async def endless(*_):
        try:
            await asyncio.sleep(1000)
        finally:
            ended.set()

    thread, calls = rebalancing(endless, endless, seconds=0.05)
    with pytest.raises(DeliveryError, match=r"not closed within 0\.05 s of a rebalance.*start again"):
        calls[callback](thread._consumer, PLACES)
    assert ended.wait(ENOUGH)


@pytest.mark.parametrize("callback", ["on_assign", "on_revoke"])
@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
def test_what_fails_or_is_cancelled_in_the_event_loop_ends_the_rebalance(rebalancing, callback, error):
    async def fails(*_):
        raise error

    thread, calls = rebalancing(fails, fails)
    with pytest.raises((ZeroDivisionError, CancelledError)):
        calls[callback](thread._consumer, PLACES)


def test_a_command_that_fails_ends_the_rebalance(rebalancing):
    async def revoked(partitions, lost):
        thread.call(lambda: 1 / 0)
        await asyncio.sleep(ENOUGH)

    thread, calls = rebalancing(revoked=revoked)
    with pytest.raises(ZeroDivisionError):
        calls["on_revoke"](thread._consumer, PLACES)


@pytest.mark.parametrize("callback", ["on_assign", "on_revoke", "on_lost"])
@pytest.mark.parametrize("when", ["before", "within"])
def test_a_member_that_leaves_waits_for_nothing(rebalancing, callback, when):
    began = []

    async def endless(*_):
        began.append(1)
        thread.leave()
        await asyncio.sleep(1000)

    thread, calls = rebalancing(endless, endless)
    if when == "before":
        thread.leave()
    at = time.monotonic()
    calls[callback](thread._consumer, PLACES)
    assert time.monotonic() - at < ENOUGH / 2
    assert len(began) == (when == "within")
    # librdkafka goes on once it was answered.
    assert thread._consumer.calls[-1] == (("assign", []) if callback == "on_assign" else ("unassign",))


@pytest.mark.parametrize(("bytes_", "member"), [(metadata(4, b"me"), True), (metadata(-1, b""), False), (None, False)])
def test_a_member_has_an_id(bytes_, member):
    assert Rebalances.is_member(FakeConsumer(consumer_group_metadata=bytes_)) is member
