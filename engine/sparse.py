"""Records of which most features are zero, kept by their non-zero entries, and the engines that learn them so."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import MAGNITUDE, Engine, FloatArray, IntArray, Prediction, Step
from resonance.engine.errors import RecordError


@dataclass(frozen=True, slots=True, eq=False)
class SparseBatch:
    """Records in compressed sparse rows (CSR).

    Record t has the value ``data[p]`` at feature ``indices[p]`` for p from ``indptr[t]`` to ``indptr[t + 1]``, and
    zero at every other feature.

    Attributes
    ----------
    indices : ndarray of int64, shape (entries,)
        Features, counted from 0.
    indptr : ndarray of int64, shape (n + 1,)
        Where each record begins, and the end.
    data : ndarray of float64, shape (entries,)
        Values.
    dimension : int or None
        Features that every record has, as in a dense batch. None: records are open, and a feature that none has
        seen yet may come at any time; all records before it had it at zero.
    """

    indices: IntArray
    indptr: IntArray
    data: FloatArray
    dimension: int | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def part(self, start: int, stop: int) -> Self:
        """Return the records from `start` to before `stop`."""
        at = self.indptr[start : stop + 1]
        return type(self)(self.indices[at[0] : at[-1]], at - at[0], self.data[at[0] : at[-1]], self.dimension)


class SparseEngine(Engine):
    """An engine that takes sparse batches as they are, beside dense ones: the same records, the same bits."""

    fixed: bool | None
    """Whether the number of features is that of the first batch; None before it."""

    @abc.abstractmethod
    def learn(self, X: ArrayLike | SparseBatch, labels: Sequence[int] | NDArray[np.int64] | None = None) -> Step:
        """Learn a batch in order; see `Engine.learn`."""

    @abc.abstractmethod
    def predict(self, X: ArrayLike | SparseBatch) -> Prediction:
        """Answer for records without learning them; changes nothing."""

    @classmethod
    @abc.abstractmethod
    def learns_zeros(cls, parameters: Mapping[str, Any]) -> bool:
        """Whether a model with these parameters learns a record of zeros; otherwise no node does."""


SLACK = 1e-9
"""What rounding may have added to a value of [0, 1] before it counts as outside."""


def check_sparse(X: SparseBatch, dimension: int, most: int) -> SparseBatch:
    """Return `X` in its canonical form, or say in a `RecordError` which record is at fault.

    That is int64 and float64, features ascending within each record, and no entry of zero. `dimension` are the features
    that the engine has and that cannot become more, 0 where they can; `most` are those that there may be at all. Values
    outside [0, 1] are refused; those within `SLACK` of it are clipped.
    """
    indices, indptr, data = _as_csr(X)
    declared = X.dimension
    if declared is not None and (declared < 1 or declared > most):
        raise RecordError(0, f"a batch of {declared} features: there may be 1 to {most:,}")
    if dimension and declared is not None and declared != dimension:
        raise RecordError(0, f"{declared} features, the model has {dimension}")
    record = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    bound = dimension or declared or most
    wrong = np.flatnonzero((indices < 0) | (indices >= bound) | ~(np.abs(data) <= MAGNITUDE))
    if len(wrong):
        index, value = int(indices[wrong[0]]), float(data[wrong[0]])
        problem = f"feature {index} is {value!r}: {f'beyond {MAGNITUDE:g}' if np.isfinite(value) else 'not finite'}"
        if not 0 <= index < bound:
            problem = f"there is no feature {index}: they count from 0 to {bound - 1:,}"
        raise RecordError(int(record[wrong[0]]), problem)
    wrong = np.flatnonzero((data < -SLACK) | (data > 1.0 + SLACK))
    if len(wrong):
        raise RecordError(int(record[wrong[0]]), outside(int(indices[wrong[0]]), float(data[wrong[0]])))
    np.clip(data, 0.0, 1.0, out=data)
    if not (np.diff(indices)[np.diff(record) == 0] > 0).all():
        order = np.lexsort((indices, record))
        indices, data = indices[order], data[order]
        twice = np.flatnonzero((np.diff(indices) == 0) & (np.diff(record) == 0))
        if len(twice):
            raise RecordError(int(record[twice[0]]), f"feature {indices[twice[0]]} comes twice")
    some = data != 0.0
    if not some.all():
        indptr = np.concatenate([[0], np.cumsum(some)])[indptr]
        indices, data = indices[some], data[some]
    return SparseBatch(indices, indptr, data, declared)


def outside(feature: int, value: float) -> str:
    """Say that a value is not in [0, 1]."""
    return f"feature {feature} is {value!r}: outside [0, 1]"


def _as_csr(X: SparseBatch) -> tuple[IntArray, IntArray, FloatArray]:
    """Return copies of the arrays of a batch in their types, or say that they do not fit together."""
    try:
        data = np.array(X.data, dtype=np.float64)
        indices, indptr = np.asarray(X.indices), np.asarray(X.indptr)
    except (TypeError, ValueError) as error:
        raise RecordError(0, f"not arrays of numbers: {error}") from error
    for name, array in (("indices", indices), ("indptr", indptr)):
        if array.size and not np.issubdtype(array.dtype, np.integer):
            raise RecordError(0, f"{name} are integers, not {array.dtype}")
    if indices.ndim != 1 or indices.shape != data.shape or indptr.ndim != 1 or not len(indptr):
        raise RecordError(0, f"indices {indices.shape}, data {data.shape} and indptr {indptr.shape} are no CSR batch")
    starts = indptr.astype(np.int64)
    if starts[0] != 0 or starts[-1] != len(indices) or (np.diff(starts) < 0).any():
        raise RecordError(0, f"indptr must rise from 0 to {len(indices)}, the number of entries")
    return indices.astype(np.int64), starts, data
