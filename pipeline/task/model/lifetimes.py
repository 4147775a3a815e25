"""When the clusters of a stream began, and which ended ones the compacted topic still has."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import Any, Final

from resonance.pipeline.timestamps import later

MAX_ENDED: Final = 1_000
"""Ended clusters of a stream that wait for their tombstones; beyond it the oldest goes early."""


CLOCK_OFFSETS: Final = 64
"""Of every so many offsets the stream's first record is the clock for tombstones: looking at each would cost time."""


class Lifetimes:
    """Beginnings and ends of a stream's clusters, in the records' own time.

    A tombstone comes with the first record on the clock whose own time is not before the end plus a grace period.

    Attributes
    ----------
    since : dict of str to str
        Time of the record with which each present cluster began; not of those that an earlier release saw begin.
    """

    __slots__ = ("_first", "_waiting", "since")

    def __init__(self) -> None:
        self.since: dict[str, str] = {}
        # (when the tombstone is due, cluster), in the order of the ends; and the earliest of these times.
        self._waiting: list[tuple[str, str]] = []
        self._first = ""

    def __len__(self) -> int:
        """How many ended clusters wait for their tombstones."""
        return len(self._waiting)

    def end(self, cluster: str, time: str, grace: float) -> None:
        """Note that a cluster ended.

        Parameters
        ----------
        cluster : str
            Its id.
        time : str
            Time of the record with which it ended.
        grace : float
            Seconds until its tombstone.
        """
        self.since.pop(cluster, None)
        due = later(time, grace)
        self._first = min(self._first, due) if self._waiting else due
        self._waiting.append((due, cluster))

    def forget_others(self, clusters: Collection[str]) -> None:
        """Forget when all but some clusters began: nobody will hear of their ends, with which it would be forgotten."""
        self.since = {cluster: time for cluster, time in self.since.items() if cluster in clusters}

    def join(self, other: "Lifetimes") -> None:
        """Take over what is known of other clusters of the stream."""
        self.since |= other.since
        self._keep(sorted([*self._waiting, *other._waiting]))

    def overdue(self) -> list[str]:
        """Return the clusters that are too many, the oldest first; they wait no longer."""
        if len(self._waiting) <= MAX_ENDED:
            return []
        gone = self._waiting[: len(self._waiting) - MAX_ENDED]
        self._keep(self._waiting[len(gone) :])
        return [cluster for _, cluster in gone]

    def all_ended(self) -> list[str]:
        """Return the ended clusters that wait for their tombstones, the oldest first; they wait no longer."""
        gone = [cluster for _, cluster in self._waiting]
        self._keep([])
        return gone

    def due(
        self, times: Sequence[str], offsets: Sequence[int], start: int, stop: int, before: int
    ) -> list[tuple[int, str]]:
        """Return whose tombstones are due with some records, each with the position of its record; they wait no longer.

        Parameters
        ----------
        times : sequence of str
            Own times of the stream's records.
        offsets : sequence of int
            Their offsets.
        start, stop : int
            The positions to look at.
        before : int
            Offset of the stream's record before these.
        """
        found: list[tuple[int, str]] = []
        position = start
        while self._waiting and position < stop:
            block = offsets[position] // CLOCK_OFFSETS
            if block != before // CLOCK_OFFSETS and times[position] >= self._first:
                now = times[position]
                found += [(position, cluster) for due, cluster in self._waiting if due <= now]
                self._keep([entry for entry in self._waiting if entry[0] > now])
            before = offsets[position]
            position = bisect_left(offsets, (block + 1) * CLOCK_OFFSETS, position + 1, stop)
        return found

    def _keep(self, waiting: list[tuple[str, str]]) -> None:
        self._waiting = waiting
        self._first = min((due for due, _ in waiting), default="")

    def state(self) -> dict[str, Any]:
        """Return what JSON can hold of it."""
        return {"since": self.since, "ended": self._waiting}

    @classmethod
    def from_state(cls, content: Any) -> "Lifetimes":
        """Continue from a `state`.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is not one.
        """
        made = cls()
        made.since = {str(cluster): str(time) for cluster, time in content["since"].items()}
        made._keep([(str(due), str(cluster)) for due, cluster in content["ended"]])
        return made
