"""The figures of the papers as far as their data are at hand: ``python -m bench.papers``."""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from resonance.engine import make_engine
from rich.console import Console
from rich.markdown import Markdown

from bench import evq, ildn, mlca
from bench.report import arguments
from bench.streams import DATA, Array, Classes, load

SPLITS = 10

TREE = {
    "aggregation": (0.996, 0.996),
    "compound": (0.956, 0.959),
    "jain": (0.999, 1.000),
    "pathbased": (0.982, 0.965),
    "wdbc": (0.909, 0.913),
    "iris": (0.960, 0.913),
    "sonar": (0.688, 0.671),
    "wine": (0.846, 0.767),
}
"""Accuracy of HCAEA (Masuyama et al., tables V and VI): all classes at once, and one class after another."""

COUNTS = {
    "evq-ams": ("eVQ-AMS", ((20, 0.39), (35, 0.34), (15, 0.20), (15, 0.28), (15, 0.38), (15, 0.22))),
}
"""Clusters and quality of eVQ-AMS in file order, the best of a grid (Lughofer and Sayed-Mouchaweh)."""

SEGMENT = (465, 0.9032)
"""Nodes and accuracy of ILDN on Segment (Xing et al.)."""

Rows = Iterator[tuple[str, ...]]


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


def of_trees() -> Rows:
    """Yield the accuracy of HCAEA: the mean of all sets."""
    found = [(paper, data) for name, paper in TREE.items() if (data := load(name)) is not None]
    for way, by_class in (("all classes at once", False), ("class by class", True)):
        ours = [tree_accuracy(*data, SPLITS, by_class=by_class)[0] for _, data in found]
        theirs = [paper[by_class] for paper, _ in found]
        yield (way, *(f"{statistics.mean(each):.3f}" for each in (theirs, ours)))


def of_ellipses() -> Rows:
    """Yield clusters and quality of eVQ-AMS in file order, the best of its grid."""
    for mode, (shown, paper) in COUNTS.items():
        theirs, ours = [f"{clusters} / {quality:.2f}" for clusters, quality in paper], []
        parameter, grid = evq.MODES[mode][:2] if mode in evq.MODES else ("fac", evq.RADII)
        for name in evq.SETS:
            data = evq.scaled(name)
            if data is None:
                return
            settings: list[dict[str, Any]] = [{"mode": mode, parameter: value, **evq.UNIT} for value in grid]
            runs = [evq.run(name, *data, each, mode in ("evq-am", "evq-ams")) for each in settings]
            best = min((each for each in runs if not math.isnan(each.quality)), key=lambda each: each.quality)
            ours.append(f"{best.found} / {best.quality:.2f}")
        yield (f"{shown}, paper", *theirs)
        yield (f"{shown}, ours", *ours)


def of_nodes() -> Rows:
    """Yield nodes and accuracy of ILDN on Segment."""
    found = [each for seed in range(ildn.ORDERS) if (each := ildn.of_segment(seed)) is not None]
    if found:
        nodes, by_distance, _ = (statistics.mean(column) for column in zip(*found, strict=True))
        yield ("paper", str(SEGMENT[0]), f"{SEGMENT[1]:.1%}")
        yield ("ours", f"{nodes:.0f}", f"{by_distance:.1%}")


def of_labels() -> Rows:
    """Yield the exact match of the MLCA family on three regions."""
    yield ("paper", *(f"{value:.3f}" for value in mlca.PAPER.values()))
    found = {row.case: row.value for row in mlca.on_regions()}
    for form in mlca.FORMS:
        values = {
            order: max(value for case, value in found.items() if case.startswith(f"{form} ") and order in case)
            for order in mlca.PAPER
        }
        yield (f"`{form}`, ours", *(f"{value:.3f}" for value in values.values()))


def table(head: Sequence[str], rows: Rows) -> list[str]:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines, ""]


def tables() -> str:
    """Return all of them."""
    sets = [f"{name.upper()} ({clusters})" for name, clusters in evq.SETS.items()]
    return "\n".join(
        [
            "### HCAEA: accuracy",
            "",
            f"Mean of {len(TREE)} sets; nine tenths learned with labels, one tenth predicted, {SPLITS} times.",
            "",
            *table(["", "paper", "ours"], of_trees()),
            "### eVQ-AMS: clusters and quality",
            "",
            "Sets sorted by cluster, as in the paper; the right number is in the head. Quality: mean distance to the",
            "nearest centre, relative to the smallest distance of two centres; lower is better.",
            "",
            *table(["", *sets], of_ellipses()),
            "### ILDN: Segment",
            "",
            *table(["", "nodes", "accuracy"], of_nodes()),
            "### MLCA: three overlapping regions, one after the other, and mixed",
            "",
            *table(["exact match", *mlca.PAPER], of_labels()),
        ]
    )


def main() -> None:
    """Run it."""
    arguments("The tables of the papers, ours beside theirs.").parse_args()
    if not (DATA / "s1.npz").exists():
        raise SystemExit(f"the data sets are not in {DATA}: nothing to run on")
    Console().print(Markdown(tables()))


if __name__ == "__main__":
    main()
