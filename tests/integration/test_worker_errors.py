"""What a user meets when something is not as it should be: what, where, what to do, an exit code, no traceback."""

import time

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewPartitions
from resonance.pipeline.config.messages import STREAM_CHOICES

from tests.brokers import create_topic, produce
from tests.brokers.jvm import free_port
from tests.integration.workers import Deployment, WorkerProcess, records

pytestmark = pytest.mark.timeout(120)


def last_line(worker, code, seconds=30):
    began = time.monotonic()
    assert worker.ended() == code, worker.log()
    assert time.monotonic() - began < seconds
    log = worker.log()
    assert "Traceback" not in log
    return log.rstrip().splitlines()[-1]


def test_no_broker():
    port = free_port()
    settings = {"broker.bootstrap": f"127.0.0.1:{port}", "input.topics": "in", "broker.answer_timeout": 3}
    with WorkerProcess(settings) as worker:
        line = last_line(worker, 69)
    assert "exit code 69" in line
    assert f"no Kafka broker answers at 127.0.0.1:{port} within 3 s" in line
    assert "set broker.bootstrap" in line


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "input.topics is not set"),
        ({"input.topics": "in", "inptu.features": "f"}, "there is no such setting (did you mean input?)"),
        ({"input.topics": "in", "delivery.mode": "twice"}, "delivery.mode"),
        ({"input.topics": "in", "engine.memory": "-1"}, "engine.memory"),
        ({"input.topics": "in", "input": "in"}, "input is given as one value"),
        (
            {"input.topics": "in", "broker.security_protocol": "SSL", "broker.ssl_ca_location": "/absent.pem"},
            "the certificates cannot be used ([Errno 2] No such file or directory); look at /absent.pem",
        ),
        ({"input.topics": "in", "worker.web_host": "203.0.113.1"}, "worker.web_host = 203.0.113.1"),
    ],
)
def test_settings_that_cannot_be_used(settings, text):
    with WorkerProcess(settings) as worker:
        assert text in last_line(worker, 2)


def test_a_line_that_is_no_setting():
    with WorkerProcess({}, arguments=["--set", "name"]) as worker:
        assert "--set name: write it as key=value" in last_line(worker, 2)


@pytest.mark.broker
def test_a_missing_topic(broker):
    with WorkerProcess({"broker.bootstrap": broker, "input.topics": "not-there"}) as worker:
        line = last_line(worker, 69)
    assert "input topic not-there does not exist" in line
    assert "--create --topic not-there" in line


@pytest.mark.broker
def test_inputs_with_different_numbers_of_partitions(broker):
    topics = [create_topic(broker, "in", partitions=count) for count in (2, 3)]
    with WorkerProcess({"broker.bootstrap": broker, "input.topics": ",".join(topics), "stream": "key"}) as worker:
        line = last_line(worker, 69)
    assert f"{topics[0]} has 2, {topics[1]} has 3" in line


@pytest.mark.broker
def test_several_partitions_and_no_stream(broker):
    deployment = Deployment(broker)
    del deployment.settings["stream"]
    with deployment.worker() as worker:
        last_line(worker, 2)
        log = worker.log()
    assert f"stream is not set, and {deployment.input} has 4 partitions" in log
    assert log.rstrip().splitlines()[-len(STREAM_CHOICES) :] == [f"  {choice}" for choice in STREAM_CHOICES]


@pytest.mark.broker
def test_a_dead_letter_limit_above_the_topics(broker):
    deployment = Deployment(broker)
    create_topic(broker, f"{deployment.name}.dead-letters", exact=True, max_message_bytes=100_000)
    with deployment.worker() as worker:
        line = last_line(worker, 2)
    assert "limits.dead_letter_bytes = 900000" in line
    assert "takes messages of 100000 bytes" in line


@pytest.mark.broker
def test_a_session_timeout_that_the_broker_refuses(broker):
    with Deployment(broker, settings={"broker.session_timeout": 3}).worker() as worker:
        line = last_line(worker, 2)
    assert "broker.session_timeout" in line
    assert "group.min.session.timeout.ms (6 s by default)" in line


@pytest.mark.broker
def test_a_group_of_another_program(broker):
    deployment = Deployment(broker)
    strategy = {"partition.assignment.strategy": "cooperative-sticky"}
    other = Consumer({"bootstrap.servers": broker, "group.id": deployment.name, **strategy})
    other.subscribe([deployment.input])
    try:
        while not other.assignment():
            other.poll(0.1)
        with deployment.worker() as worker:
            assert "name: the consumer group of this name has members of another program" in last_line(worker, 2)
    finally:
        other.close()


@pytest.mark.broker
def test_an_input_that_gets_more_partitions(broker):
    deployment = Deployment(broker, partitions=2)
    produce(broker, deployment.input, records(100, 2))
    with deployment.worker() as worker:
        worker.wait_for(lambda health: health["records"] == 100)
        assert worker.terminate() == 0
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_partitions([NewPartitions(deployment.input, 3)])[deployment.input].result(20)
    with deployment.worker() as worker:
        line = last_line(worker, 69)
    assert "has 2 partitions" in line


@pytest.mark.broker
def test_another_engine_parameter_than_the_snapshots(broker):
    deployment = Deployment(broker, partitions=1)
    produce(broker, deployment.input, records(100, 1))
    with deployment.worker() as worker:
        worker.wait_for(lambda health: health["records"] == 100)
        assert worker.terminate() == 0
    with deployment.worker(settings={"engine.memory": 777}) as worker:
        line = last_line(worker, 65)
    assert "engine.memory was 4000, is 777" in line
    assert "--new-version" in line
