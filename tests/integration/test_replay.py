"""Replaying and verifying on a real broker: what workers recorded, after all that happened to them."""

import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.replay.replaying import ReplayOutput, replay_topics
from resonance.pipeline.verify.verify import verify

from tests.brokers import produce, read_topic
from tests.integration.workers import Deployment, records, wait_until

pytestmark = pytest.mark.broker

LIVELY = {
    "engine.landmarks": 64,
    "engine.memory": 100,
    "engine.expire_records": 100,
    "engine.min_cluster_records": 5,
    "snapshots.records": 500,
}


@pytest.fixture(scope="module")
def recorded(broker):
    """Two workers shared the input, one was killed, and the other went on alone; more came in between."""
    deployment = Deployment(broker, partitions=2, settings=LIVELY)

    def add(first, end):
        produce(broker, deployment.input, records(end - first, 2, first=first))

    add(0, 3_000)
    with deployment.worker() as first:
        first.ready()
        with deployment.worker() as second:
            second.wait_for(lambda health: health["ready"] and health["partitions"])
            wait_until(lambda: deployment.committed() == deployment.ends(), 60)
            add(3_000, 4_000)
            second.kill()
            add(4_000, 5_000)
            wait_until(lambda: deployment.committed() == deployment.ends(), 60)
        assert first.terminate() == 0
    return deployment


def test_after_a_kill_everything_is_identical(recorded):
    verdict = verify(Settings.of(recorded.settings), Span.parse())
    assert [sentence for source, found in verdict.differences() for sentence in found.sentences(source)] == []
    assert (verdict.total("records"), verdict.total("assignments"), verdict.total("repeats")) == (5_000, 5_000, 0)
    assert verdict.total("events") == len(read_topic(recorded.broker, f"{recorded.name}.cluster-events")) > 0


def test_a_replay_says_what_was_recorded_in_files_and_on_topics(recorded, tmp_path):
    given = Settings.of(recorded.settings)
    summary = replay_topics(given, given.input.topics, Span(), ReplayOutput(folder=tmp_path), processes=2)
    assert (summary.records, summary.as_json()["assignments"]) == (5_000, 5_000)
    for name in ("assignments", "cluster-events"):
        lines = (tmp_path / f"{name}.jsonl").read_bytes().splitlines()
        assert [orjson.loads(line)["value"] for line in lines] == recorded.payloads(name)
    other = f"{recorded.name}-again"
    replay_topics(given, given.input.topics, Span.parse(begin="2000"), ReplayOutput(name=other))
    again = [orjson.loads(message.value()) for message in read_topic(recorded.broker, f"{other}.assignments")]
    assert again == [value for value in recorded.payloads() if value["source"]["offset"] >= 2000]
