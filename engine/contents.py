"""What a state holds, checked array by array: its checksum says that it is whole, not that an engine wrote it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.errors import StateError

MAX_RECORDS = 2**53
"""Counts up to here are exact as floats."""

ROUNDING = 1e-9
"""What rounding may have added to a value, relative to it or to 1."""


def require(holds: Any, what: str) -> None:
    """Raise ValueError where something does not hold."""
    if not holds:
        raise ValueError(what)


def within(array: NDArray[Any], low: float, high: float) -> bool:
    """Return whether all entries are numbers of ``low..high``."""
    return bool(((array >= low) & (array <= high)).all())


class Contents:
    """The arrays of a state, each checked as it is read."""

    def __init__(self, arrays: dict[str, NDArray[Any]], name: str) -> None:
        self.arrays, self.name = arrays, name

    def check(self, right: Any, what: str) -> None:
        """Raise `StateError` where something is not right."""
        if not right:
            raise StateError(f"the state of {self.name} holds no model: {what}")

    def read(self, key: str, kind: type, *shape: int) -> NDArray[Any]:
        """Return an array of that type and shape; -1 for any length."""
        array = self.arrays.get(key)
        if array is None or array.dtype != kind or array.ndim != len(shape):
            raise StateError(f"the state of {self.name} holds no model: no array {key!r}")
        right = all(wanted in (-1, length) for wanted, length in zip(shape, array.shape, strict=True))
        self.check(right, f"{key!r} has shape {array.shape}")
        return array

    def whole(self, key: str, low: int, high: Any, *shape: int) -> IntArray:
        """Return an array of integers from `low` to `high`."""
        array = self.read(key, np.int64, *shape)
        self.check((array >= low).all() and (array <= high).all(), key)
        return array

    def within(self, key: str, high: float, *shape: int) -> FloatArray:
        """Return an array of floats of at most `high` in absolute value."""
        array = self.read(key, np.float64, *shape)
        self.check((np.abs(array) <= high).all(), key)
        return array
