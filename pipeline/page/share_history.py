"""Records of a stream by cluster over time, in a room that does not grow with time."""

from array import array
from collections.abc import Callable, Iterable
from operator import add
from typing import Any, Final

STEPS: Final = 64
"""Steps of time that are kept."""

FIRST_STEP: Final = 1_000
MOST_STEP: Final = 2_048_000
"""Milliseconds of a step: it doubles when the room is full, up to this; then the older half goes."""

MOST_CLUSTERS: Final = 200
"""Clusters that are counted one by one; the others count as none of them."""


class ShareHistory:
    """Counts records by cluster in steps of their own time."""

    __slots__ = ("_by", "_first", "_step", "_total")

    def __init__(self) -> None:
        self._step = FIRST_STEP
        self._first: int | None = None
        self._total = _empty()
        self._by: dict[str, array[float]] = {}

    def add(self, time: int, clusters: Iterable[str], weight: float = 1.0) -> None:
        """Count a record by its time in milliseconds, in a cluster of each level; it stands for `weight` records."""
        if self._first is None:
            self._first = time // self._step
        while (at := time // self._step - self._first) >= STEPS:
            self._make_room(time)
        # Of a late record only the share matters.
        at = max(at, 0)
        self._total[at] += weight
        for cluster in clusters:
            counts = self._by.get(cluster)
            if counts is None:
                if len(self._by) >= MOST_CLUSTERS:
                    continue
                counts = self._by[cluster] = _empty()
            counts[at] += weight

    def recent(self, cluster: str) -> float | None:
        """Return the share of a cluster in the last quarter of the steps with records; None where there are none."""
        end = self._end
        start = max(0, end - STEPS // 4)
        total = sum(self._total[start:end])
        counts = self._by.get(cluster)
        return None if not total else 0.0 if counts is None else min(sum(counts[start:end]) / total, 1.0)

    def as_json(self, most: int = MOST_CLUSTERS) -> dict[str, Any]:
        """Return start and step in milliseconds, the total of each step, and the counts of the largest clusters."""
        end = self._end
        largest = sorted(self._by, key=lambda name: -sum(self._by[name]))[:most]
        return {
            "start": (self._first or 0) * self._step,
            "step": self._step,
            "total": _rounded(self._total[:end]),
            "series": {name: _rounded(self._by[name][:end]) for name in largest},
        }

    def until(self, time: int) -> "ShareHistory":
        """Return a copy without what came after a time in milliseconds."""
        copy = ShareHistory()
        copy._step, copy._first = self._step, self._first
        end = max(time // self._step - (self._first or 0) + 1, 0)
        copy._total[:end] = self._total[:end]
        for name, counts in self._by.items():
            copy._by[name] = _empty()
            copy._by[name][:end] = counts[:end]
        return copy

    @property
    def _end(self) -> int:
        return next((at + 1 for at in range(STEPS - 1, -1, -1) if self._total[at]), 0)

    def _make_room(self, time: int) -> None:
        first = self._first or 0
        if self._step < MOST_STEP:
            self._step *= 2
            self._first = first // 2
            self._move(_halved if first % 2 == 0 else _halved_from_odd)
        elif time // self._step - first >= 2 * STEPS:
            # Nothing of what is there is near.
            self._first = time // self._step
            self._move(lambda _: _empty())
        else:
            self._first = first + STEPS // 2
            self._move(lambda counts: _padded(counts[STEPS // 2 :]))

    def _move(self, moved: Callable[["array[float]"], "array[float]"]) -> None:
        self._total = moved(self._total)
        self._by = {name: counts for name, before in self._by.items() if any(counts := moved(before))}


def _halved(counts: "array[float]") -> "array[float]":
    """Return the counts in steps of twice the length; the first step begins one of those."""
    return _padded(array("f", map(add, counts[::2], counts[1::2])))


def _halved_from_odd(counts: "array[float]") -> "array[float]":
    """Return the same where the first step ends one of those."""
    return _padded(counts[:1] + array("f", map(add, counts[1::2], [*counts[2::2], 0.0])))


def _padded(counts: "array[float]") -> "array[float]":
    return (counts + _empty())[:STEPS]


def _empty() -> "array[float]":
    return array("f", bytes(4 * STEPS))


def _rounded(counts: "array[float]") -> list[int]:
    return [round(count) for count in counts]
