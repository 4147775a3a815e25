"""Records with clusters that come, move and go, and what tests ask of a partition task."""

import random
from contextlib import contextmanager

import numpy as np
import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Outputs, Record, StreamSnapshot
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.task.stream_task import NO_CONTEXT

from tests import LONG

TOPIC = "features"
STAMP = 1_700_000_000_000
LIVELY = {
    "input.topics": [TOPIC],
    "input.features": ["cpu", "latency_ms", "net.in"],
    "engine.min_cluster_records": 5,
    "prepare.warmup_records": 60,
}
"""Settings under which clusters change often, with `FORGETFUL` or `BRISK`."""
FORGETFUL = {"engine.landmarks": 64, "engine.memory": 100, "engine.expire_records": 100}
"""What belongs to `LIVELY` with the default engine."""
BRISK = {"engine.lambda": 20}
"""What belongs to `LIVELY` with another engine."""


def settings(**changes):
    """`LIVELY` with changes, without what is None; a dot in a name is written ``__``."""
    own = FORGETFUL if changes.get("engine__name", "modal") == "modal" else BRISK
    given = {**LIVELY, **own, **{name.replace("__", "."): value for name, value in changes.items()}}
    return Settings.of({name: value for name, value in given.items() if value is not None})


def plain_settings(**changes):
    """The defaults with one stream in a partition, and with changes."""
    given = {"input.topics": [TOPIC], "stream": "partition"}
    return Settings.of(given | {name.replace("__", "."): value for name, value in changes.items()})


@contextmanager
def without_kernels():
    """Let the JSON library read all records meanwhile."""
    before, InputMapping._plain_json = InputMapping._plain_json, lambda *_: None
    try:
        yield
    finally:
        InputMapping._plain_json = before


def points(count, seed=0, dimension=3):
    """Points of five blobs; each stays away for a while and wanders slowly."""
    rng = np.random.default_rng(seed)
    centres = rng.random((5, dimension)) * [1.0, 400.0, *[8.0] * (dimension - 2)][:dimension]
    scale = np.array([0.04, 12.0, *[0.3] * (dimension - 2)][:dimension])
    rows = []
    for i in range(count):
        awake = [c for c in range(5) if (i // 170 + c) % 5 > 1]
        chosen = awake[int(rng.integers(len(awake)))]
        rows.append(centres[chosen] * (1 + 0.4 * i / count) + scale * rng.normal(size=dimension))
    return np.array(rows)


def value_of(row, **members):
    cpu, latency, inward = row
    return orjson.dumps({"cpu": cpu, "latency_ms": latency, "net": {"in": inward}, **members})


def records(rows, first=0, keys=None):
    """One record for each row, offsets with the gaps that transaction markers leave."""
    result = []
    for i, row in enumerate(rows, first):
        key = keys[i % len(keys)] if keys else None
        result.append(Record(TOPIC, 0, i + i // 50, STAMP + 13 * i, key, value_of(list(row), id=f"r{i}")))
    return result


def named_records(rows, names, gap=10, first=0):
    """One record for each row, an object of names and values, so many milliseconds apart."""
    values = (orjson.dumps(dict(zip(names, row, strict=True))) for row in rows)
    return [Record(TOPIC, 0, first + i, STAMP + gap * i, None, value) for i, value in enumerate(values)]


def task(given=None, context=NO_CONTEXT):
    return PartitionTask(given or settings(), TOPIC, 0, context)


def run(worker, log, size=None):
    """Process a log in batches of a size and join the outputs."""
    size = size or max(1, len(log))
    return process(worker, (log[start : start + size] for start in range(0, len(log), size)))


def process(worker, batches):
    whole = Outputs()
    for batch in batches:
        whole.add(worker.process(batch))
    return whole


def uneven(log, seed):
    """Cut a log into batches of drawn lengths, many of them one record long."""
    rng, start = random.Random(seed), 0
    while start < len(log):
        size = rng.choice((1, 1, 1, 2, 7, 40, 200))
        yield log[start : start + size]
        start += size


def alike(given, log, stops=()):
    """Process a log whole, in uneven batches, and with a restart: all is the same; return the task and its outputs.

    A short log also goes record by record, and in the long form of the tests each does. What is cut around a restart is
    uneven, too.
    """
    whole = task(given)
    expected = run(whole, log)
    cuts = [uneven(log, seed) for seed in range(1 if stops and not LONG else 2)]
    if LONG or len(log) <= 100:
        cuts.append([record] for record in log)
    for batches in cuts:
        part = task(given)
        assert process(part, batches) == expected
        assert states(part) == states(whole)
        assert part.partition_state() == whole.partition_state()
    for stop in stops:
        worker = task(given)
        outputs = process(worker, uneven(log[:stop], stop))
        fresh = restored(given, *stored(worker))
        outputs.add(process(fresh, uneven(log[stop:], stop)))
        assert outputs == expected
        assert states(fresh) == states(whole)
    return whole, expected


def states(worker):
    return {model.name: model.state() for model in worker.models}


def stored(worker):
    """The state of a partition and the snapshots that are to be written, from which a new task goes on."""
    snapshots = [worker.models.snapshot(name) for name in worker.models.pending(everything=True)]
    return worker.partition_state(), snapshots


def restore(fresh, state, snapshots):
    """Let a new task go on from snapshots, after these went over the topic."""
    fresh.restore_partition(state)
    for snapshot in snapshots:
        header = orjson.loads(orjson.dumps(snapshot.header))
        fresh.restore(StreamSnapshot(snapshot.stream, snapshot.next, header, snapshot.body))


def restored(given, state, snapshots):
    """A new task that goes on from snapshots."""
    fresh = task(given)
    restore(fresh, state, snapshots)
    return fresh


class Held:
    """A task, how far it came, and what its partition of the snapshots topic has."""

    def __init__(self, task):
        self.task = task
        self.read = 0
        self.snapshots = {}
        self.state = None
        self.recovery_offset = 0

    def write(self, streams, position):
        """Write snapshots as a worker does, with what the partition knows beside them."""
        for stream, snapshot in self.task.models.changes(streams):
            if snapshot is None:
                self.snapshots.pop(stream, None)
            else:
                self.snapshots[stream] = snapshot
        self.recovery_offset = (
            position if self.task.models.recovery_offset is None else self.task.models.recovery_offset
        )
        self.state = self.task.partition_state()

    def restore(self, fresh, log, size=10_000):
        """Let a new task go on from what was written."""
        if self.state is not None:
            restore(fresh, self.state, self.snapshots.values())
        silent = [record for record in log[: self.read] if record.offset >= self.recovery_offset]
        for start in range(0, len(silent), size):
            fresh.catch_up(silent[start : start + size])
        self.task = fresh


def payloads(messages):
    return [orjson.loads(message.value) for message in messages]


def errors(message, name="resonance"):
    """What the text headers of a dead letter say."""
    prefix = f"{name}.error."
    return {
        header.removeprefix(prefix): (text or b"").decode()
        for header, text in message.headers
        if header.startswith(prefix)
    }
