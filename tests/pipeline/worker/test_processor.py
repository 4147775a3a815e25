"""How a processor ends: partitions that are closed or lost, and failures, after which nothing is committed."""

import time

import pytest
from resonance.pipeline.errors import DeliveryError
from resonance.pipeline.worker.assignment import AssignedPartition

from tests.pipeline.worker.processor_bench import P0, Echo, Writer, chunk


def test_closing_commits_what_was_learned_and_drops_what_waits(b):
    task = b.hold(*(chunk(P0, first, 100, waiting=1) for first in range(0, 5000, 100)))
    closing = b.processor.close()
    task.gate.set()
    closing.result(5)
    # The piece that was in work, and no further one.
    assert (task.learned, b.lines("commit")) == (list(range(16)), [("commit", {0: 16})])
    b.wait(lambda: b.done.qsize() == 50)
    b.processor.submit(chunk(P0, 0, 1))
    b.wait(lambda: b.done.qsize() == 51)
    assert len(task.learned) == 16


def test_of_lost_partitions_everything_open_is_aborted_and_the_next_assignment_is_processed(b):
    b.processor.submit(chunk(P0, 0, 2, waiting=1))
    b.wait(lambda: b.lines("answers"))
    b.close(lost=True)
    assert b.diary.lines[1:] == [("answers", 0, [b"0", b"1"]), ("abort",)]
    assert (b.processor.partitions, b.failures.empty()) == ({}, True)
    b.processor.submit(chunk(P0, 2, 1))
    b.partitions = {P0: AssignedPartition(Echo(), Writer(), 0, 0)}
    b.open()
    b.processor.submit(chunk(P0, 0, 3))
    b.wait(lambda: b.lines("commit"))
    again = [("bind", 1), ("answers", 0, [b"0", b"1", b"2"]), ("commit", {0: 3})]
    assert b.diary.lines[3:] == again
    assert b.done.qsize() == 3


def test_no_commit_is_begun_once_partitions_are_lost(bench):
    b = bench(interval=0.0)
    task = b.hold(chunk(P0, 0, 1, waiting=1), chunk(P0, 1, 1))
    closed = b.processor.close(lost=True)
    task.gate.set()
    closed.result(5)
    assert b.diary.lines[1:] == [("answers", 0, [b"0"]), ("abort",)]


def test_of_lost_partitions_a_commit_that_runs_ends_before_what_is_open_is_aborted(b):
    b.learn_while_committing()
    closed = b.processor.close(lost=True)
    time.sleep(0.05)
    assert not closed.done()
    b.diary.gate.set()
    closed.result(5)
    # What was learned beside it is not sent.
    assert b.diary.lines[1:] == [("answers", 0, [b"0"]), ("commit", {0: 1}), ("abort",)]


def test_a_commit_that_is_refused_because_partitions_are_lost_ends_the_worker(b):
    b.diary.failure = DeliveryError("no member")
    b.learn_while_committing()
    closed = b.processor.close(lost=True)
    b.diary.gate.set()
    with pytest.raises(DeliveryError, match="no member"):
        closed.result(5)
    assert str(b.failures.get(timeout=5)) == "no member"
    assert b.diary.lines[-1] == ("abort",)


def test_closing_twice_and_without_partitions_does_nothing(bench):
    b = bench(opened=False)
    b.close()
    b.close(everything=True)
    assert b.diary.lines == []


def test_a_failed_commit_ends_everything_at_once(b):
    b.diary.failure = DeliveryError("no")
    b.processor.submit(chunk(P0, 0, 1))
    assert b.failures.get(timeout=5) is b.diary.failure
    assert b.diary.lines[-1] == ("abort",)
    with pytest.raises(DeliveryError, match="no"):
        b.close()
    assert b.lines("commit") == []


def test_a_failure_is_reported_even_where_nothing_can_be_aborted(b):
    b.diary.failure, b.diary.abort = DeliveryError("no"), lambda: 1 / 0
    b.processor.submit(chunk(P0, 0, 1))
    assert b.failures.get(timeout=5) is b.diary.failure


def test_who_waits_is_reported_of_a_failure_at_once(b):
    b.learn_while_committing()
    closing = b.processor.close(everything=True)
    b.diary.failure = DeliveryError("no")
    b.diary.gate.set()
    assert closing.exception(timeout=1) is b.diary.failure
    assert b.failures.get(timeout=5) is b.diary.failure


def test_a_cancelled_close_does_not_harm_the_processor(b):
    task = b.hold(chunk(P0, 0, 1))
    assert b.processor.close().cancel()
    task.gate.set()
    b.open()
    assert b.failures.empty()


def test_an_error_from_elsewhere_aborts_what_is_open(b):
    b.processor.submit(chunk(P0, 0, 1, waiting=1))
    b.wait(lambda: b.lines("answers"))
    b.processor.give_up(DeliveryError("a named stop"))
    assert b.diary.lines[-1] == ("abort",)
    assert b.lines("commit") == []
    b.processor.give_up(DeliveryError("again"))


def test_a_failing_task_commits_nothing(bench):
    b = bench(opened=False)
    b.partitions[P0].task.process = lambda records: 1 / 0
    b.open()
    b.processor.submit(chunk(P0, 0, 1))
    assert isinstance(b.failures.get(timeout=5), ZeroDivisionError)
    assert b.lines("commit") == []


@pytest.mark.parametrize(
    ("first", "said"), [(2, "in[0]@2 was read again behind 3"), (5, "in[0]@5 was read, and not what comes behind 3")]
)
def test_records_that_are_not_the_next_ones_are_refused(b, first, said):
    b.processor.submit(chunk(P0, 0, 3, waiting=1))
    b.processor.submit(chunk(P0, first, 1))
    assert said in str(b.failures.get(timeout=5))
    assert b.lines("commit") == []
