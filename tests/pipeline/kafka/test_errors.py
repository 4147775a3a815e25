"""What a topic refuses because of its configuration: the message names the topic, the setting and the remedy."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from resonance.pipeline.kafka.errors import described, reason_of
from resonance.pipeline.worker.delivery.transaction_errors import TransactionErrors

TRANSACTION = (
    "ProduceRequest for shop.alerts [3] with 1 message(s) failed: Broker: Invalid timestamp (broker 1 PID{Id:8,Epoch:0}"
    ", base seq 0): current transaction must be aborted"
)


class Outlet:
    """A producer that no broker has ended or refused."""

    throttled = ""

    def fatal_error(self):
        return None

    def denied(self, **_):
        return None


@pytest.mark.parametrize(
    ("code", "setting"),
    [
        (KafkaError.INVALID_TIMESTAMP, "message.timestamp.type=LogAppendTime"),
        (KafkaError.INVALID_RECORD, "cleanup.policy=delete"),
        (KafkaError._INVALID_DIFFERENT_RECORD, "cleanup.policy=delete"),
    ],
)
def test_a_refused_message_is_told_with_its_topic_the_setting_and_the_command(code, setting):
    problem = KafkaError(code)
    text = described(problem, "shop.alerts")
    setting = (
        "message.timestamp.type=LogAppendTime" if code == KafkaError.INVALID_TIMESTAMP else "cleanup.policy=delete"
    )
    assert text.startswith(f"{problem.str()}: topic shop.alerts takes no ")
    assert text.endswith(
        f"kafka-configs.sh --alter --entity-type topics --entity-name shop.alerts --add-config {setting}"
    )


def test_a_transaction_names_the_topic_that_refused_a_time():
    problem = KafkaError(KafkaError.INVALID_TIMESTAMP, TRANSACTION)
    assert "topic shop.alerts takes no message whose time is further" in reason_of(KafkaException(problem))
    errors = TransactionErrors({"bootstrap.servers": "kafka:9092"}, "shop", "shop-1", 1e12)
    error = errors.failed(Outlet(), "the commit", problem, 0.0)
    assert "message.timestamp.after.max.ms" in str(error)
    assert "--entity-name shop.alerts --add-config" in str(error)


def test_other_errors_are_told_as_they_are():
    assert described(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS), "in") == "Broker: Not enough in-sync replicas"
