"""The part of a topic to read: from a user's start (``earliest``, ``latest``, a time, ``-10m``) to its present end."""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from resonance.pipeline.errors import BrokerError, ConfigurationError, nearest
from resonance.pipeline.kafka.log_reader import OffsetRange
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.timestamps import milliseconds

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_UNITS: Final[Mapping[str, int]] = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# No more digits than fit a number of milliseconds.
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")


class TopicChoice(Protocol):
    """A cluster that lists its topics."""

    servers: str

    def partition_counts(self) -> Mapping[str, int]:
        """Return the number of partitions of every topic."""

    def check_seen(self, topic: str) -> None:
        """Raise where a topic seems to be missing but is hidden from this user."""


class Bounds(Protocol):
    """A reader that knows where partitions begin and end."""

    def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetRange]:
        """Return the first offset and the end of each partition."""

    def offsets_at(self, partitions: Sequence[TopicPartition], moment: int) -> Mapping[TopicPartition, int]:
        """Return the first offset of each partition with a timestamp at or after a moment."""


def parse_start(text: str, now_ms: int | None = None) -> str | int:
    """Return `EARLIEST`, `LATEST`, or milliseconds since 1970; raise `ConfigurationError` for any other text."""
    if text in (EARLIEST, LATEST):
        return text
    if (ago := ago_of(text, now_ms)) is not None:
        return ago
    try:
        found = milliseconds(int(text) if text.isdecimal() else text)
    except ValueError:
        found = None
    if found is None:
        raise ConfigurationError(
            f"--from {text}: must be earliest, latest, a time such as 2026-01-31T12:00:00Z, or how long ago, such as "
            "-10m (ms, s, m, h, d)"
        )
    return found


def length_of(text: str) -> int | None:
    """Return the milliseconds of ``10m``; None for text that is no length of time."""
    found = _LENGTH.fullmatch(text)
    return None if found is None else int(float(found[1]) * _UNITS[found[2]])


def ago_of(text: str, now_ms: int | None = None) -> int | None:
    """Return the milliseconds since 1970 that ``-10m`` means; None for any other text."""
    length = length_of(text[1:]) if text.startswith("-") else None
    if length is None:
        return None
    # Kafka's timestamps begin at 0.
    return max((int(time.time() * 1000) if now_ms is None else now_ms) - length, 0)


def partitions_of(cluster: TopicChoice, topic: str, name: str) -> list[TopicPartition]:
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
    reader: Bounds, partitions: Sequence[TopicPartition], start: str | int
) -> dict[TopicPartition, OffsetRange]:
    """Return the ranges to read, from a start of `parse_start` to the present end.

    A time is compared with the timestamps that Kafka keeps.
    """
    bounds = reader.bounds(partitions)
    if start == EARLIEST:
        return dict(bounds)
    if not isinstance(start, int):
        return {at: (end, end) for at, (_, end) in bounds.items()}
    found = reader.offsets_at(partitions, start)
    # No record is as late as that: there is nothing to read.
    return {at: (max(found[at], first) if found[at] >= 0 else end, end) for at, (first, end) in bounds.items()}
