"""Partitions that yield too many dead letters: they are told about, and in the end they pause.

A producer that begins to send something else would turn its whole topic into dead letters while nobody looks. A
paused partition keeps its place: nothing further of it is learned, what was fetched already waits, and the transport
fetches no more of it, so that the memory is bounded. Everything else goes on, membership included.
"""

import logging
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from faust.types import TP
from resonance.pipeline.logs import at
from resonance.pipeline.worker.transport.chunk import Chunk

_log = logging.getLogger(__name__)


class Held(NamedTuple):
    """A chunk that waits, and how many of its records were processed."""

    chunk: Chunk
    start: int


class DeadLetterBreaker:
    """Decides when a partition pauses, and keeps what waits for it; used by the processor's thread.

    Parameters
    ----------
    in_a_row : int
        Dead letters of one kind in a row after which a partition counts as stuck, which stops nothing.
    max_share : float
        Share of dead letters above which a partition pauses; 1 never does.
    window : int
        Records that are looked at. While fewer have come, those that are missing count as good.
    dead_letters : str
        Topic of the dead letters, for the message.
    address : str
        Where the worker's pages are, for the message.

    Attributes
    ----------
    paused : dict of TP to str
        The partitions that pause, with why and what to do; read by other threads, too.
    stuck : dict of TP to str
        Partitions that yield nothing but dead letters, and what to do about it; read by other threads, too.
    """

    def __init__(
        self,
        dead_letters: str,
        *,
        in_a_row: int = 1000,
        max_share: float = 0.5,
        window: int = 10_000,
        address: str = "http://127.0.0.1:6066",
    ) -> None:
        self.paused: dict[TP, str] = {}
        self.stuck: dict[TP, str] = {}
        self._in_a_row = in_a_row
        self._max_share = max_share
        self._window = window
        self._dead_letters = dead_letters
        self._address = address
        self._seen: dict[TP, deque[tuple[int, int]]] = {}
        self._sums: dict[TP, tuple[int, int]] = {}
        self._held: dict[TP, list[Held]] = {}

    def note(self, tp: TP, records: int, dead: int, run: tuple[str, int], position: int) -> bool:
        """Count records that were processed; return whether the partition pauses now.

        Parameters
        ----------
        tp : TP
            The partition.
        records, dead : int
            How many there were, and how many of them became dead letters.
        run : tuple of (str, int)
            Class and number of the dead letters in a row at their end.
        position : int
            Offset of the partition's next record.
        """
        self._note_run(tp, *run)
        return self._exceeds(tp, records, dead, position)

    def _note_run(self, tp: TP, kind: str, count: int) -> None:
        """Say it once when a partition yields nothing but dead letters of one kind, and when it does again."""
        if count < self._in_a_row:
            if self.stuck.pop(tp, None):
                _log.info("%s[%d]: records can be used again", *tp, extra=at(*tp))
        elif tp not in self.stuck:
            self.stuck[tp] = (
                f"{tp.topic}[{tp.partition}]: the last {count:,} records were dead letters of one kind ({kind}); "
                f"look at topic {self._dead_letters}, whose headers say what is wrong, then at the input's producer "
                "or the settings input.* and limits.*"
            )
            _log.warning("%s", self.stuck[tp], extra=at(*tp))

    def _exceeds(self, tp: TP, records: int, dead: int, position: int) -> bool:
        if self._max_share >= 1 or not records:
            return False
        seen = self._seen.setdefault(tp, deque())
        total, bad = self._sums.get(tp, (0, 0))
        if not dead and not bad:
            # The usual case: a window of good records needs no memory of when they came.
            return False
        seen.append((records, dead))
        total, bad = total + records, bad + dead
        while total - seen[0][0] >= self._window:
            old_records, old_dead = seen.popleft()
            total, bad = total - old_records, bad - old_dead
        if not bad:
            self._forget(tp)
            return False
        self._sums[tp] = total, bad
        if bad <= self._max_share * max(total, self._window):
            return False
        self._forget(tp)
        self.paused[tp] = (
            f"{tp.topic}[{tp.partition}] is paused before offset {position}: {bad:,} dead letters among its last "
            f"{max(total, self._window):,} records are more than dlq.max_share = {self._max_share:g} allows; nothing "
            f"is lost. Look at topic {self._dead_letters}, whose headers say what is wrong; mend the settings and "
            "restart, or mend the producer and go on: "
            f"resonance dlq resume --worker {self._address} --partition '{tp.topic}[{tp.partition}]'"
        )
        _log.warning("%s", self.paused[tp], extra=at(tp.topic, tp.partition, position))
        return True

    def hold(self, chunk: Chunk, start: int = 0) -> None:
        """Keep a chunk of a paused partition, of whose records the first `start` were processed."""
        self._held.setdefault(chunk.tp, []).append(Held(chunk, start))

    def resume(self, tps: Collection[TP]) -> list[Held]:
        """Let partitions go on, each with a fresh window; return what waited, in the order of each log."""
        waiting = []
        for tp in tps:
            if self.paused.pop(tp, None) is not None:
                _log.info("%s[%d] goes on", *tp, extra=at(*tp))
                waiting += self._held.pop(tp, [])
                self._forget(tp)
        return waiting

    def clear(self) -> None:
        """Forget everything: the partitions are given up, and their next owner begins with a fresh window."""
        self.paused.clear()
        self.stuck.clear()
        self._seen.clear()
        self._sums.clear()
        self._held.clear()

    def _forget(self, tp: TP) -> None:
        self._seen.pop(tp, None)
        self._sums.pop(tp, None)
