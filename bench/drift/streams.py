"""Streams of kinds of records: one that changes in a known way at a known record, and one that never does."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.streams import Array

MOVES = ("abrupt2", "abrupt4", "onefeature", "all", "recurring", "gradual", "incremental")
"""Changes by which features move."""

CHANGES = (*MOVES, "new", "widened", "share", "vanished")
STEADY = ("gauss", "t3", "exponential", "lognormal", "garch", "ar5", "rounded", "duplicates", "outliers")
RHYTHMS = ("daily", "regimes")
"""Streams that go on changing in the same way."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Records, which of them show the place that changes, and which features move."""

    X: Array
    own: NDArray[np.bool_]
    moving: NDArray[np.bool_]


_APART = 3.0
"""Spreads that a new kind is away from all others at least; one at the place of another is not new."""


def _rng(name: str, d: int, kinds: int, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, d, kinds, *name.encode()])


def _noise(d: int) -> float:
    return 0.05 if d <= 4 else 0.08


def _centres(rng: np.random.Generator, kinds: int, d: int) -> Array:
    """Return points of the unit cube, 8 spreads apart (6 of two features), or the furthest apart of 200 trials."""
    gap = (8.0 if d > 2 else 6.0) * _noise(d)
    widest, best = -1.0, np.zeros((kinds, d))
    for _ in range(200):
        points = rng.random((kinds, d))
        apart = np.sqrt(((points[:, None] - points) ** 2).sum(2))
        least = float(apart[np.triu_indices(kinds, 1)].min(initial=9.0))
        if least > widest:
            widest, best = least, points
        if least >= gap:
            break
    return best


def changed(name: str, d: int, kinds: int, seed: int, records: int, at: int) -> Changed:
    """Return a stream one kind of which changes at record `at`; amounts are in spreads of a kind.

    abrupt2, abrupt4: a quarter of the features move by 2 or 4. onefeature: one by 2. all: every feature of every kind
    by 2. recurring: by 3, there and back every 2,000 records. gradual: a share of the records that rises for 2,000
    is 4 away. incremental: 4 in the course of 3,000. new: one kind more. widened: spreads twice as wide. share: 2.5
    times as likely. vanished: never again.
    """
    rng, noise = _rng(name, d, kinds, seed), _noise(d)
    centres = _centres(rng, kinds, d)
    t = np.arange(records)
    after, which = t >= at, int(rng.integers(kinds))
    odds = np.ones(kinds)
    odds[which] = {"share": 2.5, "vanished": 0.0}.get(name, 1.0)
    kind = np.where(after, rng.choice(kinds, records, p=odds / odds.sum()), rng.integers(kinds, size=records))
    direction = np.where(rng.random(d) < 0.5, -1.0, 1.0)
    moving = np.zeros(d, dtype=np.bool_)
    if name in MOVES:
        moving[rng.permutation(d)[: d if name == "all" else 1 if name == "onefeature" else max(1, d // 4)]] = True
    amount = {
        "abrupt2": 2.0 * after,
        "abrupt4": 4.0 * after,
        "onefeature": 2.0 * after,
        "all": 2.0 * after,
        "recurring": 3.0 * (after & ((t - at) // 2000 % 2 == 0)),
        "gradual": 4.0 * (after & (rng.random(records) < (t - at) / 2000)),
        "incremental": 4.0 * np.clip((t - at) / 3000, 0.0, 1.0),
    }.get(name, np.zeros(records))
    own = kind == which
    deviation = rng.normal(size=(records, d))
    if name == "widened":
        deviation[own & after] *= 2.0
    if name != "all":
        amount = amount * own
    if name == "new":
        place = rng.random((1, d))
        while np.sqrt(((centres - place) ** 2).sum(1)).min() < _APART * noise:
            place = rng.random((1, d))
        centres = np.vstack([centres, place])
        own = after & (rng.random(records) < 1.0 / (kinds + 1))
        kind = np.where(own, kinds, kind)
    else:
        own &= ~after
    return Changed(centres[kind] + noise * (deviation + amount[:, None] * direction * moving), own, moving)


def _recursive(innovations: Array, factor: float) -> Array:
    """Return the stationary series of variance 1 that remembers `factor` of its last value."""
    out = innovations.copy()
    root = np.sqrt(1.0 - factor * factor)
    for i in range(1, len(out)):
        out[i] = factor * out[i - 1] + root * innovations[i]
    return out


def unchanging(name: str, d: int, kinds: int, seed: int, records: int) -> Array:
    """Return a stream of `STEADY`, or one of `RHYTHMS`.

    daily: a feature of all kinds swings by 2 spreads in 20,000 records. regimes: shares switch between two mixes every
    3,000 records on average.
    """
    rng, noise = _rng(name, d, kinds, seed), _noise(d)
    centres, kind = _centres(rng, kinds, d), rng.integers(kinds, size=records)
    deviation = rng.normal(size=(records, d))
    if name == "t3":
        deviation = rng.standard_t(3, size=(records, d)) / np.sqrt(3.0)
    elif name == "exponential":
        deviation = rng.exponential(size=(records, d)) - 1.0
    elif name == "lognormal":
        deviation = (np.exp(deviation) - np.exp(0.5)) / 2.16
    elif name == "ar5":
        deviation = _recursive(deviation, 0.5)
    elif name == "garch":
        deviation *= np.exp(0.4 * _recursive(rng.normal(size=records), 0.95) - 0.16)[:, None]
    elif name == "regimes":
        odds = np.linspace(1.0, 3.0, kinds)
        bounds, u = np.cumsum(np.stack([odds, odds[::-1]]), axis=1) / odds.sum(), rng.random(records)
        mix = np.cumsum(rng.random(records) < 1 / 3000) % 2
        kind = (u[:, None] >= bounds[mix, :-1]).sum(1)
    X = centres[kind] + noise * deviation
    if name == "daily":
        X[:, 0] += 2.0 * noise * np.sin(np.arange(records) * (2.0 * np.pi / 20_000))
    elif name == "outliers":
        far = rng.random(records) < 0.002
        X[far] = 3.0 * rng.random((int(far.sum()), d)) - 1.0
    elif name == "duplicates":
        X = np.repeat(X, rng.integers(1, 6, size=records), axis=0)[:records]
    elif name == "rounded":
        X = np.round(X / noise) * noise
    return X
