"""The clock of a partition: the times of its records, which decide what is silent and which streams end.

A recovery reads the log again from an offset below that of the partition's state, so the state has the clock of both
offsets. That of the lower one is kept with the streams whose snapshots lack it, as a place in the batch it came with.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final
from zlib import crc32

import numpy as np
from resonance.engine.base import IntArray
from resonance.pipeline.columns import Times, some_of
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.task.alerts.kernels import clock
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.text import times as time_texts

UNBOUNDED: Final = 2**61
"""How late a routed record may be: another partition of the input may be far ahead of its own."""

_NONE: Final[IntArray] = np.empty(0, np.int64)

STATE_RECORDS: Final = 32
"""Records that take as much memory as a state of the clock."""


class _Piece:
    """The records of a batch, from which the clock before each of them can be found again."""

    __slots__ = ("_before", "_found", "_late", "_streams", "_times")

    def __init__(self, before: IntArray, times: IntArray, streams: IntArray, late: int) -> None:
        self._before, self._times, self._streams, self._late = before, times, streams, late
        self._found: dict[int, IntArray | None] = {}

    def note(self, position: int) -> None:
        """Note that the state before a position will be needed."""
        self._found.setdefault(position)

    def close(self) -> None:
        """Keep either the records or the states that will be needed, whatever is less."""
        if STATE_RECORDS * len(self._found) < len(self._times):
            for position in sorted(self._found):
                self._found[position] = self.state(position)
            self._times = self._streams = self._times[:0]

    def state(self, position: int) -> IntArray:
        """Return the state before the record at a position, or behind the last one."""
        if (found := self._found.get(position)) is not None:
            return found
        state = self._before.copy()
        run(self._times[:position], self._streams[:position], state, self._late)
        return state


class ClockAt:
    """The clock before a record."""

    __slots__ = ("_piece", "_position")

    def __init__(self, piece: _Piece, position: int) -> None:
        self._piece, self._position = piece, position
        piece.note(position)

    def __lt__(self, other: object) -> bool:
        """Return False: what is compared before decides."""
        return False

    def state(self) -> IntArray:
        """Return its state, not to be changed."""
        return self._piece.state(self._position)


def run(times: IntArray, streams: IntArray, state: IntArray, late: int) -> tuple[IntArray, IntArray]:
    """Let a clock pass some records; return it as of each, and their times on its scale."""
    clocks, own = np.empty_like(times), np.empty_like(times)
    clock.follow(times, streams, state, late, clocks, own)
    return clocks, own


class PartitionClock:
    """The clock of a partition, where anything depends on it."""

    def __init__(self, *, active: bool) -> None:
        self.active = active
        self._state = clock.new_state()
        self._offset = 0
        # The state for a recovery.
        self._again: IntArray | None = None
        self._piece = _Piece(self._state.copy(), _NONE, _NONE, 0)
        self._offsets: Sequence[int] = ()
        if active:
            time_texts.compile()
            clock.compile()

    def read(self, records: RecordColumns, batch: RecordBatch) -> None:
        """Let the clock pass the records of a batch, and note it beside each of the usable ones, with its own time."""
        if self._again is not None:
            again, self._again = self._again, None
            if int(records.offsets[0]) < self._offset:
                self._state = again
        times, late = _times(records, batch), clock.LATE_MS if batch.sources is None else UNBOUNDED
        keys: Any = batch.streams
        numbers = {key: crc32(key or b"") for key in set(keys)}
        streams = np.fromiter(map(numbers.__getitem__, keys), np.int64, len(batch))
        self._piece.close()
        self._piece, self._offsets = _Piece(self._state.copy(), times, streams, late), batch.offsets
        clocks, own = run(times, streams, self._state, late)
        batch.clocks, batch.own_times = clocks.tolist(), own.tolist()
        self._offset = int(records.offsets[-1]) + 1

    @property
    def now(self) -> int:
        """The time that the records have come to, in milliseconds since 1970; 0 before the first one."""
        return max(0, int(self._state[0, clock.NOW]))

    def before(self, offset: int) -> ClockAt:
        """Return the clock before the record at an offset of the batch, or behind it."""
        return ClockAt(self._piece, bisect_left(self._offsets, offset))

    def go_on_at(self, offset: int) -> None:
        """Continue at an offset, whatever the offsets of the records so far were."""
        self._offset = offset
        self._piece, self._offsets = _Piece(self._state.copy(), _NONE, _NONE, 0), ()

    def state(self, offset: int = 0, before: ClockAt | None = None) -> dict[str, Any]:
        """Return JSON values for a restart that reads again from an offset, with the clock before it, or from here."""
        again = None if before is None else [offset, *_numbers(before.state())]
        return {"again": again, "now": [self._offset, *_numbers(self._state)]}

    def restore(self, content: Any) -> None:
        """Continue from a `state`; any other content is a `KeyError`, `TypeError` or `ValueError`."""
        self._offset, self._state = _from_numbers(content["now"])
        self._again = None if content["again"] is None else _from_numbers(content["again"])[1]
        self.go_on_at(self._offset)


def _numbers(state: IntArray) -> list[int]:
    """Return a state without the rows of no stream."""
    log: list[int] = state[0].tolist()
    streams: list[int] = state[1:, : clock.RUN + 1][state[1:, clock.AT] > 0].ravel().tolist()
    return log + streams


def _from_numbers(numbers: Sequence[Any]) -> tuple[int, IntArray]:
    offset, *values = map(int, numbers)
    state = clock.new_state()
    state[0] = values[: clock.COLUMNS]
    streams = np.reshape(values[clock.COLUMNS :], (-1, clock.RUN + 1))
    state[1 : len(streams) + 1, : clock.RUN + 1] = streams
    return offset, state


def _times(records: RecordColumns, batch: RecordBatch) -> IntArray:
    """Return the times of the usable records of a batch in milliseconds since 1970, none beyond Kafka's timestamp."""
    times = Times.of(batch.times).milliseconds
    stamps = some_of(records.times, batch.index)
    return np.where(stamps > 0, np.minimum(times, stamps), times)
