"""The end of a worker: the last commit and leaving the group, within the time that a stop may take."""

import asyncio
import contextlib
import logging
from typing import Final

from resonance.pipeline.errors import DeliveryError, ResonanceError, named
from resonance.pipeline.worker.http.status import WorkerStatus
from resonance.pipeline.worker.transport.app import WorkerApp

STOP_SECONDS: Final = 20.0
"""How long a requested stop may take, from the signal to the end of the process."""
AWAY_SECONDS: Final = 5.0
"""Part of it without any broker after which the last commit is given up."""
AWAY_LOOK_SECONDS: Final = 0.2
GOODBYE_SECONDS: Final = 5.0
"""Part of it that Faust may take once everything is committed."""
LEAVE_SECONDS: Final = 4.0
"""How long a failing worker tries to leave its group."""

_log = logging.getLogger(__name__)


def explain_end(error: Exception) -> int:
    """Log why a worker ends, as its last line, and return the exit code of the error."""
    _log.debug("where it came from", exc_info=error)
    if (shown := error if isinstance(error, ResonanceError) else named(error)) is not None:
        first, *more = map(str, shown.args)
        _log.error(
            "the worker ends with exit code %d: %s", shown.exit_code, first, extra={"more": more} if more else {}
        )
        return shown.exit_code
    _log.critical(
        "the worker ends with exit code 1: %s: %s; nothing was committed after it. This is an error of the "
        "program: RESONANCE_WORKER__LOG_LEVEL=debug shows where",
        type(error).__name__,
        error,
    )
    return 1


class Ending:
    """Stops Faust, whose consumer first closes the open transaction, and gives up what does not end."""

    def __init__(self, status: WorkerStatus) -> None:
        # Whether the last commit did not end. The thread that would abort it is the one that waits; the next start of
        # this worker ends it.
        self.gave_up = False
        self._status = status
        self._closed = False
        self._time: asyncio.Timeout | None = None

    def closed(self) -> None:
        """Note that the last commit ended: what is left is leaving the group, which an absent broker never answers."""
        self._closed = True
        if self._time is not None:
            sooner = asyncio.get_running_loop().time() + GOODBYE_SECONDS
            with contextlib.suppress(RuntimeError):  # the time is up already
                self._time.reschedule(min(self._time.when() or sooner, sooner))

    async def stop(self, app: WorkerApp) -> DeliveryError | None:
        """Stop Faust; return an error where the last commit was given up."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._time = asyncio.timeout(STOP_SECONDS - LEAVE_SECONDS)
        watch = asyncio.ensure_future(self._give_up_without_brokers(self._time))
        try:
            async with self._time:
                await app.stop()
        except TimeoutError:
            _log.warning("not everything ended in time; the group learns it by the session's timeout")
            if not self._closed:
                self.gave_up = True
                return DeliveryError(
                    f"the last commit did not end within {loop.time() - began:.0f} s and may not count; a restart goes "
                    "on at the last one that does, and learns again what came after it"
                )
        finally:
            watch.cancel()
        return None

    async def _give_up_without_brokers(self, time: asyncio.Timeout) -> None:
        away = 0.0
        while not self._closed:
            consumer = self._status.consumer
            away = 0.0 if consumer is None or consumer.has_coordinator else away + AWAY_LOOK_SECONDS
            if away > AWAY_SECONDS:
                time.reschedule(asyncio.get_running_loop().time())
                return
            await asyncio.sleep(AWAY_LOOK_SECONDS)


async def leave(app: WorkerApp) -> None:
    """Leave the group, so that other workers get the partitions at once; nothing is committed any more."""
    consumer = getattr(app, "_consumer", None)
    if consumer is not None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(LEAVE_SECONDS):
                await consumer.leave_group()
