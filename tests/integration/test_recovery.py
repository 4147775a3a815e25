"""Changes of a deployment on a real broker: more than a producer holds, what fails, and who is still there."""

import threading
import time

import pytest
from confluent_kafka import Consumer, Producer
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.clients import librdkafka
from resonance.pipeline.kafka.log_reader import LogReader, RestoreCancelledError
from resonance.pipeline.kafka.producer import producer_settings
from resonance.pipeline.mismatches import RESET
from resonance.pipeline.records import Message
from resonance.pipeline.recovery import rewrite
from resonance.pipeline.recovery.recovery import recover
from resonance.pipeline.topics.kinds import Topics
from resonance.pipeline.topics.topics import prepare_topics

from tests.brokers import produce, read_topic
from tests.integration.workers import Deployment

pytestmark = pytest.mark.broker


@pytest.fixture
def source(broker):
    given = Settings.of(Deployment(broker, partitions=2).settings)
    client = librdkafka(given)
    return DeploymentContext.of(given, client, prepare_topics(ClusterAdmin(client), Topics.of(given)))


def test_more_is_written_than_a_producer_holds(broker, source, monkeypatch):
    stray = [(0, b'["chunk","p0",1,%d]' % n, b"x") for n in range(1000)]
    produce(broker, source.snapshots, stray)
    small = {"queue.buffering.max.messages": 100}
    monkeypatch.setattr(rewrite, "producer_settings", lambda *args, **how: producer_settings(*args, **how) | small)
    recover(RESET, source)
    tombstones = {m.key() for m in read_topic(broker, source.snapshots) if m.value() is None}
    assert tombstones == {key for _, key, _ in stray}


def test_what_fails_leaves_no_transaction_behind(broker, source):
    def messages():
        yield Message(b"k", b"v", [])
        time.sleep(0.5)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        rewrite.write(source, [rewrite.Change(source.logs[0], messages(), 0)])
    produce(broker, source.snapshots, [(0, b"after", b"v")])
    assert [message.key() for message in read_topic(broker, source.snapshots, timeout=10)] == [b"after"]


def test_a_group_with_members_is_not_recovered(source, monkeypatch):
    monkeypatch.setattr(rewrite, "WAITING_SECONDS", -6)
    member = Consumer({**source.client, "group.id": source.group, "client.id": "still-here"})
    try:
        member.subscribe([source.logs[0][0]])
        while not member.assignment():
            member.poll(0.1)
        with pytest.raises(BrokerError, match=r"has 1 member .still-here on .*; stop every worker of the group first"):
            recover(RESET, source)
    finally:
        member.close()


def test_a_read_that_an_open_transaction_holds_back_can_be_cancelled(source):
    producer = Producer({**source.client, "transactional.id": f"{source.group}-slow"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(source.logs[0][0], b"v", partition=0)
    producer.flush(10)
    cancelled = threading.Event()
    threading.Timer(0.5, cancelled.set).start()
    began = time.monotonic()
    with LogReader(source.client, source.group, 60, cancelled) as reader, pytest.raises(RestoreCancelledError):
        reader.settled_bounds(source.logs, 60)
    assert time.monotonic() - began < 15
    producer.abort_transaction(20)
