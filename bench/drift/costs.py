"""Time of a record and bytes of state of the watch as the pipeline calls it."""

import time

import numpy as np
from resonance.engine.base import Cluster
from resonance.engine.drift import STRIDE, DriftWatch

from bench.report import Row

MICROSECONDS = {8: 0.3, 64: 1.2}
BYTES = {8: 39_000.0}
MOST_BYTES = 2.9e6


def costs(records: int = 200 * STRIDE) -> list[Row]:
    """Return times and bytes beside their bars; of the batches the fastest tenth: other programs are not counted."""
    rows = []
    for d, cells, n in ((8, 8, records), (64, 8, records // 4 // STRIDE * STRIDE), (246, 32, 4 * STRIDE)):
        rng = np.random.default_rng(1)
        watch, centres = DriftWatch(d), rng.random((cells, d))
        watch.take_cells([Cluster(i, (), 1, 1, centre, np.zeros(d)) for i, centre in enumerate(centres)])
        answers = rng.integers(cells, size=n)
        X = centres[answers] + 0.05 * rng.normal(size=(n, d))
        times = []
        for start in range(0, n, STRIDE):
            batch, offsets = slice(start, start + STRIDE), np.arange(start, start + STRIDE)
            began = time.perf_counter()
            watch.learn(X[batch], answers[batch], offsets, offsets)
            times.append((time.perf_counter() - began) / STRIDE * 1e6)
        taken = float(np.percentile(times[len(times) // 2 :], 10))
        case = f"d={d} cells={cells}"
        rows.append(Row(f"{case}: DriftWatch.learn", "us a record", taken, "bar", MICROSECONDS.get(d)))
        rows.append(Row(f"{case}: state", "bytes", float(len(watch.state())), "bar", BYTES.get(d, MOST_BYTES)))
    return rows
