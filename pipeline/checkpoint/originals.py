"""The records behind the examples of a cluster, read from where they stand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import Record
from resonance.schemas import ClusterExample


@dataclass(frozen=True, slots=True)
class Original:
    """A record of an input topic; why it cannot be shown, where it is None."""

    example: ClusterExample
    record: Record | None
    missing: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the record as plain values: a value that is no JSON as text."""
        found: dict[str, Any] = {**self.example, "missing": self.missing or None}
        if self.record is not None:
            key = self.record.key
            found |= {"key": None if key is None else key.decode(errors="replace"), "value": value_of(self.record)}
        return found


def value_of(record: Record) -> Any:
    """Return the value of a record, as text where it is no JSON."""
    try:
        return orjson.loads(record.value or b"null")
    except orjson.JSONDecodeError:
        return (record.value or b"").decode(errors="replace")


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
