"""The streams by group, with their classes; nothing is generated before it is wanted.

``long``: simple streams that never end. ``many``: 31 to 500 clusters. ``shapes``: groups of two features that are not
all clouds, and none. ``ladder``: unit vectors around directions, as embeddings are, with a cosine of about 0.7 within a
cluster. ``sensors``: readings of 40 machines. ``sets``: two generated streams and six public sets, each shuffled by the
seed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from bench.quality import endless, many, rhythms
from bench.quality.endless import Labelled, Maker
from bench.quality.task import RefusedError
from bench.streams import Array, Classes, load

MAX_TIMES = 10.0
"""A length up to this is one in lengths of the stream, a longer one in records."""
DRAWS = 5
LADDER = tuple((d, clusters) for d in (2, 8, 32, 128, 384, 768) for clusters in (10, 40))
"""Features and clusters."""
PUBLIC = {"S1": "s1", "S2": "s2", "A1": "a1", "digits": "digits", "Segment": "statlog", "Breast Cancer": "wdbc"}

MACHINES, MODES, KINDS = 40, 3, 8
SCALES = np.array([10, 1, 300, 5, 0.5, 40, 2, 8, 100])
SPREADS = np.array([2, 0.2, 60, 1, 0.1, 8, 0.4, 1.6, 20])


def shape(n: int, seed: int, name: str) -> Labelled:
    """Return one of the shapes; they share one sequence of random numbers: each is drawn after those before it."""
    rng = np.random.default_rng(seed)
    drawn = (draw(rng, n) for draw in SHAPES.values())
    return next(islice(drawn, list(SHAPES).index(name), None))


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


SHAPES: dict[str, Callable[[np.random.Generator, int], Labelled]] = {
    "slanted": _slanted,
    "unequal": _unequal,
    "moons": _moons,
    "rings": _rings,
    "nothing": _nothing,
    "overlapping": _overlapping,
}


def unit_vectors(n: int, seed: int, d: int, clusters: int, draw: int) -> Labelled:
    """Return one of the draws of n unit vectors with d features."""
    rng = np.random.default_rng(1000 * seed + 10 * d + draw)
    centres = rng.normal(size=(clusters, d))
    centres /= np.linalg.norm(centres, axis=1)[:, None]
    y = rng.integers(clusters, size=n)
    away = rng.normal(size=(n, d))
    away /= np.linalg.norm(away, axis=1)[:, None]
    X = centres[y] * 0.84 + away * 0.54
    return X / np.linalg.norm(X, axis=1)[:, None], y


def sensors(n: int, seed: int) -> Labelled:
    """Return five days of readings: unequal scales, a lognormal tail, a constant, a category and a rare count.

    From day 3 on the machines of one site report their first feature in another unit; machine 17 breaks on day 2.4;
    from day 4 on six machines are of kinds that were not there before. The classes are kind and mode, other ones in the
    other unit: a machine that breaks stays of its class.
    """
    rng = np.random.default_rng(seed)
    machine = rng.integers(MACHINES, size=n)
    day = np.sort(rng.random(n) * 5)
    kind = machine % 4 + np.where((machine >= 34) & (day > 4), 4, 0)
    mode = rng.integers(MODES, size=n)
    base = np.random.default_rng(seed + 1).random((KINDS, MODES, len(SCALES))) * 4
    readings = base[kind, mode] * SCALES + rng.normal(size=(n, len(SCALES))) * SPREADS
    readings[:, 8] = np.exp(readings[:, 8] / 150)
    other_unit = (machine % 2 == 1) & (day > 3)
    readings[other_unit, 0] = readings[other_unit, 0] * 1.8 + 32
    broken = (machine == 17) & (day > 2.4)
    readings[broken, 4] *= 12
    readings[broken, 7] *= 0.15
    X = np.column_stack([readings, np.full(n, 24.0), mode, rng.poisson(0.02, size=n)])
    return X, kind * MODES + mode + KINDS * MODES * other_unit


def novelties(y: Classes) -> dict[str, NDArray[np.bool_]]:
    """Return which readings are of what was not there in the beginning: the other unit, and the later kinds."""
    return {"unit change": y >= KINDS * MODES, "new kind": y % (KINDS * MODES) // MODES >= 4}


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
    """Return a set, all of it whatever the length: they are short; `RefusedError` without its file."""
    found = load(name)
    if found is None:
        raise RefusedError("left out: its file is not on this machine")
    X, y = found
    order = np.random.default_rng(seed).permutation(len(X))
    return X[order], y[order]


def _none(_: Classes) -> dict[str, NDArray[np.bool_]]:
    return {}


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream: group, name, records unless it is a public set, its maker, and a seed where none is given.

    `make` returns so many records and their classes, by a seed; class -1 is noise. `novelties` says by the classes
    which records are of something that was not there in the beginning.
    """

    group: str
    name: str
    records: int
    make: Maker
    seed: int
    novelties: Callable[[Classes], dict[str, NDArray[np.bool_]]] = _none

    def generated(self, length: float, seed: int | None) -> Labelled:
        """Return the stream in a length: up to `MAX_TIMES` that many times its own, else records."""
        n = round(length * self.records) if length <= MAX_TIMES else round(length)
        X, y = self.make(n, self.seed if seed is None else seed)
        return np.asarray(X, dtype=np.float64), y


def _long() -> list[Stream]:
    times = {name: 2 if name in endless.LONGER else 1 for name in endless.MAKERS}
    return [Stream("long", name, endless.RECORDS * times[name], make, 11) for name, make in endless.MAKERS.items()]


def _ladder() -> list[Stream]:
    return [
        Stream("ladder", f"unit d{d} k{k} seed {draw}", 6_000, partial(unit_vectors, d=d, clusters=k, draw=draw), 13)
        for d, k in LADDER
        for draw in range(DRAWS)
    ]


def _sets() -> list[Stream]:
    sets = {shown: partial(public, name=name) for shown, name in PUBLIC.items()}
    makers: dict[str, Maker] = {"still blobs d16": still, "moving blobs d4": moving, **sets}
    return [Stream("sets", name, 20_000, make, 0) for name, make in makers.items()]


STREAMS = [
    *_long(),
    *(Stream("many", name, many.RECORDS, make, 16) for name, make in many.MAKERS.items()),
    *(Stream("shapes", name, 20_000, partial(shape, name=name), 12) for name in SHAPES),
    *_ladder(),
    *(Stream("rhythms", name, rhythms.RECORDS, make, 17) for name, make in rhythms.MAKERS.items()),
    Stream("sensors", "sensors", 60_000, sensors, 14, novelties),
    *_sets(),
]
GROUPS = list(dict.fromkeys(stream.group for stream in STREAMS))


def named(group: str, name: str) -> Stream:
    """Return one stream."""
    return next(stream for stream in STREAMS if (stream.group, stream.name) == (group, name))
