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
from resonance.engine import make_engine

from bench.live import CHUNK, fold, halved, new_task, prepared, process
from bench.peers import river
from bench.report import Row, arguments, show
from bench.streams import QUALITY_SETS, TREE_SETS, Array, Classes, load

ORDERS = 5
SPLITS = 20

TREE_TABLE = {"aggregation": 1.000, "compound": 0.979, "jain": 1.000, "pathbased": 0.997, "iris": 0.967}
"""Accuracy of HCAEA, orphans = nearest, as its specification has it."""


@dataclass(frozen=True, slots=True)
class Live:
    """One stream's quality: ARI of its second half, events for 1,000 records, clusters at the end."""

    ari: float
    events: float
    clusters: int


def through_the_task(X: Array, y: Classes) -> Live:
    """Send records through a partition task with default settings."""
    answers: list[object] = []
    events = 0
    present: set[str] = set()
    for chunk in process(new_task({}), X, [*range(0, len(X), CHUNK), len(X)]):
        answers += [assignment["cluster"] for assignment in chunk.assignments]
        events += len(chunk.events)
        for event in chunk.events:
            fold(present, event)
    return Live(halved(y, answers), 1000 * events / len(X), len(present))


def dbstream(X: Array, y: Classes) -> float:
    """Return what River's DBSTREAM reaches on the same records."""
    model = river.dbstream(X.shape[1])
    answers: list[object] = []
    for x in river.as_river(prepared(X)):
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
            theirs.append(dbstream(X[order], y[order]))
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


def tree_accuracy(X: Array, y: Classes, splits: int, *, by_class: bool = False) -> tuple[float, float]:
    """Return mean and standard error of HCAEA's accuracy on a tenth, over random splits; classes mixed or in turn."""
    accuracy: list[float] = []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(X))
        learned, tested = np.split(order, [round(0.9 * len(X))])
        if by_class:
            learned = learned[np.argsort(y[learned], kind="stable")]
        engine = make_engine("hcaea", {"lambda": 28, "grace": 0, "orphans": "nearest"})
        engine.learn(X[learned], labels=y[learned].tolist())
        accuracy.append(float((engine.predict(X[tested]).label == y[tested]).mean()))
    return statistics.mean(accuracy), statistics.stdev(accuracy) / math.sqrt(splits)


def tree_rows() -> list[Row]:
    """Classify with HCAEA, and compare with its specification's table."""
    rows: list[Row] = []
    for name in TREE_SETS:
        found = load(name)
        if found is None:
            continue
        X, y = found
        accuracy, error = tree_accuracy(X, y, SPLITS)
        rows.append(Row(name, "accuracy", accuracy, "specification", TREE_TABLE[name]))
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
