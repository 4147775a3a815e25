"""Workers as processes of their own, as a user starts them, and what they leave on the bus."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.brokers import create_topic, read_topic, topic_name
from tests.brokers.jvm import die_with_parent, free_port
from tests.integration.forked import ForkedProcess

ROOT = Path(__file__).resolve().parents[2]
CLI = ("resonance.pipeline.cli.main", "worker")
# The group waits for a killed worker so long; a broker that somebody named has Kafka's own bound for it.
SESSION_SECONDS = 6 if os.environ.get("KAFKA_BOOTSTRAP") else 3


class WorkerProcess:
    """``resonance worker`` with its health page and its log; `forked` it begins where all imports are done."""

    def __init__(self, settings, *, command=CLI, arguments=(), environment=None, forked=False):
        self.port = int(settings.get("worker.web_port", 0)) or free_port()
        given = {**settings, "worker.web_port": self.port}
        options = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
        self._log = tempfile.NamedTemporaryFile()  # noqa: SIM115 - read after the worker's end, and closed with this object
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RESONANCE_")}
        line, env = [*command, *options, *arguments], {**inherited, **(environment or {})}
        self.process: subprocess.Popen[bytes] | ForkedProcess
        if forked:
            self.process = ForkedProcess(line, cwd=ROOT, env=env, output=Path(self._log.name))
        else:
            new = [sys.executable, "-m", *line]
            self.process = subprocess.Popen(
                new,
                cwd=ROOT,
                env=env,
                stdout=self._log,
                stderr=self._log,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - as for the broker
            )

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        if error is not None:
            error.add_note(f"the worker on port {self.port} said:\n{self.log()}")

    def log(self):
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def health(self):
        """What its health page says; empty while there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)
        except OSError:
            return {}

    def wait_for(self, condition, timeout=40):
        """Wait until its health page says something."""
        end = time.monotonic() + timeout
        while True:
            health = self.health()
            if health and condition(health):
                return health
            assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log()}"
            assert time.monotonic() < end, f"not within {timeout:g} s, it says {health}:\n{self.log()}"
            time.sleep(0.05)

    def ready(self, timeout=60):
        """Wait until records flow; compiling an engine for the first time takes long."""
        return self.wait_for(lambda health: health["ready"], timeout)

    def ended(self, timeout=40):
        return self.process.wait(timeout)

    def last_line(self, code, timeout=30):
        """Wait for its end with an exit code and no traceback; return what it said last."""
        assert self.ended(timeout) == code, self.log()
        assert "Traceback" not in self.log()
        return self.log().rstrip().splitlines()[-1]

    def terminate(self, timeout=40):
        """End it as Kubernetes does; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended(timeout)

    def kill(self):
        """End it as a power failure does."""
        self.process.kill()
        self.process.wait()


class Deployment:
    """A pipeline on a broker, with an input topic of its own."""

    def __init__(self, broker, *, partitions=4, settings=None, **topic):
        self.broker = broker
        self.partitions = partitions
        self.name = topic_name("pipeline")
        self.input = create_topic(broker, "input", partitions=partitions, **topic)
        self.settings = {
            "name": self.name,
            "broker.bootstrap": broker,
            "broker.session_timeout": SESSION_SECONDS,
            "input.topics": self.input,
            "stream": "partition",
            "prepare.scale": "none",
            "delivery.transaction_timeout": 10,
            **(settings or {}),
        }

    @property
    def options(self):
        """The settings, as a command takes them."""
        return [f"--set={name}={value}" for name, value in self.settings.items()]

    def worker(self, *, settings=None, **how):
        """Start a worker."""
        return WorkerProcess({**self.settings, **(settings or {})}, **{"forked": True, **how})

    def work(self, records, **how):
        """Let a worker process so many records and stop; return its log."""
        with self.worker(**how) as worker:
            worker.wait_for(lambda health: health["records"] == records)
            assert worker.terminate() == 0
        return worker.log()

    def payloads(self, kind="assignments"):
        """The messages of an output topic."""
        return [json.loads(message.value()) for message in read_topic(self.broker, f"{self.name}.{kind}")]

    def answers(self):
        """Partition and offset of the record of each assignment, in their order."""
        return [(answer["source"]["partition"], answer["source"]["offset"]) for answer in self.payloads()]

    def committed(self):
        """The group's committed offsets."""
        with consumer(self.broker, self.name) as wanted:
            places = [TopicPartition(self.input, partition) for partition in range(self.partitions)]
            try:
                return {place.partition: place.offset for place in wanted.committed(places, timeout=20)}
            except KafkaException as error:
                # A broker that has just begun has no coordinator of groups yet.
                if error.args[0].code() not in (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS):
                    raise
                return {}

    def ends(self):
        """Where the input's partitions end, markers included."""
        with consumer(self.broker, self.name) as wanted:
            return {
                partition: wanted.get_watermark_offsets(TopicPartition(self.input, partition), timeout=20)[1]
                for partition in range(self.partitions)
            }


@contextmanager
def consumer(broker, group):
    """A client of a group that never joins it."""
    made = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            # Faults take the broker away all the time.
            "log_level": 0,
        }
    )
    try:
        yield made
    finally:
        made.close()


def records(count, partitions=4, *, first=0):
    """Yield (partition, key, value) of records with four features around a few places."""
    for n in range(first, first + count):
        place = n * 2654435761 % 5
        features = [place + (n * 40503 * (d + 1) % 1000) / 5000 for d in range(4)]
        yield n % partitions, b"k%d" % (n % 7), json.dumps({"id": f"r{n}", "features": features}).encode()


def wait_until(condition, timeout=30):
    """Ask until it is so."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.1)
