"""The streams of the gallery by group; nothing is generated before it is wanted."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.gallery import embeddings, endless, machines, sets, shapes
from bench.gallery.endless import Labelled, Maker
from bench.streams import Classes

Novelties = Callable[[Classes], dict[str, NDArray[np.bool_]]]

MAX_TIMES = 10.0
"""A length up to this is one in lengths of the stream, a longer one in records."""


def _none(_: Classes) -> dict[str, NDArray[np.bool_]]:
    return {}


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of the gallery.

    Attributes
    ----------
    group, name : str
        By which it is found.
    records : int
        Records that it has by itself, unless it is a public set.
    make : callable
        Returns so many records and their classes, by a seed; class -1 is noise.
    seed : int
        Where none is given.
    novelties : callable
        By classes, which records are of something that was not there in the beginning.
    """

    group: str
    name: str
    records: int
    make: Maker
    seed: int
    novelties: Novelties = _none

    def generated(self, length: float, seed: int | None) -> Labelled:
        """Return the stream in a length: up to `MAX_TIMES` that many times its own, else records."""
        n = round(length * self.records) if length <= MAX_TIMES else round(length)
        return self.make(n, self.seed if seed is None else seed)


def _long() -> list[Stream]:
    return [
        Stream("long", name, endless.RECORDS * (2 if name in endless.LONGER else 1), make, 11)
        for name, make in endless.MAKERS.items()
    ]


GROUPS: dict[str, Callable[[], list[Stream]]] = {
    "long": _long,
    "shapes": lambda: [Stream("shapes", name, shapes.RECORDS, make, 12) for name, make in shapes.MAKERS.items()],
    "ladder": lambda: [
        Stream("ladder", name, embeddings.RECORDS, make, 13) for name, make in embeddings.MAKERS.items()
    ],
    "sensors": lambda: [
        Stream("sensors", name, machines.RECORDS, make, 14, machines.novelties)
        for name, make in machines.MAKERS.items()
    ],
    "sets": lambda: [Stream("sets", name, sets.RECORDS, make, 0) for name, make in sets.MAKERS.items()],
}


def named(group: str, name: str) -> Stream:
    """Return one stream."""
    return next(stream for stream in GROUPS[group]() if stream.name == name)
