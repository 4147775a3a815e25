"""The order of time among the partitions of a backlog whose records are learned together behind the routes.

A fetch brings what it finds: much of one partition, then much of the next one. Here what came waits until the other
partitions have come as far by Kafka's timestamps. A partition that has been read to its end holds nothing back, so that
what is live passes as it comes. The order is as good as a piece is short; which one it was, the routes record.
"""

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from faust.types import TP
from resonance.pipeline.kafka.intake import size_of
from resonance.pipeline.memory_budget import RECORD
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.worker.transport.chunk import Fetched
from resonance.pipeline.worker.transport.log_ends import LogEnd

SILENT_SECONDS: Final = 5.0
"""How long others wait for a partition that is not at its end and brings nothing."""

STEP_SECONDS: Final = 0.5
"""Most of it that counts between two rounds: the worker may have had no room for any record."""

NEAR: Final = 1000
"""Records before its end at which a partition that was there is still up to date: new ones are on their way."""

PIECE: Final = 512
"""Fewest records, on average, of the pieces in which partitions are handed over: each takes some 0.5 ms."""

PIECES: Final = 512
"""Pieces beyond that behind each start: so a small backlog is in order, too."""

_NEVER: Final = -1
"""Kafka's time of a record that has none."""

_LAST: Final = np.iinfo(np.int64).max


@dataclass(slots=True)
class _TimedPartition:
    """What has come of a partition and waits; `times` never go back."""

    handed: int
    """Position behind what was handed over."""
    next_offset: int
    """Position behind what has come."""
    parts: deque[tuple[RecordColumns, Any]] = field(default_factory=deque)
    """Records with their times."""
    start: int = 0
    """Records of the first part that were handed over."""
    bytes: int = 0
    time: int = _NEVER
    """The latest one of what has come."""
    has_come: bool = False
    is_live: bool = False
    """Whether it has been read to its end."""
    silent: float = 0.0
    """Seconds that others have waited for it."""

    def take(self, records: RecordColumns | None, next_offset: int | None, end: LogEnd | None, seconds: float) -> None:
        """Take what has come in a round, so many seconds behind the one before."""
        self.silent = 0.0 if self.parts or next_offset is not None else self.silent + seconds
        if records:
            # A clock that is ahead, of now or of the next record, would hold back what comes behind it.
            now = int(1000 * time.time())
            following = np.append(records.times[1:], now)
            ahead = (records.times > now) | ((records.times > following) & (following >= 0))
            known = np.where(ahead, _NEVER, records.times)
            times = np.maximum.accumulate(np.maximum(known, self.time))
            self.time, self.has_come = int(times[-1]), True
            self.parts.append((records, times))
            self.bytes += _size(records)
        self.next_offset = next_offset or self.next_offset
        if end is not None:
            self.is_live = self.next_offset + (NEAR if self.is_live else 0) >= end.stable

    def holds_back(self, paused: bool) -> bool:
        """Return whether what is later than its records has to wait."""
        late = not self.is_live and self.silent < SILENT_SECONDS and (bool(self.parts) or not paused)
        return late and (self.time > _NEVER or not self.has_come)

    def times(self, until: int) -> Any:
        """Return the times of its records up to one."""
        times = np.concatenate([np.empty(0, np.int64), *(times for _, times in self.parts)])[self.start :]
        return times[: np.searchsorted(times, until, "right")]

    def pieces(self, until: int) -> Iterator[tuple[RecordColumns, int]]:
        """Yield its records up to a time, each piece with the position behind it; they wait no longer."""
        while self.parts:
            records, times = self.parts[0]
            start = self.start
            # Who was silent and goes on is older than what was handed over meanwhile.
            self.start = end = max(start, int(np.searchsorted(times, until, "right")))
            if end == len(records):
                self.parts.popleft()
                self.start, self.bytes = 0, self.bytes - _size(records)
            if end > start:
                self.handed = int(records.offsets[end - 1]) + 1 if self.parts else self.next_offset
                yield records[start:end], self.handed
            if end < len(records):
                return

    def keep(self) -> None:
        """Keep the last part without what was fetched with it."""
        records, times = self.parts.pop()
        start = 0 if self.parts else self.start
        kept = records[start:].copy()
        self.parts.append((kept, times[start:]))
        self.start, self.bytes = self.start - start, self.bytes + _size(kept) - _size(records)

    def clear(self) -> None:
        """Let nothing wait: all of it was handed over."""
        self.parts.clear()
        self.handed, self.start, self.bytes = self.next_offset, 0, 0


