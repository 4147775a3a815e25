"""What a consumer of a group reports: what passes, and the rest in words for a user."""

import pytest
from confluent_kafka import KafkaError
from resonance.pipeline.errors import (
    BrokerError,
    ConfigurationError,
    DeniedError,
    FencedError,
    MismatchError,
    ResourceError,
)
from resonance.pipeline.kafka.intake import Event
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.worker.transport.fetch_errors import MISSING, explained, passes

from tests.pipeline.worker.transport.fakes import NOWHERE, P0, event

FENCED = f"Fatal error: {KafkaError(KafkaError.FENCED_INSTANCE_ID).str()}: by a test"
CLIENT = {"bootstrap.servers": "kafka:9092", "client.id": "worker-1"}


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        (event(KafkaError._AUTO_OFFSET_RESET, P0, 17), MismatchError, r"truncated.*in\[0\]@17 is gone.*--new-version"),
        (event(KafkaError._BAD_COMPRESSION, P0, 17), ResourceError, r"in\[0\]@17: .*limits\.memory.*batch\.size"),
        (
            event(KafkaError.GROUP_AUTHORIZATION_FAILED),
            DeniedError,
            "kafka:9092 gives User:NAME no right to Read gr",
        ),
        (event(KafkaError.TOPIC_AUTHORIZATION_FAILED, P0), DeniedError, "no right to Read topic in; .*--topic in"),
        (
            event(KafkaError.INVALID_SESSION_TIMEOUT),
            ConfigurationError,
            r"broker\.session_timeout.*group\.min\.",
        ),
        (event(KafkaError.INCONSISTENT_GROUP_PROTOCOL), ConfigurationError, "name: .*another program"),
        (event(KafkaError.INVALID_GROUP_ID), ConfigurationError, "name: .*choose another"),
        (Event(KafkaError(KafkaError._FATAL, FENCED), "", -1, -1), FencedError, r"joined as worker-1; .*worker\.id"),
        (event(KafkaError.FENCED_INSTANCE_ID), FencedError, "group shop: another worker"),
        (event(KafkaError._TIMED_OUT), BrokerError, "no Kafka broker answers any more at kafka:9092"),
        (event(KafkaError._BAD_MSG, P0, 17), BrokerError, r"^in\[0\]@17: the broker refuses to serve the input"),
        (event(KafkaError._FATAL), BrokerError, "^the broker refuses to serve the input"),
    ],
)
def test_errors_that_last_are_explained(given, kind, text):
    error = explained(given, CLIENT, "shop", MemoryBudget(1024**3))
    assert type(error) is kind
    with pytest.raises(kind, match=text):
        raise error


def test_a_replaced_worker_ends_with_a_code_of_its_own():
    assert explained(event(KafkaError.FENCED_INSTANCE_ID), CLIENT, "shop", MemoryBudget(1024**3)).exit_code == 71


@pytest.mark.parametrize(
    ("code", "passing"),
    [
        (KafkaError._TRANSPORT, True),
        (KafkaError._ALL_BROKERS_DOWN, True),
        (KafkaError.NOT_COORDINATOR, True),
        (KafkaError.LEADER_NOT_AVAILABLE, True),
        (KafkaError.REBALANCE_IN_PROGRESS, False),
        # The group has dropped this member, which joins again.
        (KafkaError._MAX_POLL_EXCEEDED, True),
        (KafkaError._AUTO_OFFSET_RESET, False),
        (KafkaError._FATAL, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
    ],
)
def test_what_librdkafka_mends_by_itself_passes(code, passing):
    assert passes(KafkaError(code)) is passing


def test_a_topic_that_no_broker_describes_is_missing_and_no_error():
    assert all(event(code, NOWHERE).error.code() in MISSING for code in (3, -188, -190))
