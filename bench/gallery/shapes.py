"""Streams of two features whose groups are not all clouds, and one without groups.

They share one sequence of random numbers: each is drawn after those before it.
"""

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from bench.gallery.endless import Labelled, Maker
from bench.streams import Array

RECORDS = 20_000


def _slanted(rng: np.random.Generator, n: int) -> Labelled:
    y = rng.integers(4, size=n)
    middles = np.array([[0, 0], [1.2, 0.6], [0.3, 1.6], [2, 1.7]])
    along = rng.normal(size=n) * 0.35
    return middles[y] + np.stack([along, -along], axis=1) + rng.normal(size=(n, 2)) * 0.04, y


def _unequal(rng: np.random.Generator, n: int) -> Labelled:
    y = rng.integers(3, size=n)
    middles, spread = np.array([[0, 2.2], [2.2, 0], [0, 0]]), np.array([0.05, 0.09, 0.45])
    return middles[y] + rng.normal(size=(n, 2)) * spread[y][:, None], y


def _moons(rng: np.random.Generator, n: int) -> Labelled:
    y = rng.integers(2, size=n)
    angle = rng.random(n) * np.pi
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    return np.where(y[:, None] == 0, upper, lower) + rng.normal(size=(n, 2)) * 0.06, y


def _rings(rng: np.random.Generator, n: int) -> Labelled:
    y = rng.integers(2, size=n)
    angle = rng.random(n) * 2 * np.pi
    radius: Array = np.where(y == 0, 0.4, 1.0) + rng.normal(size=n) * 0.05
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), y


def _nothing(rng: np.random.Generator, n: int) -> Labelled:
    return rng.random((n, 2)), np.zeros(n, dtype=np.int64)


def _overlapping(rng: np.random.Generator, n: int) -> Labelled:
    y = rng.integers(4, size=n)
    middles = np.array([[0, 0], [1, 1], [0, 1.3], [1.8, 0.2]])
    return middles[y] + rng.normal(size=(n, 2)) * 0.32, y


_IN_ORDER: dict[str, Callable[[np.random.Generator, int], Labelled]] = {
    "slanted": _slanted,
    "unequal": _unequal,
    "moons": _moons,
    "rings": _rings,
    "nothing": _nothing,
    "overlapping": _overlapping,
}


def _all(n: int, seed: int) -> Iterator[Labelled]:
    rng = np.random.default_rng(seed)
    for draw in _IN_ORDER.values():
        yield draw(rng, n)


def _maker(place: int) -> Maker:
    return lambda n, seed: next(islice(_all(n, seed), place, None))


MAKERS: dict[str, Maker] = {name: _maker(place) for place, name in enumerate(_IN_ORDER)}
