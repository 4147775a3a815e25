"""A keyed hierarchy in memory: tasks of both hops, distributed over workers that come and go."""

import random
from collections.abc import Sequence
from typing import Any

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Message, Outputs, Record, StreamSnapshot
from resonance.pipeline.tasks import Task, make_task

ROUTES = 4
"""Partitions of the routes."""


class _Held:
    """A task, where it stands, and what its partition of the snapshots topic has."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.position = 0
        self.snapshots: dict[str, StreamSnapshot] = {}
        self.state: bytes | None = None
        self.recovery_offset = 0

    def write(self, streams: Sequence[str]) -> None:
        """Write snapshots as a worker does, with what the partition knows beside them."""
        for stream in streams:
            snapshot = self.task.snapshot(stream)
            header = orjson.loads(orjson.dumps(snapshot.header))
            self.snapshots[stream] = StreamSnapshot(stream, snapshot.next, header, snapshot.body)
        for stream in self.task.dropped():
            self.snapshots.pop(stream, None)
        recovery_offset = self.task.recovery_offset
        self.recovery_offset = self.position if recovery_offset is None else recovery_offset
        self.state = self.task.partition_state()


class KeyedDeployment:
    """Both hops of a deployment with input partitions and `ROUTES` partitions of the routes.

    Parameters
    ----------
    given : Settings
        Its settings.
    logs : sequence of sequence of Record
        What stands in each input partition.
    workers : int
        How many there are: a task runs with the others of its worker, in turn.
    seed : int
        Decides how much of which log is processed when.
    """

    def __init__(self, given: Settings, logs: Sequence[Sequence[Record]], workers: int = 1, seed: int = 0) -> None:
        self.settings = given
        self.topic, self.routes_topic = given.input.topics[0], given.topic("routes")
        self.logs: dict[tuple[str, int], list[Record]] = {
            (self.topic, number): list(log) for number, log in enumerate(logs)
        }
        self.logs |= {(self.routes_topic, number): [] for number in range(ROUTES)}
        self.held = {at: _Held(self.make(at)) for at in self.logs}
        self.random = random.Random(seed)
        self.outputs = Outputs()
        self.workers = workers

    def make(self, at: tuple[str, int]) -> Task:
        """Return an empty task."""
        return make_task(self.settings, *at, routes=ROUTES)

    def run(self, sizes: Sequence[int] = (1, 7, 300), *, moving: bool = False) -> Outputs:
        """Process everything: each worker takes some records of one of its partitions in turn."""
        while True:
            busy = False
            for worker in range(self.workers):
                own = [at for number, at in enumerate(self.held) if number % self.workers == worker and self._waits(at)]
                if own:
                    busy = True
                    self._step(self.random.choice(own), self.random.choice(sizes))
            if moving and self.random.random() < 0.1:
                self.move(self.random.choice(list(self.held)))
            if not busy:
                return self.outputs

    def _waits(self, at: tuple[str, int]) -> bool:
        return self.held[at].position < len(self.logs[at])

    def _step(self, at: tuple[str, int], size: int) -> None:
        held = self.held[at]
        part = self.logs[at][held.position : held.position + size]
        outputs = held.task.process(part)
        held.position += len(part)
        self.send(outputs)
        self.outputs.add(outputs)
        if (due := held.task.due()) and self.random.random() < 0.5:
            held.write(due)

    def send(self, outputs: Outputs) -> None:
        """Append messages to the routes."""
        for message in outputs.routes:
            assert message.partition is not None
            log = self.logs[self.routes_topic, message.partition]
            log.append(Record(self.routes_topic, message.partition, len(log), 0, *message[:3]))

    def move(self, at: tuple[str, int]) -> None:
        """Let another worker take a partition over: it has what stands on the snapshots topic, and the log."""
        held = self.held[at]
        if self.random.random() < 0.5:
            # The first one had the time to stop cleanly.
            held.write(held.task.dirty())
        held.task = self.restored(at, held)

    def restored(self, at: tuple[str, int], held: _Held) -> Task:
        task = self.make(at)
        if held.state is not None:
            task.restore_partition(held.state)
            for snapshot in held.snapshots.values():
                task.restore(snapshot)
        task.catch_up(self.logs[at][held.recovery_offset : held.position])
        return task


def without_routes_offset(headers: Sequence[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Return the headers of an output without the one that depends on how its route was interleaved with others."""
    return [header for header in headers if not header[0].endswith(".routes_offset")]


def once(messages: Sequence[Message]) -> list[Message]:
    """Return messages without repeats, which are the same but for the offset of their route."""
    found = {repr(m._replace(headers=without_routes_offset(m.headers))): m for m in reversed(messages)}
    return list(found.values())[::-1]


def by_record(messages: Sequence[Message]) -> dict[tuple[str, int, int], Any]:
    """Return answers by the records that they answer."""
    found: dict[tuple[str, int, int], Any] = {}
    for message in messages:
        source = orjson.loads(message.value or b"")["source"]
        place = (source["topic"], source["partition"], source["offset"])
        assert place not in found, "a record is answered once"
        found[place] = (message.key, message.value, without_routes_offset(message.headers))
    return found


def by_id(messages: Sequence[Message]) -> dict[bytes, Any]:
    """Return events by their ids, without the numbers that depend on where they were told."""
    found: dict[bytes, Any] = {}
    for message in messages:
        name = dict(message.headers)["ce_id"] or b""
        payload = orjson.loads(message.value or b"")
        del payload["seq"]
        payload.pop("subtree", None)
        assert name not in found, "an event is told once"
        found[name] = (message.key, payload, without_routes_offset(message.headers))
    return found
