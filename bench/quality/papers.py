"""The figures of the engines' papers as far as their data are at hand, ours beside them: ``--papers``."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine import ENGINES, EVQ, ILDN, make_engine
from sklearn.metrics import accuracy_score, adjusted_mutual_info_score, adjusted_rand_score, roc_auc_score
from sklearn.model_selection import RepeatedKFold
from sklearn.neighbors import KNeighborsClassifier

from bench.report import Row
from bench.streams import DATA, Array, Classes, chosen, load, sparse_set

Rows = Iterator[Row]
UNIT = {"low": 0.0, "high": 1.0}

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
SPLITS = 10

CLOUDS = {"a1": 20, "a2": 35, "s1": 15, "s2": 15, "s3": 15, "r15": 15}
"""Sets and their numbers of clusters."""
FACTORS = (2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
MODES: dict[str, tuple[str, tuple[float, ...], tuple[float, ...]]] = {
    "evq": (
        "vig",
        (0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.24, 0.25, 0.275, 0.3, 0.35, 0.4),
        (0.42, 0.41, 0.20, 0.34, 0.40, 0.21),
    ),
    "evq-a": ("fac", FACTORS, (0.39, 0.39, 0.20, 0.34, 0.55, 0.23)),
    "evq-am": ("fac", FACTORS, (0.39, 0.35, 0.20, 0.28, 0.42, 0.23)),
    "evq-ams": ("fac", (2.5, 4.0, 10.0, 20.0), (0.39, 0.34, 0.20, 0.28, 0.38, 0.22)),
}
"""In file order, the best of a grid (Lughofer and Sayed-Mouchaweh): parameter, grid, quality of each set."""
SHUFFLES = range(401, 407)
SHUFFLED = {"paper": ({**EVQ.presets["paper"], **UNIT}, 0.29, 0.42, 0.63), "default": ({}, 0.75, 0.85, 0.90)}
"""Of shuffles, by preset: share of runs with the right number, and to within one, and ARI; of its specification."""

SEGMENT = (465, 0.9032)
"""Nodes and accuracy of ILDN on Segment (Xing et al.)."""
ORDERS = 6

FORMS = ("mlca", "mlca_i", "mlca_c")
CENTRES, RADIUS = np.array([[0.35, 0.35], [0.65, 0.35], [0.5, 0.65]]), 0.3
REGIONS = {"in order": 0.909, "at once": 0.972}
"""Exact match after the third region, as the paper has it, on regions of its own."""

SALIENT = {"digits": 0.52, "mnist5k": 0.42, "r52": 0.20}
"""AMI of SA-ART with default settings, as its specification has it."""


def hcaea() -> Rows:
    """Yield the accuracy of HCAEA on a tenth, learned with labels: the mean of all sets and of random splits."""
    found = [(paper, data) for name, paper in TREE.items() if (data := load(name)) is not None]
    for way, by_class in (("all classes at once", False), ("class by class", True)):
        ours = [statistics.mean(_accuracy(*data, seed, by_class) for seed in range(SPLITS)) for _, data in found]
        theirs = statistics.mean(paper[by_class] for paper, _ in found)
        yield Row(f"hcaea {len(found)} sets, {way}", "accuracy", statistics.mean(ours), "paper", theirs)


def _accuracy(X: Array, y: Classes, seed: int, by_class: bool) -> float:
    order = np.random.default_rng(seed).permutation(len(X))
    learned, tested = np.split(order, [round(0.9 * len(X))])
    if by_class:
        learned = learned[np.argsort(y[learned], kind="stable")]
    engine = make_engine("hcaea", {"lambda": 28, "grace": 0, "orphans": "nearest"})
    engine.learn(X[learned], labels=y[learned].tolist())
    return float((engine.predict(X[tested]).label == y[tested]).mean())


def evq() -> Rows:
    """Yield the best quality of each mode in file order, and how often shuffles end in the right number of clusters.

    Quality: mean distance of a record to the nearest centre over the smallest distance of two centres; less is better.
    """
    sets = {name: _unit(*data) for name in CLOUDS if (data := load(name)) is not None}
    for mode, (parameter, grid, stated) in MODES.items():
        for (name, (X, y)), paper in zip(sets.items(), stated, strict=True):
            runs = [
                _ellipses(X, y, {"mode": mode, parameter: value, **UNIT}, mode[4:] in ("am", "ams")) for value in grid
            ]
            count, quality, _ = min(runs, key=lambda run: math.inf if math.isnan(run[1]) else run[1])
            yield Row(f"{mode} {name}, {count} clusters of {CLOUDS[name]}", "quality", quality, "paper", paper)
    for preset, (given, right, nearly, ari) in SHUFFLED.items():
        beyond, aris = [], []
        for name, (X, y) in sets.items():
            for seed in SHUFFLES:
                order = np.random.default_rng(seed).permutation(len(X))
                for fac in (2.5, 4.0, 10.0, 20.0):
                    count, _, found = _ellipses(X[order], y[order], {**given, "fac": fac}, preset != "paper")
                    beyond.append(abs(count - CLOUDS[name]))
                    aris.append(found)
        case, of = f"evq {preset}, shuffles", "specification"
        yield Row(f"{case} with the right number", "share", statistics.mean(off == 0 for off in beyond), of, right)
        yield Row(f"{case} to within one", "share", statistics.mean(off <= 1 for off in beyond), of, nearly)
        yield Row(case, "ARI", statistics.mean(aris), of, ari)


def _unit(X: Array, y: Classes) -> tuple[Array, Classes]:
    return (X - X.min(0)) / (X.max(0) - X.min(0)), y


def _ellipses(X: Array, y: Classes, given: dict[str, Any], consolidated: bool) -> tuple[int, float, float]:
    """Return clusters, quality (NaN for one cluster) and ARI of a stream that is learned and then consolidated."""
    model = EVQ.make(given | ({"consolidate_every": len(X)} if consolidated else {}))
    model.learn(X)
    centres = model.arrays()["centre"]
    nearest = np.sqrt(((X[:, None] - centres[None]) ** 2).sum(2)).min(1).mean()
    apart = np.sqrt(((centres[:, None] - centres[None]) ** 2).sum(2))[np.triu_indices(len(centres), 1)]
    quality = float(nearest / apart.min()) if len(centres) > 1 else math.nan
    return len(centres), quality, float(adjusted_rand_score(y, model.predict(X).cluster[:, 0]))


def ildn() -> Rows:
    """Yield nodes and accuracy of ILDN on Segment, the mean of several orders."""
    found = [each for seed in range(ORDERS) if (each := of_segment(seed)) is not None]
    for unit, ours, paper in zip(("nodes", "accuracy"), zip(*found, strict=True), SEGMENT, strict=False):
        yield Row("ildn segment", unit, statistics.mean(ours), "paper", paper)


def segment(seed: int) -> tuple[Array, Classes] | None:
    """Return Segment scaled to [-1, 1], in random order; None without its file."""
    found = load("statlog")
    if found is None:
        return None
    X, y = found
    low, high = X.min(axis=0), X.max(axis=0)
    order = np.random.default_rng(seed).permutation(len(X))
    return (2.0 * (X - low) / np.where(high > low, high - low, 1.0) - 1.0)[order], y[order]


def of_segment(seed: int) -> tuple[int, float] | None:
    """Return the nodes of Segment, and the share of records of their node's most frequent class (Mahalanobis)."""
    found = segment(seed)
    if found is None:
        return None
    X, y = found
    model = ILDN(sigma=1e-3)
    model.learn(X)
    arrays, d = model.arrays(), model.dimension
    count, centres, (row, column) = arrays["nodes"][1], arrays["centre"], np.tril_indices(d)
    covariance = np.tile(model._rules.sigma * np.eye(d), (len(count), 1, 1))
    for at, triangle in zip(np.flatnonzero(count > 1), arrays["covariance"], strict=True):
        covariance[at][row, column] = covariance[at][column, row] = triangle
    inverse = np.linalg.inv(covariance)
    nearest = np.array([int(np.einsum("ki,kij,kj->k", x - centres, inverse, x - centres).argmin()) for x in X])
    right = sum(int(np.bincount(y[nearest == node]).max()) for node in np.unique(nearest))
    return len(centres), right / len(y)


