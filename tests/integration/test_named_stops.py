"""Named stops as a user meets them: exit code 65, a sentence, and the command in it that mends things."""

import json
import signal

import pytest
from confluent_kafka.admin import AdminClient

from tests.brokers import produce, read_topic
from tests.integration.workers import Deployment, records

pytestmark = pytest.mark.broker

COUNT = 1200


@pytest.fixture
def deployment(broker):
    deployment = Deployment(broker, partitions=2, settings={"prepare.scale": "warmup", "snapshots.records": 150})
    produce(broker, deployment.input, records(COUNT, 2))
    work(deployment)
    return deployment


def work(deployment, *arguments, how=signal.SIGTERM, settings=None):
    """Run a worker to the end of the log."""
    ends = deployment.ends()
    with deployment.worker(arguments=arguments, settings=settings) as worker:
        worker.wait_for(lambda health: health["ready"] and deployment.committed() == ends)
        worker.process.send_signal(how)
        assert worker.ended() == (0 if how == signal.SIGTERM else -how)
        return worker.log()


def stopped(deployment, settings=None):
    """Start a worker that does not go on; return what its last line says."""
    with deployment.worker(settings=settings) as worker:
        assert worker.ended(20) == 65, worker.log()
        log = worker.log()
        assert "Traceback" not in log
        return log.strip().splitlines()[-1]


def assignments(deployment):
    return [json.loads(m.value()) for m in read_topic(deployment.broker, f"{deployment.name}.assignments")]


def lose_offsets(deployment):
    admin = AdminClient({"bootstrap.servers": deployment.broker})
    admin.delete_consumer_groups([deployment.name])[deployment.name].result(10)


def test_lost_offsets_and_going_on_where_the_snapshots_end(deployment):
    lose_offsets(deployment)
    produce(deployment.broker, deployment.input, records(100, 2, first=COUNT))
    line = stopped(deployment)
    assert f"[0]: group {deployment.name} has no committed offset, but its snapshots reach offset 600" in line
    assert "`resonance worker --resume-from-snapshot`" in line
    assert "`resonance worker --reset`" in line
    work(deployment, "--resume-from-snapshot")
    assert sorted(deployment.answers()) == [(p, n) for p in (0, 1) for n in range(650)]
    assert "--resume-from-snapshot changed 0 partitions" in work(deployment, "--resume-from-snapshot")


def test_a_reset_gives_every_answer_again_with_the_same_bytes(deployment):
    before = [
        (m.key(), m.value(), m.headers()) for m in read_topic(deployment.broker, f"{deployment.name}.assignments")
    ]
    work(deployment, "--reset")
    after = [(m.key(), m.value(), m.headers()) for m in read_topic(deployment.broker, f"{deployment.name}.assignments")]
    assert len(before) == COUNT
    assert sorted(map(repr, after)) == sorted(map(repr, before * 2))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_other_settings_and_new_models(deployment, how):
    produce(deployment.broker, deployment.input, records(200, 2, first=COUNT))
    work(deployment, how=how)
    events = len(read_topic(deployment.broker, f"{deployment.name}.cluster-events"))
    other = {"engine.lambda": 30}
    line = stopped(deployment, other)
    assert "engine.lambda was " in line
    assert ", is 30" in line
    assert "`resonance worker --new-version`" in line
    produce(deployment.broker, deployment.input, records(800, 2, first=COUNT + 200))
    work(deployment, "--new-version", settings=other)
    answers = assignments(deployment)
    assert sorted((a["source"]["partition"], a["source"]["offset"]) for a in answers) == [
        (p, n) for p in (0, 1) for n in range(1100)
    ]
    assert {(a["version"], a["source"]["offset"] >= 700) for a in answers} == {(1, False), (2, True)}
    assert {a["cluster"].split("/")[1] for a in answers if a["version"] == 2 and a["cluster"]} == {"2"}
    told = [json.loads(m.value()) for m in read_topic(deployment.broker, f"{deployment.name}.cluster-events")]
    begun = [event for event in told if event["kind"] == "version_started"]
    assert sorted((e["stream"], e["version"], e["cause"]["source"]["offset"]) for e in begun) == [
        ("p0", 2, 700),
        ("p1", 2, 700),
    ]
    assert len(told) > events + 2
    for stream in ("p0", "p1"):
        numbers = [event["seq"] for event in told if event["stream"] == stream]
        assert numbers == list(range(len(numbers)))
    assert "restored" in work(deployment, settings=other)


def test_only_one_command_at_a_time(deployment):
    with deployment.worker(arguments=("--reset", "--new-version")) as worker:
        assert worker.ended(20) == 2
        assert "--reset and --new-version: each gives up something else; choose one" in worker.log()
