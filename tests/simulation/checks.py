"""What must hold: each answer is the one of an undisturbed run, once, and snapshots are states of such a run."""

import hashlib
from collections import defaultdict
from functools import cache

import orjson
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import OUTPUT_KINDS, Record
from resonance.pipeline.tasks import make_task

from tests.pipeline.streams import STAMP, TOPIC, points, settings, value_of

PARTITIONS = 2
RECORDS = 90
"""Records of each partition."""
LAYOUTS = 3
"""Ways in which markers and aborted records stand between the records of the input."""

OWN = {
    "stream": "key",
    "engine__name": "caea",
    "prepare__warmup_records": 10,
    "drift__detect": False,
    "alerts__off": ("unlike", "new_cluster", "share", "drift_open", "unconfirmed"),
    "snapshots__archive_interval": 0.0,
    "snapshots__ratio": 0.05,
    "broker__session_timeout": 3.0,
    # Every other stream of a partition is idle.
    "limits__streams_in_memory": 1,
}

_sources: dict[int, DeploymentContext] = {}
"""By the identity of settings, which `given` keeps."""


class ViolationError(Exception):
    """A promise was broken."""


@cache
def given(**changed):
    """Settings of a simulation."""
    return settings(**OWN, **changed)


def source(own):
    """Return the deployment as a worker finds it, made once for each settings."""
    return _sources.get(id(own)) or _sources.setdefault(id(own), _source(own))


def _source(own):
    return DeploymentContext.of(own, {"bootstrap.servers": "simulated"}, Deployment(PARTITIONS, {TOPIC: "id-1"}))


def layout(number, partition):
    """Return the records of an input partition with the offsets that markers and aborted records leave.

    Each comes with the number of offsets behind it that hold no record.
    """
    found, offset = [], 0
    for i, row in enumerate(points(RECORDS, seed=partition).tolist()):
        value = value_of(row, id=f"r{i}") if i % 17 != 11 else b"not JSON"
        gap = (0, i % 10 == 9, 3 * (i % 7 == 6))[number]
        record = Record(TOPIC, partition, offset, STAMP + 1_000 * i, b"ab"[i % 3 % 2 :][:1], value)
        found.append((int(gap), record))
        offset += 1 + int(gap)
    return found


class Reference:
    """What an undisturbed run gives for one layout of the input."""

    def __init__(self, number):
        self.states = defaultdict(set)
        self.outputs = {}
        # For each output, the offset of the record that it comes of.
        self.sources = {}
        self.ends = {}
        own = given()
        for partition in range(PARTITIONS):
            task = make_task(own, TOPIC, partition, source(own).task_context)
            for kind in OUTPUT_KINDS[:-1]:
                self.outputs[own.topic(kind), partition] = []
                self.sources[own.topic(kind), partition] = []
            for gap, record in layout(number, partition):
                outputs = task.process([record])
                self.ends[partition] = record.offset + 1 + gap
                for kind in OUTPUT_KINDS[:-1]:
                    at = own.topic(kind), partition
                    self.outputs[at] += [_written(message) for message in outputs.of(kind)]
                    self.sources[at] += [record.offset] * len(outputs.of(kind))
                for snapshot in task.models.states():
                    self.states[snapshot.stream, snapshot.next].add(hashlib.sha256(snapshot.body).hexdigest())
            self.last = {**getattr(self, "last", {}), partition: {s.stream: s.body for s in task.models.states()}}

    def until(self, at, offset):
        """Return the outputs of the records below an offset."""
        sources = self.sources[at]
        return self.outputs[at][: sum(source < offset for source in sources)]


@cache
def reference(number):
    """Return the reference of a layout, made once."""
    return Reference(number)


def _written(message):
    return message.key, message.value, tuple(message.headers)


class Checks:
    """Holds what a broker shows against the reference."""

    def __init__(self, number, *, atomic):
        self.reference = reference(number)
        self._atomic = atomic

    def committed(self, broker, offsets):
        """Check the outputs of all records below offsets that were committed just now."""
        if not broker.settled:
            # Offsets can be visible before outputs of the same transaction, or of the one before it.
            return
        for (topic, partition), (offset, _) in offsets.items():
            for at in self.reference.outputs:
                if topic == TOPIC and at[1] == partition:
                    expected = self.reference.until(at, offset)
                    self._compare(broker, at, len(expected), f"@{offset} was committed")

    def _compare(self, broker, at, least, when):
        """Check that the outputs are the first ones of the reference, and how many there are at least."""
        found = [(entry.key, entry.value, entry.headers) for entry in broker.logs[at].committed()]
        expected = self.reference.outputs[at]
        if not self._atomic:
            missing, other = set(expected[:least]) - set(found), set(found) - set(expected)
            if missing or other:
                raise ViolationError(f"{at} when {when}: {len(missing)} outputs are missing, {len(other)} are others")
            return
        if len(found) < least or found != expected[: len(found)]:
            place = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), len(expected))
            raise ViolationError(
                f"{at} when {when}: {len(found)} outputs, not {least} or more; number {place} differs: "
                f"{found[place : place + 1]}, not {expected[place : place + 1]}"
            )

    def snapshots(self, broker):
        """Check that each snapshot on the changelog is a state of an undisturbed run."""
        for partition in range(PARTITIONS):
            for entry in broker.logs[given().topic("snapshots"), partition].committed():
                kind, name, *_ = orjson.loads(entry.key or b"")
                if kind != "manifest" or entry.value is None:
                    continue
                found = orjson.loads(entry.value)
                if found["sha256"] not in self.reference.states[name, found["next"]]:
                    raise ViolationError(f"the snapshot of {name} at {found['next']} is no state of an undisturbed run")

    def end(self, broker):
        """Check everything once all of the input was committed."""
        for at, expected in self.reference.outputs.items():
            self._compare(broker, at, len(expected), "everything was done")
        self.snapshots(broker)


def recovery_offset(broker, partition):
    """Return the first offset of an input partition that a restart needs."""
    entries = broker.logs[given().topic("snapshots"), partition].committed()
    records = [entry.value for entry in entries if orjson.loads(entry.key or b"")[0] == "partition"]
    return next((orjson.loads(value)["replay_from"] for value in reversed(records) if value is not None), 0)
