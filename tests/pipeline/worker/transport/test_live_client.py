"""The thread of the consumer with a consumer, in a group of a mock cluster."""

import ctypes
import random
import time
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer
from faust.types import TP
from resonance.pipeline.errors import BrokerError, FencedError, MismatchError
from resonance.pipeline.kafka import librdkafka
from resonance.pipeline.kafka.embedded import PARTITIONS, EmbeddedBroker
from resonance.pipeline.kafka.intake import PublicIntake, QueueIntake
from resonance.pipeline.worker.transport import client
from resonance.pipeline.worker.transport.log_ends import LogEnd

from tests.pipeline.worker.transport.fakes import Member, event_loop

ENOUGH = 20.0
EACH = 750
RECORDS = EACH * PARTITIONS
PLACES = [TP("in", partition) for partition in range(PARTITIONS)]
FENCED_INSTANCE_ID = 82


@pytest.fixture(scope="module")
def broker():
    """A mock cluster with records in every partition."""
    with EmbeddedBroker(["in"]) as running:
        for number in range(RECORDS):
            running.append("in", number % PARTITIONS, b'{"n":%d}' % number)
        running.flush()
        yield running


@pytest.fixture(params=[QueueIntake, PublicIntake])
def way(request, monkeypatch):
    """How records are taken: by the library, or by public calls where its check has failed."""
    if request.param is PublicIntake:
        monkeypatch.setattr(client, "checked", lambda: None)
    return request.param


class LiveMember(Member):
    """A member that reads the records of all partitions."""

    def __init__(self, broker, loop, **changes):
        client = broker.client_settings() | {"client.id": "worker-1"}
        super().__init__(loop, client, f"group{time.monotonic()}", gather_seconds=0.0, **changes)

    def join(self):
        self.thread.subscribe(["in"])
        return self.memberships.get(timeout=ENOUGH)

    def until_read_from(self, start):
        """Wait for all records behind an offset, each once."""
        number, wanted = self.thread.seek_number, range(start, EACH)
        self.until(lambda: self.count(number) >= PARTITIONS * len(wanted))
        assert self.offsets(number) == {place: list(wanted) for place in PLACES}

    def count(self, seek):
        """Return how many records were handed over behind a seek."""
        return sum(map(len, self.offsets(seek).values()))

    def offsets(self, seek):
        """Return the offsets of what was handed over behind a seek, by partition."""
        found = {}
        for chunk in list(self.owner.chunks):
            if chunk.seek == seek:
                assert chunk.position == found.get(chunk.tp, [chunk.position - 1])[-1] + 1
                found.setdefault(chunk.tp, []).extend(chunk.value.offsets.tolist())
        return found


@contextmanager
def member_of(broker, **changes):
    with event_loop() as loop:
        member = LiveMember(broker, loop, **changes)
        yield member
        began = time.monotonic()
        member.thread.leave()
        assert member.thread.left.wait(ENOUGH)
        member.thread.join(ENOUGH)
        assert time.monotonic() - began < 2


def test_a_member_reads_each_partition_once_from_where_it_seeks_and_leaves(broker, way):
    with member_of(broker) as member:
        membership = member.join()
        assert isinstance(member.thread._intake, way)
        assert (membership.partitions, membership.fenced) == (frozenset(PLACES), True)
        for start in (0, 10, EACH - 1):
            member.thread.seek(dict.fromkeys(PLACES, start), membership.generation).result(ENOUGH)
            member.until_read_from(start)
        assert member.thread.positions == dict.fromkeys(PLACES, EACH)
        member.until(lambda: len(member.thread.reported) == PARTITIONS)
        assert {at for _, at in member.thread.reported.values()} == {LogEnd(EACH, EACH)}
    assert member.thread.positions == {}
    # A member that leaves waits for nothing: the worker has closed what is open before.
    assert member.revoked == []


def test_seeks_in_the_middle_of_reading_lose_and_repeat_nothing(broker, way):
    with member_of(broker) as member:
        generation = member.join().generation
        for start in range(20):
            member.thread.seek(dict.fromkeys(PLACES, start), generation).result(ENOUGH)
            time.sleep(0.001 * (start % 3))
        member.until_read_from(19)


