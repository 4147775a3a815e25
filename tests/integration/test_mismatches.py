"""Startup mismatches as a user meets them: exit code 65, a sentence, and the command in it that helps."""

import signal

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.brokers import produce, read_topic
from tests.integration.workers import Deployment, records
from tests.night import at_night

pytestmark = pytest.mark.broker

COUNT = 1200


@pytest.fixture
def deployment(broker):
    quick = {"prepare.scale": "warmup", "snapshots.records": 150, "engine.min_cluster_records": 5}
    deployment = Deployment(broker, partitions=2, settings=quick)
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
        return worker.last_line(65)


@pytest.mark.parametrize(
    ("how", "other", "text"),
    [
        (signal.SIGTERM, {"engine.min_cluster_records": 6}, "engine.min_cluster_records was 5, is 6"),
        at_night(*(signal.SIGKILL, {"engine.name": "caea"}, 'engine was "modal", is "caea"')),
    ],
)
def test_other_settings_and_new_models(deployment, how, other, text):
    produce(deployment.broker, deployment.input, records(200, 2, first=COUNT))
    work(deployment, how=how)
    events = len(read_topic(deployment.broker, f"{deployment.name}.cluster-events"))
    line = stopped(deployment, other)
    assert text in line
    assert "`resonance worker --new-version`" in line
    produce(deployment.broker, deployment.input, records(800, 2, first=COUNT + 200))
    work(deployment, "--new-version", settings=other)
    answers = deployment.payloads()
    assert sorted((a["source"]["partition"], a["source"]["offset"]) for a in answers) == [
        (p, n) for p in (0, 1) for n in range(1100)
    ]
    assert {(a["version"], a["source"]["offset"] >= 700) for a in answers} == {(1, False), (2, True)}
    assert {a["cluster"].split("/")[1] for a in answers if a["version"] == 2 and a["cluster"]} <= {"2"}
    text = deployment.payloads("cluster-events")
    begun = [event for event in text if event["kind"] == "version_started"]
    assert sorted((e["stream"], e["version"], e["cause"]["source"]["offset"]) for e in begun) == [
        ("p0", 2, 700),
        ("p1", 2, 700),
    ]
    assert len(text) >= events + 2
    assert all(cluster["id"].startswith(f"{e['stream']}/1/") for e in begun for cluster in e["before"])
    assert all(e["before"] for e in begun)
    for stream in ("p0", "p1"):
        numbers = [event["seq"] for event in text if event["stream"] == stream]
        assert numbers == list(range(len(numbers)))
    assert "restored" in work(deployment, settings=other)


def test_a_stream_that_new_models_cannot_change_is_refused_and_leaves_no_topic(deployment):
    for arguments in ([], ["--new-version"]):
        with deployment.worker(arguments=arguments, settings={"stream": "topic"}) as worker:
            assert "learned with stream = partition, it is topic" in worker.last_line(65)
        assert "nothing needs it" not in worker.log()
    topics = AdminClient({"bootstrap.servers": deployment.broker}).list_topics(timeout=10).topics
    assert f"{deployment.name}.snapshots" in topics
    assert f"{deployment.name}.routes" not in topics


@pytest.mark.nightly
def test_several_workers_may_keep_a_command(deployment):
    options = {"arguments": ["--new-version"], "settings": {"engine.min_cluster_records": 6}}
    with deployment.worker(**options) as first:
        first.ready()
        assert "--new-version began new models in 2 partitions" in first.log()
        with deployment.worker(**options) as second:
            assert len(second.ready(20)["partitions"]) == 1
            assert "--new-version changed nothing, because nothing needs it" in second.log()
            assert second.terminate() == 0
        assert first.terminate() == 0


def test_a_log_truncated_under_a_running_worker(broker):
    deployment = Deployment(broker, partitions=1)
    produce(broker, deployment.input, records(COUNT, 1))
    admin, end = AdminClient({"bootstrap.servers": broker}), COUNT
    with deployment.worker() as worker:
        worker.wait_for(lambda _: deployment.committed() == deployment.ends())
        worker.process.send_signal(signal.SIGSTOP)
        # A fetch is on its way and brings the first of them; what it cannot bring is deleted.
        for _ in range(2):
            produce(broker, deployment.input, records(100, 1, first=end))
            end += 100
        place = TopicPartition(deployment.input, 0, end - 50)
        admin.delete_records([place])[place].result(10)
        worker.process.send_signal(signal.SIGCONT)
        line = worker.last_line(65)
    assert f"truncated before it was read: {deployment.input}[0]@" in line
    assert "`resonance worker --new-version`" in line
    work(deployment, "--new-version")
    last = deployment.payloads()[-1]
    assert (last["source"]["offset"], last["version"]) == (end - 1, 2)


@pytest.fixture
def working(broker):
    """A deployment whose worker has answered everything and goes on."""
    deployment = Deployment(broker, partitions=2, settings={"engine.min_cluster_records": 5})
    produce(broker, deployment.input, records(COUNT, 2))
    with deployment.worker() as worker:
        worker.wait_for(lambda health: health["ready"] and deployment.committed() == deployment.ends())
        yield deployment, worker, AdminClient({"bootstrap.servers": broker})


def recreate(admin, topic, partitions):
    admin.delete_topics([topic])[topic].result(10)
    while True:
        try:
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(10)
        except KafkaException as error:
            # Deleted a moment ago, and not gone yet.
            assert error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
        else:
            return


def test_an_input_made_again_under_a_frozen_worker_is_never_answered_by_its_models(working):
    deployment, worker, admin = working
    answers = len(deployment.answers())
    worker.process.send_signal(signal.SIGSTOP)
    recreate(admin, deployment.input, 2)
    produce(deployment.broker, deployment.input, records(3 * COUNT, 2))
    worker.process.send_signal(signal.SIGCONT)
    line = worker.last_line(65)
    assert f"input topic {deployment.input} was deleted and made again" in line
    assert "`resonance worker --reset`" in line
    assert len(deployment.answers()) == answers
    with deployment.worker(arguments=["--resume-from-snapshot"]) as again:
        assert "was deleted and made again" in again.last_line(65)


@pytest.mark.parametrize(
    "what", ["input deleted", *(at_night(what) for what in ("output deleted", "partitions added"))]
)
def test_topics_that_change_end_a_running_worker_and_the_next_start(working, what):
    deployment, worker, admin = working
    if what == "partitions added":
        admin.create_partitions([NewPartitions(deployment.input, 4)])[deployment.input].result(10)
        text, remedy, restart = "has 4 partitions, the snapshots were written when it had 2", "--new-version", 65
    else:
        kind, _ = what.split()
        topic = deployment.input if kind == "input" else f"{deployment.name}.assignments"
        admin.delete_topics([topic])[topic].result(10)
        text, remedy, restart = f"topic {topic} was deleted", "--reset", 69 if kind == "input" else 65
    line = worker.last_line(65)
    assert text in line
    assert f"`resonance worker {remedy}`" in line
    with deployment.worker() as again:
        line = again.last_line(restart)
    assert ("does not exist" if restart == 69 else text) in line


def test_a_worker_with_other_settings_leaves_the_others_alone(working):
    deployment, worker, _ = working
    with deployment.worker(settings={"engine.min_cluster_records": 6}) as other:
        assert "engine.min_cluster_records was 5, is 6" in other.last_line(65)
    assert "assigned" not in other.log()
    assert worker.log().count("assigned: ") == 1
    assert worker.health()["ready"]
