"""What the operations page says of a group that cannot be described, and how many records wait."""

import asyncio

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.page import operations
from resonance.pipeline.page.operations import Operations

from tests.brokers import create_topic, produce, topic_name


def test_a_broker_that_knows_no_groups_is_said_to_be_one():
    with EmbeddedBroker(["orders"]) as broker:
        found = asyncio.run(Operations(broker.client_settings(), "shop", ["orders"], []).report())
    assert found["group"]["problem"].startswith("this broker does not describe group shop, as the one inside")
    assert found["group"]["members"] == found["group"]["partitions"] == []


def test_a_broker_that_does_not_answer_is_said_not_to(monkeypatch):
    monkeypatch.setattr(operations, "ANSWER_SECONDS", 0.2)
    found = asyncio.run(Operations({"bootstrap.servers": "127.0.0.1:1"}, "shop", ["orders"], []).report())
    assert found["group"]["problem"].startswith("group shop: the broker does not give its offsets (")
    assert asyncio.run(Operations({"bootstrap.servers": "127.0.0.1:1"}, "shop", ["orders"], []).waiting()) is None


@pytest.mark.broker
def test_records_behind_the_committed_offsets_wait(broker):
    topic, group, client = create_topic(broker, partitions=2), topic_name("group"), {"bootstrap.servers": broker}
    produce(broker, topic, [(at % 2, b"k", b"{}") for at in range(10)])
    shown = Operations(client, group, [topic], [])
    assert asyncio.run(shown.waiting()) is None
    member = Consumer({**client, "group.id": group})
    member.commit(offsets=[TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 2)], asynchronous=False)
    member.close()
    assert asyncio.run(Operations(client, group, [topic, "not-there"], []).waiting()) == 3


@pytest.mark.broker
def test_what_an_open_transaction_holds_back_waits_and_an_unknown_lag_is_not_zero(broker):
    topic, group, client = create_topic(broker, partitions=3), topic_name("group"), {"bootstrap.servers": broker}
    produce(broker, topic, [(0, b"k", b"{}"), (1, b"k", b"{}")])
    upstream = Producer({**client, "transactional.id": topic_name("upstream")})
    upstream.init_transactions(20)
    upstream.begin_transaction()
    upstream.produce(topic, b"{}", partition=0)
    upstream.flush(10)
    produce(broker, topic, [(0, b"k", b"{}")] * 5)
    member = Consumer({**client, "group.id": group})
    member.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    shown = Operations(client, group, [topic], [])
    assert [(each["lag"], each["unstable"]) for each in shown._lags()] == [(6, 6), (None, None), (0, 0)]
    assert asyncio.run(shown.waiting()) is None
    member.commit(offsets=[TopicPartition(topic, 1, 1)], asynchronous=False)
    member.close()
    assert asyncio.run(Operations(client, group, [topic], []).waiting()) == 6
    upstream.abort_transaction(20)
