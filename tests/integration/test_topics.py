"""The start check of topics on a real broker: each thing that is wrong is named, with what to do."""

import logging

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from resonance.pipeline.errors import BrokerError
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
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
    return {name: entry.value for name, entry in next(iter(asked.values())).result(10).items()}


def test_missing_outputs_are_made_like_the_input(broker):
    topic, out, snapshots = create_topic(broker, "in", partitions=3), topic_name("out"), topic_name("snap")
    found = prepare(broker, [topic], out, snapshots)
    assert found.partitions == 3
    assert len(found.topic_ids[topic]) > 10
    assert found.message_bytes[out] == 1_048_588
    assert not found.embedded
    made = config_of(broker, snapshots)
    assert {name: made[name] for name in SMALL_SEGMENTS} == dict(SMALL_SEGMENTS)
    assert config_of(broker, out)["cleanup.policy"] == "delete"
    assert prepare(broker, [topic], out, snapshots, create=False) == found


def test_a_topic_made_again_has_another_id(broker):
    name = topic_name("again")
    create_topic(broker, name, exact=True)
    first = prepare(broker, [name]).topic_ids[name]
    admin = AdminClient({"bootstrap.servers": broker})
    admin.delete_topics([name], operation_timeout=10)[name].result(15)
    create_topic(broker, name, exact=True)
    assert prepare(broker, [name]).topic_ids[name] != first


def test_a_missing_input_is_never_made(broker):
    with pytest.raises(BrokerError) as caught:
        prepare(broker, ["nobody-made-me"])
    assert "input topic nobody-made-me does not exist" in str(caught.value)
    assert "kafka-topics.sh --bootstrap-server" in str(caught.value)


def test_with_creation_off_a_missing_output_names_its_command(broker):
    topic, snapshots = create_topic(broker, "in", partitions=2), topic_name("snap")
    with pytest.raises(BrokerError) as caught:
        prepare(broker, [topic], create_topic(broker, "out", partitions=2), snapshots, create=False)
    text = str(caught.value)
    assert f"topic {snapshots} does not exist" in text
    assert "unless topics.create is off" in text
    assert f"--create --topic {snapshots} --partitions 2 --config cleanup.policy=compact" in text


def test_inputs_of_different_partition_counts_are_refused(broker):
    one, two = create_topic(broker, "one", partitions=2), create_topic(broker, "two", partitions=3)
    with pytest.raises(BrokerError) as caught:
        prepare(broker, [one, two])
    text = str(caught.value)
    assert f"{one} has 2, {two} has 3" in text
    assert f"--alter --topic {one} --partitions 3" in text


@pytest.mark.parametrize(("partitions", "remedy"), [(2, "--alter --topic {} --partitions 3"), (4, "name another")])
def test_an_output_of_another_partition_count_is_refused(broker, partitions, remedy):
    topic, out = create_topic(broker, "in", partitions=3), create_topic(broker, "out", partitions=partitions)
    with pytest.raises(BrokerError) as caught:
        prepare(broker, [topic], out)
    assert f"topic {out} on {broker} has {partitions} partitions, the input {topic} has 3" in str(caught.value)
    assert remedy.format(out) in str(caught.value)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_snapshots_topic_that_forgets_is_refused(broker, policy):
    topic = create_topic(broker, "in", partitions=1)
    snapshots = create_topic(broker, "snap", partitions=1, cleanup_policy=policy)
    with pytest.raises(BrokerError) as caught:
        prepare(broker, [topic], snapshots=snapshots)
    assert f"cleanup.policy={policy}" in str(caught.value)
    assert f"kafka-configs.sh --bootstrap-server {broker} --alter --entity-type topics" in str(caught.value)


def test_a_compacted_input_is_warned_of(broker, caplog):
    topic = create_topic(broker, "in", partitions=1, cleanup_policy="compact")
    with caplog.at_level(logging.WARNING):
        prepare(broker, [topic])
    assert f"input topic {topic} is compacted" in caplog.text