def mlca() -> Rows:
    """Yield how well the MLCA family labels Emotions (two times ten folds, scaled), and three overlapping discs."""
    path = DATA.parent / "conformance" / "mlca" / "emotions.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as found:
            X, Y = found["X"], found["Y"].astype(np.int64)
        theirs = _validated(X, Y, _by_neighbours)
        for name in FORMS:
            for unit, value, other in zip(
                ("exact match", "AUC"), _validated(X, Y, _by_engine(name)), theirs, strict=True
            ):
                yield Row(f"{name} V=0.01 emotions", unit, value, "10 neighbours", other)
    rng = np.random.default_rng(0)
    X = np.concatenate([_region(number, 10_000, rng) for number in range(len(CENTRES))])
    tested = np.concatenate([_region(number, 3_000, rng) for number in range(len(CENTRES))])
    mixed = rng.permutation(len(X))
    for name in FORMS:
        for vigilance in (0.1, 0.3):
            for order, records in (("in order", X), ("at once", X[mixed])):
                model = ENGINES[name].make({"vigilance": vigilance, "warmup": "buffer"})
                right = (_probabilities(model, records, _inside(records), tested) > 0.5) == _inside(tested)
                case = f"{name} V={vigilance:g} three regions {order}, {len(model.clusters())} nodes"
                yield Row(case, "exact match", float(right.all(axis=1).mean()), "paper", REGIONS[order])


