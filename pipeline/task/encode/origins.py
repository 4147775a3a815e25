"""Where records come from and what their outputs take over from them, column by column."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from resonance.pipeline.records import RoutedRecord, SourceRecord, TopicPartition
from resonance.pipeline.task.decode.json_records import Decoded

TRACE_BYTES = 1_000
"""Bytes of the longest ``traceparent`` that is passed through; the standard's have 55."""


class Sources(NamedTuple):
    """Where routed records were read first, column by column."""

    places: list[TopicPartition]
    offsets: list[int]
    streams: list[bytes]
    """Keys of the records' streams."""

    def take(self, positions: Sequence[int]) -> "Sources":
        """Return some of the records, by position."""
        places, offsets, streams = self
        if isinstance(positions, range) and positions.step == 1:
            some = slice(positions.start, positions.stop)
            return Sources(places[some], offsets[some], streams[some])
        return Sources([places[i] for i in positions], [offsets[i] for i in positions], [streams[i] for i in positions])


@dataclass(slots=True, eq=False)
class Origins:
    """The records that outputs refer to, column by column."""

    offsets: list[int]
    """Offsets in the log that is learned."""
    keys: list[bytes | None]
    ids: list[bytes] | None
    """The records' own ids as JSON."""
    times: list[str]
    """The records' own times."""
    included: list[str] | None
    """Copied members as JSON objects."""
    traces: list[bytes | None] | None
    """Values of the ``traceparent`` headers, unless too long."""
    sources: Sources | None = None
    """Where the records were read first, if not in the task's own partition."""

    @classmethod
    def of(cls, records: Sequence[SourceRecord], decoded: Decoded) -> Self:
        """Return the origins of `records`, which are the usable records of a decoded batch."""
        return cls(
            [record.offset for record in records],
            [record.key for record in records],
            decoded.ids,
            decoded.times,
            decoded.included,
            _traces_of(records),
            _sources_of(records),
        )

    @property
    def streams(self) -> "list[bytes | None] | list[bytes]":
        """Keys of the records' streams, where a partition has several."""
        return self.keys if self.sources is None else self.sources.streams

    def take(self, positions: Sequence[int]) -> "Origins":
        """Return some of the records, by position."""
        if isinstance(positions, range) and len(positions) == len(self.offsets):
            return self

        def some(column: list[Any] | None) -> list[Any] | None:
            if column is None:
                return None
            if isinstance(positions, range) and positions.step == 1:
                return column[positions.start : positions.stop]
            return [column[i] for i in positions]

        return Origins(
            some(self.offsets) or [],
            some(self.keys) or [],
            some(self.ids),
            some(self.times) or [],
            some(self.included),
            some(self.traces),
            None if self.sources is None else self.sources.take(positions),
        )


def _traces_of(records: Sequence[SourceRecord]) -> list[bytes | None] | None:
    """Return the ``traceparent`` of each record; None when no record has any header."""
    headers = [record.headers for record in records]
    if not any(headers):
        return None
    found = [next((value for name, value in own or () if name == "traceparent"), None) for own in headers]
    return [value if value is not None and len(value) <= TRACE_BYTES else None for value in found]


def _sources_of(records: Sequence[SourceRecord]) -> Sources | None:
    """Return the sources of routed records; None for records that are learned where they were read."""
    if not records or not isinstance(records[0], RoutedRecord):
        return None
    routed: Sequence[Any] = records
    return Sources(
        [(record.topic, record.partition) for record in routed],
        [record.source_offset for record in routed],
        [record.stream for record in routed],
    )
