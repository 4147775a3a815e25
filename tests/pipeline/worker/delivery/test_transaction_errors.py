"""What the error of a transaction's call means: a right is missing, time ran out, another worker has begun, or none."""

import time
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError
from resonance.pipeline.errors import BrokerError, DeliveryError, DeniedError, FencedError
from resonance.pipeline.worker.delivery import transaction_errors
from resonance.pipeline.worker.delivery.transaction_errors import FENCED, TransactionErrors

CLIENT = {"bootstrap.servers": "kafka:9092", "sasl.username": "ann"}
OTHER = KafkaError(KafkaError._TIMED_OUT, "no answer")
REFUSED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "topic authorization failed")


def outlet(fatal=None, denied=None):
    """A producer that has found these errors itself."""
    return SimpleNamespace(fatal_error=lambda: fatal, denied=lambda *, at_once: denied, throttled="")


def made(monkeypatch, topics=None):
    """The errors of one id, in a cluster with topics and the operations that are allowed on them."""
    errors = TransactionErrors(CLIENT, "orders", "orders-1", 60.0)
    errors.topics = {("orders.alerts", "Write"), ("orders.events", "Write")}

    class Cluster:
        def __init__(self, *_):
            if topics is None:
                raise BrokerError("no broker answers")

        def find(self, names, operations):
            if isinstance(topics, Exception):
                raise topics
            return {name: SimpleNamespace(operations=topics[name]) for name in names if name in topics}

    monkeypatch.setattr(transaction_errors, "ClusterAdmin", Cluster)
    return errors


def failed(errors, problem, ago=0.0, **found):
    return errors.failed(outlet(**found), "commit", problem, time.monotonic() - ago)


@pytest.mark.parametrize(
    ("code", "right"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "no right to Read group orders;"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "no right to Write transactional id orders-*;"),
    ],
)
def test_the_right_to_a_group_and_to_an_id_is_named_with_the_command_that_gives_it(monkeypatch, code, right):
    found = failed(made(monkeypatch), KafkaError(code, "refused"))
    assert isinstance(found, DeniedError)
    assert right in str(found)
    assert "kafka-acls.sh --bootstrap-server kafka:9092 --add --allow-principal User:ann" in str(found)


@pytest.mark.parametrize(
    ("topics", "named"),
    [
        ({"orders.alerts": {"Write"}, "orders.events": {"Read"}}, "no right to Write topic orders.events;"),
        (DeniedError("refused"), "no right to Write topic orders.alerts;"),
        ({"orders.alerts": {"Write"}, "orders.events": None}, "refuses User:ann a right (topic authorization failed)"),
        (None, "refuses User:ann a right (topic authorization failed)"),
    ],
)
def test_the_topic_that_an_answer_does_not_name_is_looked_for(monkeypatch, topics, named):
    found = failed(made(monkeypatch, topics), REFUSED)
    assert isinstance(found, DeniedError)
    assert named in str(found)


def test_a_wrong_state_comes_from_a_right_that_is_missing_or_says_nothing(monkeypatch):
    state = KafkaError(KafkaError._STATE, "wrong state")
    missing = {"orders.alerts": {"Read"}}
    assert "no right to Write topic orders.alerts;" in str(failed(made(monkeypatch, missing), state))
    found = failed(made(monkeypatch, {"orders.alerts": {"Write"}}), state)
    assert type(found) is DeliveryError
    assert "orders-1, commit of the transaction: wrong state; nothing of it counts" in str(found)


@pytest.mark.parametrize("code", sorted(FENCED))
def test_another_worker_has_begun_unless_the_time_has_run_out(monkeypatch, code):
    problem = KafkaError(code, "fenced")
    found = failed(made(monkeypatch), problem, ago=59.0)
    assert isinstance(found, FencedError)
    assert "give each worker its own worker.id" in str(found)
    found = failed(made(monkeypatch), problem, ago=60.0)
    assert type(found) is DeliveryError
    assert "open for longer than delivery.transaction_timeout = 60 s" in str(found)


def test_what_the_producer_knows_itself_counts_more_than_the_error_of_the_call(monkeypatch):
    fenced = KafkaError(KafkaError._FENCED, "fenced")
    assert isinstance(failed(made(monkeypatch), OTHER, fatal=fenced), FencedError)
    denied = DeniedError("no right to write")
    assert failed(made(monkeypatch), OTHER, denied=denied) is denied
    assert made(monkeypatch).denied(outlet(), OTHER) is None
