"""Small streams that exercise every part of an engine."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def shifting(n: int = 3000, d: int = 4, seed: int = 3) -> Array:
    """Return blobs of which some appear late, one vanishes, one wanders into another, with outliers and repeats."""
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
