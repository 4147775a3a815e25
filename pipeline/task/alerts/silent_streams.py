"""Notices streams that have no records for long, by the times of the others on the scale of the partition's clock.

Only a later record can show a silence. So a silence belongs to that record, be it the stream's own, with which it
ends: the stream's state changes there, and the stream needs a snapshot, as if the record were its own. Everything that
is known of a stream's gaps is part of its own snapshot; a row is ignored for the records below the one that changed it
last.
"""

from collections.abc import Collection
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.task.alerts.kernels import silence
from resonance.pipeline.task.alerts.open_alerts import StreamAlerts
from resonance.pipeline.task.decode.record_batch import RecordBatch

ROOM: Final = 256
"""Transitions that one call of the kernel returns at most."""

NAMES: Final = ("count", "time", "week", "longest", "before", "until", "open", "claim", "pause", "began")
_COLUMNS: Final = (
    silence.COUNT,
    silence.TIME,
    silence.WEEK,
    silence.LONGEST,
    silence.BEFORE,
    silence.UNTIL,
    silence.OPEN,
    silence.CLAIM,
    silence.PAUSE,
    silence.BEGAN,
)


class Silence(NamedTuple):
    """A stream has fallen silent, or has a record again."""

    position: int
    """Position in the batch of the record that shows it."""
    stream: str
    opened: bool
    seconds: float
    """How long it has been silent."""
    usual: float
    """Usual seconds between two records of it."""


class SilentStreams:
    """The gaps between the records of each stream of a partition.

    Parameters
    ----------
    gaps : float
        Usual gaps after which a stream is silent.
    seconds : float
        Seconds after which it is, at least.
    own : (topic, partition)
        The log of records that were not routed.
    """

    def __init__(self, gaps: float, seconds: float, own: TopicPartition) -> None:
        self._gaps, self._least = gaps, round(1000 * seconds)
        self._rows: IntArray
        self._means: FloatArray
        self._rows, self._means = silence.new_rows(16)
        self._streams: list[str] = []
        # Rows of streams that have ended.
        self._free: list[int] = []
        self._numbers: dict[bytes | None, int] = {}
        self._logs: dict[TopicPartition, int] = {own: 0}
        # The earliest deadline of each log.
        self._dues: IntArray = np.full(1, silence.NEVER, np.int64)
        # Rows from a snapshot that is ahead of the records: they take part from an offset on.
        self._ahead: list[tuple[int, int]] = []

    def begin(self, key: bytes | None, name: str, alerts: StreamAlerts) -> int:
        """Begin to follow the stream with a key; return its row."""
        row = self._numbers[key] = self._free_row()
        self._streams[row] = name
        alerts.gaps = partial(self._state, row)
        return row

    def _free_row(self) -> int:
        """Return a row that no stream has."""
        if self._free:
            return self._free.pop()
        row = len(self._streams)
        self._streams.append("")
        if row == len(self._rows):
            rows, means = silence.new_rows(row)
            self._rows, self._means = np.concatenate((self._rows, rows)), np.concatenate((self._means, means))
        return row

    def end(self, key: bytes | None) -> None:
        """Forget a stream that has ended."""
        row = self._numbers.pop(key)
        self._rows[row, : silence.STATE], self._rows[row, silence.DUE] = 0, silence.NEVER
        self._means[row] = 0.0
        self._streams[row] = ""
        self._free.append(row)

    def loaded(self, key: bytes | None, alerts: StreamAlerts) -> None:
        """Go on with the row of a stream whose model comes back into memory: a silence may have changed it since."""
        alerts.gaps = partial(self._state, self._numbers[key])

    def restored(self, key: bytes | None, name: str, alerts: StreamAlerts) -> None:
        """Continue a stream from the state of its gaps.

        Any other content is a `KeyError`, `TypeError` or `ValueError`.
        """
        content = alerts.gaps()
        row = self.begin(key, name, alerts)
        if content is None:
            return
        # Earlier states had no claim, or no pause.
        known = {"claim": 0, "pause": silence.LONGEST_MS, "began": content["time"], **content}
        self._rows[row, _COLUMNS] = [int(known[column]) for column in NAMES]
        self._rows[row, silence.LOG] = self._log(str(content["topic"]), int(content["partition"]))
        self._means[row] = float(content["mean"])
        heappush(self._ahead, (int(self._rows[row, silence.UNTIL]), row))

    def _state(self, row: int) -> dict[str, Any]:
        logs = list(self._logs)
        topic, partition = logs[self._rows[row, silence.LOG]]
        values = dict(zip(NAMES, self._rows[row, _COLUMNS].tolist(), strict=True))
        return {**values, "topic": topic, "partition": partition, "mean": float(self._means[row])}

    def _log(self, topic: str, partition: int) -> int:
        number = self._logs.setdefault((topic, partition), len(self._logs))
        if number == len(self._dues):
            self._dues = np.append(self._dues, silence.NEVER)
        return number

    def go_on_at(self, offset: int) -> None:
        """Continue at an offset, whatever the offsets of the records so far were."""
        self._rows[: len(self._streams), silence.UNTIL] = offset
        self._ahead = [(offset, row) for _, row in self._ahead]
        heapify(self._ahead)

    def follow(self, batch: RecordBatch, no_ones: Collection[int] = ()) -> list[Silence]:
        """Take the usable records of a batch; those at the positions `no_ones` are no stream's."""
        times, clocks = np.array(batch.own_times, np.int64), np.array(batch.clocks, np.int64)
        offsets, rows = np.array(batch.offsets, np.int64), self._owners(batch, no_ones)
        logs, fresh = self._logs_of(batch), rows >= 0
        # Before any is taken: those of one message have one offset.
        fresh[fresh] = offsets[fresh] >= self._rows[rows[fresh], silence.UNTIL]
        found: list[tuple[int, bool, str, Silence]] = []
        out: IntArray = np.empty((ROOM, 5), np.int64)
        start, end = 0, len(offsets)
        while start < end:
            while self._ahead and self._ahead[0][0] <= offsets[start]:
                row = heappop(self._ahead)[1]
                silence.watch(self._rows, self._means, self._dues, row, self._gaps, self._least)
            stop = int(np.searchsorted(offsets, self._ahead[0][0])) if self._ahead else end
            count, start = silence.follow(
                times, clocks, offsets, rows, fresh, logs, start, stop, self._rows, self._means, self._dues, self._gaps,
                self._least, out,
            )  # fmt: skip
            for position, row, opened, length, usual in out[:count].tolist():
                name = self._streams[row]
                change = Silence(position, name, bool(opened), length / 1000, usual / 1000)
                found.append((position, row != rows[position], name, change))
        # Rows are numbered anew after a restart, so they do not decide which of two streams comes first.
        return [each for *_, each in sorted(found, key=itemgetter(0, 1, 2))]

    def _owners(self, batch: RecordBatch, no_ones: Collection[int]) -> IntArray:
        """Return the row of each record's stream, -1 for none."""
        rows = map(self._numbers.get, batch.streams, repeat(-1))
        owners: IntArray = np.fromiter(rows, np.int64, len(batch))
        owners[list(no_ones)] = -1
        return owners

    def _logs_of(self, batch: RecordBatch) -> IntArray:
        """Return the number of the log of each record; messages of labels are no clock."""
        logs: IntArray = np.zeros(len(batch), np.int64)
        if batch.sources is not None:
            logs[:] = [self._log(*place) for place in batch.sources.places]
        if batch.labels:
            logs[[own.late is not None for own in batch.labels]] = -1
        return logs
