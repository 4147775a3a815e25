"""Two workers, a backlog, and everything that ends a process; then the books are compared with an undisturbed run.

A disturbance comes when the group has moved on by a random number of records since the one before, and the workers'
pace is set so that the backlog lasts until the last one: they fall into the work, whatever the machine is like.
"""

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition
from resonance.pipeline.checkpoint.archive_reader import Archives
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.crash_points import VARIABLE
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.clients import librdkafka
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kernels import compile_engine
from resonance.pipeline.records import Outputs
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.tasks import make_task
from resonance.pipeline.topics.kinds import Topics
from resonance.pipeline.topics.topics import prepare_topics

from tests.brokers import read_topic
from tests.integration.chaos_records import bunched, produce, values
from tests.integration.workers import Deployment, consumer

OUTPUTS = ("assignments", "cluster_events", "dead_letters", "clusters", "alerts", "drift_events")


REFUSED = re.compile(
    r"Unknown member|[Gg]eneration id is not valid|CommitFailedError|given this worker's partitions away"
    r"|another worker has begun with it"
)
"""How the broker refuses the commit of a worker that no longer belongs to its group, or that another one has fenced."""


FAILED = (70, 71)
"""Exit codes of such a worker; a supervisor starts it again."""


@dataclass
class Tally:
    """What happened in a run."""

    done: Counter[str] = field(default_factory=Counter)
    exits: Counter[int] = field(default_factory=Counter)
    refused: int = 0
    lag_at_last: int = 0
    seconds: float = 0.0

    def __str__(self):
        ends = ", ".join(f"{code}: {number}" for code, number in sorted(self.exits.items()))
        done = ", ".join(f"{number} {what}" for what, number in sorted(self.done.items()))
        return (
            f"{done}; exits {{{ends}}}; {self.refused} commits refused; backlog at the last one {self.lag_at_last:,}; "
            f"{self.seconds:.0f} s"
        )


