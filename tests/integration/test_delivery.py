"""The two deliveries on a real broker: what a reader of committed records sees, and how failures are named."""

import random
import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from faust.types import TP
from resonance.pipeline.errors import BrokerError, DeliveryError, FencedError
from resonance.pipeline.kafka.producer import Batch, producer_settings
from resonance.pipeline.records import Message, Messages
from resonance.pipeline.worker.delivery.at_least_once import AtLeastOnce
from resonance.pipeline.worker.delivery.exactly_once import ExactlyOnce
from resonance.pipeline.worker.transport.chunk import Membership
from resonance.pipeline.worker.transport.rebalance import membership_of

from tests.brokers import create_topic, read_topic, topic_name
from tests.group_metadata import group_metadata

pytestmark = [pytest.mark.broker, pytest.mark.timeout(90)]


@pytest.fixture
def topic(broker):
    return create_topic(broker, "delivered", partitions=2)


class Member:
    """A confluent-kafka consumer in the group, and its membership as the transport would have taken it."""

    def __init__(self, broker, topic, name="rdkafka"):
        self.group = topic_name("group")
        settings = {"bootstrap.servers": broker, "group.id": self.group, "enable.auto.commit": False}
        settings["client.id"] = name
        self.consumer = Consumer({**settings, "session.timeout.ms": 6000, "max.poll.interval.ms": 3_600_000})
        self.consumer.subscribe([topic])
        end = time.monotonic() + 20
        while not self.consumer.assignment():
            self.consumer.poll(0.1)
            assert time.monotonic() < end
        self.membership = membership_of(self.consumer.consumer_group_metadata(), ())

    def committed(self, topic):
        wanted = [TopicPartition(topic, partition) for partition in range(2)]
        return [place.offset for place in self.consumer.committed(wanted, timeout=10)]


@pytest.fixture
def member(broker, topic):
    made = Member(broker, topic)
    yield made
    made.consumer.close()


def exactly_once(broker, group, transactional_id="", **settings):
    made = ExactlyOnce(
        producer_settings({"bootstrap.servers": broker}),
        group=group,
        transactional_id=transactional_id or topic_name("worker"),
        **settings,
    )
    made.start()
    return made


def messages(*values):
    return [Message(b"k", value, [("h", b"1"), ("none", None)]) for value in values]


def columns(*values):
    return Messages.of(Message(b"k", value, []) for value in values)


def values(broker, topic, **how):
    return [(m.partition(), m.value()) for m in read_topic(broker, topic, **how)]


def test_a_transaction_is_seen_whole_with_its_offsets(broker, topic, member):
    delivery = exactly_once(broker, member.group)
    delivery.bind(member.membership)
    delivery.send(Batch(topic, 1, messages(b"a", None)))
    delivery.send(Batch(topic, 0, columns(b"c")))
    assert delivery.open
    assert values(broker, topic) == []
    delivery.commit({TP(topic, 0): 5, TP(topic, 1): 7}, {TP(topic, 1): "a note"})
    assert not delivery.open
    places = member.consumer.committed([TopicPartition(topic, partition) for partition in range(2)], timeout=10)
    assert [place.metadata or "" for place in places] == ["", "a note"]
    assert values(broker, topic) == [(0, b"c"), (1, b"a"), (1, None)]
    assert read_topic(broker, topic)[1].headers() == [("h", b"1"), ("none", None)]
    assert member.committed(topic) == [5, 7]
    delivery.commit({TP(topic, 0): 6}, {})
    assert member.committed(topic) == [6, 7]


def test_what_is_aborted_is_not_seen(broker, topic, member):
    delivery = exactly_once(broker, member.group)
    delivery.bind(member.membership)
    delivery.send(Batch(topic, 0, columns(b"a")))
    delivery.abort()
    delivery.send(Batch(topic, 0, columns(b"b")))
    delivery.commit({TP(topic, 0): 1}, {})
    assert values(broker, topic) == [(0, b"b")]


@pytest.mark.parametrize("membership", [(-1, "m"), (1, "")])
def test_what_kafka_would_not_fence_is_refused(broker, membership):
    delivery = exactly_once(broker, "group")
    with pytest.raises(DeliveryError, match=r"is no member .* unfenced; start again"):
        delivery.bind(Membership(*membership, frozenset()))
    with pytest.raises(DeliveryError, match="before partitions are assigned"):
        delivery.commit({}, {})


