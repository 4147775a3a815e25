"""Workers behind a line that can break, a broker that can die, a supervisor that starts again what has ended."""

import contextlib
import datetime
import itertools
import json
import shutil
import threading
import time
from collections import Counter
from contextlib import contextmanager

from confluent_kafka import KafkaException, Producer

from tests.brokers.jvm import java
from tests.brokers.proxy import proxied_jvm
from tests.integration.chaos_records import values
from tests.integration.workers import Deployment

STUCK_SECONDS = 180.0
"""Without a commit for so long after a fault, something hangs: more than any time-out of the settings, and a start."""

ENDS = {0, 69, 70, 71, -9}
"""Exit codes that a supervisor answers by a new start; any other one asks for a person."""

SETTINGS = {
    "prepare.scale": "warmup",
    "snapshots.records": 2_000,
    "delivery.transaction_timeout": 20,
    "broker.session_timeout": 6,
    "limits.streams_in_memory": 8,
}


class Lab:
    """A deployment of supervised workers under a steady load.

    Attributes
    ----------
    broker, line
        The broker, and the proxy through which only the workers reach it.
    deployment : Deployment
        What the workers share.
    exits : Counter
        How often workers ended with which exit code.
    logs : list of str
        What ended workers said.
    story : list of str
        What happened when.
    """

    def __init__(self, broker, line, *, rate, workers, settings):
        self.broker, self.line = broker, line
        self.deployment = Deployment(broker.bootstrap, settings={**SETTINGS, **settings})
        self.exits = Counter()
        self.logs = []
        self.story = []
        self._through = {"broker.bootstrap": f"127.0.0.1:{line.port}"}
        self._workers = {}
        self._errors = []
        self._rate = rate
        self._over, self._stopping = threading.Event(), threading.Event()
        self._settings = self.deployment.settings
        self._threads = [threading.Thread(target=each) for each in (self._load, self._supervise)]
        for number in range(workers):
            self.start(number)

    def run(self):
        """Begin the load and the supervision, once every worker is ready."""
        for worker in self._workers.values():
            worker.ready(300)
        for thread in self._threads:
            thread.start()

    def note(self, what):
        """Add something that happens now to the story."""
        now = datetime.datetime.now(datetime.UTC)
        self.story.append(f"{now:%H:%M:%S.%f} {what}")

    # Workers

    def start(self, number):
        """Start a worker; with a number that was there before it takes that one's place."""
        self._workers[number] = self.deployment.worker(settings={**self._through, "worker.id": f"w{number}"})

    def worker(self, number):
        """Return the worker that has a number now."""
        return self._workers[number]

    @property
    def numbers(self):
        """The workers that are supervised."""
        return sorted(self._workers)

    def leave(self, number):
        """End a worker for good, as a smaller deployment does."""
        worker = self._workers.pop(number)
        worker.terminate(60)
        self._note(worker)

    def _supervise(self):
        while not self._stopping.wait(0.2):
            for number, worker in list(self._workers.items()):
                if self._workers.get(number) is not worker or worker.process.poll() is None:
                    continue
                self._note(worker)
                if self._errors:
                    return
                self.start(number)

    def _note(self, worker):
        log, code = worker.log(), worker.process.returncode
        assert code is not None
        self.exits[code] += 1
        self.note(f"a worker ended with {code}")
        self.logs.append(log)
        # A process that is still being loaded has no handler for SIGTERM, and nothing to close.
        early = code == -15 and "assigned" not in log
        if "Traceback" in log or not (early or code in ENDS):
            self._errors.append(f"a worker ended with {code}:\n{log[-5000:]}")
        worker.__exit__(None, None, None)

    def limit(self, rate):
        """Let the workers write so many bytes a second, by a quota of the broker, or as many as they want."""
        change = (
            ("--delete-config", "producer_byte_rate")
            if rate is None
            else ("--add-config", f"producer_byte_rate={rate}")
        )
        where = ("--bootstrap-server", self.broker.bootstrap, "--entity-type", "clients", "--entity-name", "rdkafka")
        done = java("kafka.admin.ConfigCommand", *where, "--alter", *change, timeout=60)
        assert done.returncode == 0, done.stderr[-500:]

    # Load

    def _load(self):
        producer = Producer({
            "bootstrap.servers": self.broker.bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0,
            "client.id": "load",
        })  # fmt: skip
        records = values(0, 10**9, self.deployment.partitions, 50)
        began = time.monotonic()
        for number in itertools.count():
            while (ahead := began + number / self._rate - time.monotonic()) > 0 and not self._over.is_set():
                producer.poll(min(ahead, 0.05))
            if self._over.is_set():
                break
            partition, key, value = next(records)
            with contextlib.suppress(BufferError):
                producer.produce(self.deployment.input, value, key, partition)
        if producer.flush(120):
            self._errors.append("the load was not written")

    # Progress

    def position(self):
        """How far the group's offsets are, all partitions together; -1 while no broker answers."""
        try:
            return sum(max(offset, 0) for offset in self.deployment.committed().values())
        except KafkaException:
            return -1

    def wait_for_commit(self):
        """Wait until the group's offsets have moved on; return the seconds."""
        began, here = time.monotonic(), self.position()
        while here < 0 or self.position() <= here:
            if self._errors:
                raise AssertionError(self._errors[0])
            if (waited := time.monotonic() - began) > STUCK_SECONDS:
                logs = "\n".join(f"w{n}: {worker.log()[-3000:]}" for n, worker in self._workers.items())
                raise AssertionError(f"no commit within {waited:.0f} s\n{logs}")
            here = self.position() if here < 0 else here
            time.sleep(0.1)
        return time.monotonic() - began

    def finish(self):
        """End the load, wait until everything is answered, and stop the workers."""
        self._over.set()
        self._threads[0].join()
        end = time.monotonic() + 2 * STUCK_SECONDS
        while self.deployment.committed() != self.deployment.ends():
            assert not self._errors, self._errors[0]
            assert time.monotonic() < end, f"at {self.deployment.committed()} of {self.deployment.ends()}"
            time.sleep(0.2)
        self.close()
        assert not self._errors, self._errors[0]

    def keep(self, folder):
        """Copy what the broker has on disk and what the workers said: the reason is in there."""
        self.broker.kill()
        shutil.copytree(self.broker.folder, folder / "broker", dirs_exist_ok=True)
        for number, worker in self._workers.items():
            (folder / f"health-w{number}.json").write_text(json.dumps(worker.health(), indent=1))
        (folder / "story.txt").write_text("\n".join(self.story))
        for number, log in enumerate([*self.logs, *(worker.log() for worker in self._workers.values())]):
            (folder / f"worker-{number}.log").write_text(log)

    def close(self):
        """Stop everything."""
        self._over.set()
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        for number in self.numbers:
            self.leave(number)


@contextmanager
def lab(*, rate=400.0, workers=2, keep=None, **settings):
    """Yield a deployment at work on a broker of its own; only what `keep` has of a failure is left of it."""
    with proxied_jvm() as (broker, line):
        made = Lab(broker, line, rate=rate, workers=workers, settings=settings)
        try:
            made.run()
            yield made
        except AssertionError:
            if keep is not None:
                made.keep(keep)
            raise
        finally:
            made.close()
