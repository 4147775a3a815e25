"""When streams end that have had no record for long (`limits.stream_ttl`), by the clock of their partition.

A stream ends with the first record at which the clock stands `stream_ttl` beyond where it stood at the stream's own
last record, so a record that comes late keeps its stream alive like any other. Where many are due, each record ends the
next few of them, and a stream whose own record comes before its turn lives on. All of it follows from the order of the
log alone.

A recovery reads the log again from an offset below that of the partition's state. So the state has the clock of both
offsets, and the snapshot of a stream has the clock at the stream's last record.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heappop, heappush, heapreplace
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from resonance.engine.base import IntArray
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.task.alerts.kernels.clock import NEVER
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.partition_clock import ClockAt, PartitionClock

MOST: Final = 16
"""Streams that one record ends at most: their models may have to be loaded, and a pause of the log ends all at once."""


class Moment(NamedTuple):
    """What the ends of streams depend on, before the record at an offset."""

    offset: int
    clock: int
    """In milliseconds since 1970."""
    version: int
    """Highest version of a stream that has ended; 0 for none."""
    source: ClockAt | None = None
    """The state of the partition's clock."""


class Life(NamedTuple):
    """What a recovery must know of an earlier life of a stream that has a snapshot of a later one."""

    began: int
    """Offset of its first record."""
    end: int
    """Offset of the record before which it ended."""
    version: int


