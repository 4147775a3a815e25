"""Connections that the cluster refuses: when that is no passing trouble any more, and what is said of it."""

import asyncio
import ssl

import pytest
from aiokafka import errors as aiokafka_errors
from confluent_kafka import KafkaError
from resonance.pipeline.errors import DeniedError
from resonance.pipeline.kafka.access import PAUSE_SECONDS, REFUSED_SECONDS, Refusals
from resonance.pipeline.kafka.acl import for_topic
from resonance.pipeline.kafka.errors import right_refused
from resonance.pipeline.worker.transport.connections import ConnectionMonitor, refused

CLIENT = {"bootstrap.servers": "127.0.0.1:1", "sasl.username": "shop", "sasl.mechanism": "SCRAM-SHA-512"}


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def connect(clock):
    """Connects with the outcome given; `connect.watch` is the watch."""
    outcomes = []

    async def library(*place, **settings):
        outcome = outcomes.pop()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    watch = ConnectionMonitor(library, clock)

    def once(outcome):
        outcomes.append(outcome)
        try:
            return asyncio.run(watch("kafka", 9092, client_id="c"))
        except Exception as error:
            assert error is outcome
            return None

    once.watch = watch
    return once


@pytest.mark.parametrize("error", [aiokafka_errors.SaslAuthenticationFailed("wrong"), ssl.SSLError("unknown")])
def test_only_what_is_refused_for_some_time_ends_a_worker(connect, clock, error):
    connect(error)
    assert connect.watch.refusal() is None
    clock.now += REFUSED_SECONDS
    connect(error)
    assert connect.watch.refusal() is error
    assert (connect("a connection"), connect.watch.refusal()) == ("a connection", None)


def test_one_broker_that_ends_a_connection_while_the_others_are_well_refuses_nothing(connect, clock):
    error = ssl.SSLError("UNEXPECTED_EOF_WHILE_READING")
    for _ in range(3):
        connect(error)
        # The connections to the others stand, so nothing tries again soon.
        clock.now += 100
        assert connect.watch.refusal() is None
    connect(error)
    clock.now += REFUSED_SECONDS
    connect(error)
    assert connect.watch.refusal() is error


def test_a_broker_that_does_not_answer_refuses_nothing(connect, clock):
    connect(OSError("down"))
    connect(aiokafka_errors.KafkaConnectionError("down"))
    clock.now += 100
    assert connect.watch.refusal() is None


def test_what_librdkafka_reports_counts_by_the_same_rule(clock):
    wrong = KafkaError(KafkaError._AUTHENTICATION, "sasl_ssl://127.0.0.1:1/1: wrong password (after 3ms in x)")
    refusals = Refusals(CLIENT, clock)
    refusals.note(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    refusals.check(at_once=True)
    refusals.note(wrong)
    refusals.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert "wrong password" in refusals.last
    refusals.check()
    clock.now += REFUSED_SECONDS
    refusals.note(wrong)
    with pytest.raises(DeniedError, match=r"log-in of user shop with SCRAM-SHA-512 \(wrong password\)"):
        refusals.check()
    clock.now += PAUSE_SECONDS + 1
    refusals.check()
    refusals.note(wrong)
    refusals.check()


def test_a_first_contact_that_is_refused_is_reported_at_once(clock):
    refusals = Refusals(CLIENT, clock)
    refusals.note(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    with pytest.raises(DeniedError, match="wrong password"):
        refusals.check(at_once=True)
    clock.now += PAUSE_SECONDS + 1
    refusals.check(at_once=True)


def test_what_is_no_refusal_is_left_to_others():
    assert right_refused(CLIENT, KafkaError(KafkaError._TIMED_OUT)) is None
    assert refused(CLIENT, aiokafka_errors.KafkaConnectionError("down")) is None
    denied = right_refused(CLIENT, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no"), for_topic("in", ["Read"]))
    assert "gives User:shop no right to Read topic in" in str(denied)
    assert denied.exit_code == 69
    unknown = str(right_refused(CLIENT, KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "not you")))
    assert "127.0.0.1:1 refuses User:shop a right (not you); `resonance topics plan --acls`" in unknown


def test_a_new_log_in_that_comes_too_early_is_no_refusal(clock):
    refusals = Refusals(CLIENT, clock)
    state = KafkaError(KafkaError.ILLEGAL_SASL_STATE).str()
    refusals.note(KafkaError(KafkaError._AUTHENTICATION, f"OAUTHBEARER mechanism handshake failed: {state}: "))
    refusals.check(at_once=True)
