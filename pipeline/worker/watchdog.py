"""What a thread is at and since when, so that others notice when it hangs."""

import time
from collections.abc import Callable
from typing import Final

WORK_SECONDS: Final = 60.0
"""How long a step of our own may take: a slice of records takes a fraction of a second, a large snapshot seconds."""


class Watchdog:
    """The present step of a thread; noted by it, asked for by any.

    Parameters
    ----------
    clock : callable
        Seconds of a clock that only goes forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Replaced as a whole: a reader sees one step or the next.
        self._step: tuple[str, float, float] | None = None

    def begin(self, what: str, seconds: float = WORK_SECONDS) -> None:
        """Note that a step begins.

        Parameters
        ----------
        what : str
            What the thread does, as in "it has been ...".
        seconds : float
            How long that may take. For waiting for the broker this is longer than the waiting ever goes on by itself.
        """
        self._step = what, self._clock(), seconds

    def rest(self) -> None:
        """Note that there is nothing to do; a thread at rest does not hang."""
        self._step = None

    def hang(self) -> str:
        """Return what the thread has been at for too long; nothing while all is well."""
        step = self._step
        if step is None:
            return ""
        what, since, seconds = step
        spent = self._clock() - since
        return f"{what} for {spent:.0f} s (at most {seconds:g} s are fine)" if spent > seconds else ""
