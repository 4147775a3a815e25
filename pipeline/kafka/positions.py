"""What of a topic is read: from where people say (``earliest``, ``latest``, a time, ``-10m``), to its present end."""

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
# So many digits that every length is a number of milliseconds.
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")


class TopicChoice(Protocol):
    """A cluster that says what topics it has."""

    servers: str

    def partition_counts(self) -> Mapping[str, int]:
        """Return the number of partitions of every topic."""

    def check_seen(self, topic: str) -> None:
        """Raise where a topic is missing for this user alone."""


class Bounds(Protocol):
    """A reader that knows where partitions begin and end."""

    def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetRange]:
        """Return first offset and end of each."""

    def offsets_at(self, partitions: Sequence[TopicPartition], moment: int) -> Mapping[TopicPartition, int]:
        """Return the first offset of each with a timestamp at or behind a moment."""


def parse_start(text: str, now_ms: int | None = None) -> str | int:
    """Return `EARLIEST`, `LATEST`, or milliseconds since 1970.

    Parameters
    ----------
    text : str
        What somebody wrote.
    now_ms : int, optional
        The present.

    Raises
    ------
    ConfigurationError
        It is none of these.
    """
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
    """Return the milliseconds of ``10m``; None for what is no length of time."""
    found = _LENGTH.fullmatch(text)
    return None if found is None else int(float(found[1]) * _UNITS[found[2]])


def ago_of(text: str, now_ms: int | None = None) -> int | None:
    """Return the milliseconds since 1970 that ``-10m`` means; None for what says no such thing."""
    length = length_of(text[1:]) if text.startswith("-") else None
    if length is None:
        return None
    # Nothing is older than Kafka's first moment.
    return max((int(time.time() * 1000) if now_ms is None else now_ms) - length, 0)


def partitions_of(cluster: TopicChoice, topic: str, name: str) -> list[TopicPartition]:
    """Return the partitions of an output topic.

    Parameters
    ----------
    cluster : Cluster
        Where it is.
    topic : str
        The topic.
    name : str
        Name of the deployment.

    Raises
    ------
    BrokerError
        There is no such topic; offers the nearest.
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
    """Return what is to be read: from a start to the present end.

    Parameters
    ----------
    reader : LogReader
        Whom to ask.
    partitions : sequence of (topic, partition)
        The partitions.
    start : str or int
        What `parse_start` gave; a time means the timestamps that Kafka keeps.
    """
    bounds = reader.bounds(partitions)
    if start == EARLIEST:
        return dict(bounds)
    if not isinstance(start, int):
        return {at: (end, end) for at, (_, end) in bounds.items()}
    found = reader.offsets_at(partitions, start)
    # Nothing as late as that: there is nothing to read.
    return {at: (max(found[at], first) if found[at] >= 0 else end, end) for at, (first, end) in bounds.items()}
