"""How good the live answers are: what the partition task says of each record before it learns it.

Six sets in five orders, default settings, JSON in and assignments out. ARI of the second half of the stream; a record
without a cluster counts as one of a cluster of its own kind. River's DBSTREAM sees the same records, scaled in the
same way, and answers before it learns.

``--hcaea``: classification by HCAEA, nine tenths of a set learned in random order with labels, one tenth predicted.
"""

import math
import statistics
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray
from resonance.engine import make_engine
from resonance.engine.prepare import Preparation
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.partition import PartitionTask
from resonance.pipeline.records import Record
from sklearn.metrics import adjusted_rand_score

from bench import peers
from bench.report import Row, arguments, show
from bench.streams import QUALITY_SETS, TREE_SETS, Array, load

CHUNK = 500
ORDERS = 5
SPLITS = 20
WARMUP = 200

TREE_TABLE = {"aggregation": 1.000, "compound": 0.979, "jain": 1.000, "pathbased": 0.997, "iris": 0.967}
"""Accuracy of HCAEA, orphans = nearest, as its specification has it."""


@dataclass(frozen=True, slots=True)
class Live:
    """One stream's quality: ARI of its second half, events for 1,000 records, clusters at the end."""

    ari: float
    events: float
    clusters: int


def halved(y: NDArray[np.int64], answers: list[object]) -> float:
    """Return the ARI of the second half of a stream."""
    half = len(y) // 2
    _, found = np.unique(np.array([str(answer) for answer in answers[half:]]), return_inverse=True)
    return float(adjusted_rand_score(y[half:], found))


def through_the_task(X: Array, y: NDArray[np.int64]) -> Live:
    """Send records through a partition task with default settings."""
    settings = Settings.of({"stream": "partition", "input.topics": ["features"]})
    task = PartitionTask(settings, "features", 0)
    answers: list[object] = []
    events = 0
    present: set[str] = set()
    for start in range(0, len(X), CHUNK):
        chunk = X[start : start + CHUNK].tolist()
        records = [
            Record("features", 0, start + i, 1_700_000_000_000 + start + i, None, orjson.dumps({"features": row}))
            for i, row in enumerate(chunk)
        ]
        outputs = task.process(records)
        assert not outputs.dead_letters
        for message in outputs.assignments:
            assert message.value is not None
            assignment = orjson.loads(message.value)
            answers.append(assignment["cluster"])
        for message in outputs.events:
            assert message.value is not None
            event = orjson.loads(message.value)
            events += 1
            present.difference_update(cluster["id"] for cluster in event["before"])
            present.update(cluster["id"] for cluster in event["after"])
    return Live(halved(y, answers), 1000 * events / len(X), len(present))


def river(X: Array, y: NDArray[np.int64]) -> float:
    """Return what River's DBSTREAM reaches on the same records."""
    preparation = Preparation([f"f{i}" for i in range(X.shape[1])], warmup_records=WARMUP)
    preparation.hold(X[:WARMUP])
    scaled = np.concatenate([preparation.freeze(), preparation.apply(X[WARMUP:])])
    model = peers.dbstream(X.shape[1])
    answers: list[object] = []
    for x in peers.as_river(scaled):
        answers.append(model.predict_one(x))
        model.learn_one(x)
    return halved(y, answers)


def live_rows() -> list[Row]:
    """Measure every set in every order."""
    rows: list[Row] = []
    total: list[tuple[float, float, float]] = []
    for name in QUALITY_SETS:
        found = load(name)
        if found is None:
            continue
        X, y = found
        mine: list[Live] = []
        theirs: list[float] = []
        for seed in range(ORDERS):
            order = np.random.default_rng(seed).permutation(len(X))
            mine.append(through_the_task(X[order], y[order]))
            theirs.append(river(X[order], y[order]))
        ari = statistics.mean(live.ari for live in mine)
        events = statistics.mean(live.events for live in mine)
        clusters = statistics.mean(live.clusters for live in mine)
        total.append((ari, events, statistics.mean(theirs)))
        rows.append(Row(f"{name} n={len(X)} d={X.shape[1]}", "ARI", ari, "river dbstream", total[-1][2]))
        rows.append(Row(f"{name} n={len(X)} d={X.shape[1]}", "events/1,000 records", events))
        rows.append(Row(f"{name} n={len(X)} d={X.shape[1]}", "clusters", clusters, "classes", len(np.unique(y))))
    means = [statistics.mean(column) for column in zip(*total, strict=True)]
    rows.append(Row("mean of all sets", "ARI", means[0], "river dbstream", means[2]))
    rows.append(Row("mean of all sets", "events/1,000 records", means[1]))
    return rows


def tree_rows() -> list[Row]:
    """Classify with HCAEA, and compare with its specification's table."""
    rows: list[Row] = []
    for name in TREE_SETS:
        found = load(name)
        if found is None:
            continue
        X, y = found
        accuracy: list[float] = []
        for seed in range(SPLITS):
            order = np.random.default_rng(seed).permutation(len(X))
            learned, asked = np.split(order, [round(0.9 * len(X))])
            engine = make_engine("hcaea", {"lambda": 28, "grace": 0, "orphans": "nearest"})
            engine.learn(X[learned], labels=y[learned].tolist())
            accuracy.append(float((engine.predict(X[asked]).label == y[asked]).mean()))
        error = statistics.stdev(accuracy) / math.sqrt(SPLITS)
        rows.append(Row(name, "accuracy", statistics.mean(accuracy), "specification", TREE_TABLE[name]))
        rows.append(Row(name, "two standard errors", 2 * error))
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = arguments("How good the answers are, on public sets.")
    parser.add_argument("--hcaea", action="store_true", help="classification by HCAEA instead of live clustering")
    given = parser.parse_args()
    if given.hcaea:
        show(f"HCAEA: accuracy on a tenth, {SPLITS} splits", tree_rows(), given.json)
    else:
        show(f"Live answers: mean of {ORDERS} orders, default settings", live_rows(), given.json)


if __name__ == "__main__":
    main()
