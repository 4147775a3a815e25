"""Two workers share a topic whose records have one model: both hops, and the end of one worker."""

import json
import time
from collections import Counter, defaultdict

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.clients import librdkafka
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.tasks import make_task

from tests.brokers import produce, read_topic
from tests.integration.workers import Deployment, records, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

COUNT = 6_000


@pytest.mark.broker
def test_two_workers_learn_one_topic_exactly_once_though_one_is_killed(broker):
    deployment = Deployment(broker, partitions=3, settings={"stream": "topic", "input.id_path": "id"})
    settings = Settings.of({**deployment.settings, "input.topics": [deployment.input]})
    with deployment.worker() as first, deployment.worker() as second:
        for worker in (first, second):
            worker.wait_for(lambda health: health["ready"] and len(health["partitions"]) == 3, 60)
        for part in range(3):
            produce(broker, deployment.input, records(COUNT // 3, 3, first=part * COUNT // 3))
            if part == 1:
                (home,) = [w for w in (first, second) if any(seen(w, settings.topic("routes")).values())] or [first]
                home.kill()
            time.sleep(0.3)
        left = second if home is first else first
        left.wait_for(lambda health: sum(seen(left, settings.topic("routes")).values()) > 0, 60)
        wait_until(lambda: len(deployment.payloads()) >= COUNT, 60)
        assert left.terminate() == 0
    found = deployment.payloads()
    assert Counter((a["source"]["partition"], a["source"]["offset"]) for a in found) == {
        (p, o): 1 for p in range(3) for o in range(COUNT // 3)
    }
    assert {answer["stream"] for answer in found} == {deployment.input}
    # The routes as they were recorded, through a task without a broker: the same bytes in the same places.
    with LogReader(librdkafka(settings), settings.group, 30) as reader:
        bounds = reader.bounds([(settings.topic("routes"), p) for p in range(3)])
        log = [record for _, some in reader.read(bounds) for record in some]
    sources = defaultdict(list)
    for record in log:
        _, partition, offset, _ = json.loads(dict(record.headers)["resonance.source"])
        sources[partition].append(offset)
    assert sources == {p: list(range(COUNT // 3)) for p in range(3)}
    (home_partition,) = {record.partition for record in log}
    outputs = make_task(settings, settings.topic("routes"), home_partition).process(log)
    for kind, messages in (("assignments", outputs.assignments), ("cluster_events", outputs.cluster_events)):
        expected = defaultdict(list)
        for message in messages:
            to = home_partition if message.partition is None else message.partition
            expected[to].append((message.key, message.value))
        written = defaultdict(list)
        for message in read_topic(broker, settings.topic(kind)):
            written[message.partition()].append((message.key(), message.value()))
        assert written == expected


def seen(worker, topic):
    """Records that were seen of each partition of a topic."""
    parts = worker.health().get("seen", {})
    return {name: part["records"] for name, part in parts.items() if name.startswith(f"{topic}[")}
