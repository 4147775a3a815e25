"""The dictionary of a stream of sparse records: an index for each name of a feature."""

import json
from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import IntArray

NAME_BYTES: Final = 1_000
"""Longest name of a feature, as JSON between its quotes; bounded because events name the most salient features."""


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
        return np.frombuffer(_dumped(self._names), np.uint8)

    @classmethod
    def from_state(cls, data: bytes) -> Self:
        """Continue from a `state`."""
        names = json.loads(data)
        made = cls(names) if isinstance(names, list) and all(type(name) is str for name in names) else None
        if made is None or len(made._index) != len(names):
            raise ValueError("no list of different names")
        return made


def _dumped(content: str | list[str]) -> bytes:
    """Return JSON without spaces, in UTF-8."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def bytes_of(name: str) -> int:
    """Return the size of a name in JSON between its quotes."""
    return len(_dumped(name)) - 2


def is_too_long(name: str) -> bool:
    """Whether a name has more than `NAME_BYTES` as JSON."""
    return len(name) > NAME_BYTES or bytes_of(name) > NAME_BYTES
