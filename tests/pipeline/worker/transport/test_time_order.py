"""Partitions of a backlog that is learned together are handed over in the order of time."""

import random
import time

import numpy as np
import pytest
from confluent_kafka import Producer
from faust.types import TP
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.kafka.intake import Event
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Record
from resonance.pipeline.worker.transport.log_ends import LogEnd
from resonance.pipeline.worker.transport.time_order import NEAR, SILENT_SECONDS, STEP_SECONDS

from tests.pipeline.worker.transport.fakes import EOF, P0, P1, FakeIntake, client_thread, event, offsets
from tests.pipeline.worker.transport.test_live_client import PLACES, member_of, way

__all__ = ["way"]

FIRST = {P0: 5, P1: 7}
NONE = -1
DAY, BEGIN = 86_400_000, 1_700_000_000_000


def records(tp, times, first=None, size=1):
    start = FIRST[tp] if first is None else first
    own = [Record(*tp, start + row, at, None, b"v" * size) for row, at in enumerate(times)]
    return RecordColumns.of(own)


def thread_with(*takes, **changes):
    """A thread whose consumer brings each of the takes in a round: columns and events."""
    both = [[[e for e in take if isinstance(e, kind) and len(e)] for kind in (RecordColumns, Event)] for take in takes]
    return client_thread(FakeIntake(*both), in_time_order={"in"}, **changes)


def handed(thread):
    """Take once; return partition and time of each record that was handed over in this round."""
    thread.owner.chunks.clear()
    thread._pause()
    thread._take()
    return [(chunk.partition, at) for chunk in thread.owner.chunks if chunk.value for at in chunk.value.times.tolist()]


def test_what_is_later_waits_for_the_other_partition_and_nothing_for_one_that_is_at_its_end():
    thread = thread_with(
        [records(P0, [10, 20, 30])],
        [records(P1, [15, 25])],
        [event(EOF, P1, 9)],
        [event(EOF, P0, 8)],
        [records(P0, [50, 60], 8), records(P1, [40], 9)],
    )
    assert handed(thread) == []
    assert handed(thread) == [(0, 10), (1, 15), (0, 20), (1, 25)]
    assert thread.positions == {P0: 7, P1: 9}
    assert handed(thread) == [(0, 30)]
    assert handed(thread) == []
    # Live, it passes as it comes.
    assert handed(thread) == [(0, 50), (0, 60), (1, 40)]
    assert [offsets(chunk) for chunk in thread.owner.chunks] == [[8, 9], [9]]


@pytest.mark.parametrize("why", ["it is silent", "it is paused", "its records have no time"])
def test_a_partition_holds_nothing_back_where(clock, why):
    paused = {P1} if why == "it is paused" else ()
    untimed = [NONE, NONE] if why == "its records have no time" else []
    thread = thread_with([records(P0, [10, 20]), records(P1, untimed)], paused=lambda: paused)
    found = handed(thread)
    if why == "it is silent":
        for _ in range(int(SILENT_SECONDS / STEP_SECONDS) - 1):
            assert found == []
            # The worker may have had no room: little of such a wait counts.
            clock.now += 100
            found = handed(thread)
    assert sorted(found) == [(0, 10), (0, 20), *((1, at) for at in untimed)]


def test_a_partition_that_was_silent_catches_up_before_others_go_on(clock):
    third = TP("in", 2)
    thread = thread_with(
        [records(P0, [10, 20, 30, 40]), records(P1, [15])],
        *[[]] * round(SILENT_SECONDS / STEP_SECONDS - 1),
        [records(P1, [25], 8)],
        [records(third, [12], 0)],
        [event(EOF, third, 1)],
        [records(P1, [35], 9)],
    )
    thread._seek({**FIRST, third: 0})
    found = []
    while thread._intake.takes:
        clock.now += STEP_SECONDS
        found.append(handed(thread))
    assert found[-5:] == [[(0, 10), (1, 15)], [(0, 20), (1, 25)], [(2, 12)], [], [(0, 30), (1, 35)]]


def test_times_that_go_back_or_are_not_yet_keep_the_order_of_their_partition():
    future = int(1000 * time.time()) + DAY
    thread = thread_with(
        [records(P0, [10, 30, 20, NONE, future, 40]), records(P1, [25, 35])], [event(EOF, P0, 11), event(EOF, P1, 9)]
    )
    # One that is later than the next one, as of a wrong clock, holds nothing back.
    assert handed(thread) == [(0, 10), (0, 30), (0, 20), (0, NONE), (0, future), (1, 25), (1, 35)]
    assert handed(thread) == [(0, 40)]


