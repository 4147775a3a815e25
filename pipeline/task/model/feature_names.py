"""The feature dictionary of a stream whose sparse records name their features."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from resonance.engine.base import IntArray


class FeatureNames:
    """Names with their indices, which count from 0 in the order in which names are added."""

    __slots__ = ("_index", "_names")

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = list(names)
        self._index = {name: index for index, name in enumerate(self._names)}

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> str:
        return self._names[index]

    def __iter__(self) -> Any:
        return iter(self._names)

    def find(self, names: Sequence[str]) -> IntArray:
        """Return the index of each name, -1 for an unknown one."""
        return np.fromiter(map(self._index.get, names, repeat(-1)), np.int64, len(names))

    def add(self, names: Sequence[str]) -> None:
        """Give the next indices to new names."""
        for name in names:
            self._index[name] = len(self._names)
            self._names.append(name)

    def state(self) -> NDArray[np.uint8]:
        """Return the names as JSON; equal dictionaries give equal bytes."""
        return np.frombuffer(orjson.dumps(self._names), np.uint8)

    @classmethod
    def from_state(cls, data: bytes) -> Self:
        """Continue from a `state`."""
        names = orjson.loads(data)
        made = cls(names) if isinstance(names, list) and all(type(name) is str for name in names) else None
        if made is None or len(made._index) != len(names):
            raise ValueError("no list of different names")
        return made
