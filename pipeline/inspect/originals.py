"""Records of input topics, such as the examples of a cluster, read from where they stand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from resonance.pipeline import exact_json
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import Record
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.mapping import message_mapping
from resonance.pipeline.task.decode.unpacking import Unpacker
from resonance.schemas import ClusterExample

SHOWN: Final = 1_000
"""Characters of a record that are shown; JSON has all."""


@dataclass(frozen=True, slots=True)
class Original:
    """A record of an input topic; why it cannot be shown, where it is None."""

    example: ClusterExample
    record: Record | None
    missing: str = ""

    def as_json(self, settings: Settings) -> dict[str, Any]:
        """Return the record as plain values, as `value_of` does."""
        return {**self.example, **content_of(self.record, self.missing, settings)}


def content_of(record: Record | None, missing: str, settings: Settings) -> dict[str, Any]:
    """Return a record as plain values, as `value_of` does, or why it is `missing`."""
    found: dict[str, Any] = {"missing": missing or None}
    if record is not None:
        key = record.key
        found |= {"key": None if key is None else key.decode(errors="replace"), "value": value_of(record, settings)}
    return found


def value_of(record: Record, settings: Settings) -> Any:
    """Return the value of a record as JSON; as text where it is none, and has no schema by which it could be."""
    if not record.value:
        return None
    framed = settings.is_framed and record.element is None
    try:
        return message_mapping(settings).parsed(record.value) if framed else exact_json.loads(record.value)
    except (orjson.JSONDecodeError, FaultError):
        return record.value.decode(errors="replace")


def shown(value: Any) -> str:
    """Return a value as JSON, cut where it is long."""
    text = exact_json.dumps(value).decode()
    more = f"... ({len(text) - SHOWN:,} more characters: --json has them)" if len(text) > SHOWN else ""
    return f"{text[:SHOWN]}{more}"


def originals(reader: LogReader, examples: Sequence[ClusterExample], settings: Settings) -> list[Original]:
    """Return the records of some examples; one that is no longer stored has the reason instead."""
    return [Original(example, *read_original(reader, example["source"], settings)) for example in examples]


def read_original(reader: LogReader, source: Mapping[str, Any], settings: Settings) -> tuple[Record | None, str]:
    """Return the record at a place; None with the reason where it is no longer stored."""
    message, missing = _message(reader, source)
    element, unpacker = source.get("index"), Unpacker.of(settings)
    if message is None or element is None or unpacker is None:
        return message, missing
    for record in unpacker.records([message]):
        if record.element == element:
            return record, ""
    return None, "its message is another one by now, or settings have changed (input.records)"


def _message(reader: LogReader, source: Mapping[str, Any]) -> tuple[Record | None, str]:
    at, offset = (source["topic"], source["partition"]), source["offset"]
    if not reader.has(at):
        return None, "its topic does not exist any more, or may not be read"
    first, end = reader.bounds([at])[at]
    if offset < first:
        return None, f"it is deleted: the topic's retention has the records from offset {first:,} on"
    if offset >= end:
        return None, f"the topic was made anew: it ends at offset {end:,}"
    for _, records in reader.read({at: (offset, offset + 1)}, 1):
        return records[0], ""
    return None, "it is deleted: the topic is compacted"
