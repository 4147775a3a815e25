"""hierarchy = "keyed" on a broker: a reset of both hops; workers that end are in test_kill.py."""

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Message

from tests.brokers import produce, read_topic
from tests.integration.workers import Deployment, records, wait_until
from tests.pipeline.repartition.two_hops import without_routes_offset

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

PARTITIONS = 3
SETTINGS = {
    "hierarchy": "keyed",
    "stream": "partition",
    "engine.name": "hcaea",
    "engine.lambda": 20,
    "engine.min_cluster_records": 5,
    "engine.min_child_records": 6,
    "engine.max_nodes": 30,
    "input.id_path": "id",
    "snapshots.records": 150,
}


def test_a_reset_emits_everything_again_with_the_same_bytes(broker):
    deployment = Deployment(broker, partitions=PARTITIONS, settings=SETTINGS)
    settings = Settings.of({**deployment.settings, "input.topics": [deployment.input]})
    produce(broker, deployment.input, records(1_200, PARTITIONS))
    with deployment.worker() as worker:
        wait_until(lambda: len(deployment.payloads()) == 1_200, 120)
        assert worker.terminate() == 0
    kinds = ("assignments", "cluster_events")
    before = {kind: written(deployment, settings.topic(kind)) for kind in kinds}
    with deployment.worker(arguments=["--reset"]) as worker:
        wait_until(lambda: len(deployment.payloads()) == 2_400, 120)
        assert worker.terminate() == 0
    after = {kind: written(deployment, settings.topic(kind)) for kind in kinds}
    assert {kind: sorted(map(repr, after[kind])) for kind in kinds} == {
        kind: sorted(map(repr, [*before[kind], *before[kind]])) for kind in kinds
    }


def written(deployment, topic):
    """What stands on an output topic, but for the offset of the message to the second stage."""
    return [
        Message(message.key(), message.value(), without_routes_offset(message.headers() or ()))
        for message in read_topic(deployment.broker, topic)
    ]
