"""Parts of a log as users name them: from an offset, a time, or so long ago."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self

from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader, OffsetRange
from resonance.pipeline.kafka.log_search import first_offset, one_by_one
from resonance.pipeline.kafka.positions import ago_of, length_of
from resonance.pipeline.records import Record, TopicPartition
from resonance.pipeline.timestamps import milliseconds

AHEAD: Final = 60_000
"""Milliseconds by which a record's clock may be ahead of this machine's; its timestamp means nothing beyond that."""

NEWEST: Final = 20
"""Offsets at the end of each partition that are searched for the newest record."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range: an offset, or a time in milliseconds since 1970; the other is None."""

    offset: int | None = None
    time: int | None = None

    @classmethod
    def parse(cls, text: str, option: str) -> Self:
        """Parse an offset, an RFC 3339 time, or ``-10m`` for ten minutes ago.

        Raises `ConfigurationError` where the text is none of them.
        """
        given = text.strip()
        if given.isascii() and given.isdigit():
            return cls(offset=int(given))
        if (ago := ago_of(given)) is not None:
            return cls(time=ago)
        try:
            return cls(time=milliseconds(given))
        except ValueError:
            raise ConfigurationError(
                f"{option} {text}: give an offset (81920), a time (2026-01-31T12:00:00Z), or how long ago (-10m)"
            ) from None


@dataclass(frozen=True, slots=True)
class Span:
    """The requested part of a log."""

    begin: Bound | None = None
    """First record; None for the beginning of the log."""
    end: Bound | None = None
    """First record that is left out; None for the end of the log."""
    last: int | None = None
    """Milliseconds up to the newest record, in place of `begin`."""
    partition: int | None = None
    """The only partition; None for all."""

    @classmethod
    def parse(
        cls, begin: str | None = None, end: str | None = None, last: str | None = None, partition: int | None = None
    ) -> Self:
        """Parse the values of ``--from``, ``--to`` and ``--last``.

        Raises `ConfigurationError` for a value that is no place in a log, or where both `begin` and `last` are given.
        """
        if begin is not None and last is not None:
            raise ConfigurationError("--from and --last both say where the range begins; leave one out")
        length = None
        if last is not None and (length := length_of(last.strip())) is None:
            raise ConfigurationError(f"--last {last}: give a number with ms, s, m, h or d behind it, such as 10m")
        return cls(
            Bound.parse(begin, "--from") if begin is not None else None,
            Bound.parse(end, "--to") if end is not None else None,
            length,
            partition,
        )

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return self == Span()


def choose(span: Span, inputs: Collection[str], partitions: int) -> list[TopicPartition]:
    """Return the input partitions of a span; raise `ConfigurationError` where there is no such partition."""
    if span.partition is not None and not 0 <= span.partition < partitions:
        raise ConfigurationError(f"--partition {span.partition}: the input has the partitions 0 to {partitions - 1}")
    numbers = range(partitions) if span.partition is None else [span.partition]
    return [(topic, number) for topic in inputs for number in numbers]


def resolve(reader: LogReader, span: Span, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
    """Return the offsets of a span in each partition, limited to what exists and is committed.

    Raises `BrokerError` where the broker does not answer.
    """
    bounds = reader.bounds(partitions)
    begin = span.begin
    if span.last is not None:
        begin = Bound(time=newest_time(reader, partitions) - span.last)
    first = _offsets(reader, begin, {at: found[0] for at, found in bounds.items()}, bounds)
    last = _offsets(reader, span.end, {at: found[1] for at, found in bounds.items()}, bounds)
    return {at: (first[at], max(first[at], last[at])) for at in partitions}


def _offsets(
    reader: LogReader,
    bound: Bound | None,
    otherwise: dict[TopicPartition, int],
    bounds: Mapping[TopicPartition, OffsetRange],
) -> dict[TopicPartition, int]:
    if bound is None:
        return otherwise
    found = dict.fromkeys(bounds, bound.offset or 0)
    if bound.time is not None:
        found = _offsets_at(reader, list(bounds), bound.time)
    clipped = {}
    for at, (first, end) in bounds.items():
        offset = end if found[at] == NO_OFFSET else found[at]
        clipped[at] = min(max(offset, first), end)
    return clipped


def _offsets_at(reader: LogReader, partitions: Collection[TopicPartition], moment: int) -> dict[TopicPartition, int]:
    """Return the first offset of each partition that is not before a moment, `NO_OFFSET` where none is.

    Kafka takes the first record with such a timestamp. One that is in the future means nothing for those behind it, so
    a binary search replaces it.
    """
    now = time.time_ns() // 1_000_000 + AHEAD
    found = reader.offsets_at(list(partitions), moment)

    def is_within(record: Record) -> bool | None:
        return None if record.timestamp > now else record.timestamp >= moment

    for at, offset in found.items():
        _, end = reader.bounds([at])[at]
        first = next(one_by_one(reader, at, offset, end), None) if NO_OFFSET < offset < end else None
        if first is not None and first.timestamp > now >= moment:
            found[at] = first_offset(reader, at, is_within)
    return found


def newest_time(reader: LogReader, partitions: Collection[TopicPartition]) -> int:
    """Return the newest timestamp of the last records of some partitions, in milliseconds; now where there is none.

    A timestamp ahead of this machine's clock is left out: one record with a wrong date would otherwise be the end of
    every range. Raises `BrokerError` where the broker does not answer.
    """
    now = time.time_ns() // 1_000_000
    ends = {at: (max(first, end - NEWEST), end) for at, (first, end) in reader.bounds(partitions).items()}
    times = [record.timestamp for _, records in reader.read(ends) for record in records]
    return max((found for found in times if 0 <= found <= now + AHEAD), default=now)
