"""Streams that come back to where they were: clusters must last, and none is made of a part of the way.

`flap` says how many of the clusters that were made were absorbed again. A stream without regimes is of one class.
"""

import numpy as np
from scipy.signal import lfilter

from bench.quality.endless import Labelled, Maker
from bench.streams import Array

RECORDS = 60_000
_DAY = 1440


def slow(rng: np.random.Generator, n: int, d: int, records: float) -> Array:
    """Return a Gaussian process of variance 1 that forgets by a factor of e in so many records."""
    keep = np.exp(-1 / records)
    return lfilter([np.sqrt(1 - keep * keep)], [1, -keep], rng.normal(size=(n, d)), axis=0)


def days(n: int, seed: int) -> Labelled:
    """Return four meters with a record a minute: a wave a day, half of it on weekends, and noise that lasts."""
    rng, t = np.random.default_rng(seed), np.arange(n)
    first, second = rng.uniform(0.5, 1.5, 4), rng.uniform(0, 0.5, 4)
    X = first * np.sin(2 * np.pi * t / _DAY)[:, None] + second * np.sin(4 * np.pi * t[:, None] / _DAY + rng.random(4))
    weekend = np.where(t // _DAY % 7 >= 5, 0.5, 1.0)
    return X * weekend[:, None] + 0.2 * slow(rng, n, 4, 20), np.zeros(n, dtype=int)


def regimes(n: int, seed: int) -> Labelled:
    """Return a slow random walk around one of three places, each for some 2,000 records at a time."""
    rng = np.random.default_rng(seed)
    stays = np.repeat(rng.integers(3, size=n), rng.geometric(1 / 2000, size=n).clip(max=n))[:n]
    return rng.normal(0, 3, (3, 3))[stays] + slow(rng, n, 3, 200), stays


def wind(n: int, seed: int) -> Labelled:
    """Return direction and strength, which wander, and temperature, which has a wave a day."""
    rng = np.random.default_rng(seed)
    angle, strength = np.cumsum(rng.normal(0, 0.02, n)), np.exp(0.5 * slow(rng, n, 1, 300)[:, 0])
    warmth = 10 + 5 * np.sin(2 * np.pi * np.arange(n) / _DAY) + slow(rng, n, 1, 50)[:, 0]
    return np.column_stack((strength * np.cos(angle), strength * np.sin(angle), warmth)), np.zeros(n, dtype=int)


MAKERS: dict[str, Maker] = {"days": days, "regimes": regimes, "wind": wind}
