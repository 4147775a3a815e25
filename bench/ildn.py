"""ILDN beside the tables of its specification: ``python -m bench.ildn``.

Two belts (figure 1 of Xing et al.), five parts with noise, all at once and one after the other (figure 2), and Segment
(statlog): nodes, clusters, and how well they fit, as the mean of several orders with least and most, beside the ranges
of the specification's runs. It gives no measures of belts and parts: these are ours, and move the nodes by one or two.
"""

import statistics

import numpy as np
from numpy.typing import NDArray
from resonance.engine import ILDN
from sklearn.metrics import adjusted_rand_score

from bench.report import Row, arguments, figure, show
from bench.streams import Array, load

ORDERS = 6
Labels = NDArray[np.int64]


def belts(n: int = 10_000, seed: int = 0) -> Array:
    """Return two parallel belts across the unit square, in random order."""
    rng = np.random.default_rng(seed)
    along, across = rng.random(n), 0.1 * rng.random(n)
    upper = np.where(rng.random(n) < 0.5, 0.4, 0.0)
    return np.stack([0.05 + 0.9 * along, 0.05 + 0.4 * along + upper + across], axis=1)


def parts(n: int = 20_000, noise: float = 0.1, seed: int = 0, open_ended: bool = False) -> tuple[Array, Labels]:
    """Return two Gaussians, two concentric rings and a wave in the unit square, with uniform noise (label -1).

    `open_ended`: one part after the other, the noise all along.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(5, size=n)
    if open_ended:
        y.sort()
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    radius = np.where(y == 2, 0.18, 0.08)
    ring = np.stack([0.25 + radius * np.cos(angle), 0.7 + radius * np.sin(angle)], axis=1)
    along = rng.random(n)
    wave = np.stack([0.1 + 0.8 * along, 0.2 + 0.1 * np.sin(along * 3.0 * np.pi)], axis=1)
    centres = np.array([[0.6, 0.75], [0.85, 0.6]])
    gaussian = centres[np.minimum(y, 1)] + 0.03 * rng.normal(size=(n, 2))
    thin = np.where((y < 4)[:, None], ring, wave) + rng.uniform(-0.015, 0.015, (n, 2))
    X = np.where((y < 2)[:, None], gaussian, thin)
    stray = rng.random(n) < noise
    X[stray] = rng.random((int(stray.sum()), 2))
    return X, np.where(stray, -1, y)


def segment(seed: int) -> tuple[Array, Labels] | None:
    """Return Segment scaled to [-1, 1], in random order; None without its file."""
    found = load("statlog")
    if found is None:
        return None
    X, y = found
    low, high = X.min(axis=0), X.max(axis=0)
    order = np.random.default_rng(seed).permutation(len(X))
    return (2.0 * (X - low) / np.where(high > low, high - low, 1.0) - 1.0)[order], y[order]


def majority_accuracy(nearest: Labels, y: Labels) -> float:
    """Return the share of records whose class is the most frequent one of their node."""
    right = 0
    for node in np.unique(nearest):
        right += int(np.bincount(y[nearest == node]).max())
    return right / len(y)


def ellipsoids(model: ILDN) -> tuple[Array, Array, Array]:
    """Return centre, covariance and radius of each node."""
    arrays, d = model.arrays(), model.dimension
    count, (row, column) = arrays["nodes"][1], np.tril_indices(d)
    covariance = np.tile(model._rules.sigma * np.eye(d), (len(count), 1, 1))
    for at, triangle in zip(np.flatnonzero(count > 1), arrays["covariance"], strict=True):
        covariance[at][row, column] = covariance[at][column, row] = triangle
    radii = model._rules.radii
    return arrays["centre"], covariance, np.sqrt(radii[np.minimum(count, len(radii)) - 1])


def of_belts(seed: int) -> int:
    """Return the nodes that are left of two belts after the last denoising."""
    model = ILDN(sigma=1e-3, min_cluster_records=1)
    model.learn(belts(seed=seed))
    return model.arrays()["nodes"].shape[1]


def of_parts(seed: int, sigma: float, open_ended: bool) -> tuple[int, int, float]:
    """Return nodes and components of the five parts, and the ARI of the components on what is no noise."""
    X, y = parts(seed=seed, open_ended=open_ended)
    model = ILDN(sigma=sigma, k=0.5, min_cluster_records=1)
    model.learn(X)
    found = model.predict(X).cluster[:, 0]
    clean = y >= 0
    return model.arrays()["nodes"].shape[1], len(model.clusters()), float(adjusted_rand_score(y[clean], found[clean]))


def of_segment(seed: int) -> tuple[int, float, float] | None:
    """Return the nodes of Segment, and the accuracy by Mahalanobis distance and by the nearest centre."""
    found = segment(seed)
    if found is None:
        return None
    X, y = found
    model = ILDN(sigma=1e-3)
    model.learn(X)
    centres, covariance, _ = ellipsoids(model)
    euclidean = np.array([int(((centres - x) ** 2).sum(axis=1).argmin()) for x in X])
    inverse = np.linalg.inv(covariance)
    by_distance = np.array([int(np.einsum("ki,kij,kj->k", x - centres, inverse, x - centres).argmin()) for x in X])
    return len(centres), majority_accuracy(by_distance, y), majority_accuracy(euclidean, y)


def _row(case: str, unit: str, values: tuple[float, ...], low: float, high: float) -> Row:
    mean = statistics.mean(values)
    outside = "" if low <= mean <= high else ", outside"
    spread = f"{figure(min(values))} to {figure(max(values))}"
    return Row(f"{case} ({spread})", unit, mean, f"specification {low:g} to {high:g}{outside}")


def rows() -> list[Row]:
    """Return every figure beside the specification's."""
    seeds = range(ORDERS)
    out = [_row("two belts", "nodes", tuple(of_belts(seed) for seed in seeds), 2, 2)]
    ranges = {
        (3e-5, False): ((19, 22), (5, 7), (0.91, 1.0)),
        (3e-5, True): ((15, 20), (5, 8), (0.88, 1.0)),
        (1e-4, False): ((19, 21), (4, 5), (0.78, 1.0)),
        (1e-4, True): ((17, 20), (5, 5), (0.985, 1.0)),
    }
    for (sigma, open_ended), bounds in ranges.items():
        found = [of_parts(seed, sigma, open_ended) for seed in seeds]
        case = f"five parts {'open-ended' if open_ended else 'closed'} sigma={sigma:g}"
        for unit, values, (low, high) in zip(
            ("nodes", "components", "ARI"), zip(*found, strict=True), bounds, strict=True
        ):
            out.append(_row(case, unit, values, low, high))
    learned = [each for seed in seeds if (each := of_segment(seed)) is not None]
    if learned:
        nodes, by_distance, euclidean = zip(*learned, strict=True)
        out.append(_row("segment", "nodes", nodes, 402, 451))
        out.append(_row("segment by distance", "accuracy", by_distance, 0.92, 1.0))
        out.append(_row("segment by nearest centre", "accuracy", euclidean, 0.92, 1.0))
    return out


def main() -> None:
    """Run the benchmark."""
    given = arguments("ILDN beside the tables of its specification.").parse_args()
    show(f"ILDN: mean of {ORDERS} orders (least to most)", rows(), given.json)


if __name__ == "__main__":
    main()
