"""The thread of the consumer, by stand-ins of what it calls: rounds, positions, commands, errors, and its end."""

import threading
import time
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError
from faust.types import TP
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.access import Refusals
from resonance.pipeline.memory_budget import RECORD, MemoryBudget
from resonance.pipeline.worker.transport.client import FETCH_SECONDS, FETCH_WAIT_MS, FEW_RECORDS, MOST_RECORDS
from resonance.pipeline.worker.transport.log_ends import LogEnd

from tests.pipeline.worker.transport.fakes import (
    EOF,
    P0,
    P1,
    FakeConsumer,
    FakeIntake,
    client_thread,
    columns,
    ended,
    event,
    offsets,
    refusal,
)

ENOUGH = 20.0


def waiting(thread, clock):
    """Let the thread's waits pass on a clock; return them."""
    waits, serve = [], thread.serve

    def wait(seconds):
        if seconds:
            waits.append(round(seconds, 6))
            clock.now += seconds
        serve(0.0)

    thread.serve = wait
    return waits


def rounds(thread, count):
    for _ in range(count):
        thread._round()


# Rounds.


def test_the_first_records_of_a_quiet_stream_are_taken_at_once_and_others_gather(clock):
    intake = FakeIntake(([columns(P0, [5])], []), ([columns(P0, [6, 7])], []))
    thread = client_thread(intake, gather_seconds=0.07)
    waits = waiting(thread, clock)
    rounds(thread, 1)
    assert (waits, [offsets(chunk) for chunk in thread.owner.chunks]) == ([], [[5]])
    clock.now += 0.03
    rounds(thread, 2)
    assert (waits, [offsets(chunk) for chunk in thread.owner.chunks]) == ([0.04], [[5], [6, 7]])
    # Long after the last ones, again.
    clock.now += 1.0
    rounds(thread, 1)
    assert waits == [0.04]


def test_rounds_that_bring_nothing_let_nothing_gather(clock):
    thread = client_thread(FakeIntake(), gather_seconds=0.07)
    waits = waiting(thread, clock)
    rounds(thread, 10)
    assert (waits, thread._intake.calls.count(("take", FEW_RECORDS))) == ([], 10)


def test_a_backlog_is_never_waited_for(clock):
    most, last = MOST_RECORDS, FEW_RECORDS + MOST_RECORDS
    takes = [range(FEW_RECORDS), range(FEW_RECORDS, last), [last]]
    thread = client_thread(FakeIntake(*(([columns(P0, own)], []) for own in takes)), gather_seconds=0.07)
    waits = waiting(thread, clock)
    rounds(thread, 3)
    assert [call[1] for call in thread._intake.calls if call[0] == "take"] == [FEW_RECORDS, most, most]
    assert waits == []
    # Behind its end they gather again.
    rounds(thread, 1)
    assert waits == [0.07]


def test_a_round_takes_what_the_memory_allows(clock):
    thread = client_thread(FakeIntake(([columns(P0, range(5, 15), b"v" * 100_000)], [])), memory=MemoryBudget(2**27))
    rounds(thread, 1)
    assert thread._most == thread._options.memory.taken * 10 // (10 * (100_001 + RECORD))


def test_a_long_wait_ends_with_commands_and_goes_on_behind_them():
    thread, done = client_thread(), []
    threading.Timer(0.05, lambda: thread.call(lambda: done.append(1))).start()
    began = time.monotonic()
    thread.serve(ENOUGH)
    thread.leave()
    thread.serve(ENOUGH)
    assert done == [1]
    assert time.monotonic() - began < ENOUGH / 2


def test_a_command_wakes_a_wait_for_records():
    thread = client_thread()
    thread.call(lambda: None)
    assert thread._intake.calls[-1] == ("wake",)


@pytest.mark.parametrize("why", ["full", "nothing is sought"])
def test_nothing_is_taken_where_there_is_no_room_or_nothing_to_read(clock, why):
    thread = client_thread()
    if why == "full":
        thread.owner.room = False
    else:
        thread.void()
    waits = waiting(thread, clock)
    rounds(thread, 3)
    assert waits == [FETCH_SECONDS] * 3
    assert ("take", FEW_RECORDS) not in thread._intake.calls
    # The group is served all the same.
    assert thread.polled == clock.now - FETCH_SECONDS


# Positions.


def test_the_end_of_a_partition_moves_its_position_over_markers_once():
    thread = client_thread(
        FakeIntake(
            ([columns(P0, [5])], [event(EOF, P0, 9), event(EOF, P1, 7)]),
            ([], [event(EOF, P1, 12)]),
            ([], [event(EOF, P1, 12)]),
        )
    )
    for _ in range(3):
        thread._take()
    assert [(c.tp, c.position, offsets(c), c.next_offset) for c in thread.owner.chunks] == [
        (P0, 5, [5], 9),
        (P1, 7, [], 12),
    ]
    assert {tp: end for tp, (_, end) in thread.reported.items()} == {P0: LogEnd(9, 9), P1: LogEnd(12, 12)}


def test_in_a_backlog_chunks_know_how_much_waits_whatever_another_thread_reports_meanwhile():
    class Reported(dict):
        def items(self):
            for item in super().items():
                self[TP("in", len(self))] = (0.0, LogEnd(0, 0))
                yield item

        def copy(self):
            return dict(self)

    thread = client_thread(FakeIntake(([columns(P0, range(5, 69))], [])))
    thread.reported = Reported({P0: (time.time(), LogEnd(100, 110))})
    thread._take()
    assert [chunk.waiting for chunk in thread.owner.chunks] == [31]


