"""The start check of topics on a real broker: each thing that is wrong is named, with what to do."""

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.topics.kinds import SMALL_SEGMENTS, Topics
from resonance.pipeline.topics.topics import prepare_topics

from tests.brokers import create_topic, topic_name

pytestmark = pytest.mark.broker


def prepare(broker, inputs, out=None, snapshots=None, create=True, **outputs):
    topics = Topics.named(
        inputs, assignments=out or topic_name("out"), snapshots=snapshots or topic_name("snap"), **outputs
    )
    return prepare_topics(ClusterAdmin({"bootstrap.servers": broker}), topics, create=create)


def config_of(broker, topic):
    admin = AdminClient({"bootstrap.servers": broker})
    wanted = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
    return {name: entry.value for name, entry in next(iter(wanted.values())).result(10).items()}


def test_missing_outputs_are_made_like_the_input(broker, caplog):
    topic, out, snapshots = create_topic(broker, "in", partitions=3), topic_name("out"), topic_name("snap")
    found = prepare(broker, [topic], out, snapshots)
    assert found.partitions == 3
    assert len(found.topic_ids[topic]) > 10
    assert found.message_bytes[out] == 1_048_588
    assert not found.embedded
    made = config_of(broker, snapshots)
    assert {name: made[name] for name in SMALL_SEGMENTS} == dict(SMALL_SEGMENTS)
    answers = config_of(broker, out)
    assert (answers["cleanup.policy"], answers["message.timestamp.type"]) == ("delete", "LogAppendTime")
    assert prepare(broker, [topic], out, snapshots, create=False) == found
    assert not caplog.messages


def test_a_topic_made_again_has_another_id(broker):
    name = topic_name("again")
    create_topic(broker, name, exact=True)
    first = prepare(broker, [name]).topic_ids[name]
    admin = AdminClient({"bootstrap.servers": broker})
    admin.delete_topics([name], operation_timeout=10)[name].result(15)
    create_topic(broker, name, exact=True)
    assert prepare(broker, [name]).topic_ids[name] != first