def test_a_thread_that_is_full_leaves_with_records_in_its_queue(broker, way):
    with member_of(broker) as member:
        member.owner.room = False
        generation = member.join().generation
        member.thread.seek(dict.fromkeys(PLACES, 0), generation).result(ENOUGH)
        time.sleep(0.2)
        assert member.owner.chunks == []


@pytest.mark.parametrize("between", ["nothing", "a revocation"])
def test_a_paused_partition_flows_again_behind_another_seek(broker, way, between):
    paused = set(PLACES[:1])
    with member_of(broker, paused=lambda: paused) as member:
        generation = member.join().generation
        member.thread.seek(dict.fromkeys(PLACES, 0), generation).result(ENOUGH)
        number = member.thread.seek_number
        # What was fetched when the pause came may come as well; the processor holds it.
        member.until(lambda: all(len(member.offsets(number).get(tp, ())) == EACH for tp in PLACES[1:]))
        assert len(member.offsets(number).get(PLACES[0], ())) < EACH

        def revoke():
            member.thread._consumer.unassign()
            member.thread.void()

        if between == "a revocation":
            member.thread.call(revoke).result(ENOUGH)
            time.sleep(0.05)
        paused.clear()
        member.thread.seek(dict.fromkeys(PLACES, 0), generation).result(ENOUGH)
        member.until_read_from(0)


def test_pauses_in_the_middle_of_reading_lose_and_repeat_nothing(broker, way, monkeypatch):
    monkeypatch.setattr(client, "MOST_RECORDS", 16)
    monkeypatch.setattr(client, "FEW_RECORDS", 16)
    draw, rounds = random.Random(2), []

    def paused():
        """Another one each time, until the worker has read much."""
        rounds.append(1)
        return {draw.choice(PLACES)} if len(rounds) < 40 else ()

    with member_of(broker, paused=paused) as member:
        generation = member.join().generation
        member.thread.seek(dict.fromkeys(PLACES, 0), generation).result(ENOUGH)
        member.until_read_from(0)


def test_a_member_that_leaves_before_it_has_joined_waits_for_nothing(broker, way):
    with member_of(broker) as member:
        member.thread.subscribe(["in"])
        member.until(lambda: hasattr(member.thread, "_intake"))
    assert member.owner.errors == []


def test_a_replaced_member_is_fenced_and_its_consumer_closed(broker, way):
    library = librdkafka.load()
    fail = library.rd_kafka_test_fatal_error
    fail.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    with member_of(broker) as member:
        generation = member.join().generation
        member.thread.seek(dict.fromkeys(PLACES, 0), generation).result(ENOUGH)
        fail(librdkafka.handle_of(member.thread._consumer), FENCED_INSTANCE_ID, b"by a test")
        end = time.monotonic() + ENOUGH
        while not member.owner.errors:
            assert time.monotonic() < end
            time.sleep(0.005)
        assert type(member.owner.errors[0]) is FencedError
    # A consumer that is closed has no client any more.
    assert librdkafka.handle_of(member.thread._consumer) is None


def test_an_offset_behind_the_end_of_the_log_ends_the_thread(broker, way):
    with member_of(broker) as member:
        generation = member.join().generation
        member.thread.seek({PLACES[2]: 5 * RECORDS}, generation).result(ENOUGH)
        with pytest.raises(AssertionError, match="MismatchError"):
            member.until(lambda: False)
        assert type(member.owner.errors[0]) is MismatchError
        assert f"in[2]@{5 * RECORDS}" in str(member.owner.errors[0])


def test_a_commit_is_one_of_the_group(broker, way):
    with member_of(broker) as member:
        member.join()
        member.thread.commit({PLACES[0]: 7}, {PLACES[0]: "note"}, lambda: True, ENOUGH)
        reader = Consumer(broker.client_settings() | {"group.id": member.options.group})
        (place,) = reader.committed([client.Place(*PLACES[0])], ENOUGH)
        reader.close()
        assert (place.offset, place.metadata) == (7, "note")


def test_a_start_without_a_broker_is_an_error_once_its_time_is_over():
    class Away:
        def client_settings(self):
            return {"bootstrap.servers": "127.0.0.1:1"}

    with member_of(Away(), answer_timeout=0.2) as member:
        member.thread.subscribe(["in"])
        with pytest.raises(AssertionError, match="BrokerError"):
            member.until(lambda: False)
        assert type(member.owner.errors[0]) is BrokerError
        assert "127.0.0.1:1" in str(member.owner.errors[0])
