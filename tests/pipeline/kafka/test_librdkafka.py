"""Columns reach a broker by one call as their messages do by a call each."""

import random
from contextlib import suppress

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from resonance.pipeline.errors import DeliveryError
from resonance.pipeline.kafka import librdkafka, self_check
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.kafka.producer import Batch, Outlet, producer_settings
from resonance.pipeline.records import Message, Messages

from tests.brokers import read_topic

TOPIC = "answers"
DRAW = random.Random(5)
MESSAGES = [
    Message(DRAW.choice((None, b"", b"k", DRAW.randbytes(30))), DRAW.randbytes(DRAW.choice((0, 1, 8, 300))), [])
    for _ in range(500)
]


@pytest.fixture
def broker():
    with EmbeddedBroker([TOPIC]) as running:
        yield running


@pytest.fixture
def calls(monkeypatch):
    """Note how many messages each call of the library took."""
    # The check calls it as well.
    self_check.checked()
    counts, send = [], librdkafka.send
    monkeypatch.setattr(librdkafka, "send", lambda *given: counts.append(send(*given)) or counts[-1])
    return counts


@pytest.fixture
def outlet(broker):
    """Return a function that makes the sending part of a delivery exactly once, with a transaction begun."""
    outlets = []

    def make(**settings):
        own = {"transactional.id": "worker", **settings}
        made = Outlet(producer_settings(broker.client_settings()) | own, 10.0, reports=False)
        outlets.append(made)
        made.producer.init_transactions(10)
        made.producer.begin_transaction()
        return made

    yield make
    for made in outlets:
        # Without its broker a producer whose transaction is open would be waited for without end.
        with suppress(KafkaException, RuntimeError):
            made.producer.purge()
            made.producer.abort_transaction(10)
        made.producer.close()


def stored(broker, count, partition=1):
    found = [each for each in read_topic(broker.bootstrap, TOPIC) if each.partition() == partition]
    assert len(found) == count
    return [Message(message.key(), message.value(), message.headers() or []) for message in found]


def test_keys_and_values_arrive_in_order_whatever_they_are(broker, outlet, calls):
    sending = outlet()
    for begin in range(0, 500, 100):
        sending.send(Batch(TOPIC, 1, Messages.of(MESSAGES[begin : begin + 100])))
    sending.producer.commit_transaction(10)
    assert stored(broker, 500) == MESSAGES
    assert calls == [100] * 5


def test_a_topic_that_the_client_does_not_know_yet_takes_them_too(outlet, calls):
    sending = outlet()
    sending.send(Batch("new", 1, Messages.of(MESSAGES)))
    sending.producer.commit_transaction(10)
    assert calls == [500]


def test_messages_with_headers_and_for_other_partitions_go_by_a_call_each(broker, outlet, calls):
    headers = [message._replace(headers=[("h", b"1")]) for message in MESSAGES[:3]]
    elsewhere = [message._replace(partition=2) for message in MESSAGES[:3]]
    sending = outlet()
    sending.send(Batch(TOPIC, 1, Messages.of(headers)))
    sending.send(Batch(TOPIC, 1, Messages.of(elsewhere)))
    sending.producer.commit_transaction(10)
    assert (stored(broker, 3), stored(broker, 3, 2)) == (headers, MESSAGES[:3])
    assert calls == [0, 0]


def test_a_full_queue_delays_messages_and_changes_no_order(broker, outlet, calls):
    sending = outlet(**{"queue.buffering.max.messages": 60})
    sending.send(Batch(TOPIC, 1, Messages.of(MESSAGES)))
    sending.producer.commit_transaction(10)
    assert stored(broker, 500) == MESSAGES
    assert calls == [60]


def test_a_message_that_is_too_long_is_refused_as_by_a_call_of_its_own(outlet):
    long = [*MESSAGES[:3], Message(b"k", b'{"id":"' + b"x" * 2_000_000, []), *MESSAGES[:3]]
    sending, texts = outlet(), []
    for batch in (long, Messages.of(long)):
        with pytest.raises(DeliveryError, match=r"an output of 2,000,008 bytes .*output\.include") as caught:
            sending.send(Batch(TOPIC, 1, batch))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def _ended(sending):
    sending.producer.abort_transaction(10)


def _closed(sending):
    sending.producer.close()


@pytest.mark.parametrize(("end", "kind"), [(_ended, KafkaException), (_closed, RuntimeError)])
def test_a_producer_that_takes_nothing_says_so_as_it_does_to_a_call(outlet, end, kind):
    sending, errors = outlet(), []
    end(sending)
    for batch in (MESSAGES, Messages.of(MESSAGES)):
        with pytest.raises(kind) as caught:
            sending.send(Batch(TOPIC, 1, batch))
        errors.append(caught.value)
    assert str(errors[0]) == str(errors[1])
    assert kind is RuntimeError or errors[1].args[0].code() == KafkaError._STATE


def test_the_client_of_another_object_is_not_looked_for():
    assert librdkafka.handle_of(object()) is None
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    assert librdkafka.handle_of(producer)


def test_where_failures_are_reported_nothing_goes_by_the_library(broker, calls):
    sending = Outlet(producer_settings(broker.client_settings()), 10.0, reports=True)
    sending.send(Batch(TOPIC, 1, Messages.of(MESSAGES)))
    sending.flush()
    assert (stored(broker, 500), calls) == (MESSAGES, [])
