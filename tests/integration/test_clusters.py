"""What a subscriber folds from the topics of a live deployment are the clusters that its snapshots hold."""

import json
import time

import pytest
from confluent_kafka import Producer
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.inspect.listing import read_states
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.recovery.entry import open_source
from resonance.pipeline.replay.bootstrapping import bootstrap
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.timestamps import canonical
from resonance.schemas import ClusterTable

from tests.brokers import read_topic
from tests.integration.workers import Deployment, records

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]

HOUR = 3_600_000


def test_both_topics_give_the_clusters_of_the_snapshots_behind_a_silent_past(broker):
    now = int(time.time() * 1000)
    own = {"stream": "key", "engine.memory": 100, "engine.min_cluster_records": 5}
    deployment = Deployment(broker, partitions=2, settings=own)
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 5, "enable.idempotence": True})
    for n, (partition, key, value) in enumerate(records(3000, 2)):
        producer.produce(deployment.input, value, key, partition, timestamp=now - (2 * HOUR if n < 2000 else 0))
    assert producer.flush(20) == 0
    settings = Settings.of({**deployment.settings, "input.topics": [deployment.input]})
    learned = bootstrap(settings, [deployment.input], Span.parse(end=canonical(now - HOUR)))
    assert sum(part.records for part in learned) == 2000
    deployment.work(1000)
    assert len(deployment.answers()) == 1000
    events = read_topic(broker, settings.topic("cluster_events"))
    folded = ClusterTable()
    assert all(folded.apply(message.value()) for message in events)
    started = [json.loads(message.value()) for message in events if b'"version_started"' in message.value()]
    assert {event["stream"] for event in started} == set(folded.streams)
    assert all(event["after"] for event in started)
    compacted = read_topic(broker, settings.topic("clusters"))
    table = ClusterTable.from_clusters((message.key(), message.value()) for message in compacted)
    assert table.clusters() == folded.clusters()
    assert table.clusters()
    source = open_source(settings)
    with LogReader(source.client, source.group, 20) as reader:
        states = read_states(source, reader)
    for part in states:
        task = PartitionTask(settings, *part.at)
        assert part.checkpoint is not None
        part.checkpoint.restore(task)
        for stream in task.models.names:
            assert set(folded.clusters(stream)) == {cluster["id"] for cluster in task.models.clusters(stream)}
    assert sum(len(part.streams) for part in states) == 14
