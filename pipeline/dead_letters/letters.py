"""Dead letters as they stand in their topic: read, chosen, counted, and said for people."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from resonance.pipeline.kafka.log_reader import LogReader, OffsetRange
from resonance.pipeline.records import Record, TopicPartition

LetterHeader = tuple[str, bytes | None]

SOURCE_HEADER: Final = "dlq.source"
"""Behind the deployment's name: header of a replayed record that says where the original stands."""


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """A dead letter.

    Attributes
    ----------
    at : (str, int, int)
        Topic, partition and offset of the letter itself.
    timestamp : int
        When it was written, in milliseconds since 1970.
    source : (str, int, int)
        Those of the original record.
    stage, kind, message : str
        Why it is one; `kind` is the header ``class``.
    truncated : str
        What was cut; empty where nothing was.
    length : int
        Bytes of the whole value.
    key, value : bytes or None
        As they stand in the letter.
    headers : tuple of (str, bytes)
        The original's, without those that say why it is a dead letter.
    topic_id : str
        Kafka's id of the topic of the original; empty where the letter does not say it.
    version : int
        Version with which new streams began then; 0 where the letter does not say it.
    """

    at: tuple[str, int, int]
    timestamp: int
    source: tuple[str, int, int]
    stage: str
    kind: str
    message: str
    truncated: str
    length: int
    key: bytes | None
    value: bytes | None
    headers: tuple[LetterHeader, ...]
    topic_id: str = ""
    version: int = 0

    @classmethod
    def of(cls, record: Record, name: str) -> Self | None:
        """Return the letter in a record; None where it is none of the deployment called `name`."""
        prefix = f"{name}.error."
        told = {header[len(prefix) :]: text for header, text in record.headers if header.startswith(prefix)}
        texts = {member: (text or b"").decode(errors="replace") for member, text in told.items()}
        try:
            source = texts["topic"], int(texts["partition"]), int(texts["offset"])
            length = int(texts.get("length", len(record.value or b"")))
            version = int(texts.get("version", 0))
        except (KeyError, ValueError):
            return None
        return cls(
            (record.topic, record.partition, record.offset),
            record.timestamp,
            source,
            texts.get("stage", ""),
            texts.get("class", ""),
            texts.get("message", ""),
            texts.get("truncated", ""),
            length,
            record.key,
            record.value,
            tuple(header for header in record.headers if not header[0].startswith(prefix)),
            texts.get("topic_id", ""),
            version,
        )

    @property
    def where(self) -> str:
        """Where the original stands: ``features[0]@42``."""
        topic, partition, offset = self.source
        return f"{topic}[{partition}]@{offset}"

    def as_json(self, *, content: bool = False) -> dict[str, Any]:
        """Return it for machines.

        Parameters
        ----------
        content : bool
            With key, value and headers; what is not UTF-8 stands in base64 under a name that says so.
        """
        told: dict[str, Any] = {
            "topic": self.at[0],
            "partition": self.at[1],
            "offset": self.at[2],
            "source": dict(zip(("topic", "partition", "offset"), self.source, strict=True)),
            "stage": self.stage,
            "class": self.kind,
            "message": self.message,
            "bytes": self.length,
            "truncated": self.truncated or None,
            "topic_id": self.topic_id or None,
            "version": self.version or None,
        }
        if content:
            told |= _text("key", self.key) | _text("value", self.value)
            told["headers"] = [{"name": name, **_text("value", value)} for name, value in self.headers]
        return told


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


@dataclass(frozen=True, slots=True)
class Choice:
    """Which dead letters are meant.

    Attributes
    ----------
    kinds, stages : sequence of str
        Classes and stages; empty for all.
    partition : int or None
        Partition; None for all.
    since : int
        Written at or behind this time, in milliseconds since 1970.
    topic : str or None
        Input topic of the records; None for all.
    """

    kinds: Sequence[str] = ()
    stages: Sequence[str] = ()
    partition: int | None = None
    since: int = -1
    topic: str | None = None

    @property
    def narrow(self) -> bool:
        """Whether it leaves any out."""
        return bool(self.kinds or self.stages or self.partition is not None or self.since > 0)

    def has(self, letter: StoredDeadLetter) -> bool:
        """Whether a letter is meant."""
        return (
            (not self.kinds or letter.kind in self.kinds)
            and (not self.stages or letter.stage in self.stages)
            and self.partition in (None, letter.at[1])
            and self.topic in (None, letter.source[0])
            and letter.timestamp >= self.since
        )


def read_letters(
    reader: LogReader, ranges: Mapping[TopicPartition, OffsetRange], name: str
) -> Iterator[tuple[TopicPartition, list[StoredDeadLetter]]]:
    """Yield the dead letters of some ranges, in order within each partition.

    Parameters
    ----------
    reader : LogReader
        Reads them.
    ranges : mapping of (topic, partition) to (int, int)
        What to read.
    name : str
        Name of the deployment.
    """
    for at, records in reader.read(ranges):
        yield at, [letter for record in records if (letter := StoredDeadLetter.of(record, name)) is not None]
