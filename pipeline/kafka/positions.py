"""Places in a log as users name them: ``earliest``, ``latest``, a time, ``-10m`` for ten minutes ago, or an offset."""

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from resonance.pipeline.errors import BrokerError, ConfigurationError, nearest
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.log_reader import LogReader, OffsetRange
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.timestamps import milliseconds

_UNITS: Final[Mapping[str, int]] = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# No more digits than fit a number of milliseconds.
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")


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


def length_of(text: str) -> int | None:
    """Return the milliseconds of ``10m``; None for text that is no length of time."""
    found = _LENGTH.fullmatch(text)
    return None if found is None else int(float(found[1]) * _UNITS[found[2]])


OffsetsAt = Callable[[Sequence[TopicPartition], int], Mapping[TopicPartition, int]]
"""Returns the first offset of each partition at or after a time, a negative one where there is none."""


def offsets_of(
    position: Position, bounds: Mapping[TopicPartition, OffsetRange], offsets_at: OffsetsAt
) -> dict[TopicPartition, int]:
    """Return the offset of a position in each partition, limited to its first offset and its end."""
    found: Mapping[TopicPartition, int] = dict.fromkeys(bounds, position.offset or 0)
    if position.time is not None:
        found = offsets_at(list(bounds), position.time)
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
    return {at: (first, bounds[at][1]) for at, first in offsets_of(start, bounds, reader.offsets_at).items()}
