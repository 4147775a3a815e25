"""What `Scorer.score_batch` costs for rows, beside the prediction of the engine: microseconds a record, alternating."""

import os
from collections.abc import Callable
from timeit import timeit

import numpy as np
import orjson
from resonance.pipeline.columns import Texts, Times
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Record
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.partition_task import PartitionTask

from bench.report import Row, alternating, arguments, show
from bench.streams import SPREADS, blobs

LEARNED, TIMED = 30_000, 100_000
STAMP = 1_700_000_000_000


def contestants(features: int) -> dict[str, Callable[[], float]]:
    """Return the answers of a task to rows, as a `Scorer` has them made, and those of its engine to prepared rows."""
    names = [f"f{number}" for number in range(features)]
    task = PartitionTask(Settings.of({"input.topics": ["t"], "input.features": names}), "t", 0)
    X = blobs(LEARNED + TIMED, features, SPREADS.get(features, SPREADS[8]))
    values = [orjson.dumps(dict(zip(names, row, strict=True))) for row in X[:LEARNED].tolist()]
    task.process([Record("t", 0, at, STAMP + at, None, value) for at, value in enumerate(values)])
    rows, (model,) = X[LEARNED:], task.models
    prepared = model.preparation.transform_next(rows)

    def answer() -> None:
        times, keys = Times(np.full(TIMED, STAMP)), Texts[bytes | None].repeated(None, TIMED)
        batch = RecordBatch(rows, times, [0] * TIMED, [-1] * TIMED, keys, index=range(TIMED))
        task.score_batch(batch, TIMED)

    calls = {"answers": answer, "predict": lambda: model.engine.predict(prepared)}
    return {name: lambda call=call: timeit(call, number=1) / TIMED * 1e6 for name, call in calls.items()}


def main() -> None:
    """Run the benchmark."""
    parser = arguments("What answers to rows cost beside the engine's prediction: one core, microseconds a record.")
    parser.add_argument("--rounds", type=int, default=9, help="alternating runs that each median is taken of")
    parser.add_argument("--features", type=int, nargs="*", default=[4, 8, 16], help="numbers of features")
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = []
    for features in given.features:
        found = alternating(contestants(features), given.rounds)
        rows.append(Row(f"rows d={features}", "us/record", found["answers"], "predict", found["predict"]))
    show("Answers to 100,000 rows", rows, given.json)


if __name__ == "__main__":
    main()
