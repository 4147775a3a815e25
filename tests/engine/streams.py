"""Small streams that exercise every part of an engine."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def shifting(n=3000, d=4, seed=3):
    """Return blobs of which some appear late, one vanishes, one wanders into another, with outliers and repeats."""
    return _shifting(n, d, seed).copy()


@cache
def _shifting(n, d, seed):
    rng = np.random.default_rng(seed)
    centres = rng.random((8, d))
    rows = np.empty((n, d))
    for t in range(n):
        present = 4 + 4 * t // n
        k = int(rng.integers(1 if t > n // 2 else 0, present))
        centre = centres[k] + (centres[3] - centres[2]) * (t / n if k == 2 else 0.0)
        rows[t] = centre + rng.normal(scale=0.04, size=d)
        if t % 97 == 0:
            rows[t] = rng.random(d) * 3.0
        if t and t % 53 == 0:
            rows[t] = rows[t - 1]
    return rows


def nested(n=3000, d=4, seed=1):
    """Return blobs of blobs of blobs: 5 groups of 4 groups of 6, each level five times as narrow as the one above."""
    rng = np.random.default_rng(seed)
    centres = np.zeros((1, d))
    for count, width in ((5, 1.0), (4, 0.2), (6, 0.04)):
        centres = (centres[:, None, :] + rng.uniform(-0.5, 0.5, size=(len(centres), count, d)) * width).reshape(-1, d)
    return centres[rng.integers(len(centres), size=n)] + rng.normal(scale=0.008, size=(n, d))


def clouds(n, d, count, width, seed=0):
    """Return Gaussians around random places of the unit cube."""
    rng = np.random.default_rng(seed)
    return rng.random((count, d))[rng.integers(count, size=n)] + rng.normal(size=(n, d)) * width


def wandering_ring(n, seed=0):
    """Return a place on a circle that goes round and round: nodes are left behind in chains, and chains break."""
    rng = np.random.default_rng(seed)
    angle = rng.normal(size=n) * 0.6 + np.linspace(0, n / 60, n)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.normal(size=(n, 2)) * 0.02
