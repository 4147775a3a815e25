"""River's stream clusterers, set up as the benchmarks compare with them.

Their radius is the one setting that works for all of the sets: a tenth of the diagonal of [0, 1]^d, to which the
records are scaled. The other parameters are River's own defaults, but for DenStream's: its default weights make every
record of a slow stream an outlier, so they are those of its own documentation.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Records = list[dict[int, float]]
SHARE = 0.1


def radius(d: int, share: float = SHARE) -> float:
    """Return the radius of a micro-cluster for d features in [0, 1]: a share of the diagonal."""
    return share * math.sqrt(d)


def dbstream(d: int, share: float = SHARE) -> Any:
    """Return DBSTREAM with the radius for d features."""
    from river import cluster  # noqa: PLC0415 - an extra

    return cluster.DBSTREAM(clustering_threshold=radius(d, share))


def denstream(d: int, share: float = SHARE) -> Any:
    """Return DenStream with the radius for d features."""
    from river import cluster  # noqa: PLC0415 - an extra

    return cluster.DenStream(decaying_factor=0.01, beta=0.5, mu=2.5, epsilon=radius(d, share))


def as_river(X: NDArray[np.float64]) -> Records:
    """Return records as River takes them."""
    return [dict(enumerate(row)) for row in X.tolist()]
