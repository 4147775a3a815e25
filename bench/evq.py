"""How often the eVQ family finds the right number of clusters, beside what its specification states.

Six sets whose number of clusters is known, in file order (cluster by cluster) and in six shuffles, with four radii.
R1 knows the range of the features, R3 takes it from the stream, P is the plain reading of the paper; R1 and R3 are
consolidated at the end. Quality: mean distance of a record to the nearest centre over the smallest distance of two
centres, features scaled to [0, 1]; lower is better.

A share of right runs is checked against the stated one less two standard errors: stated where over shuffles, else of
as many independent runs.
"""

import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine import EVQ
from rich.console import Console
from rich.table import Table
from sklearn.metrics import adjusted_rand_score

from bench.report import WIDTH, arguments
from bench.streams import DATA, Array, load

SETS = {"a1": 20, "a2": 35, "s1": 15, "s2": 15, "s3": 15, "r15": 15}
RADII = (2.5, 4.0, 10.0, 20.0)
SHUFFLES = range(401, 407)
UNIT = {"low": 0.0, "high": 1.0}
CONFIGURATIONS: dict[str, dict[str, Any]] = {"P": {**EVQ.presets["paper"], **UNIT}, "R1": UNIT, "R3": {}}

# Stated: of file order the share of right runs, of right ones with radius 4, and of those off by at most one.
FILE_SHARES = {"P": (0.75, 0.83, 0.88), "R1": (0.83, 1.0, 1.0), "R3": (0.83, 1.0, 1.0)}
# Of the shuffles: the share for each set, for all with its standard error, off by at most one, ARI.
SHUFFLED_SHARES = {
    "P": ((0.29, 0.08, 0.75, 0.46, 0.12, 0.04), 0.29, 0.05, 0.42, 0.63),
    "R1": ((0.96, 1.0, 0.96, 0.58, 0.12, 0.58), 0.70, 0.04, 0.95, 0.90),
    "R3": ((1.0, 0.88, 0.96, 0.58, 0.46, 0.62), 0.75, 0.07, 0.85, 0.90),
}
# The best of each mode in file order, over a grid of its own: clusters and quality.
MODES: dict[str, tuple[str, tuple[float, ...], tuple[tuple[int, float], ...]]] = {
    "evq": (
        "vig",
        (0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.24, 0.25, 0.275, 0.3, 0.35, 0.4),
        ((9, 0.42), (35, 0.41), (15, 0.20), (12, 0.34), (4, 0.40), (8, 0.21)),
    ),
    "evq-a": (
        "fac",
        (2.5, 3.0, 3.5, 4.0, 4.5, 5.0),
        ((20, 0.39), (33, 0.39), (15, 0.20), (12, 0.34), (5, 0.55), (15, 0.23)),
    ),
    "evq-am": (
        "fac",
        (2.5, 3.0, 3.5, 4.0, 4.5, 5.0),
        ((20, 0.39), (35, 0.35), (15, 0.20), (15, 0.28), (14, 0.42), (15, 0.23)),
    ),
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its set, how many clusters it found beyond the right number, quality and ARI."""

    data: str
    fac: float
    found: int
    quality: float
    ari: float

    @property
    def beyond(self) -> int:
        """Clusters beyond the right number."""
        return self.found - SETS[self.data]


def squares(n: int = 5_000, shuffled: bool = True, seed: int = 0) -> Array:
    """Return 15 ellipses of equal frequency in the unit square, one after the other unless shuffled."""
    rng = np.random.default_rng(seed)
    places = np.stack(np.divmod(np.arange(15), 4), axis=1)
    centres = 0.15 + 0.23 * places + rng.uniform(-0.03, 0.03, (15, 2))
    turn = rng.uniform(0.0, np.pi, 15)
    axes = np.stack([np.cos(turn), np.sin(turn), -np.sin(turn), np.cos(turn)], axis=1).reshape(15, 2, 2)
    y = np.sort(rng.integers(15, size=n))
    X = centres[y] + np.einsum("ni,nij->nj", rng.normal(size=(n, 2)) * [0.035, 0.014], axes[y])
    return X[rng.permutation(n)] if shuffled else X


def correlated(n: int = 4_800, d: int = 32, clusters: int = 16, seed: int = 5) -> Array:
    """Return shuffled normal clusters with full covariances, scaled to the unit cube."""
    rng = np.random.default_rng(seed)
    centres, roots = rng.random((clusters, d)), rng.normal(size=(clusters, d, d)) * 0.08 / np.sqrt(d)
    y = rng.integers(clusters, size=n)
    X = centres[y] + np.einsum("nij,nj->ni", roots[y], rng.normal(size=(n, d)))
    return (X - X.min(0)) / (X.max(0) - X.min(0))


def quality(X: Array, centres: Array) -> float:
    """Return (36); NaN for one cluster."""
    if len(centres) < 2:
        return math.nan
    nearest = np.sqrt(((X[:, None] - centres[None]) ** 2).sum(2)).min(1).mean()
    apart = np.sqrt(((centres[:, None] - centres[None]) ** 2).sum(2))
    return float(nearest / apart[np.triu_indices(len(centres), 1)].min())


def run(data: str, X: Array, y: NDArray[np.int64], given: dict[str, Any], consolidated: bool) -> Run:
    """Learn a stream, consolidate, and judge."""
    model = EVQ.make(given | ({"consolidate_every": len(X)} if consolidated else {}))
    model.learn(X)
    centres = model.arrays()["centre"]
    found = model.predict(X).cluster[:, 0]
    value = quality(X, centres)
    return Run(data, given.get("fac", 4.0), len(centres), value, float(adjusted_rand_score(y, found)))


def scaled(name: str) -> tuple[Array, NDArray[np.int64]] | None:
    """Return a set with its features scaled to [0, 1]; None where its file is not there."""
    found = load(name)
    if found is None:
        return None
    X = found[0]
    return (X - X.min(0)) / (X.max(0) - X.min(0)), found[1]


def runs(configuration: str, orders: Iterable[int | None]) -> Iterator[Run]:
    """Run a configuration on every set, in every order (None: of the file), with every radius."""
    for name in SETS:
        found = scaled(name)
        if found is None:
            continue
        X, y = found
        for seed in orders:
            order = np.arange(len(X)) if seed is None else np.random.default_rng(seed).permutation(len(X))
            for fac in RADII:
                given = {**CONFIGURATIONS[configuration], "fac": fac}
                yield run(name, X[order], y[order], given, configuration != "P")


def share(found: list[Run], off: int = 0) -> float:
    """Return the share of runs whose number of clusters is right, or off by at most `off`."""
    return statistics.mean(abs(each.beyond) <= off for each in found)


def checked(found: float, stated: float, error: float) -> tuple[str, str, str]:
    """Return a share, the stated one, and whether it is at least that less two standard errors."""
    least = stated - 2.0 * error
    # Stated shares are rounded to whole per cent.
    return f"{found:.0%}", f"{stated:.0%}", "ok" if found >= least - 0.005 else f"BELOW {least:.0%}"


def binomial(stated: float, count: int) -> float:
    """Return the standard error of a share of independent runs."""
    return math.sqrt(stated * (1.0 - stated) / count)


def shares_table(title: str, rows: Iterable[tuple[str, ...]]) -> Table:
    """Return a table of shares."""
    table = Table(title=title, title_justify="left")
    for column in ("case", "right", "stated", "check", "clusters", "quality", "off by <= 1", "stated", "ARI", "stated"):
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def described(found: list[Run]) -> tuple[str, str]:
    """Return the range of the counts and the median quality."""
    low, high = min(each.found for each in found), max(each.found for each in found)
    known = [each.quality for each in found if not math.isnan(each.quality)]
    return f"{low}-{high}", f"{statistics.median(known):.2f}"


def file_rows() -> Iterator[tuple[str, ...]]:
    """Judge the runs in file order."""
    for name, (right, with_four, nearly) in FILE_SHARES.items():
        found = list(runs(name, [None]))
        four = [each for each in found if each.fac == 4.0]
        cells = checked(share(found), right, binomial(right, len(found)))
        yield (f"{name} file order", *cells, "", "", f"{share(found, 1):.0%}", f"{nearly:.0%}", "", "")
        yield (f"{name} file order, fac 4", *checked(share(four), with_four, binomial(with_four, len(four))), *[""] * 6)


def shuffled_rows() -> Iterator[tuple[str, ...]]:
    """Judge the runs in shuffled order."""
    for name, (by_set, right, error, nearly, ari) in SHUFFLED_SHARES.items():
        found = list(runs(name, SHUFFLES))
        for data, stated in zip(SETS, by_set, strict=True):
            own = [each for each in found if each.data == data]
            if own:
                cells = checked(share(own), stated, binomial(stated, len(own)))
                mean = statistics.mean(each.ari for each in own)
                yield (f"{name} {data} ({SETS[data]})", *cells, *described(own), "", "", f"{mean:.2f}", "")
        mean = statistics.mean(each.ari for each in found)
        cells = checked(share(found), right, error)
        yield (f"{name} all", *cells, "", "", f"{share(found, 1):.0%}", f"{nearly:.0%}", f"{mean:.2f}", f"{ari:.2f}")


def best_table() -> Table:
    """Return the best of each mode in file order: clusters / quality, and what is stated."""
    table = Table(title="File order, best quality over a grid: clusters / quality (stated)", title_justify="left")
    table.add_column("mode")
    for name, clusters in SETS.items():
        table.add_column(f"{name} ({clusters})", no_wrap=True)
    for mode, (parameter, grid, stated) in MODES.items():
        cells = []
        for name, (clusters, figure) in zip(SETS, stated, strict=True):
            found = scaled(name)
            if found is None:
                cells.append("")
                continue
            results = [run(name, *found, {"mode": mode, parameter: value, **UNIT}, mode == "evq-am") for value in grid]
            best = min((each for each in results if not math.isnan(each.quality)), key=lambda each: each.quality)
            cells.append(f"{best.found}/{best.quality:.2f} ({clusters}/{figure:.2f})")
        table.add_row(mode, *cells)
    return table


def main() -> None:
    """Run the benchmark."""
    arguments("The eVQ family beside its specification: numbers of clusters and quality.").parse_args()
    if not (DATA / "s1.npz").exists():
        raise SystemExit(f"the data sets are not in {DATA}: nothing to run on")
    console = Console(width=WIDTH)
    console.print(best_table())
    console.print(shares_table(f"File order, fac {', '.join(f'{fac:g}' for fac in RADII)}", file_rows()))
    console.print(shares_table(f"Shuffled, {SHUFFLES.start}-{SHUFFLES.stop - 1}", shuffled_rows()))


if __name__ == "__main__":
    main()
