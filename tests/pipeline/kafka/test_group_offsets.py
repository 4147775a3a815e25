"""Where a group stands is read without being its member, and without an end of the process."""

import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition
from resonance.pipeline.kafka.groups import group_offsets

from tests.brokers import create_topic, topic_name

READ = """
from confluent_kafka import TopicPartition
from resonance.pipeline.kafka.groups import group_offsets
print(group_offsets({{"bootstrap.servers": "{0}"}}, "{1}", [TopicPartition("{2}", 0)], 20)[0].offset)
"""
"""In a process of its own: librdkafka's admin client has ended it on a broker that had just begun."""


@pytest.mark.broker
def test_the_offsets_of_a_group_are_read_also_where_it_has_none(broker):
    topic, group = create_topic(broker, partitions=2), topic_name("group")
    command = [sys.executable, "-c", READ.format(broker, group, topic)]
    read = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (read.returncode, read.stdout.strip()) == (0, "-1001"), read.stderr
    client = {"bootstrap.servers": broker}
    member = Consumer({**client, "group.id": group})
    member.commit(offsets=[TopicPartition(topic, 1, 7, metadata="note")], asynchronous=False)
    member.close()
    found = group_offsets(client, group, [TopicPartition(topic, at) for at in range(2)], 20)
    assert [(at.offset, at.metadata or "") for at in found] == [(-1001, ""), (7, "note")]
