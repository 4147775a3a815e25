"""Dead letters of a partition: their counts, their messages, and the checks of stream keys."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import STREAM_BYTES, Outputs
from resonance.pipeline.task.counts import DeadLetterExample
from resonance.pipeline.task.decode.faults import Fault, FaultError, long_name
from resonance.pipeline.task.encode.assignments import Encoder

EXAMPLES: Final = 3
"""Most dead letters of a class that are kept as examples."""

EXAMPLE_BYTES: Final = 10_000
"""Bytes of a value that are kept as an example."""


class DeadLetters:
    """Counts the dead letters of a partition and writes them."""

    def __init__(self, settings: Settings, encoder: Encoder, topic_ids: Mapping[str, str]) -> None:
        self._limits = settings.limits
        self._encoder = encoder
        self._topic_ids = topic_ids
        self.seen: dict[tuple[str, str], int] = {}
        """Number of dead letters by stage and class."""
        self.examples: dict[tuple[str, str], Sequence[DeadLetterExample]] = {}
        """The first ones of each that were written."""

    def record(self, records: RecordColumns, faults: list[Fault], outputs: Outputs | None, version: int) -> None:
        """Count the faults of a batch, given in any order, and add their dead letters to the outputs.

        Without outputs the faults are only counted. Each dead letter shows the `version` of new streams' models.
        """
        faults.sort(key=attrgetter("index"))
        for fault in faults:
            kinds = fault.stage, fault.kind
            self.seen[kinds] = self.seen.get(kinds, 0) + 1
            if outputs is not None and len(own := self.examples.get(kinds, ())) < EXAMPLES:
                record = fault.record or records[fault.index]
                content = self._encoder.source(record), fault.message, (record.value or b"")[:EXAMPLE_BYTES]
                self.examples[kinds] = *own, DeadLetterExample(fault.kind, record.timestamp, *content)
        if outputs is not None and faults:
            messages = [
                self._encoder.dead_letter(
                    fault.record or records[fault.index],
                    fault,
                    version,
                    self._topic_ids,
                    records[fault.index] if fault.is_earlier(records) else None,
                )
                for fault in faults
            ]
            outputs.put("dead_letters", records.offsets[[fault.index for fault in faults]].tolist(), messages)

    def key_fault(self, key: bytes | None) -> FaultError | None:
        """Return what is wrong with a key that names a stream, or None."""
        if key is None:
            return FaultError("validate", "no_key", 'no key, and stream = "key" gives every key a model of its own')
        if len(key) > STREAM_BYTES:
            return long_name(f"a key of {len(key):,} bytes", "; send shorter keys")
        return None

    def no_room(self, key: bytes | None) -> FaultError:
        """Return the fault of a record whose key would begin a stream beyond `limits.streams`."""
        limit = self._limits.streams
        return FaultError(
            "limit",
            "too_many_streams",
            f"key {key!r} would begin a stream, and limits.streams = {limit:,} are there in this partition; raise it, "
            "or spread the keys over more partitions",
        )
