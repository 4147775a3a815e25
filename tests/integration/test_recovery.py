"""The commands that recover from a startup mismatch, on a real broker: afterwards the worker starts and answers."""

import time

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from resonance.pipeline.checkpoint.changelog_records import partition_key
from resonance.pipeline.errors import BrokerError, MismatchError
from resonance.pipeline.kafka.producer import producer_settings
from resonance.pipeline.mismatches import RESET
from resonance.pipeline.records import Message
from resonance.pipeline.recovery import rewrite
from resonance.pipeline.recovery.recovery import recover, resume_from_snapshots
from resonance.pipeline.recovery.reset import reset

from tests.brokers import produce, read_topic
from tests.integration.toy_pipeline import Pipeline, models
from tests.night import at_night
from tests.pipeline.toy_task import ToyTask

pytestmark = pytest.mark.broker


@pytest.fixture(autouse=True)
def of_toys(monkeypatch):
    """Let resets begin the tasks of these tests."""
    for module in ("reset", "models"):
        monkeypatch.setattr(f"resonance.pipeline.recovery.{module}.tasks_of", lambda _: ToyTask)


MODES = pytest.mark.parametrize("mode", ["exactly_once", at_night("at_least_once")])


@pytest.fixture
def pipeline(broker):
    return Pipeline(broker)


def lose_offsets(pipeline):
    admin = AdminClient(pipeline.client)
    admin.delete_consumer_groups([pipeline.group])[pipeline.group].result(10)
    with pytest.raises(MismatchError, match="--resume-from-snapshot"):
        pipeline.restored()


@MODES
def test_resuming_goes_on_where_the_snapshots_end(pipeline, mode):
    pipeline.source = pipeline.deployed(mode)
    producer = pipeline.transactional("worker")
    pipeline.feed(40)
    pipeline.work(producer, until=25)
    pipeline.feed(20)
    lose_offsets(pipeline)
    assert resume_from_snapshots(pipeline.source) == 2
    assert {part.start for part in pipeline.restored().values()} == {25}
    pipeline.work(producer)
    assert models(pipeline.restored()) == pipeline.expected()
    assert resume_from_snapshots(pipeline.source) == 0


@MODES
def test_a_reset_begins_anew_with_nothing_left(pipeline, mode):
    pipeline.source = pipeline.deployed(mode)
    producer = pipeline.transactional("worker")
    for _ in range(3):
        pipeline.feed(30)
        pipeline.work(producer)
    assert reset(pipeline.source) == 2
    live = {}
    for message in read_topic(pipeline.broker, pipeline.snapshots):
        live[message.partition(), message.key()] = message.value()
    left = {at for at, value in live.items() if value is not None}
    assert left == {(partition, partition_key(pipeline.topic)) for partition in pipeline.partitions}
    assert {(part.start, part.replayed) for part in pipeline.restored().values()} == {(0, 0)}
    pipeline.work(producer)
    assert models(pipeline.restored()) == pipeline.expected()


def test_more_is_written_than_a_producer_holds(pipeline, monkeypatch):
    stray = [(0, b'["chunk","p0",1,%d]' % n, b"x") for n in range(1000)]
    produce(pipeline.broker, pipeline.snapshots, stray)
    small = {"queue.buffering.max.messages": 100}
    monkeypatch.setattr(rewrite, "producer_settings", lambda *args, **how: producer_settings(*args, **how) | small)
    reset(pipeline.source)
    tombstones = {m.key() for m in read_topic(pipeline.broker, pipeline.snapshots) if m.value() is None}
    assert tombstones == {key for _, key, _ in stray}


def test_what_fails_leaves_no_transaction_behind(pipeline):
    def messages():
        yield Message(b"k", b"v", [])
        time.sleep(0.5)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        rewrite.write(pipeline.source, [rewrite.Change((pipeline.topic, 0), messages(), 0)])
    produce(pipeline.broker, pipeline.snapshots, [(0, b"after", b"v")])
    assert [message.key() for message in read_topic(pipeline.broker, pipeline.snapshots, timeout=10)] == [b"after"]


@pytest.fixture
def member(pipeline):
    """Somebody in the group who stays there."""
    consumer = Consumer(
        pipeline.client | {"group.id": pipeline.group, "client.id": "still-here", "enable.auto.commit": False}
    )

    def join():
        consumer.subscribe([pipeline.topic])
        while not consumer.assignment():
            consumer.poll(0.1)

    yield join
    consumer.close()


def test_a_group_with_members_is_not_recovered(pipeline, member, monkeypatch):
    pipeline.feed(30)
    pipeline.work(pipeline.transactional("worker"))
    lose_offsets(pipeline)
    monkeypatch.setattr(rewrite, "WAITING_SECONDS", -6)
    member()
    with pytest.raises(BrokerError, match=r"has 1 member .still-here on .*; stop every worker of the group first"):
        recover(RESET, pipeline.source)
