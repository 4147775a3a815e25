"""Notices features that are missing far longer than they were: another value stands for them, which hides it."""

from typing import Final, NamedTuple, Self

import numpy as np
from resonance.engine.base import BoolArray, IntArray
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.kernels.arithmetic import log
from resonance.kernels.table import require
from resonance.pipeline.task.alerts.kernels import missing

KIND: Final = "missing_features"
REVISION: Final = 2


class Missing(NamedTuple):
    """A feature is missing for longer than ever, or is there again."""

    row: int
    column: int
    opened: bool
    evidence: dict[str, float]
    began: int
    """Time of the first record without it, in milliseconds since 1970."""


class MissingFeatures:
    """How long the features of a stream are missing."""

    def __init__(self) -> None:
        self._records = 0
        self._rows: IntArray = np.zeros((0, missing.COLUMNS), np.int64)

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
        if not self._rows[:, missing.RUN].any() and not is_missing.any():
            return []
        if len(self._rows) < columns:
            self._rows = np.vstack((self._rows, np.zeros((columns - len(self._rows), missing.COLUMNS), np.int64)))
        # A feature is there again before it can be missing for so long.
        out = np.empty((columns * (2 * count // missing.LEAST + 2), missing.OUT), np.int64)
        found = missing.follow(is_missing, times, before, evidence + log(columns), self._rows, out)
        result = []
        for row, column, opened, run, records, missed, began in out[:found].tolist():
            shown = {"missing": float(run)} | ({"usual": missed / records} if opened else {})
            result.append(Missing(row, column, bool(opened), shown, began))
        return result

    def state(self) -> bytes:
        """Return everything that the next alert depends on, canonical."""
        ever = np.flatnonzero(self._rows.any(axis=1))
        arrays = {"records": np.array([self._records]), "columns": ever, "rows": self._rows[ever]}
        return pack(KIND, REVISION, {}, arrays)

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
            require(rows.shape == (len(columns), missing.COLUMNS), "rows")
            require(made._records >= 0 and bool((np.diff(columns, prepend=-1) > 0).all()), "columns")
            counts = rows[:, missing.MISSED] + rows[:, missing.RUN]
            require(
                bool((rows[:, [missing.MISSED, missing.RUN]] >= 0).all() and (counts <= made._records).all()), "counts"
            )
            made._rows = np.zeros((int(columns[-1]) + 1 if len(columns) else 0, missing.COLUMNS), np.int64)
            made._rows[columns] = rows
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise StateError(f"the state of {KIND} cannot be read: {error!r}") from error
        return made
