"""What a user meets when something is not as it should be: what, where, what to do, an exit code, no traceback."""

import pytest
from confluent_kafka import Consumer
from resonance.pipeline.config.messages import STREAM_CHOICES

from tests.brokers.jvm import free_port
from tests.integration.workers import Deployment, WorkerProcess

pytestmark = pytest.mark.timeout(120)


def test_no_broker():
    port = free_port()
    settings = {"broker.bootstrap": f"127.0.0.1:{port}", "input.topics": "in", "broker.answer_timeout": 1}
    with WorkerProcess(settings) as worker:
        line = worker.last_line(69)
    assert "exit code 69" in line
    assert f"no Kafka broker answers at 127.0.0.1:{port} within 1 s" in line
    assert "set broker.bootstrap" in line


def test_settings_that_cannot_be_used():
    with WorkerProcess({}) as worker:
        assert "input.topics is not set" in worker.last_line(2)


@pytest.mark.broker
def test_several_partitions_and_no_stream(broker):
    deployment = Deployment(broker)
    del deployment.settings["stream"]
    with deployment.worker() as worker:
        worker.last_line(2)
        log = worker.log()
    assert f"stream is not set, and {deployment.input} has 4 partitions" in log
    assert log.rstrip().splitlines()[-len(STREAM_CHOICES) :] == [f"  {choice}" for choice in STREAM_CHOICES]


@pytest.mark.broker
def test_a_session_timeout_that_the_broker_refuses(broker):
    with Deployment(broker, settings={"broker.session_timeout": 1}).worker() as worker:
        line = worker.last_line(2)
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
            assert "name: the consumer group of this name has members of another program" in worker.last_line(2)
    finally:
        other.close()
