"""Streams of many clusters, as the sets D31, A3 and Birch1 are, and blobs that a child would separate.

Each function takes the number of records and a seed, and returns records with their classes.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from bench.quality.endless import Labelled, generator
from bench.streams import Array

GRID, PITCH = 10, 4.35
"""Clusters on a side of a grid, and standard deviations from one to the next."""
FASTEST = 0.8
"""Standard deviation of the way that a moving cluster has gone at the end, in a cube of side 3."""


def spaced(rng: np.random.Generator, count: int, side: float, least: float) -> Array:
    """Return places in a square, none of them nearer to another one than `least`."""
    places: list[Array] = []
    while len(places) < count:
        place = rng.random(2) * side
        if all(np.hypot(*(place - other)) >= least for other in places):
            places.append(place)
    return np.array(places)


def ellipses(n: int, seed: int, count: int, side: float, least: float, widths: tuple[float, float]) -> Labelled:
    """Return Gaussians of two features, turned, and of unequal widths from the first to the second of `widths`."""
    rng = generator(seed, 40)
    middles, (low, high) = spaced(rng, count, side, least), widths
    y, angle = rng.integers(count, size=n), rng.random(count) * np.pi
    away = rng.normal(size=(n, 2)) * (low + (high - low) * rng.random((count, 2)))[y]
    cos, sin = np.cos(angle)[y], np.sin(angle)[y]
    turned = np.stack([cos * away[:, 0] - sin * away[:, 1], sin * away[:, 0] + cos * away[:, 1]], axis=1)
    return middles[y] + turned, y


def grid(n: int, seed: int) -> Labelled:
    """Return equal Gaussians on a grid."""
    rng = generator(seed, 41)
    y = rng.integers(GRID * GRID, size=n)
    return np.stack([y % GRID, y // GRID], axis=1) * PITCH + rng.normal(size=(n, 2)), y


def blobs(n: int, seed: int, count: int, d: int) -> Labelled:
    """Return round Gaussians around random places of the unit cube."""
    rng = generator(seed, 42)
    y = rng.integers(count, size=n)
    return rng.random((count, d))[y] + rng.normal(size=(n, d)) * 0.03, y


def half_moves(n: int, seed: int) -> Labelled:
    """Return forty clusters in four features, of which every other one is on a straight way."""
    rng = generator(seed, 43)
    middles, way = rng.random((40, 4)) * 3, rng.normal(size=(40, 4)) * FASTEST
    way[::2] = 0.0
    y, gone = rng.integers(40, size=n), np.arange(n)[:, None] / n
    return middles[y] + way[y] * gone + rng.normal(size=(n, 4)) * 0.06, y


MAKERS: dict[str, Callable[[int, int], Labelled]] = {
    "31 touching d2": partial(ellipses, count=31, side=27.0, least=3.2, widths=(0.62, 0.82)),
    "50 apart d2": partial(ellipses, count=50, side=44.0, least=4.6, widths=(0.8, 1.2)),
    "grid of 100 d2": grid,
    "60 blobs d3": partial(blobs, count=60, d=3),
    "60 blobs d8": partial(blobs, count=60, d=8),
    "200 blobs d16": partial(blobs, count=200, d=16),
    "500 blobs d32": partial(blobs, count=500, d=32),
    "half of 40 move": half_moves,
}
RECORDS = 100_000
