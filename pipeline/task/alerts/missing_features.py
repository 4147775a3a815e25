"""Notices features that are missing far longer, or more often, than they were: what stands for them hides it."""

from typing import Final, NamedTuple, Self

import numpy as np
from resonance.engine.base import BoolArray, FloatArray, IntArray
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.kernels.arithmetic import log
from resonance.kernels.table import require
from resonance.pipeline.task.alerts.kernels import cusum, missing

KIND: Final = "missing_features"
REVISION: Final = 3


class Missing(NamedTuple):
    """A feature is missing for longer than ever, or in a larger share, or is there again."""

    row: int
    column: int
    opened: bool
    evidence: dict[str, float]
    began: int
    """Time of the first record without it, in milliseconds since 1970."""


class MissingFeatures:
    """How long, and in which share of the records, the features of a stream are missing."""

    def __init__(self) -> None:
        self._records = 0
        self._rows: IntArray = np.zeros((0, missing.COLUMNS), np.int64)
        self._counts: IntArray = np.zeros((0, cusum.OF_COUNTS), np.int64)
        self._weights: FloatArray = np.zeros((0, cusum.OF_WEIGHTS))

    @property
    def _watched(self) -> tuple[IntArray, IntArray, FloatArray]:
        return self._rows, self._counts, self._weights

    def _widen(self, columns: int) -> None:
        """Have a row for each of so many features."""
        new = columns - len(self._rows)
        self._rows = np.pad(self._rows, ((0, new), (0, 0)))
        self._counts = np.pad(self._counts, ((0, new), (0, 0)))
        self._weights = np.pad(self._weights, ((0, new), (0, 0)))

    def take(self, is_missing: BoolArray, times: IntArray, evidence: float) -> list[Missing]:
        """Follow records.

        Parameters
        ----------
        is_missing : ndarray of bool, shape (n, features)
        times : ndarray of int64, shape (n,)
            In milliseconds since 1970.
        evidence : float
            Natural logarithm of the records between two false alerts of a stream.

        Returns
        -------
        list of Missing
            In the order of the records.
        """
        count, columns = is_missing.shape
        before, self._records = self._records, self._records + count
        if not self._rows.any() and not is_missing.any():
            return []
        if columns > len(self._rows):
            self._widen(columns)
        # A feature is there again before it can be missing for so long.
        room = columns * (2 * count // missing.LEAST + 2)
        out, numbers = np.empty((room, missing.OUT), np.int64), np.empty((room, missing.NUMBERS))
        # Two rules share what may be wrong.
        evidence += log(2 * columns)
        found = missing.follow(is_missing, times, before, evidence, *self._watched, out, numbers)
        result = []
        for (row, column, opened, began), (gone, of, usual) in zip(
            out[:found].tolist(), numbers[:found].tolist(), strict=True
        ):
            shown = {"missing": gone} | ({"records": of} if of else {}) | ({"usual": usual} if opened else {})
            result.append(Missing(row, column, bool(opened), shown, began))
        return result

    def state(self) -> bytes:
        """Return everything that the next alert depends on, canonical."""
        ever = np.flatnonzero(self._rows.any(axis=1))
        rows, counts, weights = (each[ever] for each in self._watched)
        arrays = {"records": np.array([self._records]), "columns": ever}
        return pack(KIND, REVISION, {}, {**arrays, "rows": rows, "counts": counts, "weights": weights})

    @classmethod
    def from_state(cls, data: bytes) -> Self:
        """Continue from `state`; `StateError` where it is damaged or from a newer release."""
        _, arrays = unpack(data, KIND, REVISION)
        made = cls()
        try:
            (made._records,), columns, rows = arrays["records"].tolist(), arrays["columns"], arrays["rows"]
            if rows.shape == (len(columns), missing.RUNS):
                # The first revision did not count runs: as if there had been one.
                rows = np.column_stack((rows, rows[:, missing.MISSED] > 0))
            if rows.shape == (len(columns), missing.GONE):
                # Before the third revision no share was watched: it begins anew.
                rows = np.pad(rows, ((0, 0), (0, missing.COLUMNS - missing.GONE)))
            require(rows.shape == (len(columns), missing.COLUMNS), "rows")
            require(made._records >= 0 and bool((np.diff(columns, prepend=-1) > 0).all()), "columns")
            counts = rows[:, missing.MISSED] + rows[:, missing.RUN]
            require(
                bool((rows[:, [missing.MISSED, missing.RUN]] >= 0).all() and (counts <= made._records).all()), "counts"
            )
            watched = (
                arrays.get("counts", np.zeros((len(columns), cusum.OF_COUNTS), np.int64)),
                arrays.get("weights", np.zeros((len(columns), cusum.OF_WEIGHTS))),
            )
            made._widen(int(columns[-1]) + 1 if len(columns) else 0)
            for mine, read in zip(made._watched, (rows, *watched), strict=True):
                require(read.shape == (len(columns), mine.shape[1]) and read.dtype == mine.dtype, "columns")
                mine[columns] = read
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise StateError(f"the state of {KIND} cannot be read: {error!r}") from error
        return made
