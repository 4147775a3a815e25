"""The present step of a thread and when it began, so that other threads notice a hang."""

import time
from collections.abc import Callable
from typing import Final

WORK_SECONDS: Final = 60.0
"""Limit of a step without the broker: a slice of records takes a fraction of a second, a large snapshot seconds."""


class Watchdog:
    """The present step of a thread, set by that thread and read by any; `clock` must only go forward."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Replaced as a whole: a reader sees one step or the next.
        self._step: tuple[str, float, float] | None = None

    def begin(self, what: str, seconds: float = WORK_SECONDS) -> None:
        """Note that a step begins: `what` in the perfect tense, as in "outputs have been sent", and its limit.

        The limit of a wait for the broker must be longer than the wait can last by itself.
        """
        self._step = what, self._clock(), seconds

    def rest(self) -> None:
        """Note that there is nothing to do; an idle thread does not hang."""
        self._step = None

    def hang(self) -> str:
        """Return which step exceeds its limit; empty while all is well."""
        step = self._step
        if step is None:
            return ""
        what, since, seconds = step
        spent = self._clock() - since
        return f"{what} for {spent:.0f} s (at most {seconds:g} s are fine)" if spent > seconds else ""
