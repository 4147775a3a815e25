"""Outputs of several partitions in the order of their times."""

from collections import deque
from collections.abc import Collection, Hashable
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

MOST: Final = 20_000
"""Most outputs that wait; beyond it the earliest goes, though a partition that is behind may have an earlier one."""

Output = TypeVar("Output")


class TimeMerge(Generic[Output]):
    """Merges partitions, each of which stays in its own order; an output without a time follows the one before it.

    The time of one output says nothing of those behind it, so one that is years ahead delays only what is there now.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._queues: dict[Hashable, deque[tuple[str, Output]]] = {}
        self._last: dict[Hashable, str] = {}
        # The time of the first output of each queue that has one; the number keeps equal times in their order.
        self._heads: list[tuple[str, int, Hashable]] = []
        self._count = 0
        self.waiting = 0
        """Outputs that wait."""

    @property
    def has_room(self) -> bool:
        """Whether no more wait than may."""
        return self.waiting <= self._most

    def add(self, at: Hashable, time: str, output: Output) -> None:
        """Add the next output of a partition; times are compared as text."""
        time = self._last[at] = time or self._last.get(at, "")
        queue = self._queues.setdefault(at, deque())
        queue.append((time, output))
        self.waiting += 1
        if len(queue) == 1:
            self._push(at)

    def take(self, behind: Collection[Hashable]) -> list[Output]:
        """Return what no output of a partition that is `behind` its end can come before, as far as it is known."""
        missing = {at for at in behind if not self._queues.get(at)}
        found: list[Output] = []
        while self._heads and (not missing or not self.has_room):
            _, _, at = heappop(self._heads)
            queue = self._queues[at]
            found.append(queue.popleft()[1])
            self.waiting -= 1
            if queue:
                self._push(at)
            elif at in behind:
                missing.add(at)
        return found

    def _push(self, at: Hashable) -> None:
        self._count += 1
        heappush(self._heads, (self._queues[at][0][0], self._count, at))
