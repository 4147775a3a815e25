"""How many of a partition's last records are dead letters."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from resonance.engine.base import IntArray


class DeadLetterShare:
    """Counts the dead letters among the last `window` records; those that have not come yet count as good."""

    def __init__(self, window: int, share: float) -> None:
        self.until = 0
        """Records below this offset are counted."""
        self._window = window
        self._high = share * window
        self._dead = np.zeros(window, np.bool_)
        self._any = self._open = False

    def take(self, offsets: IntArray, dead: Sequence[int]) -> list[tuple[int, bool, int]]:
        """Count records at ascending offsets; `dead` are the positions of dead letters, in any order.

        Return where the share passed its bounds: the position, whether upwards, and the dead letters by then.
        """
        start = int(np.searchsorted(offsets, self.until))
        if start == len(offsets):
            return []
        self.until = int(offsets[-1]) + 1
        # Mostly there is none, and small batches are many.
        if not dead and not self._any and not self._open:
            return []
        fresh = np.zeros(len(offsets), np.bool_)
        fresh[list(dead)] = True
        fresh = fresh[start:]
        flags = np.concatenate((self._dead, fresh))
        total = np.concatenate(([0], np.cumsum(flags)))
        counts = total[self._window + 1 :] - total[1 : len(fresh) + 1]
        self._dead = flags[len(fresh) :]
        self._any = bool(self._dead.any())
        found: list[tuple[int, bool, int]] = []
        place = 0
        while True:
            passed = counts[place:] <= 0.5 * self._high if self._open else counts[place:] > self._high
            if not passed.any():
                return found
            place += int(passed.argmax())
            self._open = not self._open
            found.append((start + place, self._open, int(counts[place])))

    def state(self) -> dict[str, Any]:
        """Return the state in a form that JSON can hold: how many records ago each dead letter was."""
        ages = (self._window - np.flatnonzero(self._dead)).tolist()
        return {"until": self.until, "ages": ages, "open": self._open}

    def restore(self, content: Any) -> None:
        """Continue from a `state`."""
        self.until, self._open = int(content["until"]), bool(content["open"])
        ages = [age for age in map(int, content["ages"]) if 0 < age <= self._window]
        self._dead[[self._window - age for age in ages]] = True
        self._any = bool(ages)
