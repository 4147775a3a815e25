"""When the clusters of a stream began, and which ended clusters the compacted topic still has."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import Any, Final

from resonance.pipeline.timestamps import later

MAX_ENDED: Final = 1_000
"""Ended clusters of a stream that may wait for their tombstones; beyond it the oldest gets its tombstone early."""


CLOCK_OFFSETS: Final = 64
"""Offsets of a block; its first record is the clock for tombstones, because checking every record would cost time."""


class Lifetimes:
    """Beginnings and ends of a stream's clusters, in the records' own time.

    A tombstone comes with the first clock record whose own time is not before the end plus a grace period.
    """

    __slots__ = ("_first", "_waiting", "since")

    def __init__(self) -> None:
        self.since: dict[str, str] = {}
        """Time of the record with which each present cluster began, unless an earlier release learned that record."""
        # (time at which the tombstone is due, cluster), in the order of the ends; `_first` is the earliest time.
        self._waiting: list[tuple[str, str]] = []
        self._first = ""

    def __len__(self) -> int:
        """Return the number of ended clusters that wait for their tombstones."""
        return len(self._waiting)

    def end(self, cluster: str, time: str, grace: float) -> None:
        """Note that a cluster ended with a record of this time; its tombstone is due `grace` seconds later."""
        self.since.pop(cluster, None)
        due = later(time, grace)
        self._first = min(self._first, due) if self._waiting else due
        self._waiting.append((due, cluster))

    def forget_others(self, clusters: Collection[str]) -> None:
        """Keep `since` of these clusters only: the ends of the others, with which it would go, are never emitted."""
        self.since = {cluster: time for cluster, time in self.since.items() if cluster in clusters}

    def overdue(self) -> list[str]:
        """Remove and return the waiting clusters beyond `MAX_ENDED`, the oldest first."""
        if len(self._waiting) <= MAX_ENDED:
            return []
        gone = self._waiting[: len(self._waiting) - MAX_ENDED]
        self._keep(self._waiting[len(gone) :])
        return [cluster for _, cluster in gone]

    def all_ended(self) -> list[str]:
        """Remove and return all clusters that wait for their tombstones, the oldest first."""
        gone = [cluster for _, cluster in self._waiting]
        self._keep([])
        return gone

    def due(
        self, times: Sequence[str], offsets: Sequence[int], places: Sequence[int], before: int
    ) -> list[tuple[int, str]]:
        """Remove and return the clusters whose tombstones are due, each with the place of the record.

        `times` and `offsets` are those of a batch, in which the stream's records stand at `places`; `before` is the
        offset of the stream's record before these.
        """
        found: list[tuple[int, str]] = []
        at = 0
        while self._waiting and at < len(places):
            place = places[at]
            block = offsets[place] // CLOCK_OFFSETS
            if block != before // CLOCK_OFFSETS and times[place] >= self._first:
                now = times[place]
                found += [(place, cluster) for due, cluster in self._waiting if due <= now]
                self._keep([entry for entry in self._waiting if entry[0] > now])
            before = offsets[place]
            at = bisect_left(places, (block + 1) * CLOCK_OFFSETS, at + 1, key=offsets.__getitem__)
        return found

    def _keep(self, waiting: list[tuple[str, str]]) -> None:
        self._waiting = waiting
        self._first = min((due for due, _ in waiting), default="")

    def state(self) -> dict[str, Any]:
        """Return the lifetimes for JSON."""
        return {"since": self.since, "ended": self._waiting}

    @classmethod
    def from_state(cls, content: Any) -> "Lifetimes":
        """Continue from a `state`."""
        made = cls()
        made.since = {str(cluster): str(time) for cluster, time in content["since"].items()}
        made._keep([(str(due), str(cluster)) for due, cluster in content["ended"]])
        return made
