"""When streams end that have had no record for long (`limits.stream_ttl`), by the clock of their partition.

Streams end where a block of offsets begins: those at whose last record the clock stood `stream_ttl` or more below that
of the block's first usable record. So a record that comes late keeps its stream alive like any other, and a stream that
comes back within the block lives on. Where many are due, each block ends the next of them. All of it follows from the
order of the log alone.

A recovery reads the log again from an offset below that of the partition's state. So the state has what the ends depend
on at both offsets, and the snapshot of a stream has the clock at the stream's last record.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush, heapreplace
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.partition_clock import ClockAt, PartitionClock

BLOCK: Final = 256
"""Offsets of a block."""

MOST: Final = 64
"""Streams that a block ends at most: their models may have to be loaded, and a pause of the log ends all at once."""


class Moment(NamedTuple):
    """What the ends of streams depend on, before the record at an offset."""

    offset: int
    before: int
    """Offset of the usable record before it; -1 for none."""
    version: int
    """Highest version of a stream that has ended; 0 for none."""
    clock: ClockAt | None = None


class Life(NamedTuple):
    """What a recovery must know of an earlier life of a stream that has a snapshot of a later one."""

    began: int
    """Offset of its first record."""
    end: int
    """Offset of the record before which it ended."""
    version: int


class Expiry:
    """When each stream of a partition ends: after `limits.stream_ttl` seconds, 0 for never.

    `seen_of` returns the clock at the last record of the stream with a key, None where that was not kept; `KeyError`
    where the stream has ended. The `clock` has read what `ends` gets.
    """

    def __init__(self, seconds: float, seen_of: Callable[[bytes | None], int | None], clock: PartitionClock) -> None:
        self.active = seconds > 0
        self.now = Moment(0, -1, 0)
        """Behind the records so far."""
        self._ttl, self._seen_of, self._clock = round(1000 * seconds), seen_of, clock
        # The clock at the first record under this setting: streams from before count from there.
        self._since: int | None = None
        self._unseen: list[bytes | None] = []
        # A heap of (the earliest time at which the stream can end, key), one for each stream.
        self._due: list[tuple[int, bytes | None]] = []
        # Where a recovery begins, a heap of the offsets at which streams begin whose snapshots are ahead of the
        # records, and earlier lives that are read again, by their ends.
        self._again: Moment | None = None
        self._ahead: list[int] = []
        self._lives: list[Life] = []
        # The offsets of the batch, and of the usable record before it.
        self._offsets, self._before = list[int](), -1

    # A batch

    def ends(self, records: RecordColumns, batch: RecordBatch) -> Iterator[int]:
        """Yield the positions before which streams may end: all records before them have been learned by then."""
        if self._again is not None:
            if int(records.offsets[0]) < self.now.offset:
                self.now = self._again
            self._again = None
        offsets, clocks = batch.offsets, batch.clocks
        self._offsets, self._before = offsets, self.now.before
        self.now = self.now._replace(offset=int(records.offsets[-1]) + 1, before=offsets[-1])
        if self._since is None:
            self._since = clocks[0]
        for key in self._unseen:
            heappush(self._due, (self._since + self._ttl, key))
        self._unseen.clear()
        blocks = np.array((self._before, *offsets)) // BLOCK
        learned = 0
        for position in np.flatnonzero(np.diff(blocks)).tolist():
            # A stream with a record that is not learned yet ends no earlier.
            due = min(self._next, clocks[learned] + self._ttl) <= clocks[position]
            if due or (self._lives and self._lives[0].end <= offsets[position]):
                yield position
                learned = position

    def take_ended(self, offset: int, clock: int) -> list[bytes | None]:
        """Remove and return the keys of the streams that end before the record at an offset."""
        most = MOST
        while self._lives and self._lives[0].end <= offset:
            life = self._lives.pop(0)
            self.ended(life.version)
            # It was one of them the first time.
            most -= life.end == offset
        ended: dict[bytes | None, None] = {}
        while len(ended) < most and self._next <= clock:
            ended[heappop(self._due)[1]] = None
        return [*ended]

    @property
    def _next(self) -> float:
        """When the next stream ends, unless it has a record before."""
        while self._due:
            deadline, key = self._due[0]
            try:
                seen = self._seen_of(key)
            except KeyError:
                heappop(self._due)
                continue
            due = (self._since or 0 if seen is None else seen) + self._ttl
            if due <= deadline:
                return deadline
            heapreplace(self._due, (due, key))
        return float("inf")

    def moment(self, offset: int) -> Moment:
        """Return what the ends of streams depend on before the record at an offset of the batch, or behind it."""
        position = bisect_left(self._offsets, offset)
        before = self._offsets[position - 1] if position else self._before
        return Moment(offset, before, self.now.version, self._clock.before(offset) if self._clock.active else None)

    # Streams

    def began(self, key: bytes | None, model: StreamModel, offset: int, clock: int) -> None:
        """Follow a stream that begins with the record at an offset."""
        model.began = offset
        heappush(self._due, (clock + self._ttl, key))

    def ended(self, version: int) -> None:
        """Note that a stream has ended with a version of its model: none may begin with it afterwards."""
        self.now = self.now._replace(version=max(self.now.version, version))

    def had_lives(self, lives: Iterable[Life]) -> None:
        """Note earlier lives of a stream that is restored."""
        self._lives += [life for life in lives if life.end >= self._begin]
        self._lives.sort(key=attrgetter("end"))

    def absent(self, offset: int) -> int:
        """Return how many of the streams are not there at an offset, because their snapshots are ahead of it."""
        while self._ahead and self._ahead[0] <= offset:
            heappop(self._ahead)
        return len(self._ahead) - sum(life.began <= offset < life.end for life in self._lives)

    def restored(self, key: bytes | None, model: StreamModel) -> None:
        """Follow a stream that continues from a snapshot."""
        if not self.active:
            # Records that it gets now are not noted.
            model.seen = None
            return
        if model.began is not None and model.began > self._begin:
            heappush(self._ahead, model.began)
        since = self._since if model.seen is None else model.seen
        if since is None:
            self._unseen.append(key)
        else:
            heappush(self._due, (since + self._ttl, key))

    # Snapshots

    @property
    def _begin(self) -> int:
        """Where a recovery begins."""
        return 0 if self._again is None else self._again.offset

    def go_on_at(self, offset: int) -> None:
        """Continue at an offset, whatever the offsets of the records so far were."""
        self.now = self.now._replace(offset=offset, before=-1)
        self._offsets, self._before, self._ahead, self._lives = [], -1, [], []

    def state(self, again: Moment | None) -> dict[str, Any]:
        """Return JSON values for a restart that reads again from a moment on; None means from here on."""
        return {"ttl": self._ttl, "since": self._since, "again": (again or self.now)[:3], "now": self.now[:3]}

    def restore(self, content: Any) -> None:
        """Continue from a `state`; any other content is a `KeyError`, `TypeError` or `ValueError`."""
        found = (map(int, content[name]) for name in ("again", "now"))
        self._again, self.now = (Moment(offset, before, version) for offset, before, version in found)
        if self.active and int(content["ttl"]):
            self._since = None if content["since"] is None else int(content["since"])
