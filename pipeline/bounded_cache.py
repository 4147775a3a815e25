"""A cache of what is made again and again on a record's path, such as the texts of its cluster."""

from collections.abc import Callable
from typing import Any, Final

KEPT: Final = 20_000
"""Results that are kept; numbers of clusters and nodes are never used again, so old ones must go."""


class BoundedCache(dict[Any, Any]):
    """Caches the result of a function for each key, unless it is None, and drops everything at `KEPT` entries."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Any) -> Any:
        made = self._make(key)
        if made is not None:
            if len(self) >= KEPT:
                self.clear()
            self[key] = made
        return made
