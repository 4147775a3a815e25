"""Where a new group begins on a real broker, and that the place is kept before any record came."""

import time

import pytest
from confluent_kafka import Producer
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.clients import librdkafka
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.topics.kinds import Topics
from resonance.pipeline.topics.topics import read_deployment

from tests.integration.workers import Deployment, records, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]

HOUR = 3_600_000


def produce(deployment, first, count, timestamp):
    """Write records with a Kafka timestamp."""
    producer = Producer({"bootstrap.servers": deployment.broker, "linger.ms": 5, "enable.idempotence": True})
    for partition, key, value in records(count, deployment.partitions, first=first):
        producer.produce(deployment.input, value, key, partition, timestamp=timestamp)
    assert producer.flush(20) == 0


@pytest.mark.parametrize(("mode", "start"), [("exactly_once", "latest"), ("at_least_once", "time")])
def test_the_place_where_a_new_group_begins_is_committed_before_any_record_comes(broker, mode, start):
    now = int(time.time() * 1000)
    moment = start if start == "latest" else str(now - HOUR)
    deployment = Deployment(broker, partitions=2, settings={"delivery.mode": mode, "start": moment})
    produce(deployment, 0, 40, now - 3 * HOUR)
    with deployment.worker() as worker:
        wait_until(lambda: deployment.committed() == {0: 20, 1: 20})
        worker.kill()
    produce(deployment, 40, 20, now)
    # Whoever comes next with the same settings does not begin at the new end.
    settings = Settings.of({**deployment.settings, "input.topics": [deployment.input]})
    client = librdkafka(settings)
    found = read_deployment(ClusterAdmin(client), Topics.named([deployment.input]))
    source = DeploymentContext.of(settings, client, found)
    assigned = [(deployment.input, partition) for partition in (0, 1)]
    parts = restore_partitions(source, assigned, lambda topic, partition: PartitionTask(settings, topic, partition))
    assert {(part.start, part.pinned) for part in parts.values()} == {(20, True)}
