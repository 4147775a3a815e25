"""The subscriber of the schemas beside a live deployment, and the program of the page about consuming."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from resonance.schemas import ClusterTable, Subscriber

from tests.brokers import read_topic
from tests.integration.workers import Deployment, records

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]


def page_program(broker, name):
    """The first program of the page, for another broker and deployment."""
    program = re.search(r"```python\n(.*?)```", (ROOT / "docs/consuming.md").read_text(), re.DOTALL)[1]
    assert all(program.count(name) == 1 for name in ("localhost:9092", '"checkout"', "Subscriber("))
    return program.replace("localhost:9092", broker).replace('"checkout"', f'"{name}"')


# Who runs the tests in the background of a shell has them ignore SIGINT, and their children after them.
HEEDS_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def printed(program, until):
    """What a program prints until so many lines are there; then it is ended as by Ctrl-C."""
    with subprocess.Popen(
        [sys.executable, "-c", HEEDS_CTRL_C + program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            lines = [process.stdout.readline() for _ in range(until)]
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, ""), (errors, lines[-2:], rest[-500:])
    return lines


class Feed:
    """Records of a deployment with a model for each key, in parts."""

    def __init__(self, broker, partitions=2):
        own = {"stream": "key", "input.id_path": "id", "engine.memory": 100, "engine.min_cluster_records": 5}
        self.deployment = Deployment(broker, partitions=partitions, settings=own)
        self._records = records(6000, partitions)
        self._producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True})

    def work(self, count, places=0):
        """Let a worker process the next records, moved to other places; then it ends."""
        for _, (partition, key, value) in zip(range(count), self._records, strict=False):
            record = json.loads(value)
            moved = {**record, "features": [value + places for value in record["features"]]}
            self._producer.produce(self.deployment.input, json.dumps(moved), key, partition)
        assert self._producer.flush(20) == 0
        with self.deployment.worker() as worker:
            worker.wait_for(lambda health: health["records"] == count)
            worker.terminate()

    def events(self):
        return [
            message.value() for message in read_topic(self.deployment.broker, f"{self.deployment.name}.cluster-events")
        ]


def lines_of(deployment):
    """How many lines the program prints of everything that is there."""
    events, answers = deployment.payloads("cluster-events"), deployment.payloads()
    return sum(each["kind"] == "emerged" for each in events) + sum(
        bool(each["novel"] or each["cluster"]) for each in answers
    )


def test_the_program_of_the_page_goes_on_after_a_restart_with_events_in_between(broker):
    feed = Feed(broker)
    program = page_program(broker, feed.deployment.name)
    feed.work(2000)
    size = lines_of(feed.deployment)
    first = printed(program, size)
    feed.work(2000, places=20)
    second = printed(program, lines_of(feed.deployment) - size)
    assert sum(line.startswith("new cluster") for line in first) > 0
    # Every line but the last one was done with, and does not come again.
    assert not {*first[:-1]} & {*second}
    assert len({*first}) == size


def take(subscriber, count):
    found = []
    end = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < end
        outputs = subscriber.poll(0.2)
        subscriber.done(outputs)
        found += outputs
    return found


def test_every_event_comes_once_to_one_member_or_two_and_the_table_is_that_of_all_events(broker):
    feed = Feed(broker)
    name = feed.deployment.name
    feed.work(1500)
    present = feed.events()
    with Subscriber(broker, name, "team") as subscriber:
        found = take(subscriber, len(present))
    with Subscriber(broker, name, "pair") as one, Subscriber(broker, name, "pair") as other:
        shared, end = [], time.monotonic() + 60
        while len(shared) < len(present):
            assert time.monotonic() < end
            for each in (one, other):
                outputs = each.poll(0.2)
                each.done(outputs)
                shared += outputs
        assert {(each.partition, each.offset) for each in shared} == {
            (message.partition(), message.offset()) for message in read_topic(broker, f"{name}.cluster-events")
        }
        assert one.table.clusters() == other.table.clusters() != {}
    feed.work(2500, places=20)
    every = feed.events()
    assert len(every) > len(present) > 0
    with Subscriber({"bootstrap.servers": broker}, name, "team") as subscriber:
        found += take(subscriber, len(every) - len(present))
        assert subscriber.poll(1.0) == []
        folded = ClusterTable()
        assert all(folded.apply(event) for event in every)
        assert subscriber.table.clusters() == folded.clusters()
        named = {json.loads(event)["cluster"] for event in every}
        assert {each: subscriber.resolve(each) for each in named} == {each: folded.resolve(each) for each in named}
    assert sorted(json.dumps(each.value) for each in found) == sorted(json.dumps(json.loads(each)) for each in every)


def test_a_topic_that_does_not_exist_yet_is_waited_for(broker, caplog):
    feed = Feed(broker)
    client = {"bootstrap.servers": broker, "topic.metadata.refresh.interval.ms": 500}
    with Subscriber(client, feed.deployment.name, "early", ["assignments"]) as subscriber:
        while "does not exist yet" not in caplog.text:
            assert subscriber.poll(0.2) == []
        feed.work(200)
        assert {each.kind for each in take(subscriber, 200)} == {"assignments"}