@pytest.mark.parametrize(("generation", "name"), [(0, "ILLEGAL_GENERATION"), (1, "UNKNOWN_MEMBER_ID")])
def test_a_worker_that_lost_its_partitions_commits_nothing(broker, topic, member, generation, name):
    delivery = exactly_once(broker, member.group)
    identity = member.membership.member_id if not generation else "other"
    delivery.bind(membership_of(group_metadata(member.group, generation, identity), ()))
    delivery.send(Batch(topic, 0, columns(b"a")))
    with pytest.raises(DeliveryError, match=r"the offsets of the transaction: .*; nothing of it counts") as error:
        delivery.commit({TP(topic, 0): 5}, {})
    assert error.value.__cause__.args[0].name() == name
    delivery.abort()
    assert values(broker, topic) == []
    assert member.committed(topic) == [-1001, -1001]


def test_a_second_worker_with_the_same_id_ends_the_first(broker, topic, member):
    first = exactly_once(broker, member.group, "same")
    first.bind(member.membership)
    first.send(Batch(topic, 0, columns(b"first")))
    second = exactly_once(broker, member.group, "same")
    with pytest.raises(FencedError, match=r"transactional id same: another worker has begun .* own worker.id"):
        first.commit({TP(topic, 0): 1}, {})
    first.abort()
    second.bind(member.membership)
    second.send(Batch(topic, 0, columns(b"second")))
    second.commit({TP(topic, 0): 1}, {})
    assert values(broker, topic) == [(0, b"second")]


def test_a_transaction_that_outlives_its_timeout_is_told_apart(broker, topic, member):
    delivery = exactly_once(broker, member.group, timeout=1.0)
    delivery.bind(member.membership)
    delivery.send(Batch(topic, 0, columns(b"a")))
    time.sleep(4)
    with pytest.raises(DeliveryError, match=r"open for longer than delivery.transaction_timeout = 1 s"):
        delivery.commit({TP(topic, 0): 1}, {})


def test_a_transaction_over_a_rebalance_is_refused(broker, topic, member):
    delivery = exactly_once(broker, member.group)
    delivery.bind(member.membership)
    delivery.send(Batch(topic, 0, columns(b"a")))
    with pytest.raises(DeliveryError, match="left open over a rebalance"):
        delivery.bind(member.membership)
    delivery.abort()


def test_a_transaction_timeout_that_the_broker_refuses_is_said(broker):
    with pytest.raises(BrokerError, match=r"does not begin transactions for .*delivery.transaction_timeout"):
        exactly_once(broker, "group", timeout=24 * 3600.0)


@pytest.mark.parametrize(("made", "size"), [(messages, "2,000,007"), (columns, "2,000,001")])
def test_an_output_larger_than_its_topic_takes_names_the_remedy(broker, topic, member, made, size):
    delivery = exactly_once(broker, member.group)
    delivery.bind(member.membership)
    with pytest.raises(DeliveryError, match=rf"an output of {size} bytes .*max.message.bytes"):
        delivery.send(Batch(topic, 0, made(bytes(2_000_000))))
    delivery.abort()


class Offsets:
    """Writes committed offsets down, with what the topic held at that moment."""

    def __init__(self, broker, topic):
        self.broker, self.topic, self.lines = broker, topic, []

    def __call__(self, membership, offsets, notes, timeout):
        self.lines.append((dict(offsets), values(self.broker, self.topic)))


def test_offsets_follow_outputs_that_are_stored(broker, topic):
    offsets = Offsets(broker, topic)
    delivery = AtLeastOnce(producer_settings({"bootstrap.servers": broker}), group="shop", commit_offsets=offsets)
    delivery.start()
    delivery.send(Batch(topic, 0, messages(b"a", b"b")))
    delivery.settle()
    assert values(broker, topic) == [(0, b"a"), (0, b"b")]
    delivery.send(Batch(topic, 1, messages(b"snapshot")))
    delivery.commit({TP(topic, 0): 2}, {})
    delivery.commit({}, {})
    assert offsets.lines == [({TP(topic, 0): 2}, [(0, b"a"), (0, b"b"), (1, b"snapshot")])]


def test_no_offset_is_committed_for_outputs_that_were_not_stored(broker):
    small = create_topic(broker, "small", partitions=1, max_message_bytes=2000)
    offsets = Offsets(broker, small)
    delivery = AtLeastOnce(producer_settings({"bootstrap.servers": broker}), group="shop", commit_offsets=offsets)
    delivery.send(Batch(small, 0, messages(b"a")))
    delivery.settle()
    delivery.send(Batch(small, 0, messages(random.Random(1).randbytes(5000))))
    with pytest.raises(DeliveryError, match=r"outputs were not stored \(.*: Broker: Message size too large\)"):
        delivery.commit({TP(small, 0): 2}, {})
    assert offsets.lines == []
