"""Parts of a log as users name them: from one position to another, or the last ten minutes."""

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self

from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.log_reader import LogReader, OffsetRange
from resonance.pipeline.kafka.positions import EARLIEST, LATEST, Position, length_of, offsets_of
from resonance.pipeline.records import TopicPartition

AHEAD: Final = 60_000
"""Milliseconds by which a record's clock may be ahead of this machine's; its timestamp means nothing beyond that."""

NEWEST: Final = 20
"""Offsets at the end of each partition that are searched for the newest record."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Span:
    """The requested part of a log."""

    begin: Position = EARLIEST
    """First record."""
    end: Position = LATEST
    """First record that is left out."""
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
            EARLIEST if begin is None else Position.parse(begin, "--from"),
            LATEST if end is None else Position.parse(end, "--to"),
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

    What an open transaction holds back there is a warning. Raises `BrokerError` where the broker does not answer.
    """
    # In this order: what comes meanwhile is held back by nothing.
    high = reader.high_watermarks(partitions)
    bounds = reader.bounds(partitions)
    begin = span.begin if span.last is None else Position(time=newest_time(reader, partitions) - span.last)

    first, last = (offsets_of(place, bounds, reader.offsets_at) for place in (begin, span.end))
    found = {at: (first[at], max(first[at], last[at])) for at in partitions}
    for (topic, partition), (_, end) in found.items():
        at = topic, partition
        if end == bounds[at][1] < high[at]:
            _log.warning(
                "%s[%d]@%d: %d records are left out: a transaction that is open there holds them back; repeat this "
                "after its end",
                *(topic, partition, end, high[at] - end),
            )
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
