"""Outputs that come again with delivery at least once, recognised by their content."""

from collections.abc import Hashable
from typing import Final

REMEMBERED: Final = 200_000
"""Outputs that are recognised when they are repeated; repeats come within a worker's commit interval."""


class Repeats:
    """Recognises an output that was seen before, among the last `remembered`."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        # Hashes, oldest first: 64 bits of 200,000 collide once in 10**9 of such sets.
        self._seen: dict[int, None] = {}
        self.count = 0

    def has_seen(self, output: Hashable) -> bool:
        """Note an output, and return whether it came before."""
        identity = hash(output)
        if identity in self._seen:
            self.count += 1
            return True
        self._seen[identity] = None
        if len(self._seen) > self._remembered:
            del self._seen[next(iter(self._seen))]
        return False
