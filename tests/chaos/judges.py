"""Who says whether it went well: the books, ``resonance verify``, and a consumer in Java that knows nothing of us."""

import json
import subprocess
import sys
from collections import Counter

from confluent_kafka import Message

from tests.brokers import jvm, read_topic
from tests.integration.workers import ROOT, Deployment

Place = tuple[int, int]


def books(deployment: Deployment) -> int:
    """Return how many records have an answer; assert that each has one, and no other place."""
    broker, name = deployment.broker, deployment.name
    expected = {
        (message.partition(), message.offset())
        for message in read_topic(broker, deployment.input)
        if message.value() is not None
    }
    answers = Counter(map(_answered, read_topic(broker, f"{name}.assignments")))
    letters = Counter(_refused(message, name) for message in read_topic(broker, f"{name}.dead-letters"))
    found = answers + letters
    missing, strange = expected - found.keys(), found.keys() - expected
    twice = [place for place, count in found.items() if count > 1]
    assert not missing, f"{len(missing)} records without an answer, the first is {min(missing)}"
    assert not strange, f"{len(strange)} answers to no record, the first to {min(strange)}"
    assert not twice, f"{len(twice)} records answered again, the first is {min(twice)}"
    return len(expected)


def _answered(message: Message) -> Place:
    source = json.loads(message.value() or b"")["source"]
    return source["partition"], source["offset"]


def _refused(message: Message, name: str) -> Place:
    headers = {key: value or b"" for key, value in message.headers() or ()}
    return int(headers[f"{name}.error.partition"]), int(headers[f"{name}.error.offset"])


def verify(deployment: Deployment) -> None:
    """Let the deployment's own command compare all that was written with a replay."""
    settings = [part for name, value in deployment.settings.items() for part in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "resonance.pipeline.cli.main", "verify", *settings]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def console_consumer(deployment: Deployment) -> int:
    """Return how many assignments Kafka's own consumer reads, committed ones only; assert that no two are equal."""
    program = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    where = ("--bootstrap-server", deployment.broker, "--topic", f"{deployment.name}.assignments", "--from-beginning")
    done = jvm.java(program, *where, "--isolation-level", "read_committed", "--timeout-ms", "8000", timeout=1800)
    lines = done.stdout.splitlines()
    assert len(set(lines)) == len(lines), f"{len(lines) - len(set(lines))} of {len(lines)} lines are there before"
    return len(lines)
