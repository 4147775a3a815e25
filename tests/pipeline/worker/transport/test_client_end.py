"""What others want of the consumer's thread, and its end, by stand-ins of what it calls."""

import threading
import time
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from resonance.pipeline.worker.transport import client

from tests.pipeline.worker.transport.fakes import (
    P0,
    P1,
    FakeConsumer,
    FakeIntake,
    client_thread,
    ended,
    metadata,
    refusal,
)

ENOUGH = 20.0


# Commits.


def committing(thread):
    """Commit from another thread while this one serves."""
    errors = []

    def commit():
        try:
            thread.commit({P0: 8, P1: 9}, {P0: "note"}, lambda: True, ENOUGH)
        except (KafkaException, TimeoutError) as error:
            errors.append(error)

    other = threading.Thread(target=commit)
    other.start()
    while other.is_alive():
        thread.serve(0.01)
    return errors[0] if errors else None


@pytest.mark.parametrize("where", ["call", "partition"])
def test_a_commit_that_is_refused_is_its_callers_error_and_no_end(where):
    refused = KafkaError(KafkaError.ILLEGAL_GENERATION)
    answer = KafkaException(refused) if where == "call" else lambda **_: [SimpleNamespace(error=refused)]
    thread = client_thread(consumer=FakeConsumer(commit=answer))
    assert committing(thread).args[0].code() == KafkaError.ILLEGAL_GENERATION


def test_a_commit_waits_no_longer_than_it_may():
    with pytest.raises(TimeoutError):
        client_thread().commit({P0: 8}, {}, lambda: True, 0.01)


def test_whatever_is_wanted_behind_the_end_is_refused():
    thread = client_thread()
    before = thread.seek({P0: 1}, 4)
    thread.leave()
    thread.run()
    for answer in (before, thread.seek({P0: 1}, 4)):
        with pytest.raises(KafkaException):
            answer.result(0)
    with pytest.raises(KafkaException):
        thread.commit({P0: 8}, {}, lambda: True, ENOUGH)


# Leaving.


def closing(**answers):
    """A thread, and the order of what its end calls."""
    intake, consumer = FakeIntake(), FakeConsumer(**answers)
    consumer.calls = intake.calls
    thread = client_thread(intake, consumer)
    intake.calls.clear()
    return thread, intake.calls


def names(calls):
    return [name for name, *_ in calls if name not in ("consumer_group_metadata", "take")]


def test_a_member_leaves_before_its_queue_and_then_its_consumer_are_closed():
    members = [metadata(4, b"me"), metadata(4, b"me"), metadata(-1, b"")]
    thread, calls = closing(consumer_group_metadata=lambda: members.pop(0))
    thread.leave()
    thread.run()
    assert names(calls) == ["wake", "unsubscribe", "poll", "poll", "close", "close"]
    assert thread.left.is_set()
    assert not thread.owner.errors


def test_a_group_that_does_not_answer_is_left_all_the_same(clock):
    thread, calls = closing(consumer_group_metadata=metadata(4, b"me"))
    thread._consumer.answers["poll"] = lambda seconds: setattr(clock, "now", clock.now + seconds)
    thread.leave()
    thread.run()
    assert abs(calls.count(("poll", 0.02)) - client.LEFT_SECONDS / 0.02) <= 1
    assert names(calls)[-2:] == ["close", "close"]


@pytest.mark.parametrize("refused", ["unsubscribe", "consumer_group_metadata", "poll"])
def test_a_consumer_that_refuses_everything_is_closed_all_the_same(refused):
    answers = {"consumer_group_metadata": metadata(4, b"me"), refused: refusal(KafkaError._FATAL)}
    thread, calls = closing(**answers)
    thread.leave()
    thread.run()
    assert names(calls)[-2:] == ["close", "close"]
    assert thread.left.is_set()


def test_a_connection_that_fails_before_there_is_an_intake_closes_its_consumer():
    thread = client_thread()
    del thread._intake
    thread._consumer.answers["consumer_group_metadata"] = metadata(-1, b"")

    def connect():
        raise MemoryError

    thread._connect = connect
    assert isinstance(ended(thread), MemoryError)
    assert thread._consumer.names[-1] == "close"


def test_what_failed_before_there_is_a_consumer_is_left_too():
    thread = client_thread()
    del thread._consumer, thread._intake
    thread._connect = lambda: 1 / 0
    assert isinstance(ended(thread), ZeroDivisionError)
    assert thread.left.is_set()


def test_a_consumer_that_failed_stays_a_member_until_the_worker_has_ended_what_is_open():
    thread = client_thread(consumer=FakeConsumer(consumer_group_metadata=metadata(-1, b"")))
    thread.call(lambda: 1 / 0)
    thread.start()
    end = time.monotonic() + ENOUGH
    while not thread.owner.errors:
        assert time.monotonic() < end
        time.sleep(0.001)
    assert not thread.left.wait(0.05)
    assert thread._consumer.calls == []
    thread.leave()
    assert thread.left.wait(ENOUGH)
    assert thread._consumer.names[-1] == "close"
