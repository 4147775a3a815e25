"""hierarchy = "keyed" on a broker: two workers share the roots and the subtrees, and either may end at any time."""

import json

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.clients import librdkafka
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.kernels import compile_engine
from resonance.pipeline.records import Message, Outputs
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.verify.verify import verify
from resonance.schemas import ClusterTable

from tests.brokers import produce, read_topic
from tests.integration.workers import Deployment, records, wait_until
from tests.pipeline.repartition.two_hops import by_id, by_record, without_routes_offset

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

COUNT = 4_500
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


@pytest.mark.nightly
def test_both_hops_say_what_one_task_says_though_workers_end_and_join(broker):
    deployment = Deployment(broker, partitions=PARTITIONS, settings=SETTINGS)
    settings = Settings.of({**deployment.settings, "input.topics": [deployment.input]})
    compile_engine(settings)
    third = COUNT // 3
    with deployment.worker() as first, deployment.worker() as second:
        for worker in (first, second):
            # Each has partitions of both topics.
            worker.wait_for(lambda health: health["ready"] and len(health["partitions"]) == PARTITIONS, 90)
        produce(broker, deployment.input, records(third, PARTITIONS))
        wait_until(lambda: len(deployment.payloads()) > third // 3, 60)
        first.kill()
        produce(broker, deployment.input, records(third, PARTITIONS, first=third))
        with deployment.worker() as joined:
            joined.ready(90)
            produce(broker, deployment.input, records(third, PARTITIONS, first=2 * third))
            wait_until(lambda: len(places(deployment.payloads())) > 2 * third, 90)
            assert second.terminate() == 0
            wait_until(lambda: len(places(deployment.payloads())) >= COUNT, 90)
            assert joined.terminate() == 0

    expected = Outputs()
    whole = Settings.of({**deployment.settings, "input.topics": [deployment.input], "hierarchy": "local"})
    with LogReader(librdkafka(settings), settings.group, 30) as reader:
        bounds = reader.bounds([(deployment.input, number) for number in range(PARTITIONS)])
        tasks = {at: PartitionTask(whole, *at) for at in bounds}
        for at, some in reader.read(bounds):
            expected.add(tasks[at].process(some))
    got = {kind: written(deployment, settings.topic(kind)) for kind in ("assignments", "cluster_events")}
    assert by_record(got["assignments"]) == by_record(expected.assignments)
    assert by_id(got["cluster_events"]) == by_id(expected.cluster_events)
    assert sum("subtree" in json.loads(message.value) for message in got["cluster_events"]) > 5
    verdict = verify(settings, Span.parse())
    assert verdict.identical, verdict
    assert (verdict.total("assignments"), verdict.total("events")) == (COUNT, len(expected.cluster_events))
    assert verdict.total("routes") > 0
    table, one = ClusterTable(), ClusterTable()
    for found, messages in ((table, got["cluster_events"]), (one, expected.cluster_events)):
        for message in messages:
            found.apply(message.value)
    assert table.clusters() == one.clusters()


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


def places(found):
    return {(answer["source"]["partition"], answer["source"]["offset"]) for answer in found}
