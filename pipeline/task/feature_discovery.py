"""Takes the features of a partition's records from its first usable one, where the settings do not name them."""

import logging
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from resonance.engine.errors import ParameterError
from resonance.pipeline import logs
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import first_of
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import SourceRecord, stream_key
from resonance.pipeline.task.dead_letters import DeadLetters
from resonance.pipeline.task.decode.dense import Layout, Shape, shape_as_json, shape_from
from resonance.pipeline.task.decode.faults import FaultError, not_prepared
from resonance.pipeline.task.decode.json_records import AnyLayout
from resonance.pipeline.task.decode.mapping import make_mapping
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.encode import message_sizes

NAMED = 20
"""Features that the log names; of more the rest is left out."""

_log = logging.getLogger(__name__)


class FeatureDiscovery:
    """Decodes the records of a partition; the first usable one decides the features where these are not known.

    A record is usable if it becomes an assignment. The offset of the deciding record is part of the state: a recovery
    that begins below it refuses the records before it again, whatever they have in common with the features.
    """

    def __init__(self, settings: Settings, topic: str, partition: int, dead_letters: DeadLetters) -> None:
        self._settings = settings
        self._at = topic, partition
        self._dead_letters = dead_letters
        self.mapping = make_mapping(settings)
        """Decodes records whose features are known."""
        self.decided_at = 0
        """Offset of the record that decided; 0 where none did."""

    @property
    def layout(self) -> AnyLayout:
        """Where the features stand; an error while that is not decided."""
        if self.mapping.layout is None:
            raise RuntimeError("a stream begins before its features are known")
        return self.mapping.layout

    def decode(self, records: RecordColumns) -> RecordBatch:
        """Decode a batch in offset order; the records before the deciding one are faults, or have no value."""
        before = RecordBatch(np.empty((0, 0)), [], [])
        start = 0
        while start < len(records) and (self.mapping.layout is None or records.offsets[start] < self.decided_at):
            record = records[start]
            if record.value is None:
                before.skipped += 1
            else:
                try:
                    self._discover(record)
                    break
                except FaultError as error:
                    before.faults.append(error.at(start))
            start += 1
        if not start:
            return self.mapping.decode(records)
        if start == len(records):
            return before
        decoded = self.mapping.decode(records[start:])
        decoded.index = [index + start for index in decoded.index]
        decoded.faults = before.faults + [replace(fault, index=fault.index + start) for fault in decoded.faults]
        decoded.skipped += before.skipped
        return decoded

    def _discover(self, record: SourceRecord) -> None:
        """Decide the features, unless they are known; a `FaultError` says why a record is not usable."""
        settings = self._settings
        shape = self.mapping.shape_of(record.value or b"")
        layout = Layout(settings, shape)
        decoded = self.mapping.decode_one(record, layout)
        key = stream_key(record)
        if settings.stream == "key" and (error := self._dead_letters.key_fault(key)):
            raise error
        if errors := message_sizes.too_long(decoded, keyed=settings.by_key):
            raise errors[0]
        # Settings that do not fit the features are an error where the stream begins.
        with suppress(ParameterError):
            if problems := settings.preparation(layout.features).check(decoded.rows):
                raise not_prepared(problems[0])
        if self.mapping.layout is None:
            self.mapping.layout, self.decided_at = layout, record.offset
            names = first_of(layout.features, NAMED)
            _log.info(
                "%s[%d]@%d: the first usable record decides that records have %d features: %s",
                *(*self._at, record.offset, layout.dimension, names),
                extra=logs.at(*self._at, record.offset),
            )

    def move(self, offset: int) -> None:
        """Continue at an offset, whatever that of the deciding record was."""
        self.decided_at = min(self.decided_at, offset)

    def take(self, shape: Shape | None, decided_at: int) -> None:
        """Adopt an earlier decision, unless the features are known already."""
        if shape is not None and self.mapping.layout is None:
            self.mapping.layout, self.decided_at = Layout(self._settings, shape), decided_at

    def state(self) -> dict[str, Any]:
        """Return the decision in a form that JSON can hold."""
        layout = self.mapping.layout
        return {"shape": None if layout is None else shape_as_json(layout.shape), "decided_at": self.decided_at}

    def restore(self, content: Any) -> None:
        """Continue from a `state`."""
        self.take(shape_from(content["shape"]), int(content["decided_at"]))