Learner = Callable[[Array, Classes, Array], Array]
"""From records, their labels and other records to the probabilities of those."""


def _by_engine(name: str) -> Learner:
    given = {"vigilance": 0.01, "warmup": "buffer"}
    return lambda X, Y, tested: _probabilities(ENGINES[name].make(given), X, Y, tested)


def _by_neighbours(X: Array, Y: Classes, tested: Array) -> Array:
    found = KNeighborsClassifier(10).fit(X, Y).predict_proba(tested)
    return np.stack([each[:, 1] for each in found], axis=1)


def _probabilities(model: Any, X: Array, Y: Classes, tested: Array) -> Array:
    """Learn records in order; return the probabilities of others, labels in the order of the columns of `Y`."""
    model.learn(X, [np.flatnonzero(row).tolist() for row in Y])
    answer = model.predict(tested).labels
    found = np.zeros((len(tested), Y.shape[1]))
    found[:, list(answer.labels)] = answer.probabilities
    return found


def _validated(X: Array, Y: Classes, learner: Learner) -> Sequence[float]:
    """Return exact match and macro AUC, the mean over all folds, scaled to [0, 1] by the records learned."""
    found = []
    for learned, tested in RepeatedKFold(n_splits=10, n_repeats=2, random_state=0).split(X):
        low, width = X[learned].min(axis=0), np.ptp(X[learned], axis=0)
        fold = (X - low) / np.where(width > 0, width, 1.0)
        values = learner(fold[learned], Y[learned], fold[tested])
        found.append((accuracy_score(Y[tested], values > 0.5), roc_auc_score(Y[tested], values, average="macro")))
    return [float(value) for value in np.mean(found, axis=0)]


def _inside(X: Array) -> NDArray[np.int64]:
    """Return which discs records lie in: these are their labels."""
    return (((X[:, None, :] - CENTRES) ** 2).sum(axis=2) <= RADIUS**2).astype(np.int64)


def _region(number: int, count: int, rng: np.random.Generator) -> Array:
    """Return records that are uniform in one disc."""
    square = CENTRES[number] + rng.uniform(-RADIUS, RADIUS, size=(2 * count, 2))
    return square[_inside(square)[:, number] == 1][:count]


def sa_art() -> Rows:
    """Yield AMI with the classes of SA-ART beside Fuzzy ART: one pass over 5,000 records, mean of three orders."""
    for name, stated in SALIENT.items():
        data = sparse_set(name)
        if data is None:
            continue
        X, y = data
        found: dict[str, tuple[float, float]] = {}
        for engine in ("sa_art", "fuzzy_art"):
            runs = []
            for seed in range(3):
                order = np.random.default_rng(seed).permutation(len(y))[:5000]
                model: Any = ENGINES[engine].make({})
                path = model.learn(chosen(X, order)).path[:, 0]
                runs.append((adjusted_mutual_info_score(y[order], path), len(model.clusters())))
            found[engine] = tuple(map(statistics.mean, zip(*runs, strict=True)))
        case, (ami, clusters), (other, others) = f"sa_art {name} d={X.dimension}", *found.values()
        yield Row(case, "AMI", ami, "specification", stated)
        yield Row(case, "AMI", ami, "fuzzy_art", other)
        yield Row(case, "clusters", clusters, "fuzzy_art", others)


PAPERS: dict[str, Callable[[], Rows]] = {"hcaea": hcaea, "evq": evq, "ildn": ildn, "mlca": mlca, "sa_art": sa_art}


def rows_of(engines: Sequence[str]) -> list[Row]:
    """Return the figures of some engines, by default of all."""
    if not (DATA / "s1.npz").exists():
        raise SystemExit(f"the data sets are not in {DATA}: nothing to run on")
    return [row for name in engines or PAPERS for row in PAPERS[name]()]
