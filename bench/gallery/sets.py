"""Two generated streams and six public sets, each shuffled by the seed."""

from functools import partial

import numpy as np

from bench.gallery.endless import Labelled, Maker
from bench.live import RefusedError
from bench.streams import load

RECORDS = 20_000
"""Of the generated ones."""
PUBLIC = {
    "S1": "s1",
    "S2": "s2",
    "A1": "a1",
    "digits": "digits",
    "Segment": "statlog",
    "Breast Cancer": "wdbc",
}


def still(n: int, seed: int) -> Labelled:
    """Return ten clusters in 16 features."""
    rng = np.random.default_rng(seed)
    y = rng.integers(10, size=n)
    return rng.random((10, 16))[y] + rng.normal(size=(n, 16)) * 0.05, y


def moving(n: int, seed: int) -> Labelled:
    """Return eight clusters in four features, each on a straight way from one place to another."""
    rng = np.random.default_rng(seed)
    begin, end = rng.random((2, 8, 4))
    y = rng.integers(8, size=n)
    gone = np.arange(n)[:, None] / n
    return begin[y] * (1 - gone) + end[y] * gone + rng.normal(size=(n, 4)) * 0.04, y


def public(_: int, seed: int, name: str) -> Labelled:
    """Return a set, all of it whatever the length: they are short.

    Raises
    ------
    RefusedError
        Its file is not on this machine.
    """
    found = load(name)
    if found is None:
        raise RefusedError("left out: its file is not on this machine")
    X, y = found
    order = np.random.default_rng(seed).permutation(len(X))
    return X[order], y[order]


MAKERS: dict[str, Maker] = {
    "10 blobs d16": still,
    "moving blobs d4": moving,
    **{shown: partial(public, name=name) for shown, name in PUBLIC.items()},
}
