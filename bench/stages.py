"""Where the CPU time of a record goes: the worker's threads on a broker, and the steps of the partition task alone."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import orjson
from resonance.engine import make_engine
from resonance.engine.prepare import Preparation
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.machine import collect_rarely
from resonance.pipeline.records import Record
from resonance.pipeline.task.partition_task import PartitionTask

from bench.processes import Pace
from bench.report import Row
from bench.streams import SPREADS, blobs

FEATURES = 16
RECORDS = 40_000
WARM = 10_000
CHUNK = 500
ROUNDS = 5


def _per_record(work: Callable[[Any], Any], parts: Iterable[Any], records: int) -> float:
    """Return the microseconds a record that calling `work` with every part takes; what it returns is dropped."""
    start = time.perf_counter()
    for part in parts:
        work(part)
    return (time.perf_counter() - start) / records * 1e6


def task_rows() -> list[Row]:
    """Return the cost of the partition task for a record, and of its steps, each beside the whole."""
    collect_rarely()
    X = np.round(blobs(RECORDS, FEATURES, SPREADS[FEATURES], seed=3), 9)
    values = [orjson.dumps({"id": f"r{i:07d}", "features": row, "time": i}) for i, row in enumerate(X.tolist())]
    records = [Record("features", 0, i, 1_700_000_000_000 + i // 50, b"k0", value) for i, value in enumerate(values)]
    cuts = range(WARM, RECORDS, CHUNK)
    chunks, raw = [records[i : i + CHUNK] for i in cuts], [X[i : i + CHUNK] for i in cuts]
    timed = RECORDS - WARM
    found: dict[str, list[float]] = {}

    def note(step: str, microseconds: float) -> None:
        found.setdefault(step, []).append(microseconds)

    for _ in range(ROUNDS):
        settings = Settings.of({"stream": "partition", "input.topics": ["features"], "input.id_path": "id"})
        task = PartitionTask(settings, "features", 0)
        for start in range(0, WARM, CHUNK):
            task.process(records[start : start + CHUNK])
        note("all of it", _per_record(task.process, chunks, timed))
        note("orjson.loads", _per_record(orjson.loads, values[WARM:], timed))
        preparation = Preparation([f"f{i}" for i in range(FEATURES)])
        preparation.hold(X[:200])
        scaled = np.concatenate([preparation.freeze(), preparation.apply(X[200:])])
        note("prepare", _per_record(preparation.apply, raw, timed))
        prepared = [scaled[i : i + CHUNK] for i in cuts]
        engine = make_engine(settings.engine.name, {})
        engine.learn(scaled[:WARM])
        note("engine", _per_record(engine.learn, prepared, timed))
    best = {step: min(times) for step, times in found.items()}
    whole = best.pop("all of it")
    best["the rest: arrays, assignments as JSON, headers"] = whole - sum(best.values())
    rows = [Row("partition task, chunks of 500", "us/record", whole)]
    return rows + [Row(f"  {step}", "us/record", cost, "partition task", whole) for step, cost in best.items()]


def profile_rows(worker: Pace) -> list[Row]:
    """Return the CPU time of each of the worker's threads, then the steps of the partition task."""
    rows = [
        Row(f"worker thread {name}", "us CPU/record", used, "worker", worker.cpu)
        for name, used in worker.threads.items()
    ]
    return rows + task_rows()
