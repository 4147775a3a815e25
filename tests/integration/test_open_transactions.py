"""Aborted transactions whose markers the broker lost: no later commit makes records count, and no offset is held."""

import pytest
from confluent_kafka import OFFSET_INVALID
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from faust.types import TP
from resonance.pipeline.kafka.producer import Batch
from resonance.pipeline.worker.delivery.open_transactions import left_open

from tests.brokers import create_topic, read_topic, topic_name
from tests.brokers.raw import leave_offset_open, leave_open
from tests.integration.test_delivery import Member, exactly_once, messages

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


def test_records_whose_abort_has_no_marker_are_not_committed_by_what_comes_next(unverified):
    topic = create_topic(unverified, "unmarked", partitions=3, cleanup_policy="compact")
    member, identity = Member(unverified, topic), topic_name("id")

    def look():
        return left_open({"bootstrap.servers": unverified}, [topic], member.group, [topic], 10)

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

    def look():
        return left_open({"bootstrap.servers": unverified}, [topic], member.group, [topic], 10)

    def offsets():
        return [(place.partition, place.offset, place.metadata) for place in look().offsets]

    delivery = exactly_once(unverified, member.group, identity, find_open=look)
    delivery.bind(member.membership)
    delivery.commit({TP(topic, 0): 5}, {TP(topic, 0): "note"})
    for partition, offset in ((0, 3), (1, 4)):
        leave_offset_open(unverified, identity, member.group, topic, partition, offset)
    leave_offset_open(unverified, topic_name("id"), member.group, topic, 2, 6)
    assert offsets() == [(0, 5, "note"), (1, OFFSET_INVALID, None), (2, OFFSET_INVALID, None)]
    exactly_once(unverified, member.group, identity, find_open=look)
    # What another worker has left open is ended by that one alone.
    assert offsets() == [(2, OFFSET_INVALID, None)]
    assert member.committed(topic) == [5, OFFSET_INVALID]
    member.consumer.close()