class Chaos:
    """A deployment of two workers that are disturbed at moments that follow from the seed."""

    PARTITIONS = 4
    WORKERS = 2
    TAIL = 100
    SECONDS = 14.0
    """What a disturbance takes at most, as a rule."""

    def __init__(self, broker, *, records, settings, folder, seed):
        self.rng = random.Random(seed)
        self.tally = Tally()
        self.deployment = Deployment(
            broker,
            partitions=self.PARTITIONS,
            settings={
                "prepare.scale": "warmup",
                "input.id_path": "id",
                # The records are written within seconds: some tombstones are to come, too.
                "output.clusters_grace": 0.2,
                "snapshots.ratio": 0,
                # Longer than a worker is stopped: what refuses its commit must be the group, not the transaction's end.
                "delivery.transaction_timeout": 40,
                **settings,
            },
        )
        self.records = 0
        self._feed(records)
        self._pace = folder / "pace"
        self._command = ("tests.integration.paced_worker", str(self._pace), "worker")
        self._workers = [None] * self.WORKERS
        self._ports = [0] * self.WORKERS
        self._progress = Consumer({"bootstrap.servers": broker, "group.id": self.deployment.name})
        self.logs = []

    def _feed(self, count):
        keys = 3 if self.deployment.settings["stream"] == "key" else 5
        settings = self.settings()
        sparse = settings.input.sparse is not None
        many = settings.input.records is not None
        how = {"alike": settings.is_rekeyed or many, "sparse": sparse, "waves": settings.limits.stream_ttl > 0}
        records = values(self.records, count, self.PARTITIONS, keys, **how)
        if many:
            records = bunched(records)
        produce(self.deployment.broker, self.deployment.input, records, self.rng)
        self.records += count
        self._ends = sum(self.deployment.ends().values())

    def __enter__(self):
        # Once, for both of them: on a fresh machine it takes longer than they have to get ready.
        compile_engine(self.settings())
        self._began = time.monotonic()
        self._set_pace(60.0, self._ends)
        for number in range(self.WORKERS):
            self._start(number)
        for worker in self._workers:
            assert worker is not None
            worker.ready()
        return self

    def __exit__(self, kind, error, trace):
        for number, worker in enumerate(self._workers):
            if worker is not None:
                if error is not None:
                    error.add_note(f"worker {number}: {worker.log()[-3000:]}")
                worker.__exit__(None, None, None)
        self._progress.close()

    # Disturbances

    def disturb(self, kinds, stop_seconds):
        """Disturb the workers once for each of `kinds`, spread over the backlog.

        A kind is ``kill``, ``term``, ``stop``, or the name of a fault point.
        """
        for number, kind in enumerate(kinds):
            here = self._position()
            self._set_pace((len(kinds) - number + 1) * self.SECONDS, self._ends - here)
            target = here + self.rng.randrange(20, 400)
            self._wait_until(lambda target=target: self._position() >= target, "progress")
            time.sleep(self.rng.uniform(0.0, 0.3))
            self.tally.lag_at_last = self._ends - self._position()
            victim = self.rng.randrange(self.WORKERS)
            if kind == "kill":
                self._end(victim, signal.SIGKILL)
                self._start(victim)
            elif kind == "term":
                self._end(victim, signal.SIGTERM)
                self._start(victim)
            elif kind == "stop":
                self._stop(victim, stop_seconds)
            else:
                self._at(kind, victim)
            self.tally.done[kind] += 1

    def _stop(self, victim, seconds):
        """Stop a worker for so long that the group goes on without it, and let it go on as if nothing had been."""
        worker = self._worker(victim)
        worker.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        worker.process.send_signal(signal.SIGCONT)
        end = time.monotonic() + 20
        while worker.process.poll() is None and time.monotonic() < end and not REFUSED.search(worker.log()):
            time.sleep(0.1)
        self._keep_running()

    def _at(self, point, victim):
        """Let a worker end itself at a named point."""
        other = 1 - victim
        often = point not in ("during-restore", "in-revoke", "between-snapshot-chunks")
        count = self.rng.randrange(1, 6) if often else 1
        self._end(victim, signal.SIGTERM)
        self._start(victim, {VARIABLE: f"{point}:{count}"})
        worker = self._worker(victim)
        if point == "between-snapshot-chunks" and self.settings().is_rekeyed:
            # Before what it learns come two chunks of records, which it sends on.
            self._set_pace(0.25, 1_000)
        for _ in range(4):
            if point != "in-revoke" and self._ends_within(worker, 15):
                break
            # Something to revoke; or its partitions have no backlog any more: the other one leaves and comes back.
            self._wait_until(lambda: worker.process.poll() is not None or worker.health().get("ready"), "readiness")
            if worker.process.poll() is None:
                self._end(other, signal.SIGTERM)
                self._start(other)
            if self._ends_within(worker, 20):
                break
        assert worker.process.returncode == -signal.SIGKILL, (point, worker.process.returncode, worker.log()[-2000:])
        self._note(victim)
        self._start(victim)

    def _set_pace(self, seconds, records):
        """Let the workers together take so long for so many records; those of one partition come one by one."""
        fresh = self._pace.with_suffix(".new")
        fresh.write_text(f"{seconds * self.WORKERS / max(records, 1):.6f}")
        fresh.replace(self._pace)

    @staticmethod
    def _ends_within(worker, seconds):
        try:
            worker.ended(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def finish(self, how, timeout):
        """Wait until the group has reached the end of the log, and end the workers."""
        self._set_pace(0.0, 1)
        self._wait_until(lambda: self._position() >= self._ends, "the end of the log", timeout)
        # A few more, so that the end of the log is in no snapshot.
        self._feed(self.TAIL)
        self._wait_until(lambda: self._position() >= self._ends, "the last records", timeout)
        self._wait_until(self._learned, "the last routes", timeout)
        self.tally.seconds = time.monotonic() - self._began
        self._wait_until(self._archived, "archive of every partition", timeout)
        for number in range(self.WORKERS):
            self._end(number, how)

    @property
    def learned(self):
        """The partitions whose tasks learn."""
        settings = self.settings()
        topic = settings.topic("routes") if settings.is_rekeyed else self.deployment.input
        return [(topic, partition) for partition in range(self.PARTITIONS)]

    def ends(self):
        """Where the logs of these end, markers included."""
        places = {at: TopicPartition(*at) for at in self.learned}
        with consumer(self.deployment.broker, self.deployment.name) as wanted:
            return {at: wanted.get_watermark_offsets(place, timeout=20)[1] for at, place in places.items()}

    def _learned(self):
        places = self._progress.committed([TopicPartition(*at) for at in self.learned], timeout=20)
        return {(place.topic, place.partition): max(place.offset, 0) for place in places} == self.ends()

    def _archived(self):
        """Whether every partition was archived at least once."""
        source = self.source()
        with LogReader(source.client, source.group, 30) as reader:
            return all(Archives.of(reader, source, at)[0].newest(sys.maxsize) is not None for at in self.learned)

    def _wait_until(self, condition, what, timeout=120):
        end = time.monotonic() + timeout
        while not condition():
            self._keep_running()
            assert time.monotonic() < end, f"no {what} in {timeout:g} s; at {self._position()} of {self._ends}"
            time.sleep(0.05)

    # Workers

    def _worker(self, number):
        worker = self._workers[number]
        assert worker is not None
        return worker

    def _start(self, number, environment=None):
        port = {"worker.web_port": self._ports[number]} if self._ports[number] else {}
        worker = self.deployment.worker(settings=port, command=self._command, environment=environment)
        # The same port is the same worker id: the next process ends what the one before left open.
        self._ports[number] = worker.port
        self._workers[number] = worker

    def _end(self, number, how):
        worker = self._worker(number)
        worker.process.send_signal(how)
        code = worker.ended(40)
        # A process that is still being loaded has no handler for SIGTERM, and nothing to close.
        early = how == signal.SIGTERM and code == -signal.SIGTERM and "assigned" not in worker.log()
        expected = (-signal.SIGKILL,) if how == signal.SIGKILL else (0, *FAILED)
        assert early or code in expected, (code, worker.log()[-3000:])
        self._note(number)

    def _keep_running(self):
        """Do what a supervisor does: start again what has ended."""
        for number in range(self.WORKERS):
            worker = self._workers[number]
            if worker is not None and worker.process.poll() not in (None, -signal.SIGKILL):
                assert worker.process.returncode in FAILED, (worker.process.returncode, worker.log()[-3000:])
                self._note(number)
                self._start(number)

    def _note(self, number):
        worker = self._worker(number)
        log = worker.log()
        assert "Traceback" not in log, log[-5000:]
        self.tally.exits[worker.process.returncode] += 1
        self.tally.refused += bool(REFUSED.search(log))
        self.logs.append(log)
        worker.__exit__(None, None, None)
        self._workers[number] = None

    def _position(self):
        places = [TopicPartition(self.deployment.input, partition) for partition in range(self.PARTITIONS)]
        return sum(max(place.offset, 0) for place in self._progress.committed(places, timeout=20))

    # The books

    def settings(self):
        """The settings that the workers had."""
        given = dict(self.deployment.settings)
        return Settings.of({**given, "input.topics": [given["input.topics"]]})

    def source(self):
        """What a worker restores from."""
        settings = self.settings()
        client = librdkafka(settings)
        deployment = prepare_topics(ClusterAdmin(client), Topics.of(settings), create=False)
        return DeploymentContext.of(settings, client, deployment)

    def written(self, kind):
        """What stands on an output topic, by partition."""
        found = defaultdict(list)
        for message in read_topic(self.deployment.broker, self.settings().topic(kind)):
            found[message.partition()].append((message.key(), message.value(), list(message.headers() or ())))
        return dict(found)

    def local(self):
        """What one task for each partition says that learns whole trees, of a run without a broker."""
        given = dict(self.deployment.settings)
        settings = Settings.of({**given, "input.topics": [given["input.topics"]], "hierarchy": "local"})
        outputs, topic = Outputs(), self.deployment.input
        with LogReader(librdkafka(settings), settings.group, 30) as reader:
            bounds = reader.bounds([(topic, partition) for partition in range(self.PARTITIONS)])
            tasks = {at: PartitionTask(settings, *at, self.source().task_context) for at in bounds}
            for at, records in reader.read(bounds):
                outputs.add(tasks[at].process(records))
        return outputs

    def undisturbed(self):
        """Tasks at the end of the log and all their outputs, by kind and partition, of a run without a broker.

        Where streams are re-keyed it begins with the routes as they were recorded.
        """
        settings = self.settings()
        tasks = {at: self._task(*at) for at in self.source().logs}
        outputs = {kind: defaultdict(list) for kind in OUTPUTS}
        with LogReader(librdkafka(settings), settings.group, 30) as reader:
            for at, records in reader.read(reader.bounds(list(tasks))):
                for part in _cut(records, self.rng):
                    made = tasks[at].process(part)
                    for kind in OUTPUTS:
                        for message in made.of(kind):
                            to = at[1] if message.partition is None else message.partition
                            outputs[kind][to].append(_plain(message))
        return {at: tasks[at] for at in self.learned}, {kind: dict(found) for kind, found in outputs.items()}

    def _task(self, topic, partition):
        return make_task(self.settings(), topic, partition, self.source().task_context)

    def restored(self):
        """What the next worker would begin with."""
        return restore_partitions(self.source(), self.learned, self._task)

    def from_archives(self):
        """Tasks at the end of the log that began with an archive of its second half."""
        source = self.source()
        tasks = {}
        with LogReader(source.client, source.group, 30) as reader:
            for at in self.learned:
                first, end = reader.bounds([at])[at]
                for place in ((first + end) // 2, end):
                    archived = Archives.of(reader, source, at)[0].newest(place)
                    if archived is not None:
                        break
                assert archived is not None, f"{at} has no archive at or before {end}"
                tasks[at] = self._task(*at)
                archived.restore(tasks[at])
                for _, records in reader.read({at: (archived.position, end)}):
                    tasks[at].catch_up(records)
        return tasks


class KeyedChaos(Chaos):
    """The same with a hierarchy whose levels learn apart: either hop may be at the worker that ends."""

    expected: Outputs | None = None

    @property
    def learned(self):
        """The partitions of both hops."""
        return list(self.source().logs)

    def _archived(self):
        """Whether everything was answered, behind the routes as well."""
        if self.expected is None:
            self.expected = self.local()
        answers = (message for messages in self.written("assignments").values() for message in messages)
        places = {(source["partition"], source["offset"]) for source in (json.loads(m[1])["source"] for m in answers)}
        return len(places) == len(self.expected.assignments)


def _cut(records, rng):
    position = 0
    while position < len(records):
        size = rng.choice((1, 7, 100, 1000))
        yield records[position : position + size]
        position += size


def _plain(message):
    return message.key, message.value, [tuple(header) for header in message.headers]


def states(task):
    """State of every stream that learned since the task's last snapshots."""
    return {stream: task.models.snapshot(stream).body for stream in task.models.pending(everything=True)}
