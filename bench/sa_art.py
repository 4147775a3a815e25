"""How well SA-ART clusters sparse and dense sets beside Fuzzy ART: one pass, mean of three orders, 5,000 records.

Adjusted mutual information (AMI) with the classes: of the clusters that learned the records, as the specification
measures it, and of what was answered before each record was learned.
"""

import statistics
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from resonance.engine import ENGINES, SparseBatch
from sklearn.metrics import adjusted_mutual_info_score

from bench.report import Row, arguments, show
from bench.streams import chosen, sparse_set

ORDERS = 3
RECORDS = 5000
SETS = ("digits", "mnist5k", "r52")

SPECIFICATION = {"digits": 0.52, "mnist5k": 0.42, "r52": 0.20}
"""AMI of SA-ART with default settings, as its specification has it."""

CONTESTANTS = {
    "sa_art": ("sa_art", {}),
    "sa_art paper": ("sa_art", ENGINES["sa_art"].presets["paper"]),
    "fuzzy_art": ("fuzzy_art", {}),
    "fuzzy_art paper": ("fuzzy_art", ENGINES["fuzzy_art"].presets["paper"]),
}


@dataclass(frozen=True, slots=True)
class Quality:
    """AMI of the learning clusters and of the answers, and clusters at the end."""

    ami: float
    answers: float
    clusters: float


def measured(name: str, parameters: dict[str, object], X: SparseBatch, y: NDArray[np.int64]) -> Quality:
    """Learn a set in every order."""
    found: list[tuple[float, float, int]] = []
    for seed in range(ORDERS):
        order = np.random.default_rng(seed).permutation(len(y))[:RECORDS]
        model = ENGINES[name].make(parameters)
        step = model.learn(chosen(X, order))  # type: ignore[arg-type]
        ami = [adjusted_mutual_info_score(y[order], labels[:, 0]) for labels in (step.path, step.cluster)]
        found.append((ami[0], ami[1], len(model.clusters())))
    return Quality(*(statistics.mean(column) for column in zip(*found, strict=True)))


def rows_of(name: str) -> list[Row]:
    """Measure every contestant on one set; nothing where its file is not on this machine."""
    data = sparse_set(name)
    if data is None:
        return []
    X, y = data
    case = f"{name} n={min(len(y), RECORDS):,} d={X.dimension}"
    found = {who: measured(engine, given, X, y) for who, (engine, given) in CONTESTANTS.items()}
    ours = found.pop("sa_art")
    rows = [Row(case, "AMI", ours.ami, "specification", SPECIFICATION[name])]
    for who, theirs in found.items():
        rows.append(Row(case, "AMI", ours.ami, who, theirs.ami))
        rows.append(Row(case, "AMI of answers", ours.answers, who, theirs.answers))
        rows.append(Row(case, "clusters", ours.clusters, who, theirs.clusters))
    return rows


def main() -> None:
    """Run the benchmark."""
    given = arguments("How well SA-ART clusters beside Fuzzy ART, on public sets.").parse_args()
    show(
        f"SA-ART: one pass, mean of {ORDERS} orders",
        [row for name in SETS for row in rows_of(name)],
        given.json,
        "sa_art and fuzzy_art with default settings, and with those of their papers.",
    )


if __name__ == "__main__":
    main()
