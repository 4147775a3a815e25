"""The streams and data sets of the benchmarks: generated from fixed seeds, or read from files."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from resonance.engine import SparseBatch
from sklearn import datasets

Array = NDArray[np.float64]
Classes = NDArray[np.int64]

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
"""Folder of the public benchmark sets, where there is one; else what scikit-learn ships is used."""

SPREADS = {8: 0.06, 16: 0.05, 64: 0.1}
"""By number of features: how wide the 20 blobs of `blobs` are for CAEA to keep about 50 nodes."""


def blobs(n: int, d: int, spread: float, clusters: int = 20, seed: int = 1) -> Array:
    """Return n records of d features around centres that are uniform in the unit cube."""
    rng = np.random.default_rng(seed)
    centres = rng.random((clusters, d))
    return centres[rng.integers(clusters, size=n)] + rng.normal(scale=spread, size=(n, d))


def drifting(batches: int, size: int, d: int = 8, clusters: int = 20, seed: int = 7) -> Iterator[Array]:
    """Yield batches of a stream that never settles: all centres wander, and every so often one starts elsewhere."""
    rng = np.random.default_rng(seed)
    centres = rng.random((clusters, d))
    for batch in range(batches):
        centres += rng.normal(scale=0.002, size=centres.shape)
        np.clip(centres, 0.0, 1.0, out=centres)
        if batch % 20 == 19:
            centres[rng.integers(clusters)] = rng.random(d)
        yield centres[rng.integers(clusters, size=size)] + rng.normal(scale=0.05, size=(size, d))


def repeated(name: str, n: int, seed: int = 0) -> Array | None:
    """Return n records of a set in one random order after the other, features scaled to [0, 1]; None without a file."""
    found = load(name)
    if found is None:
        return None
    X = found[0]
    X = (X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-12)
    rng = np.random.default_rng(seed)
    return np.concatenate([X[rng.permutation(len(X))] for _ in range(-(-n // len(X)))])[:n]


def load(name: str) -> tuple[Array, NDArray[np.int64]] | None:
    """Return features and classes of a set, or None where its file is not on this machine."""
    shipped = {"digits": datasets.load_digits, "iris": datasets.load_iris, "wdbc": datasets.load_breast_cancer}
    path = DATA / f"{name}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as found:
            return found["X"].astype(np.float64), found["y"].astype(np.int64)
    if name in shipped:
        X, y = shipped[name](return_X_y=True)
        return X.astype(np.float64), y.astype(np.int64)
    return None


def sparse_set(name: str) -> tuple[SparseBatch, NDArray[np.int64]] | None:
    """Return records in [0, 1] and classes of a set, or None where its file is not on this machine."""
    path = DATA / f"{name}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as found:
            if "indptr" in found:
                data = found["data"].astype(np.float64)
                batch = SparseBatch(found["indices"], found["indptr"].astype(np.int64), data, int(found["shape"][1]))
                return batch, found["y"].astype(np.int64)
    dense = load(name)
    if dense is None:
        return None
    X = dense[0] / dense[0].max()
    record, feature = np.nonzero(X)
    starts = np.concatenate([[0], np.cumsum((X > 0).sum(axis=1))])
    return SparseBatch(feature, starts, X[record, feature], X.shape[1]), dense[1]


def chosen(batch: SparseBatch, records: NDArray[np.int64]) -> SparseBatch:
    """Return some records of a batch, in another order."""
    counts = np.diff(batch.indptr)[records]
    starts = np.concatenate([[0], np.cumsum(counts)])
    entries = np.repeat(batch.indptr[records] - starts[:-1], counts) + np.arange(starts[-1])
    return SparseBatch(batch.indices[entries], starts, batch.data[entries], batch.dimension)


def parts(n: int = 20_000, noise: float = 0.1, seed: int = 0, open_ended: bool = False) -> tuple[Array, Classes]:
    """Return two Gaussians, two concentric rings and a wave in the unit square, with uniform noise (class -1).

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


def ellipses(n: int = 5_000, seed: int = 0) -> Array:
    """Return 15 ellipses of equal frequency in the unit square, in random order."""
    rng = np.random.default_rng(seed)
    places = np.stack(np.divmod(np.arange(15), 4), axis=1)
    centres = 0.15 + 0.23 * places + rng.uniform(-0.03, 0.03, (15, 2))
    turn = rng.uniform(0.0, np.pi, 15)
    axes = np.stack([np.cos(turn), np.sin(turn), -np.sin(turn), np.cos(turn)], axis=1).reshape(15, 2, 2)
    y = np.sort(rng.integers(15, size=n))
    X = centres[y] + np.einsum("ni,nij->nj", rng.normal(size=(n, 2)) * [0.035, 0.014], axes[y])
    return X[rng.permutation(n)]


def correlated(n: int = 4_800, d: int = 32, clusters: int = 16, seed: int = 5) -> Array:
    """Return shuffled normal clusters with full covariances, scaled to the unit cube."""
    rng = np.random.default_rng(seed)
    centres, roots = rng.random((clusters, d)), rng.normal(size=(clusters, d, d)) * 0.08 / np.sqrt(d)
    y = rng.integers(clusters, size=n)
    X = centres[y] + np.einsum("nij,nj->ni", roots[y], rng.normal(size=(n, d)))
    return (X - X.min(0)) / (X.max(0) - X.min(0))
