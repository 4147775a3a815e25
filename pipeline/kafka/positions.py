"""Places in a log as users name them, and what stands between two of them.

A place is ``earliest``, ``latest``, a time, ``-10m`` for ten minutes ago, or an offset.
"""

import logging
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from resonance.pipeline.errors import BrokerError, ConfigurationError, nearest
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.log_reader import LogReader, OffsetRange
from resonance.pipeline.records import Record, TopicPartition
from resonance.pipeline.timestamps import milliseconds

AHEAD: Final = 60_000
"""Milliseconds by which a record's clock may be ahead of this machine's; its timestamp means nothing beyond that."""

NEWEST: Final = 20
"""Offsets at the end of each partition that are searched for the newest record."""

_UNITS: Final[Mapping[str, int]] = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# No more digits than fit a number of milliseconds.
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in every partition of a log: an offset, or a time in milliseconds since 1970; the other is None."""

    offset: int | None = None
    time: int | None = None

    @classmethod
    def parse(cls, text: str, option: str) -> Self:
        """Parse the value of an option; raise `ConfigurationError`, with what is allowed, for any other text."""
        given = text.strip()
        if given in WORDS:
            return cls(offset=WORDS[given])
        if given.isascii() and given.isdigit():
            return cls(offset=int(given))
        if given.startswith("-") and (length := length_of(given[1:])) is not None:
            # Kafka's timestamps begin at 0.
            return cls(time=max(int(time.time() * 1000) - length, 0))
        try:
            moment = milliseconds(given)
        except ValueError:
            moment = None
        if moment is None:
            raise ConfigurationError(
                f"{option} {text}: must be earliest, latest, a time such as 2026-01-31T12:00:00Z, how long ago, such "
                "as -10m (ms, s, m, h, d), or an offset"
            )
        return cls(time=moment)


WORDS: Final[Mapping[str, int]] = {"earliest": 0, "latest": sys.maxsize}
"""Offsets that words stand for: limited to a partition they are its first and its end."""

EARLIEST: Final = Position(offset=WORDS["earliest"])
LATEST: Final = Position(offset=WORDS["latest"])


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


def length_of(text: str) -> int | None:
    """Return the milliseconds of ``10m``; None for text that is no length of time."""
    found = _LENGTH.fullmatch(text)
    return None if found is None else int(float(found[1]) * _UNITS[found[2]])


def offsets_of(
    reader: LogReader, position: Position, bounds: Mapping[TopicPartition, OffsetRange]
) -> dict[TopicPartition, int]:
    """Return the offset of a position in each partition, limited to its first offset and its end."""
    found: Mapping[TopicPartition, int] = dict.fromkeys(bounds, position.offset or 0)
    if position.time is not None:
        found = reader.offsets_at(list(bounds), position.time)
    # Where no record is as late as a time, its place is the end.
    return {at: min(max(found[at], first), end) if found[at] >= 0 else end for at, (first, end) in bounds.items()}


def partitions_of(cluster: ClusterAdmin, topic: str, name: str) -> list[TopicPartition]:
    """Return the partitions of an output topic of the deployment `name`.

    Raises `BrokerError`, with the nearest topic, where there is no such topic.
    """
    counts = cluster.partition_counts()
    if topic not in counts:
        cluster.check_seen(topic)
        raise BrokerError(
            f"topic {topic} does not exist on {cluster.servers}{nearest(topic, counts)}; the workers of the deployment "
            f"{name} make it at their start; is this its name (--name, or name in resonance.toml)?"
        )
    return [(topic, partition) for partition in range(counts[topic])]


def ranges_from(
    reader: LogReader, partitions: Sequence[TopicPartition], start: Position
) -> dict[TopicPartition, OffsetRange]:
    """Return the ranges to read, from a position to the present end."""
    bounds = reader.bounds(partitions)
    return {at: (first, bounds[at][1]) for at, first in offsets_of(reader, start, bounds).items()}


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

    first, last = (offsets_of(reader, place, bounds) for place in (begin, span.end))
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


def first_offset(reader: LogReader, partition: TopicPartition, holds: Callable[[Record], bool | None]) -> int:
    """Return the offset of the first committed record for which `holds` is true, or the end of the log.

    `holds` must be monotone (once true, true for all records behind); otherwise the result is some record for which it
    is true, or the end. Where it returns None the next record decides. Raises `BrokerError` where the broker does not
    answer, or where records were deleted meanwhile.
    """
    low, end = reader.bounds([partition])[partition]
    high, found = end, end
    while low < high:
        middle = (low + high) // 2
        answers = ((record.offset, holds(record)) for record in one_by_one(reader, partition, middle, high))
        found_at = next((answer for answer in answers if answer[1] is not None), None)
        if found_at is None:
            # No record from the middle on can decide: those before it do.
            high = middle
        elif found_at[1]:
            high, found = middle, found_at[0]
        else:
            low = found_at[0] + 1
    return found


def one_by_one(reader: LogReader, partition: TopicPartition, first: int, end: int) -> Iterator[Record]:
    """Yield the committed records of a range, for a caller that needs only the first of them."""
    for _, records in reader.read({partition: (first, end)}, 1):
        yield from records
