"""Decodes records whose value is an array of little-endian float32, a batch at a time (``input.format = "float32"``).

All else of such a record is Kafka's: its time is the timestamp, and its id the key, unless keys name streams.
"""

from typing import Final

import numpy as np
import orjson
from resonance.engine.base import FloatArray
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import SourceRecord
from resonance.pipeline.task.decode.dense import Shape
from resonance.pipeline.task.decode.faults import FaultError, not_a_number
from resonance.pipeline.task.decode.json_records import AnyLayout, Decoded, InputMapping
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.text.messages import NULL_VALUE

WIDTH: Final = 4
"""Bytes of a number."""


class FloatMapping(InputMapping):
    """Decodes the records of one partition, which are arrays of float32."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._has_ids = settings.stream != "key"

    def shape_of(self, value: bytes) -> Shape:
        """Return how many numbers a record has; a `FaultError` says why it has none."""
        self.check_size(value)
        if not value or len(value) % WIDTH:
            text = f"{len(value):,} bytes are no array of float32; with input.format = float32 a number has {WIDTH}"
            raise FaultError("validate", "wrong_dimension", text + _hint(value))
        return Shape(len(value) // WIDTH, ())

    def _whole(self, records: RecordColumns, layout: AnyLayout) -> RecordBatch:
        """Decode a batch without any fault; a fault raises one of several exceptions."""
        size, count = WIDTH * len(layout.features), len(records)
        sizes = records.sizes
        if records.has_null(NULL_VALUE) or (sizes != size).any() or size > self._limit:
            raise ValueError("not arrays of the right length")
        # Without the zero byte behind each.
        rows = self._numbers(records.text.reshape(count, size + 1)[:, :size].tobytes(), len(layout.features))
        if self._has_unusable(rows):
            raise ValueError("not numbers")
        times = self._times([], records.times)
        ids = list(map(self._id_of, records.named_keys())) if self._has_ids else None
        return RecordBatch(rows, times, sizes.tolist(), ids=ids, index=range(count))

    def _numbers(self, values: bytes, dimension: int) -> FloatArray:
        with np.errstate(invalid="ignore"):
            # A NaN may be a signalling one.
            return np.frombuffer(values, "<f4").astype(np.float64).reshape(-1, dimension)

    def _one(self, record: SourceRecord, value: bytes, layout: AnyLayout) -> Decoded:
        found, wanted = self.shape_of(value).length, len(layout.features)
        if found != wanted:
            text = f"{found:,} numbers instead of {wanted:,}; send records of one dimension, or a deployment for each"
            text += _hint(value)
            raise FaultError("validate", "wrong_dimension", text)
        (row,) = self._numbers(value, wanted)
        if np.isinf(row).any():
            place = layout.features[int(np.isinf(row).argmax())]
            raise FaultError("decode", "out_of_range", f"{place} is infinite; send finite numbers")
        if np.isnan(row).any() and not self._accepts_missing:
            raise not_a_number(layout.features[int(np.isnan(row).argmax())])
        return Decoded(row, self._id_of(record.key) if self._has_ids else None, self.stamp(record))

    @staticmethod
    def _id_of(key: bytes | None) -> bytes:
        if key is None:
            return b"null"
        try:
            return orjson.dumps(key.decode())
        except UnicodeDecodeError:
            return b"null"


def _hint(value: bytes) -> str:
    return "; it looks like JSON (input.format = json)" if value[:1] == b"{" else ""


def as_float32(rows: FloatArray) -> list[bytes]:
    """Return rows of numbers as the values of records."""
    return [row.tobytes() for row in np.asarray(rows, "<f4")]
