"""Time of a record and bytes of state, for the kernel alone and for the watch as the pipeline calls it."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from resonance.engine.base import Cluster
from resonance.engine.drift import STRIDE, DriftWatch
from resonance.engine.drift.layout import rules_from
from resonance.engine.drift.learn import learn_batch

from bench.drift.detectors import DEFAULTS
from bench.report import Row
from bench.streams import Array

MICROSECONDS = {8: 0.3, 64: 1.2}
BYTES = {8: 35_000.0}
MOST_BYTES = 2.6e6


def _new(d: int, cells: int, rng: np.random.Generator) -> tuple[DriftWatch, Array]:
    watch, centres = DriftWatch(d), rng.random((cells, d))
    watch.take_cells([Cluster(i, (), 1, 1, centre, np.zeros(d)) for i, centre in enumerate(centres)])
    return watch, centres


def _kernel(watch: DriftWatch) -> Callable[[Any, Any, Any], object]:
    """Return the kernel on a watch's state."""
    rules = rules_from(DEFAULTS, watch.dimension)

    def learn(X: Any, answers: Any, offsets: Any) -> object:
        return learn_batch(watch._state, rules, X, answers, offsets, offsets, 0)

    return learn


def _microseconds(learn: Callable[[Any, Any, Any], object], X: Array, answers: Any) -> float:
    """Return the fastest tenth of the batches: what other programs take is not counted."""
    times = []
    for start in range(0, len(X), STRIDE):
        rows, offsets = X[start : start + STRIDE], np.arange(start, start + STRIDE)
        began = time.perf_counter()
        learn(rows, answers[start : start + STRIDE], offsets)
        times.append((time.perf_counter() - began) / STRIDE * 1e6)
    return float(np.percentile(times[len(times) // 2 :], 10))


def costs(records: int = 200 * STRIDE) -> list[Row]:
    """Return times and bytes beside their bars."""
    rows = []
    for d, cells, n in ((8, 8, records), (64, 8, records // 4 // STRIDE * STRIDE), (246, 32, 4 * STRIDE)):
        rng = np.random.default_rng(1)
        watch, centres = _new(d, cells, rng)
        other, _ = _new(d, cells, np.random.default_rng(1))
        answers = rng.integers(cells, size=n)
        X = centres[answers] + 0.05 * rng.normal(size=(n, d))
        case, bar = f"d={d} cells={cells}", MICROSECONDS.get(d)
        for name, learn in (
            ("DriftWatch.learn", lambda X, a, o, watch=watch: watch.learn(X, a, o, o)),
            ("kernel", _kernel(other)),
        ):
            taken = _microseconds(learn, X, answers)
            rows.append(Row(f"{case}: {name}", "us a record", taken, "bar" if bar else None, bar))
        rows.append(Row(f"{case}: state", "bytes", float(len(watch.state())), "bar", BYTES.get(d, MOST_BYTES)))
    return rows
