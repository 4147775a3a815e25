"""Dead letters as their topic holds them: parsed, selected, and formatted for output."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from resonance.pipeline.kafka.log_reader import LogReader, OffsetRange
from resonance.pipeline.kafka.positions import EARLIEST, Position
from resonance.pipeline.records import Record, TopicPartition
from resonance.schemas.common import place_of, place_text

Header = tuple[str, bytes | None]

SOURCE_HEADER: Final = "dlq.source"
"""Header of a replayed record, behind the deployment's name: where the original stands."""


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """A dead letter as its topic holds it; `stage`, `kind` and `message` give the reason."""

    at: tuple[str, int, int]
    """Topic, partition and offset of the dead letter itself."""
    timestamp: int
    """When it was written, in milliseconds since 1970."""
    source: tuple[str, int, int]
    """Topic, partition and offset of the original record."""
    stage: str
    kind: str
    """The header ``class``."""
    message: str
    truncated: str
    """What was cut; empty where nothing was."""
    length: int
    """Bytes of the whole value, before any cut."""
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    """Headers of the original, without those that describe the dead letter."""
    topic_id: str = ""
    """Kafka's id of the original's topic; empty where the dead letter does not have it."""
    version: int = 0
    """Version with which new streams started then; 0 where the dead letter does not have it."""
    index: int | None = None
    """Which record of the original message it is; None where it is the message."""

    @classmethod
    def of(cls, record: Record, name: str) -> Self | None:
        """Parse a record as a dead letter of the deployment `name`; return None where it is none."""
        prefix = f"{name}.error."
        described = {header[len(prefix) :]: text for header, text in record.headers if header.startswith(prefix)}
        texts = {member: (text or b"").decode(errors="replace") for member, text in described.items()}
        try:
            source = texts["topic"], int(texts["partition"]), int(texts["offset"])
            index = int(texts["index"]) if "index" in texts else None
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
            index,
        )

    @property
    def where(self) -> str:
        """Where the original stands: ``features[0]@42``."""
        return place_text(place_of(*self.source, self.index))

    def as_json(self, *, content: bool = False) -> dict[str, Any]:
        """Return the dead letter as JSON values; with `content` also key, value and headers.

        Bytes that are not UTF-8 are given in base64, under a name that says so.
        """
        described: dict[str, Any] = {
            "topic": self.at[0],
            "partition": self.at[1],
            "offset": self.at[2],
            "source": place_of(*self.source, self.index),
            "stage": self.stage,
            "class": self.kind,
            "message": self.message,
            "bytes": self.length,
            "truncated": self.truncated or None,
            "topic_id": self.topic_id or None,
            "version": self.version or None,
        }
        if content:
            described |= _text("key", self.key) | _text("value", self.value)
            described["headers"] = [{"name": name, **_text("value", value)} for name, value in self.headers]
        return described


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


@dataclass(frozen=True, slots=True)
class Choice:
    """Which dead letters are selected."""

    kinds: Sequence[str] = ()
    """Classes; empty for all."""
    stages: Sequence[str] = ()
    """Empty for all."""
    partition: int | None = None
    """None for all."""
    since: Position = EARLIEST
    """Place on the topic of the dead letters from which on they are."""
    topic: str | None = None
    """Input topic of the original records; None for all."""

    @property
    def narrow(self) -> bool:
        """Whether it leaves any dead letter out."""
        return bool(self.kinds or self.stages or self.partition is not None or self.since != EARLIEST)

    def has(self, dead_letter: StoredDeadLetter) -> bool:
        """Whether a dead letter is selected."""
        return (
            (not self.kinds or dead_letter.kind in self.kinds)
            and (not self.stages or dead_letter.stage in self.stages)
            and self.partition in (None, dead_letter.at[1])
            and self.topic in (None, dead_letter.source[0])
            and dead_letter.timestamp >= (self.since.time or -1)
            and dead_letter.at[2] >= (self.since.offset or 0)
        )


def read_dead_letters(
    reader: LogReader, ranges: Mapping[TopicPartition, OffsetRange], name: str
) -> Iterator[tuple[TopicPartition, list[StoredDeadLetter]]]:
    """Yield the dead letters of the deployment `name` in some ranges, in order within each partition."""
    for at, records in reader.read(ranges):
        yield at, [dead_letter for record in records if (dead_letter := StoredDeadLetter.of(record, name)) is not None]
