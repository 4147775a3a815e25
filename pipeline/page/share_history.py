"""Records of a stream by cluster over time, in a room that does not grow with time."""

from array import array
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

STEPS: Final = 64
"""Steps of time that are kept."""

FIRST_STEP: Final = 1_000
MOST_STEP: Final = 2_048_000
"""Milliseconds of a step: it doubles when the room is full, up to this; then the older half goes."""

MOST_CLUSTERS: Final = 200
"""Clusters that are counted one by one; the others count as none of them."""


class ShareHistory:
    """Counts records by cluster in steps of their own time."""

    __slots__ = ("_counts", "_first", "_rows", "_step")

    def __init__(self) -> None:
        self._step = FIRST_STEP
        self._first: int | None = None
        self._counts = _empty()
        """The total of each step, then those of each cluster: one array, because there are many streams."""
        self._rows: dict[str, int] = {}
        """Where those of a cluster begin."""

    def add(self, time: int, clusters: Iterable[str], weight: float = 1.0) -> None:
        """Count a record by its time in milliseconds, in a cluster of each level; it stands for `weight` records."""
        if self._first is None:
            self._first = time // self._step
        while (at := time // self._step - self._first) >= STEPS:
            self._make_room(time)
        # Of a late record only the share matters.
        at = max(at, 0)
        counts = self._counts
        counts[at] += weight
        for cluster in clusters:
            row = self._rows.get(cluster)
            if row is None:
                if len(self._rows) >= MOST_CLUSTERS:
                    continue
                row = self._rows[cluster] = len(counts)
                counts.extend(_empty())
            counts[row + at] += weight

    def recent(self, cluster: str) -> float | None:
        """Return the share of a cluster in the last quarter of the steps with records; None where there are none."""
        end = self._end
        start = max(0, end - STEPS // 4)
        total = sum(self._counts[start:end])
        row = self._rows.get(cluster)
        return (
            None if not total else 0.0 if row is None else min(sum(self._counts[row + start : row + end]) / total, 1.0)
        )

    def as_json(self, most: int = MOST_CLUSTERS) -> dict[str, Any]:
        """Return start and step in milliseconds, the total of each step, and the counts of the largest clusters."""
        end = self._end
        series = {name: self._counts[row : row + end] for name, row in self._rows.items()}
        largest = sorted(series, key=lambda name: -sum(series[name]))[:most]
        return {
            "start": (self._first or 0) * self._step,
            "step": self._step,
            "total": _rounded(self._counts[:end]),
            "series": {name: _rounded(series[name]) for name in largest},
        }

    def until(self, time: int) -> "ShareHistory":
        """Return a copy without what came after a time in milliseconds."""
        copy = ShareHistory()
        copy._step, copy._first = self._step, self._first
        end = min(max(time // self._step - (self._first or 0) + 1, 0), STEPS)
        copy._take(self._table()[:, :end], self._rows)
        return copy

    @property
    def _end(self) -> int:
        return next((at + 1 for at in range(STEPS - 1, -1, -1) if self._counts[at]), 0)

    def _make_room(self, time: int) -> None:
        first, table = self._first or 0, self._table()
        if self._step < MOST_STEP:
            self._step *= 2
            self._first = first // 2
            odd = first % 2
            halves = np.zeros((len(table), STEPS + 2 * odd), np.float32)
            # The first step can be the second half of one of twice the length.
            halves[:, odd : STEPS + odd] = table
            table = halves[:, ::2] + halves[:, 1::2]
        elif time // self._step - first >= 2 * STEPS:
            # Nothing of what is there is near.
            self._first = time // self._step
            table = table[:, :0]
        else:
            self._first = first + STEPS // 2
            table = table[:, STEPS // 2 :]
        self._take(table, self._rows)

    def _table(self) -> NDArray[np.float32]:
        """Return the counts: a row of all records, and one of each cluster."""
        return np.array(self._counts, dtype=np.float32).reshape(-1, STEPS)

    def _take(self, table: NDArray[np.float32], rows: Mapping[str, int]) -> None:
        """Replace all counts by those of a table; clusters without any are left out."""
        kept: NDArray[np.bool_] = np.any(table, axis=1)
        kept[0] = True
        counts = np.zeros((int(kept.sum()), STEPS), np.float32)
        counts[:, : table.shape[1]] = table[kept]
        if len(counts) < len(table):
            places = ((np.cumsum(kept) - 1) * STEPS).tolist()
            self._rows = {name: places[row // STEPS] for name, row in rows.items() if kept[row // STEPS]}
        else:
            self._rows = dict(rows)
        self._counts = array("f", counts.tobytes())


def _empty() -> "array[float]":
    return array("f", bytes(4 * STEPS))


def _rounded(counts: "array[float]") -> list[int]:
    return [round(count) for count in counts]