@pytest.mark.parametrize("change", ["revocation", "seek"])
def test_records_that_were_taken_across_a_change_are_dropped(change):
    def take():
        thread.void() if change == "revocation" else thread._seek({P0: 2})
        return [columns(P0, [5])], [event(EOF, P0, 9), event(KafkaError._AUTO_OFFSET_RESET, P0, 9)]

    thread = client_thread(FakeIntake(take))
    thread._take()
    assert thread.owner.chunks == []
    assert thread.positions == ({P0: 2} if change == "seek" else {})
    assert thread.reported == {}


def test_records_of_a_partition_that_was_not_sought_are_dropped():
    other = TP("in", 2)
    thread = client_thread(FakeIntake(([columns(other, [0])], [event(EOF, other, 9)])))
    thread._take()
    assert (thread.owner.chunks, other in thread.positions, thread.reported) == ([], False, {})


def test_a_seek_voids_what_was_before_and_a_late_one_is_none():
    thread = client_thread()
    number, thread.reported = thread.seek_number, {P0: (0.0, LogEnd(1, 1))}
    answer = thread.seek({P0: 3}, 4)
    thread.serve(0.0)
    answer.result(0)
    assert (thread.seek_number, thread.positions, thread.reported) == (number + 1, {P0: 3}, {})
    late = thread.seek({P0: 1}, 3)
    thread.serve(0.0)
    late.result(0)
    assert (thread.seek_number, thread.positions) == (number + 1, {P0: 3})
    assert [call for call in thread._intake.calls if call[0] == "assign"] == [
        ("assign", {P0: 5, P1: 7}),
        ("assign", {P0: 3}),
    ]


def test_records_behind_a_seek_are_taken_at_once(clock):
    thread = client_thread(FakeIntake(([columns(P0, [5])], [])), gather_seconds=0.07)
    waits = waiting(thread, clock)
    rounds(thread, 1)
    thread.seek({P0: 6}, 4)
    rounds(thread, 1)
    assert waits == []


# What the cluster says.


def test_troubles_that_pass_are_logged_and_no_end(caplog):
    intake = FakeIntake()
    intake.polls = [event(KafkaError._TRANSPORT), event(KafkaError._MAX_POLL_EXCEEDED)]
    thread = client_thread(intake)
    rounds(thread, 2)
    assert [line.message.split(":")[0] for line in caplog.records] == ["consumer"] * 2


def test_an_error_that_a_call_raises_is_explained_too():
    intake = FakeIntake()

    def poll():
        raise refusal(KafkaError._FATAL)

    intake.polls = [poll]
    assert isinstance(ended(client_thread(intake)), BrokerError)


def topic(error=None):
    return SimpleNamespace(topics=dict.fromkeys(("in", "keys", "routes"), SimpleNamespace(error=error)))


def test_missing_topics_are_requested_in_turn_until_a_broker_describes_them(clock):
    described = set()

    def list_topics(name, seconds):
        # Behind a fetch that is idle for as long as it may be.
        assert seconds > FETCH_WAIT_MS / 1000
        if len(consumer.calls) < 3:
            raise refusal(KafkaError._TRANSPORT)
        return topic() if name in described else topic(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))

    intake, consumer = FakeIntake(), FakeConsumer(list_topics=list_topics)
    intake.polls = [event(KafkaError.UNKNOWN_TOPIC_OR_PART, TP(name, -1)) for name in ("routes", "in", "keys")]
    thread = client_thread(intake, consumer)
    waiting(thread, clock)

    def look():
        clock.now += 1.0
        rounds(thread, 2)

    rounds(thread, 3)
    assert thread.missing == {"in", "keys", "routes"}
    consumer.calls.clear()
    for _ in range(6):
        look()
    assert sorted(call[1] for call in consumer.calls) == ["in", "in", "keys", "keys", "routes", "routes"]
    described.add("routes")
    for _ in range(3):
        look()
    assert thread.missing == {"in", "keys"}
    # Whatever is assigned is there.
    thread.seek({P0: 0}, 4)
    look()
    assert thread.missing == {"keys"}


def test_brokers_that_are_away_are_back_once_one_answers(clock):
    thread = client_thread(consumer=FakeConsumer(list_topics=refusal(KafkaError._TRANSPORT)))
    waiting(thread, clock)
    thread._note(KafkaError(KafkaError._TRANSPORT))
    assert not thread.away
    thread._note(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    clock.now += 1.0
    rounds(thread, 1)
    assert thread.away
    thread._consumer.answers["list_topics"] = topic()
    clock.now += 1.0
    rounds(thread, 2)
    assert not thread.away
    assert thread._consumer.names == ["list_topics"] * 2


def test_refusals_that_last_end_the_thread(clock):
    thread = client_thread()
    thread._refusals = Refusals(thread._options.client, clock.monotonic)
    for _ in range(2):
        rounds(thread, 1)
        thread._note(KafkaError(KafkaError._AUTHENTICATION))
        clock.now += 6.0
    assert "[broker.librdkafka]" in str(ended(thread))
