"""Decoded sparse records, before their features have the indices of a stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Self

import numpy as np
from resonance.engine.base import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """Decoded sparse records, possibly of several streams and of both forms."""

    codes: IntArray
    """Shape (entries,): of a record by index the features, of one by name their positions in `names`."""
    indptr: IntArray
    """Shape (n + 1,): where the entries of each record begin, and the end."""
    data: FloatArray
    """Shape (entries,): the values."""
    by_index: BoolArray
    """Shape (n,): the form of each record."""
    names: Sequence[str]
    """Names of features, in the order of their first appearance."""

    def __len__(self) -> int:
        return len(self.by_index)

    def __getitem__(self, positions: Any) -> "SparseRows":
        """Return the records at some positions, in the order of these."""
        chosen = np.asarray(positions, np.int64)
        starts = self.indptr[chosen]
        counts = self.indptr[chosen + 1] - starts
        indptr = starts_of(counts)
        entries = np.repeat(starts - indptr[:-1], counts) + np.arange(indptr[-1])
        return SparseRows(self.codes[entries], indptr, self.data[entries], self.by_index[chosen], self.names)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the records of several batches as one batch, in order."""
        names = list(dict.fromkeys(chain.from_iterable(part.names for part in parts)))
        code = dict(zip(names, count(), strict=False))
        codes = []
        for part in parts:
            by_index = np.repeat(part.by_index, np.diff(part.indptr))
            places = np.array([code[name] for name in part.names], np.int64)
            own = part.codes.copy()
            own[~by_index] = places[own[~by_index]]
            codes.append(own)
        return cls(
            np.concatenate([np.empty(0, np.int64), *codes]),
            starts_of(np.concatenate([np.empty(0, np.int64), *(np.diff(part.indptr) for part in parts)])),
            np.concatenate([np.empty(0), *(part.data for part in parts)]),
            np.concatenate([np.empty(0, np.bool_), *(part.by_index for part in parts)]),
            names,
        )


def starts_of(counts: IntArray) -> IntArray:
    """Return where runs of some lengths begin, and where the last one ends."""
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts
