"""A circuit breaker for partitions that yield too many dead letters: beyond the share of the alert they pause.

A producer that begins to send something else would turn its whole topic into dead letters unnoticed. A paused
partition keeps its position: no further record is learned, chunks already fetched are held, and the transport fetches
no more of it, so that memory is bounded. Everything else continues, group membership included.
"""

import logging
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from faust.types import TP
from resonance.pipeline.logs import at
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.task.alerts.rules import DEAD_LETTERS_WINDOW
from resonance.pipeline.worker.transport.chunk import Chunk

_log = logging.getLogger(__name__)


class Held(NamedTuple):
    """A chunk that waits, of which the first `start` records were processed."""

    chunk: Chunk
    start: int


class DeadLetterBreaker:
    """Decides when a partition pauses, and holds its chunks meanwhile; used by the processor's thread."""

    def __init__(
        self,
        dead_letters: str,
        *,
        max_share: float = 0.5,
        window: int = DEAD_LETTERS_WINDOW,
        address: str = "http://127.0.0.1:6066",
    ) -> None:
        # Paused partitions, each with its reason and what to do; other threads read it.
        self.paused: dict[TP, str] = {}
        # Share of dead letters above which a partition pauses; 1 never pauses.
        self._max_share = max_share
        # Number of records of which the share is taken; until so many have come, the missing ones count as good.
        self._window = window
        # Both for the messages: the topic of the dead letters, and where the worker's pages are.
        self._dead_letters = dead_letters
        self._address = address
        # Of partitions with dead letters in the window: records and dead letters of each slice in it.
        self._dead: dict[TP, deque[tuple[int, int]]] = {}
        self._held: dict[TP, list[Held]] = {}

    def most(self, tp: TP, records: int) -> int:
        """Return how many records may come at once: no more than the window has while dead letters are in it."""
        return min(records, self._window) if tp in self._dead else records

    def note(self, tp: TP, records: int, dead: int, position: int) -> bool:
        """Count processed records, `dead` of them dead letters; return whether the partition pauses now."""
        if self._max_share >= 1 or not (dead or tp in self._dead):
            # The usual case: a window of good records needs no history.
            return False
        slices = self._dead.pop(tp, deque())
        slices.append((records, dead))
        last, bad = map(sum, zip(*slices, strict=True))
        while last - slices[0][0] >= self._window:
            old_records, old_dead = slices.popleft()
            last, bad = last - old_records, bad - old_dead
        last = max(last, self._window)
        # The oldest slice may begin before the window. It counts whole, but must not hide the dead letters behind it.
        if (newer := bad - slices[0][1]) > self._max_share * self._window:
            last, bad = self._window, newer
        if bad <= self._max_share * last:
            if bad:
                self._dead[tp] = slices
            return False
        self.paused[tp] = (
            f"{tp.topic}[{tp.partition}] is paused before offset {position}: {bad:,} dead letters among its last "
            f"{last:,} records are more than dlq.max_share = {self._max_share:g} allows; nothing "
            f"is lost. Look at topic {self._dead_letters}, whose headers say what is wrong; correct the settings and "
            "restart, or correct the producer and go on: "
            f"resonance dlq resume --worker {self._address} --partition '{tp.topic}[{tp.partition}]'"
        )
        _log.warning("%s", self.paused[tp], extra=at(tp.topic, tp.partition, position))
        return True

    def hold(self, chunk: Chunk, start: int = 0) -> None:
        """Keep a chunk of a paused partition; its first `start` records were processed."""
        # It may wait for hours, and must not keep what was fetched with it of other partitions.
        chunk.value = RecordColumns.of(chunk.value).copy()  # type: ignore[misc] # a slot of Faust's message
        self._held.setdefault(chunk.tp, []).append(Held(chunk, start))

    def resume(self, tps: Collection[TP]) -> list[Held]:
        """Resume partitions, each with a fresh window; return their held chunks, each log's in order."""
        waiting = []
        for tp in tps:
            if self.paused.pop(tp, None) is not None:
                _log.info("%s[%d] goes on", *tp, extra=at(*tp))
                waiting += self._held.pop(tp, [])
        return waiting

    def clear(self) -> None:
        """Forget everything: the partitions are revoked, and their next owner begins with a fresh window."""
        self.paused.clear()
        self._dead.clear()
        self._held.clear()