class Expiry:
    """When each stream of a partition ends.

    Parameters
    ----------
    seconds : float
        ``limits.stream_ttl``; 0 for never.
    seen_of : callable
        Returns the clock at the last record of the stream with a key, None where that was not kept; KeyError where the
        stream has ended.
    clock_at : callable
        Returns the clock before an offset at which the snapshot of a stream stands.
    clock : PartitionClock
        It has read what `read` gets.
    """

    def __init__(
        self,
        seconds: float,
        seen_of: Callable[[bytes | None], int | None],
        clock_at: Callable[[int], int],
        clock: PartitionClock,
    ) -> None:
        self.active = seconds > 0
        self._clock = clock
        self.now = Moment(0, NEVER, 0)
        """Behind the records so far."""
        self.known_from = 0
        """Below this offset every record of a living stream is in a snapshot."""
        self._ttl = round(1000 * seconds)
        self._seen_of, self._clock_at = seen_of, clock_at
        # The clock at the first record under this setting: streams from before count from there.
        self._since: int | None = None
        self._unseen: list[bytes | None] = []
        # A heap of (the earliest time at which the stream can end, key), one for each stream.
        self._due: list[tuple[int, bytes | None]] = []
        # A heap of the offsets at which streams begin whose snapshots are ahead of the records.
        self._ahead: list[int] = []
        # Earlier lives that are read again, by their ends.
        self._lives: list[Life] = []
        self._again: Moment | None = None
        # The batch: the state before it, its offsets and streams, and the clock as of each of its records.
        self._streams: Sequence[bytes | None] = ()
        self._places: dict[bytes | None, list[int]] = {}
        # The position at which streams ended last.
        self._taken = -1
        self._before, self._offsets = self.now, list[int]()
        self._clocks: IntArray = np.empty(0, np.int64)
        self._last_end = Moment(-1, NEVER, 0)

    # A batch

    def read(self, records: RecordColumns, batch: RecordBatch) -> None:
        """Take the clock of the records of a batch, at least one of them usable."""
        if self._again is not None:
            self._go_on(int(records.offsets[0]), self._again)
        self._before, self._offsets, self._streams, self._places = self.now, batch.offsets, batch.streams, {}
        self._taken = -1
        self._clocks = np.array(batch.clocks, np.int64)
        self.now = self.now._replace(offset=int(records.offsets[-1]) + 1, clock=batch.clocks[-1])
        if self._since is None:
            self._since = batch.clocks[0]
        for key in self._unseen:
            heappush(self._due, (self._since + self._ttl, key))
        self._unseen.clear()

    def _go_on(self, offset: int, again: Moment) -> None:
        """Begin at an offset, which need not be that of the state."""
        if offset < again.offset:
            # A snapshot was damaged: the one before it is used, and stands here.
            self.now = Moment(offset, self._clock_at(offset), again.version)
        elif offset < self.now.offset:
            self.now = again
        self._again = None
        self._lives = [life for life in self._lives if life.end >= offset]

    def next_end(self, start: int, no_ones: Collection[int]) -> int | None:
        """Return the first position in the batch, from `start` on, before whose record streams can end; None for none.

        The records at the positions `no_ones` have no stream.
        """
        # Before the records of a recovery everybody lives who has a snapshot.
        start = max(start, bisect_left(self._offsets, self.known_from))
        if start == len(self._offsets):
            return None
        first = start + (start == self._taken)
        # A stream that begins from there on ends no earlier.
        limit = int(np.searchsorted(self._clocks, self._clocks[start] + self._ttl))
        if self._lives:
            limit = min(limit, max(start, bisect_left(self._offsets, self._lives[0].end)))
        while (due := self._next()) is not None and due[0] <= self._clocks[-1]:
            if not self._places:
                for place, key in enumerate(self._streams):
                    if place not in no_ones:
                        self._places.setdefault(key, []).append(place)
            if (position := max(first, int(np.searchsorted(self._clocks, due[0])))) == len(self._clocks):
                break
            places = self._places.get(due[1], [])
            before = bisect_left(places, position)
            later = int(self._clocks[places[before - 1]]) + self._ttl if before else NEVER
            if later <= due[0]:
                return min(position, limit)
            # It has records before.
            heapreplace(self._due, (later, due[1]))
        return limit if limit < len(self._clocks) else None

    def take_ended(self, position: int) -> list[bytes | None]:
        """Remove and return the keys of the streams that end before the record at a position of the batch."""
        offset, self._taken = self._offsets[position], position
        self._last_end = self.moment(offset)
        while self._lives and self._lives[0].end <= offset:
            self.ended(self._lives.pop(0).version)
        ended: dict[bytes | None, None] = {}
        while len(ended) < MOST and (due := self._next()) is not None and due[0] <= self._clocks[position]:
            heappop(self._due)
            ended[due[1]] = None
        return [*ended]

    def _next(self) -> tuple[int, bytes | None] | None:
        """Return when the next stream ends, unless records of this batch keep it alive, and its key."""
        while self._due:
            deadline, key = self._due[0]
            try:
                seen = self._seen_of(key)
            except KeyError:
                heappop(self._due)
                continue
            due = (self._since or 0 if seen is None else seen) + self._ttl
            if due <= deadline:
                return deadline, key
            heapreplace(self._due, (due, key))
        return None

    def moment(self, offset: int) -> Moment:
        """Return what the ends of streams depend on before the record at an offset of the batch, or behind it."""
        position = bisect_left(self._offsets, offset)
        clock = int(self._clocks[position - 1]) if position else self._before.clock
        version = (self._last_end if offset <= self._last_end.offset else self.now).version
        return Moment(offset, clock, version, self._clock.before(offset) if self._clock.active else None)

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
        self._lives += [life for life in lives if life.end >= self.known_from]
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
        if model.began is not None and model.began > self.known_from:
            heappush(self._ahead, model.began)
        if model.seen is not None:
            heappush(self._due, (model.seen + self._ttl, key))
        elif self._since is not None:
            heappush(self._due, (self._since + self._ttl, key))
        else:
            self._unseen.append(key)

    # Snapshots

    def go_on_at(self, offset: int) -> None:
        """Continue at an offset, whatever the offsets of the records so far were."""
        self.now = self._before = self.now._replace(offset=offset)
        self._offsets, self._ahead, self._lives = [], [], []
        self._last_end = Moment(-1, NEVER, 0)

    def state(self, again: Moment | None) -> dict[str, Any]:
        """Return JSON values for a restart that reads again from a moment on; None means from here on."""
        return {"ttl": self._ttl, "since": self._since, "again": (again or self.now)[:3], "now": self.now[:3]}

    @property
    def moments(self) -> tuple[Moment, Moment]:
        """Where a recovery begins, and where the state was written."""
        return self._again or self.now, self.now

    def restore(self, content: Any) -> None:
        """Continue from a `state`; any other content is a `KeyError`, `TypeError` or `ValueError`."""
        found = (map(int, content[name]) for name in ("again", "now"))
        again, now = (Moment(offset, clock, version) for offset, clock, version in found)
        if self.active and int(content["ttl"]):
            self._since = None if content["since"] is None else int(content["since"])
        else:
            again, now = again._replace(clock=NEVER), now._replace(clock=NEVER)
        self.now = self._before = now
        self._again, self.known_from = again, again.offset
