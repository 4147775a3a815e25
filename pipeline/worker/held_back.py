"""Partitions whose records wait for an open transaction, and what it begins with.

A program that hangs, or has died with a long time-out, leaves one open on the input. Nothing behind its first record
can be read before it ends, however much comes.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from faust.types import TP
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import counted
from resonance.pipeline.worker.http.status import HeldRecords, WorkerStatus, named
from resonance.pipeline.worker.transport.log_ends import LogEnd

HELD_SECONDS: Final = 10.0
"""Age from which an open transaction is worth a word."""

OWN_COMMITS: Final = 2
"""Of the worker's own commits, which an open transaction must outlast: those of other workers are on the routes."""

AGAIN_SECONDS: Final = 600.0
"""Seconds between two warnings of a partition: some programs keep each of their transactions open for a minute."""

_log = logging.getLogger(__name__)


def held_seconds(settings: Settings) -> float:
    """Return the age from which an open transaction is worth a word under some settings."""
    return max(HELD_SECONDS, OWN_COMMITS * settings.delivery.commit_interval)


class HeldBack:
    """Watches the partitions of the worker of a `status`, whose brokers are `servers`.

    A transaction that has been open for so many `seconds` is said.
    """

    def __init__(
        self,
        status: WorkerStatus,
        servers: str,
        seconds: float = HELD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._status = status
        self._seconds = seconds
        self._servers = servers
        self._clock = clock
        self._held: dict[TP, HeldRecords] = {}
        self._warned: dict[TP, float] = {}

    async def look(self) -> None:
        """Note what is held back now, and log what is new: to be called about once a second."""
        consumer = self._status.consumer
        ends: dict[TP, LogEnd] = {}
        if consumer is not None and self._status.phase == "running":
            ends = consumer.ends()
        before, now = self._held, self._clock()
        self._held = {
            tp: held if (held := before.get(tp)) and held.offset == end.stable else HeldRecords(end.stable, now)
            for tp, end in sorted(ends.items())
            if end.stable < end.high
        }
        for tp, held in before.items():
            if held.is_logged and tp in ends and self._held.get(tp) is not held:
                seconds = now - held.since
                _log.info("%s@%d: the transaction has ended that was open for %.0f s", named(tp), held.offset, seconds)
        long = {tp: held for tp, held in self._held.items() if now - held.since >= self._seconds}
        for tp, held in long.items():
            held.warning = self._sentence(tp, held, ends[tp])
        self._status.held_back = long
        due = [
            tp
            for tp, held in long.items()
            if not held.is_logged and now - self._warned.get(tp, -AGAIN_SECONDS) >= AGAIN_SECONDS
        ]
        if due:
            # What senders have written is for the log alone.
            begins = await consumer.open_transaction(due[0], long[due[0]].offset)
            more = f" (and {len(due) - 1} more, see /readyz)" if due[1:] else ""
            _log.warning("%s; %s%s", long[due[0]].warning, begins or "its first record cannot be read now", more)
        for tp in due:
            self._held[tp].is_logged, self._warned[tp] = True, now

    def _sentence(self, tp: TP, held: HeldRecords, end: LogEnd) -> str:
        tool = f"kafka-transactions.sh --bootstrap-server {self._servers}"
        place = f"--topic {tp.topic} --partition {tp.partition}"
        return (
            f"{named(tp)}@{held.offset}: {counted(end.high - end.stable, 'record')} cannot be read before a "
            f"transaction ends that has been open for {self._clock() - held.since:.0f} s; {tool} describe-producers "
            f"{place} shows its producer id and {tool} list the transactional.id; let its program commit or abort it, "
            "or stop that program: the broker aborts it after its transaction.timeout.ms, or at once with "
            f"{tool} abort {place} --start-offset {held.offset}"
        )
