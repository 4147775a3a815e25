"""Simple streams that never end: clusters and events must settle on them.

Each function takes the number of records and a seed, and returns records in their own units with their classes.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bench.streams import Array, Classes

Labelled = tuple[Array, Classes]
Maker = Callable[[int, int], Labelled]

SIDE = 2.0
"""Centres are uniform in a cube of this side."""
FEW = (3, 4, 0.08)
"""Clusters, features and spread of the stream that most of the others vary."""


def generator(seed: int, stream: int) -> np.random.Generator:
    """Return the random numbers of one stream."""
    return np.random.default_rng(1000 * seed + stream)


def clouds(
    rng: np.random.Generator, n: int, clusters: int, d: int, spread: float, shares: Sequence[float] | None = None
) -> Labelled:
    """Return Gaussian clusters, in random order."""
    centres = rng.random((clusters, d)) * SIDE
    y = rng.choice(clusters, size=n, p=shares)
    return centres[y] + rng.normal(size=(n, d)) * spread, y


def plain(stream: int, clusters: int, d: int, spread: float, shares: Sequence[float] | None = None) -> Maker:
    """Return the maker of a stream of Gaussian clusters."""
    return lambda n, seed: clouds(generator(seed, stream), n, clusters, d, spread, shares)


def uniform(n: int, seed: int) -> Labelled:
    """Return records spread evenly over a cube."""
    return generator(seed, 3).random((n, 4)), np.zeros(n, dtype=np.int64)


def beside(n: int, seed: int, more: Callable[[int, int], Array]) -> Labelled:
    """Return three clusters, and features that have nothing to do with them."""
    X, y = clouds(generator(seed, 7), n, *FEW)
    return np.hstack([X, more(n, seed)]), y


def constants(n: int, _: int, count: int, value: float) -> Array:
    """Return features that never change."""
    return np.full((n, count), value)


def flags(n: int, seed: int) -> Array:
    """Return five features that are 1 in one record of a hundred."""
    return (generator(seed, 8).random((n, 5)) < 0.01).astype(np.float64)


def one_hot(n: int, seed: int) -> Array:
    """Return a category of 20 values."""
    return np.eye(20)[generator(seed, 9).integers(20, size=n)]


def idle_at_first(n: int, seed: int) -> Labelled:
    """Return three clusters; the first 60 records are all the same."""
    X, y = clouds(generator(seed, 10), n, *FEW)
    X[:60] = X[0]
    return X, y


def grown(n: int, seed: int) -> Labelled:
    """Return three clusters; after a third every value is ten times as large, and the clusters are others."""
    X, y = clouds(generator(seed, 11), n, *FEW)
    X[n // 3 :] *= 10
    y[n // 3 :] += 3
    return X, y


def one_large(n: int, seed: int) -> Labelled:
    """Return three clusters; one feature is a thousand times as large as the others."""
    X, y = clouds(generator(seed, 12), n, *FEW)
    X[:, 0] *= 1000
    return X, y


def heavy_tails(n: int, seed: int, lognormal: bool) -> Labelled:
    """Return six clusters with Student's t of two degrees of freedom, or lognormal."""
    rng = generator(seed, 13)
    centres = rng.random((6, 4)) * SIDE
    y = rng.integers(6, size=n)
    t = rng.standard_t(2, size=(n, 4))
    if lognormal:
        return np.exp(centres[y] * 2 + rng.normal(size=(n, 4)) * 0.2), y
    return centres[y] + t * 0.04, y


def rounded(n: int, seed: int) -> Labelled:
    """Return three clusters; values have one digit behind the point."""
    X, y = clouds(generator(seed, 14), n, *FEW)
    return np.round(X, 1), y


def repeated_records(n: int, seed: int) -> Labelled:
    """Return three clusters; every record comes ten times in a row."""
    X, y = clouds(generator(seed, 15), n // 10, *FEW)
    return np.repeat(X, 10, axis=0), np.repeat(y, 10)


def one_after_another(n: int, seed: int) -> Labelled:
    """Return five clusters, each of which ends before the next begins."""
    rng = generator(seed, 20)
    centres = rng.random((5, 4)) * SIDE
    y = np.repeat(np.arange(5), n // 5)
    return centres[y] + rng.normal(size=(len(y), 4)) * 0.05, y


def drifting(n: int, seed: int) -> Labelled:
    """Return six clusters that move together by two of their ranges."""
    rng = generator(seed, 21)
    centres = rng.random((6, 4)) * SIDE
    y = rng.integers(6, size=n)
    moved = 4 * np.arange(n) / n
    return centres[y] + rng.normal(size=(n, 4)) * 0.05 + moved[:, None], y


def one_ends(n: int, seed: int) -> Labelled:
    """Return six clusters, one of which gets no more records after half of the stream."""
    rng = generator(seed, 21)
    centres = rng.random((6, 4)) * SIDE
    # The same random numbers as those of `drifting`, then its own.
    rng.integers(6, size=n)
    rng.normal(size=(n, 4))
    y = rng.integers(6, size=n)
    late = y[n // 2 :]
    late[late == 5] = 4
    return centres[y] + rng.normal(size=(n, 4)) * 0.05, y


def noisy(n: int, seed: int) -> Labelled:
    """Return eight clusters, and a tenth of all records anywhere (class -1)."""
    X, y = clouds(generator(seed, 22), n, 8, 3, 0.05)
    noise = generator(seed, 23).random(n) < 0.1
    X[noise] = generator(seed, 24).random((int(noise.sum()), 3)) * 2.4 - 0.2
    return X, np.where(noise, -1, y)


MAKERS: dict[str, Maker] = {
    "3 blobs d4": plain(1, *FEW),
    **{f"one Gaussian d{d}": plain(2, 1, d, 1.0) for d in (1, 2, 4, 8, 16, 32)},
    "uniform d4": uniform,
    "10 blobs d16": plain(4, 10, 16, 0.05),
    "99:1 d8": plain(5, 2, 8, 0.05, [0.99, 0.01]),
    "90:9:1 d3": plain(6, 3, 3, 0.05, [0.9, 0.09, 0.01]),
    "+5 constants": partial(beside, more=partial(constants, count=5, value=0.3)),
    "+40 constants": partial(beside, more=partial(constants, count=40, value=0.0)),
    "+5 flags of 1 %": partial(beside, more=flags),
    "+ one-hot of 20": partial(beside, more=one_hot),
    "first 60 equal": idle_at_first,
    "x10 after a third": grown,
    "one feature x1000": one_large,
    "Student t, 2 degrees": partial(heavy_tails, lognormal=False),
    "lognormal": partial(heavy_tails, lognormal=True),
    "rounded to one digit": rounded,
    "every record ten times": repeated_records,
    **{f"{k} clusters d16": plain(16 + k, k, 16, 0.05) for k in (30, 100)},
    "one after another": one_after_another,
    "all drift by two ranges": drifting,
    "one ends half way": one_ends,
    "a tenth noise": noisy,
}
LONGER = ("3 blobs d4", "10 blobs d16")
"""Those of twice as many records as the others."""
RECORDS = 100_000