def test_what_waits_of_a_partition_that_is_given_up_is_dropped_and_one_alone_waits_for_none():
    thread = thread_with([records(P0, [10])], [records(P0, [10, 20])])
    assert handed(thread) == []
    thread._seek({P0: 5})
    assert handed(thread) == [(0, 10), (0, 20)]


def test_a_partition_far_ahead_is_paused_until_most_of_it_is_handed_over():
    thread = thread_with(
        [records(P0, [10, 20, 30, 40], size=3 * 1024 * 1024)],
        [records(P1, [15, 25, 35])],
        [event(EOF, P1, 10)],
        memory=MemoryBudget(128 * 1024 * 1024),
    )
    calls = thread._consumer.calls
    for paused in (["pause"], ["pause"], ["pause", "resume"]):
        handed(thread)
        thread._pause()
        assert [name for name, (place, *_) in [call[:2] for call in calls if call[1]]] == paused


def test_markers_move_the_position_once_the_records_before_them_are_handed_over():
    thread = thread_with(
        [event(EOF, P0, 6)], [records(P0, [10, 20], 6), event(EOF, P0, 9)], [event(EOF, P1, 7)], [event(EOF, P0, 12)]
    )
    for found, position in (([], 6), ([], 6), ([(0, 10), (0, 20)], 9), ([], 12)):
        assert (handed(thread), thread.positions) == (found, {P0: position, P1: 7})


def test_a_live_partition_holds_others_back_again_where_much_of_it_waits():
    thread = thread_with([event(EOF, P0, 5), event(EOF, P1, 7)], [records(P0, [10])], [records(P0, [20], 6)])
    handed(thread)
    for behind, found in ((NEAR, [(0, 10)]), (NEAR + 1, [])):
        thread.reported[P1] = time.time(), LogEnd(7 + behind, 7 + behind)
        assert handed(thread) == found


@pytest.mark.parametrize("seed", range(10))
def test_rounds_of_any_size_are_handed_over_once_and_in_order(seed):
    draw = random.Random(seed)
    times = {tp: sorted(draw.randrange(1000) for _ in range(draw.randrange(60))) for tp in FIRST}
    left, takes = dict(times), []
    while any(left.values()):
        counts = {tp: draw.choice([0, 0, draw.randrange(20)]) for tp in FIRST}
        takes.append(
            [records(tp, left[tp][:n], FIRST[tp] + len(times[tp]) - len(left[tp])) for tp, n in counts.items()]
        )
        left = {tp: left[tp][n:] for tp, n in counts.items()}
    takes.append([event(EOF, tp, FIRST[tp] + len(times[tp])) for tp in FIRST])
    thread = thread_with(*takes)
    found = [each for _ in takes for each in handed(thread)]
    assert [at for _, at in found] == sorted(at for own in times.values() for at in own)
    assert {tp: [at for p, at in found if p == tp.partition] for tp in FIRST} == times


@pytest.mark.parametrize(
    ("counts", "memory"),
    [
        pytest.param([20_000] * 4, 1024**3, id="all fits"),
        pytest.param([20_000] * 4, 64 * 1024 * 1024, id="partitions ahead are paused"),
        pytest.param([20_000, 2_000, 200, 0], 64 * 1024 * 1024, id="one is long"),
        pytest.param([500] * 4, 1024**3, id="all are short"),
    ],
)
def test_a_day_that_lies_in_several_partitions_is_handed_over_from_morning_to_evening(way, counts, memory):
    draw = np.random.default_rng(1)
    with EmbeddedBroker(["in"]) as broker:
        producer = Producer(broker.client_settings() | {"linger.ms": 20})
        for partition, count in enumerate(counts):
            for at in np.sort(draw.integers(BEGIN, BEGIN + DAY, count)).tolist():
                producer.produce("in", b"{}", None, partition, timestamp=at)
            producer.flush(20)
        with member_of(broker, in_time_order={"in"}, memory=MemoryBudget(memory)) as member:
            member.thread.seek(dict.fromkeys(PLACES, 0), member.join().generation).result(20)
            number = member.thread.seek_number
            member.until(lambda: member.count(number) == sum(counts))
            found = member.offsets(number)
            assert found == {tp: list(range(count)) for tp, count in zip(PLACES, counts, strict=True) if count}
            times = np.concatenate([chunk.value.times for chunk in member.owner.chunks if chunk.value])
    # Hours that a record comes behind a later one.
    late = (np.maximum.accumulate(times) - times) / 3_600_000
    assert late.max() < 1.0
