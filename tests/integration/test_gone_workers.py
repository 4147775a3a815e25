"""Transactions that were left open, ended by a member of the group that has the partitions now."""

import threading

import pytest
from confluent_kafka import TopicPartition
from faust.types import TP
from resonance.pipeline.checkpoint.offset_metadata import OffsetMetadata
from resonance.pipeline.kafka.producer import Batch, producer_settings
from resonance.pipeline.worker.delivery.exactly_once import ExactlyOnce
from resonance.pipeline.worker.delivery.gone_workers import end_left_open

from tests.brokers import create_topic, read_topic, topic_name
from tests.integration.test_delivery import Member, messages

pytestmark = [pytest.mark.broker, pytest.mark.timeout(90)]


class Group:
    """A member of a group, and the transaction that some worker has left open behind its last commit."""

    def __init__(self, broker):
        self.broker, self.client = broker, {"bootstrap.servers": broker}
        self.topic = create_topic(broker, "delivered", partitions=2)
        self.cancelled = threading.Event()
        self.mine, self.other = topic_name("worker"), topic_name("worker")
        self.member = Member(broker, self.topic, self.mine)

    def leave_open(self, owner):
        delivery = ExactlyOnce(
            producer_settings(self.client), group=self.member.group, transactional_id=self.other, timeout=600.0
        )
        delivery.start()
        delivery.bind(self.member.membership)
        delivery.commit({TP(self.topic, 0): 5}, {TP(self.topic, 0): OffsetMetadata("id-1", True, owner).at(5)})
        delivery.send(Batch(self.topic, 1, messages(b"left open")))
        delivery._offsets([TopicPartition(self.topic, 0, 6)], delivery._metadata, 10.0)
        return delivery

    def end(self):
        places = [(self.topic, 0), (self.topic, 1)]
        producer = producer_settings(self.client)
        return end_left_open(self.client, producer, self.member.group, places, self.mine, self.cancelled)

    def next_is_read(self):
        """Whether a reader of committed records sees what another worker commits behind it."""
        delivery = ExactlyOnce(
            producer_settings(self.client), group=self.member.group, transactional_id=topic_name("worker")
        )
        delivery.start()
        delivery.bind(self.member.membership)
        delivery.send(Batch(self.topic, 1, messages(b"next")))
        delivery.commit({TP(self.topic, 1): 1}, {})
        return b"next" in [message.value() for message in read_topic(self.broker, self.topic)]


@pytest.fixture
def group(broker):
    made = Group(broker)
    yield made
    made.member.consumer.close()


def test_what_a_gone_owner_has_left_open_is_ended(group):
    group.leave_open(group.other)
    assert not group.next_is_read()
    assert group.end() == [group.other]
    assert group.member.committed(group.topic)[0] == 5
    assert group.next_is_read()


@pytest.mark.parametrize("owner", ["", "mine"])
def test_what_is_no_other_worker_s_is_left_alone(group, owner):
    left = group.leave_open(group.mine if owner else "")
    assert group.end() == []
    left.commit({TP(group.topic, 0): 6}, {})
    assert group.member.committed(group.topic)[0] == 6


@pytest.mark.parametrize("why", ["it is no member", "another rebalance began"])
def test_who_may_not_ends_nothing(group, why):
    left = group.leave_open(group.other)
    if why == "it is no member":
        group.mine = topic_name("worker")
    else:
        group.cancelled.set()
    assert group.end() == []
    left.abort()


def test_a_worker_that_the_group_had_dropped_begins_a_new_producer(group):
    left = group.leave_open(group.other)
    left.abort()
    assert group.end() == [group.other]
    group.member.consumer.close()
    group.member = Member(group.broker, group.topic, group.mine)
    left._group = group.member.group
    left.bind(group.member.membership)
    left.send(Batch(group.topic, 1, messages(b"again")))
    left.commit({TP(group.topic, 1): 1}, {})
    assert [message.value() for message in read_topic(group.broker, group.topic)] == [b"again"]
