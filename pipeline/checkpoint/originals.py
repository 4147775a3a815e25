"""The records behind the examples of a cluster, read from where they stand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import Record
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.mapping import make_mapping
from resonance.schemas import ClusterExample


@dataclass(frozen=True, slots=True)
class Original:
    """A record of an input topic; why it cannot be shown, where it is None."""

    example: ClusterExample
    record: Record | None
    missing: str = ""

    def as_json(self, settings: Settings) -> dict[str, Any]:
        """Return the record as plain values, as `value_of` does."""
        found: dict[str, Any] = {**self.example, "missing": self.missing or None}
        if self.record is not None:
            key = self.record.key
            found |= {
                "key": None if key is None else key.decode(errors="replace"),
                "value": value_of(self.record, settings),
            }
        return found


def value_of(record: Record, settings: Settings) -> Any:
    """Return the value of a record as JSON; as text where it is none, and has no schema by which it could be."""
    value = record.value or b"null"
    try:
        return make_mapping(settings).parsed(value) if settings.is_framed else orjson.loads(value)
    except (orjson.JSONDecodeError, FaultError):
        return value.decode(errors="replace")


def originals(reader: LogReader, examples: Sequence[ClusterExample]) -> list[Original]:
    """Return the records of some examples; one that is no longer stored has the reason instead."""
    return [_original(reader, example) for example in examples]


def _original(reader: LogReader, example: ClusterExample) -> Original:
    source: Mapping[str, Any] = example["source"]
    at, offset = (source["topic"], source["partition"]), source["offset"]
    if not reader.has(at):
        return Original(example, None, "its topic does not exist any more, or may not be read")
    first, end = reader.bounds([at])[at]
    if offset < first:
        return Original(example, None, f"it is deleted: the topic's retention has the records from offset {first:,} on")
    if offset >= end:
        return Original(example, None, f"the topic was made anew: it ends at offset {end:,}")
    for _, records in reader.read({at: (offset, offset + 1)}, 1):
        return Original(example, records[0])
    return Original(example, None, "it is deleted: the topic is compacted")