class TimeOrder:
    """Puts what the partitions of some topics bring in the order of time; what waits may have so many bytes."""

    def __init__(self, topics: Collection[str], most_bytes: int) -> None:
        self._topics, self._most_bytes = frozenset(topics), most_bytes
        self._partitions: dict[TP, _TimedPartition] = {}
        self._is_live, self._pieces, self._looked = False, 0.0, 0.0
        self.ahead: set[TP] = set()
        """Partitions of which so much waits that no more is to be fetched."""

    def begin(self, positions: Mapping[TP, int]) -> None:
        """Forget what waits; records come from these positions on."""
        own = {tp: _TimedPartition(at, at) for tp, at in positions.items() if tp.topic in self._topics}
        # One alone has its order.
        self._partitions = own if len(own) > 1 else {}
        self._is_live, self._pieces, self.ahead = not self._partitions, float(PIECES), set()

    def pass_on(
        self, fetched: Fetched, ends: Mapping[TP, tuple[float, LogEnd]], paused: Collection[TP], now: float
    ) -> Iterator[Fetched]:
        """Yield, in order, what may be handed over of what has come and what waits.

        `ends` are those that are known, with when; of `paused` partitions nothing is fetched.
        """
        seconds, self._looked = min(now - self._looked, STEP_SECONDS), now
        for tp, own in self._partitions.items():
            _, end = ends.get(tp, (0.0, None))
            own.take(fetched.records.get(tp), fetched.next_offsets.get(tp), end, seconds)
        until = min((own.time for tp, own in self._partitions.items() if own.holds_back(tp in paused)), default=_LAST)
        was_live, self._is_live = self._is_live, until == _LAST
        if was_live and self._is_live:
            # Nothing waits: all of it passes as it came.
            for own in self._partitions.values():
                own.clear()
            yield fetched
            return
        yield replace(fetched, records=self._others(fetched.records), next_offsets=self._others(fetched.next_offsets))
        for border in self._borders(until):
            for tp, own in self._partitions.items():
                for records, next_offset in own.pieces(border):
                    yield replace(fetched, records={tp: records}, next_offsets={tp: next_offset})
        for tp, own in self._partitions.items():
            if own.parts and fetched.records.get(tp):
                own.keep()
            elif not own.parts and own.handed < own.next_offset:
                # Behind markers and aborted records there is only a position.
                own.handed = own.next_offset
                yield replace(fetched, records={}, next_offsets={tp: own.handed})
        # What is paused is fetched once more: so it is much at once.
        most = self._most_bytes // len(self._partitions)
        self.ahead = {
            tp for tp, own in self._partitions.items() if own.bytes > (most // 2 if tp in self.ahead else most)
        }

    def _others(self, found: Mapping[TP, Any]) -> dict[TP, Any]:
        return {tp: each for tp, each in found.items() if tp not in self._partitions}

    def _borders(self, until: int) -> list[int]:
        """Return the times at which what may be handed over is cut, the last one of all included."""
        ready = [times for own in self._partitions.values() if (times := own.times(until)).size]
        times = np.sort(np.concatenate([*ready, np.empty(0, np.int64)]))
        self._pieces += len(times) / PIECE
        # Half of them, so that what comes next has some, too.
        cuts = min(int(self._pieces / 2 / max(len(ready), 1)), len(times))
        self._pieces -= cuts * len(ready)
        step = -(-len(times) // max(cuts, 1)) or 1
        return [*times[step - 1 : -1 : step].tolist(), until]


def _size(records: RecordColumns) -> int:
    return size_of([records]) + RECORD * len(records)
