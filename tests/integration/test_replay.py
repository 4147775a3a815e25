"""Replaying and verifying on a real broker: what workers recorded, after all that happened to them."""

import time

import orjson
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.replay.bootstrapping import bootstrap
from resonance.pipeline.replay.replaying import ReplayOutput, replay_file, replay_topics
from resonance.pipeline.verify.verify import verify

from tests.brokers import produce, read_topic
from tests.integration.workers import Deployment, records, wait_until
from tests.pipeline.commands import run

pytestmark = pytest.mark.broker

PARTITIONS = 2
LIVELY = {
    "engine.landmarks": 64,
    "engine.memory": 100,
    "engine.expire_records": 100,
    "engine.min_cluster_records": 5,
    "snapshots.records": 500,
    "snapshots.archive_interval": 0.5,
}


class Recorded(Deployment):
    """A deployment whose outputs are verified."""

    def __init__(self, broker):
        super().__init__(broker, partitions=PARTITIONS, settings=LIVELY)
        self.produced = 0

    def feed(self, count):
        produce(self.broker, self.input, records(count, PARTITIONS, first=self.produced))
        self.produced += count

    def wait(self):
        wait_until(lambda: self.committed() == self.ends(), 60)

    def given(self):
        return Settings.of(self.settings)

    def verify(self, **span):
        return verify(self.given(), Span.parse(**span))


@pytest.fixture(scope="module")
def recorded(broker):
    """Two workers shared the input, one was killed, and the other went on alone; more came in between."""
    deployment = Recorded(broker)
    deployment.feed(3_000)
    with deployment.worker() as first:
        first.ready()
        with deployment.worker() as second:
            second.wait_for(lambda health: health["ready"] and health["partitions"])
            deployment.wait()
            assert deployment.verify().identical
            deployment.feed(1_000)
            second.kill()
            deployment.feed(1_000)
            deployment.wait()
            # However quick the workers are, an archive of each partition stands before the last records.
            time.sleep(0.6)
            deployment.feed(20)
            deployment.wait()
            time.sleep(0.3)
            deployment.feed(480)
            deployment.wait()
        assert first.terminate() == 0
    return deployment


def sentences(verdict):
    return [sentence for source, found in verdict.differences() for sentence in found.sentences(source)]


def test_after_a_kill_everything_is_identical(recorded):
    verdict = recorded.verify()
    assert sentences(verdict) == []
    assert (verdict.total("records"), verdict.total("assignments"), verdict.total("repeats")) == (5_500, 5_500, 0)
    assert verdict.total("events") == len(read_topic(recorded.broker, f"{recorded.name}.cluster-events")) > 0


def lines(folder, name):
    return [orjson.loads(line) for line in (folder / name).read_bytes().splitlines()]


def values(messages):
    return [orjson.loads(message.value()) for message in messages]


def test_a_replay_says_what_was_recorded_in_files_and_on_topics(recorded, tmp_path):
    inputs = recorded.given().input.topics
    summary = replay_topics(recorded.given(), inputs, Span(), ReplayOutput(folder=tmp_path), processes=2)
    assert (summary.records, summary.as_json()["assignments"]) == (5_500, 5_500)
    for name in ("assignments", "cluster-events"):
        expected = values(read_topic(recorded.broker, f"{recorded.name}.{name}"))
        assert [line["value"] for line in lines(tmp_path, f"{name}.jsonl")] == expected
    other = f"{recorded.name}-again"
    replay_topics(recorded.given(), inputs, Span.parse(begin="2000"), ReplayOutput(name=other))
    again = values(read_topic(recorded.broker, f"{other}.assignments"))
    assert again == [
        value
        for value in values(read_topic(recorded.broker, f"{recorded.name}.assignments"))
        if value["source"]["offset"] >= 2000
    ]


def test_an_evaluation_measures_what_was_recorded(recorded, tmp_path, monkeypatch, capsys):
    engines = ("--engine", "modal", "--engine", "evq", "--processes", "1")
    assert run(monkeypatch, "evaluate", recorded.input, *recorded.options, *engines, "-o", str(tmp_path), "--json") == 0
    document = orjson.loads(capsys.readouterr().out)
    modal, evq = document["candidates"]
    answers = values(read_topic(recorded.broker, f"{recorded.name}.assignments"))
    events = values(read_topic(recorded.broker, f"{recorded.name}.cluster-events"))
    assert document["records"] == len(answers) == 5_500
    assert modal["figures"]["events"] == pytest.approx(1_000 * len(events) / 5_500)
    assert modal["figures"]["unanswered"] == sum(answer["cluster"] is None for answer in answers) / 5_500
    assert modal["figures"]["novelty"] == sum(answer["novel"] for answer in answers) / 5_500
    assert modal["figures"]["clusters"] == len({answer["cluster"] for answer in answers} - {None})
    assert evq["figures"] != modal["figures"]
    report = orjson.loads((tmp_path / "report.json").read_bytes())
    assert {name: report[name] for name in document} == document


def test_the_last_range_is_identical_once_the_beginning_is_deleted(recorded):
    admin = AdminClient({"bootstrap.servers": recorded.broker})
    ends = recorded.ends()
    deleted = [TopicPartition(recorded.input, partition, ends[partition] - 700) for partition in range(PARTITIONS)]
    for future in admin.delete_records(deleted).values():
        future.result(20)
    verdict = recorded.verify(begin=str(min(ends.values()) - 200))
    assert sentences(verdict) == []
    assert verdict.total("records") > 300
    assert all(part.start.startswith("from the archive at offset") for part in verdict.parts)


def test_a_worker_goes_on_behind_what_was_learned_silently(broker):
    deployment = Recorded(broker)
    deployment.feed(1_000)
    given = deployment.given()
    learned = bootstrap(given, given.input.topics, Span.parse(end="300"))
    assert [(part.records, part.offset, part.archived) for part in learned] == [(300, 300, True)] * PARTITIONS
    assert deployment.committed() == dict.fromkeys(range(PARTITIONS), 300)
    with deployment.worker() as worker:
        deployment.wait()
        assert worker.terminate() == 0
    assert min(offset for _, offset in deployment.answers()) == 300
    verdict = deployment.verify()
    assert (sentences(verdict), verdict.total("assignments")) == ([], 400)


def test_a_file_is_replayed_to_topics(broker, tmp_path):
    file = tmp_path / "records.jsonl"
    file.write_bytes(b"".join(value + b"\n" for _, _, value in records(200)))
    deployment = Recorded(broker)
    replay_file(
        deployment.given(), [file], Columns(key=("id",)), ReplayOutput(name=deployment.name + "-file"), partitions=2
    )
    found = values(read_topic(broker, f"{deployment.name}-file.assignments"))
    assert len(found) == 200
    assert {value["source"]["topic"] for value in found} == {deployment.input}
