"""A decoded batch of records, column by column: what models learn, and what outputs take over from the records."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from resonance.pipeline.columns import NO_TEXTS, Items, Texts, Times, some_of
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.task.decode.faults import Fault, FaultError
from resonance.pipeline.task.decode.labels import RowLabels

TRACE_BYTES = 1_000
"""Bytes of the longest ``traceparent`` that is passed through; the standard's have 55."""


def slice_of(positions: Any) -> Any:
    """Return a range, or a single position, as a slice, which costs no copy; other positions as they are."""
    if isinstance(positions, range) and positions.step == 1:
        return slice(positions.start, positions.stop)
    return slice(positions[0], positions[0] + 1) if len(positions) == 1 else positions


def trace_of(headers: Iterable[tuple[str, bytes | None]]) -> bytes | None:
    """Return the ``traceparent`` among headers; None without one, and for one that is too long."""
    found = next((value for name, value in headers if name == "traceparent"), None)
    return found if found is not None and len(found) <= TRACE_BYTES else None


class Sources(NamedTuple):
    """Where routed records were read first, column by column."""

    places: list[TopicPartition]
    offsets: list[int]
    streams: list[bytes]
    """Keys of the records' streams."""


@dataclass(slots=True, eq=False)
class RecordBatch:
    """The usable records of a batch, and the faults of the others; every column has one entry for each usable record.

    A part of a batch (`take`) has the columns alone.
    """

    rows: Any
    """As `Layout.rows` or `SparseLayout.rows` returns them; what the stream's model learns."""
    times: Sequence[str]
    """The records' own times."""
    sizes: list[int]
    """Bytes of the records' values."""
    offsets: list[int] = field(default_factory=list)
    """Offsets in the log that is learned; `place` sets them, and the columns below."""
    keys: Texts[bytes | None] = field(default_factory=lambda: NO_TEXTS)
    traces: list[bytes | None] | None = None
    """Values of the ``traceparent`` headers, unless too long; None where no record has any header."""
    sources: Sources | None = None
    """Where the records were read first, if not in the task's own partition."""
    ids: Sequence[bytes] | None = None
    """The records' own ids as JSON, where ``input.id_path`` is set."""
    included: list[str] | None = None
    """Copied members as JSON objects, where ``output.include`` is set."""
    labels: list[RowLabels] = field(default_factory=list)
    """Ids and labels, where the engine learns labels; empty otherwise."""
    clocks: list[int] = field(default_factory=list)
    """The partition's clock as of each record, where anything depends on it (`PartitionClock`); empty otherwise."""
    own_times: list[int] = field(default_factory=list)
    """The records' own times on the scale of that clock, in milliseconds; one ahead of it is not confirmed."""
    elements: list[int | None] | None = None
    """Which record of its message each is, None for one that is the message; None where all are."""
    texts: list[str | None] | None = None
    """The records' texts, where ``input.text_path`` is set."""
    index: Sequence[int] = field(default_factory=list)
    """Positions of the usable records in the batch."""
    faults: list[Fault] = field(default_factory=list)
    """The records that are not usable."""
    skipped: int = 0
    """Records with a null value."""

    def __len__(self) -> int:
        return len(self.times)

    def completed(self, others: "RecordBatch", positions: list[int]) -> "RecordBatch":
        """Return the batch, whose columns have room for records at some positions, with what became of these."""
        places = [positions[at] for at in others.index]
        self.rows[places] = others.rows
        times, own_times = Times.of(self.times), Times.of(others.times)
        times.milliseconds[places] = own_times.milliseconds
        ids = self.ids
        if ids is not None and others.ids is not None:
            room, own = Texts.of(ids), Texts.of(others.ids)
            room.begins[places], room.ends[places] = own.begins + len(room.text), own.ends + len(room.text)
            ids = Texts(np.concatenate((room.text, own.text)), room.begins, room.ends)
        if self.texts is not None and others.texts is not None:
            for place, text in zip(places, others.texts, strict=True):
                self.texts[place] = text
        whole = replace(self, times=times, ids=ids)
        if len(places) < len(positions):
            kept = sorted(set(self.index) - (set(positions) - set(places)))
            whole = replace(whole.take(kept), index=kept)
        faults = [replace(fault, index=positions[fault.index]) for fault in others.faults]
        return replace(whole, faults=faults, skipped=others.skipped)

    def place(self, records: RecordColumns) -> Self:
        """Take over what the records of the batch have beside their values."""
        keys = records.named_keys()
        self.offsets = some_of(records.offsets, self.index).tolist()
        self.keys = keys if len(self.index) == len(records) else keys.take(self.index)
        self.times = Times.of(self.times)
        self.ids = None if self.ids is None else Texts.of(self.ids)
        if records.headers and not records.headers.keys().isdisjoint(self.index):
            self.traces = [trace_of(records.headers.get(at, ())) for at in self.index]
        if (elements := records.named_elements()) is not None:
            self.elements = [elements[at] for at in self.index]
        if records.routed is not None and self.index:
            routed = [records.routed[at] for at in self.index]
            self.sources = Sources(
                [(record.topic, record.partition) for record in routed],
                [record.source_offset for record in routed],
                [record.stream for record in routed],
            )
        return self

    @property
    def streams(self) -> "Sequence[bytes | None] | Sequence[bytes]":
        """Keys of the records' streams, where a partition has several."""
        return self.keys if self.sources is None else self.sources.streams

    def blame(self, error: FaultError, positions: Iterable[int]) -> None:
        """Make dead letters of the usable records at some positions."""
        self.faults += [error.at(self.index[position]) for position in positions]

    def between(self, start: int, stop: int) -> "RecordBatch":
        """Return the batch of the records from one position to another, usable or not."""
        first, end = bisect_left(self.index, start), bisect_left(self.index, stop)
        faults = [replace(fault, index=fault.index - start) for fault in self.faults if start <= fault.index < stop]
        skipped = stop - start - (end - first) - len(faults)
        index = [place - start for place in self.index[first:end]]
        return replace(self.take(range(first, end)), index=index, faults=faults, skipped=skipped)

    def sizes_at(self, positions: Sequence[int]) -> list[int]:
        """Return the sizes of some of the records, by position."""
        sizes: list[int] = _some(self.sizes, slice_of(positions))
        return sizes

    def given(self, positions: Sequence[int]) -> tuple[Any, list[RowLabels]]:
        """Return rows and labels of some of the records, by position, as models take them."""
        part, dense = slice_of(positions), isinstance(self.rows, np.ndarray)
        rows = _some(self.rows, part) if isinstance(self.rows, list) else self.rows[part if dense else positions]
        return rows, _some(self.labels, part)

    def take(self, positions: Sequence[int]) -> "RecordBatch":
        """Return some of the records, by position."""
        if isinstance(positions, range) and len(positions) == len(self):
            return self
        rows, labels = self.given(positions)
        some = partial(_some, part=slice_of(positions))
        return RecordBatch(
            rows,
            some(self.times),
            some(self.sizes),
            some(self.offsets),
            some(self.keys),
            some(self.traces),
            None if self.sources is None else Sources(*map(some, self.sources)),
            some(self.ids),
            some(self.included),
            labels,
            some(self.clocks),
            some(self.own_times),
            some(self.elements),
            some(self.texts),
        )


def _some(column: Any, part: Any) -> Any:
    """Return some entries of a column, which may be missing; `part` as of `slice_of`."""
    if not column:
        return column
    if isinstance(column, Items):
        return column.take(part)
    return column[part] if isinstance(part, slice) else [column[i] for i in part]
