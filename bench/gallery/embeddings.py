"""Unit vectors around directions, as embeddings are: the cosine of two of one cluster is about 0.7."""

from functools import partial

import numpy as np

from bench.gallery.endless import Labelled, Maker

RECORDS = 6_000
SIZES = (
    (8, 10),
    (32, 10),
    (64, 40),
    (128, 10),
    (128, 40),
    (384, 10),
    (384, 40),
    (768, 10),
    (768, 40),
    (1536, 40),
)
"""Features and clusters."""
DRAWS = 5


def unit_vectors(n: int, seed: int, d: int, clusters: int, draw: int) -> Labelled:
    """Return one of the draws of n vectors with d features."""
    rng = np.random.default_rng(1000 * seed + 10 * d + draw)
    centres = rng.normal(size=(clusters, d))
    centres /= np.linalg.norm(centres, axis=1)[:, None]
    y = rng.integers(clusters, size=n)
    away = rng.normal(size=(n, d))
    away /= np.linalg.norm(away, axis=1)[:, None]
    X = centres[y] * 0.84 + away * 0.54
    return X / np.linalg.norm(X, axis=1)[:, None], y


MAKERS: dict[str, Maker] = {
    f"unit d{d} k{clusters} seed {draw}": partial(unit_vectors, d=d, clusters=clusters, draw=draw)
    for d, clusters in SIZES
    for draw in range(DRAWS)
}
