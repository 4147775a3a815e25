"""Aborted transactions whose markers the broker lost: no later commit makes records count, and no offset is held."""

from functools import partial

import pytest
from confluent_kafka import OFFSET_INVALID, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from faust.types import TP
from resonance.pipeline.kafka.producer import Batch
from resonance.pipeline.worker.delivery.open_transactions import left_open

from tests.brokers import create_topic, read_topic, topic_name
from tests.brokers.raw import leave_offset_open, leave_open
from tests.integration.test_delivery import Member, exactly_once, messages
from tests.integration.workers import wait_until

pytestmark = pytest.mark.broker


@pytest.fixture
def unverified(broker):
    """A broker that takes transactional records for partitions that their transaction does not have."""
    admin, name = AdminClient({"bootstrap.servers": broker}), "transaction.partition.verification.enable"

    def alter(operation):
        entry = ConfigEntry(name, "false", incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(15)

    alter(AlterConfigOpType.SET)
    yield broker
    alter(AlterConfigOpType.DELETE)


def looking(broker, topic, member):
    """What looks for transactions that the group of a member has left open."""
    return partial(left_open, {"bootstrap.servers": broker}, [topic], member.group, [topic], 10)


def test_records_whose_abort_has_no_marker_are_not_committed_by_what_comes_next(unverified):
    topic = create_topic(unverified, "unmarked", partitions=3, cleanup_policy="compact")
    member, identity = Member(unverified, topic), topic_name("id")
    look = looking(unverified, topic, member)

    def still_open():
        return [place.partition for place in look().partitions]

    leave_open(unverified, identity, topic, 0, b"aborted")
    leave_open(unverified, topic_name("id"), topic, 1, b"of another")
    assert still_open() == [0, 1]
    delivery = exactly_once(unverified, member.group, identity, find_open=look)
    assert still_open() == [1]
    delivery.bind(member.membership)
    for number, value in enumerate((b"a", b"b")):
        delivery.send(Batch(topic, 0, messages(value)))
        delivery.commit({TP(topic, 0): number}, {})
        # The second one is of a new producer, which looks as well.
        delivery._outlet.doubtful = True
    member.consumer.close()
    assert [(m.partition(), m.value()) for m in read_topic(unverified, topic)] == [(0, b"a"), (0, b"b")]


def test_offsets_whose_abort_has_no_marker_are_answered_again(unverified):
    topic = create_topic(unverified, "unmarked", partitions=3)
    member, identity = Member(unverified, topic), topic_name("id")
    admin = AdminClient({"bootstrap.servers": unverified})
    places, look = [TopicPartition(topic, partition) for partition in range(3)], looking(unverified, topic, member)

    def held_back():
        request = [ConsumerGroupTopicPartitions(member.group, places)]
        answer = admin.list_consumer_group_offsets(request, require_stable=True)[member.group].result()
        return [place.partition for place in answer.topic_partitions if place.error is not None]

    delivery = exactly_once(unverified, member.group, identity, find_open=look)
    delivery.bind(member.membership)
    delivery.commit({TP(topic, 0): 5}, {TP(topic, 0): "note"})
    for partition, offset in ((0, 3), (1, 4)):
        leave_offset_open(unverified, identity, member.group, topic, partition, offset)
    leave_offset_open(unverified, topic_name("id"), member.group, topic, 2, 6)
    assert held_back() == [0, 1, 2]
    exactly_once(unverified, member.group, identity, find_open=look)
    # What another worker has left open is ended by that one alone. Markers are written behind the answer to the abort.
    wait_until(lambda: held_back() == [2])
    assert [(place.offset, place.metadata) for place in look().offsets][:2] == [(5, "note"), (OFFSET_INVALID, None)]
    member.consumer.close()


@pytest.mark.nightly
def test_a_start_writes_to_the_offsets_of_the_group_and_changes_none(unverified):
    topic = create_topic(unverified, "offsets", partitions=1)
    member = Member(unverified, topic)
    look = looking(unverified, topic, member)

    def written():
        places = [TopicPartition("__consumer_offsets", partition) for partition in range(8)]
        return sum(member.consumer.get_watermark_offsets(place, timeout=10)[1] for place in places)

    delivery = exactly_once(unverified, member.group, find_open=look)
    delivery.bind(member.membership)
    delivery.commit({TP(topic, 0): 5}, {TP(topic, 0): "note"})
    delivery.start()
    before = written()
    # As after a broker that began again.
    delivery._outlet.doubtful = True
    delivery.start()
    assert written() > before
    before = written()
    exactly_once(unverified, member.group, find_open=look)
    assert written() > before
    assert [(place.offset, place.metadata) for place in look().offsets] == [(5, "note")]
    member.consumer.close()
