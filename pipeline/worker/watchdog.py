"""The present step of a thread and when it began, so that other threads notice a hang and end the process."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from resonance.pipeline.errors import DeliveryError

WORK_SECONDS: Final = 60.0
"""Limit of a step without the broker: a slice of records takes a fraction of a second, a large snapshot seconds."""

OVERDUE_SECONDS: Final = 10.0
"""Duration of a wait for the broker above which records do not become outputs; a commit takes some milliseconds."""

LOOK_SECONDS: Final = 0.5

_log = logging.getLogger(__name__)


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

    @contextmanager
    def around(self, what: str, seconds: float) -> Iterator[None]:
        """Note a step that lasts as long as the block."""
        self.begin(what, seconds)
        try:
            yield
        finally:
            self.rest()

    def hang(self) -> str:
        """Return which step exceeds its limit; empty while all is well."""
        step = self._step
        if step is None:
            return ""
        what, since, seconds = step
        spent = self._clock() - since
        return f"{what} for {spent:.0f} s (at most {seconds:.0f} s are fine)" if spent > seconds else ""

    def overdue(self) -> str:
        """Return which wait for the broker lasts longer than one that goes well; empty where none does."""
        step = self._step
        if step is None or step[2] <= WORK_SECONDS:
            return ""
        spent = self._clock() - step[1]
        return f"{step[0]} for {spent:.0f} s; look at the brokers" if spent > OVERDUE_SECONDS else ""


class Deadline:
    """Ends the process when a step of `watchdog` exceeds its limit: nothing else ends a thread that hangs in a library.

    The log's last line begins with `prefix`; `end` is for tests.
    """

    def __init__(self, watchdog: Watchdog, prefix: str, end: Callable[[str], None] | None = None) -> None:
        self._watchdog = watchdog
        self._prefix = prefix
        self._end = end or _end
        self._thread = threading.Thread(target=self._run, name="deadline", daemon=True)

    def start(self) -> None:
        """Begin to look, once."""
        if not self._thread.is_alive():
            self._thread.start()

    def _run(self) -> None:
        while not (hang := self._watchdog.hang()):
            time.sleep(LOOK_SECONDS)
        self._end(f"{self._prefix}{hang}: a call of the Kafka client hangs; a restart goes on at the last commit")


def _end(why: str) -> None:
    """Log why and end the process, whatever its other threads do."""
    _log.error("the worker ends with exit code %d: %s", DeliveryError.exit_code, why)
    logging.shutdown()
    os._exit(DeliveryError.exit_code)
