"""Notices features that are missing far more often than they were: another value stands for them, which hides it.

Each is watched as the rule `unlike` watches records, and what was never missing shares one state.
"""

from typing import Any, Final, NamedTuple, Self

import numpy as np
from resonance.engine.base import BoolArray, FloatArray, IntArray
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.kernels.arithmetic import log
from resonance.kernels.table import require
from resonance.pipeline.task.alerts.kernels import stream_rules

KIND: Final = "missing_features"
REVISION: Final = 1

LEAST: Final = 20
"""Records in a row without a feature that hardly ever was missing, at least: some are lost now and then in bursts."""

_NEVER: Final = -1
"""The column of the state of features that were never missing."""


class Missing(NamedTuple):
    """A feature is missing far more often than it was, or is no longer."""

    row: int
    column: int
    opened: bool
    evidence: dict[str, float]
    began: int | None
    """Time of the first record without it, in milliseconds since 1970."""


class MissingFeatures:
    """How often the features of a stream are missing."""

    def __init__(self) -> None:
        self._states: dict[int, tuple[IntArray, FloatArray]] = {_NEVER: stream_rules.new_state()}
        self._out: IntArray = np.empty((16, 5), np.int64)
        self._numbers = np.empty((16, 4))

    def take(self, is_missing: BoolArray, times: IntArray, evidence: float) -> list[Missing]:
        """Follow records; `is_missing` has a row for each, `evidence` is that between two false alerts of a stream."""
        rows, columns = is_missing.shape
        limits = np.zeros(stream_rules.LIMITS)
        limits[stream_rules.EVIDENCE] = max(evidence + log(columns), LEAST * log(0.5 / stream_rules.RARE))
        for column in np.flatnonzero(is_missing.any(axis=0)).tolist():
            if column not in self._states:
                integers, floats = self._states[_NEVER]
                self._states[column] = integers.copy(), floats.copy()
        found: list[Missing] = []
        answers: Any = np.zeros((rows, 1), np.int64), np.zeros(rows, np.bool_), np.ones(rows)
        for column, state in self._states.items():
            flags = answers[1] if column == _NEVER else np.ascontiguousarray(is_missing[:, column])
            start = 0
            while start < rows:
                count, start = stream_rules.follow(
                    answers[0], flags, answers[2], times, start, rows, *state, limits, self._out, self._numbers
                )
                for (row, _, opened, _, began), (records, missing, usual, _) in zip(
                    self._out[:count].tolist(), self._numbers[:count].tolist(), strict=True
                ):
                    shown = {"records": records, "missing": missing, "usual": usual}
                    first = None if began == stream_rules.UNKNOWN else began
                    found.append(Missing(row, column, bool(opened), shown, first))
        return sorted(found)

    def state(self) -> bytes:
        """Return everything that the next alert depends on, canonical."""
        columns = sorted(self._states)
        integers = np.stack([self._states[column][0][: stream_rules.YOUNG] for column in columns])
        floats = np.stack([self._states[column][1][: stream_rules.SHARE] for column in columns])
        return pack(KIND, REVISION, {}, {"columns": np.array(columns), "integers": integers, "floats": floats})

    @classmethod
    def from_state(cls, data: bytes) -> Self:
        """Continue from `state`; `StateError` where it is damaged or from a newer release."""
        _, arrays = unpack(data, KIND, REVISION)
        made = cls()
        try:
            columns, integers, floats = arrays["columns"], arrays["integers"], arrays["floats"]
            require(len(columns) > 0 and columns[0] == _NEVER and bool((np.diff(columns) > 0).all()), "columns")
            require(bool(np.isfinite(floats).all()), "floats")
            for column, own, numbers in zip(columns.tolist(), integers, floats, strict=True):
                state = stream_rules.new_state()
                state[0][: stream_rules.YOUNG], state[1][: stream_rules.SHARE] = own, numbers
                made._states[column] = state
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the state of {KIND} cannot be read: {error!r}") from error
        return made
