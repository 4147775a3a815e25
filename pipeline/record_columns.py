"""Records of one partition as columns: as they are fetched, and as kernels read them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.records import Record, SourceRecord

NULL_VALUE: Final = 1
NULL_KEY: Final = 2

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True, eq=False)
class RecordColumns(Sequence[Record]):
    """Records of one partition, in the order of its log; each becomes a `Record` when it is read."""

    topic: str
    partition: int
    text: NDArray[np.uint8]
    """All values, each with a zero byte behind it."""
    ends: NDArray[np.int64]
    """Where each value ends, before its zero byte."""
    keys: NDArray[np.uint8]
    """All keys, one behind the other."""
    key_ends: NDArray[np.int64]
    offsets: NDArray[np.int64]
    times: NDArray[np.int64]
    """Kafka timestamps in milliseconds since the epoch."""
    nulls: NDArray[np.uint8]
    """`NULL_VALUE` and `NULL_KEY` for what is null and not empty."""
    headers: Mapping[int, Headers] = field(default_factory=dict)
    """Headers by row, of the records that have any."""

    @classmethod
    def of(cls, records: Sequence[SourceRecord]) -> "RecordColumns":
        """Return records of one partition, of which there is at least one, as columns."""
        if isinstance(records, RecordColumns):
            return records
        values = [record.value for record in records]
        keys = [record.key for record in records]
        nulls = (
            (NULL_VALUE if value is None else 0) | (NULL_KEY if key is None else 0)
            for value, key in zip(values, keys, strict=True)
        )
        sizes = np.fromiter((len(value or b"") + 1 for value in values), np.int64, len(values))
        return cls(
            records[0].topic,
            records[0].partition,
            np.frombuffer(b"".join(part for value in values for part in (value or b"", b"\0")), np.uint8),
            sizes.cumsum() - 1,
            np.frombuffer(b"".join(key or b"" for key in keys), np.uint8),
            np.cumsum([len(key or b"") for key in keys], dtype=np.int64),
            np.fromiter((record.offset for record in records), np.int64, len(values)),
            np.fromiter((record.timestamp for record in records), np.int64, len(values)),
            np.fromiter(nulls, np.uint8, len(values)),
            {row: record.headers for row, record in enumerate(records) if record.headers},
        )

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Record]:
        values = self._parts(self.text, self.ends, 1, NULL_VALUE)
        keys = self._parts(self.keys, self.key_ends, 0, NULL_KEY)
        headers = map(self.headers.get, range(len(self)), repeat(())) if self.headers else repeat(())
        offsets, times = self.offsets.tolist(), self.times.tolist()
        rows = zip(repeat(self.topic), repeat(self.partition), offsets, times, keys, values, headers, strict=False)
        return map(Record._make, rows)

    def _parts(self, text: NDArray[np.uint8], ends: NDArray[np.int64], gap: int, null: int) -> Iterable[bytes | None]:
        stops, data = ends.tolist(), text.tobytes()
        begins = [0, *(stop + gap for stop in stops)]
        parts: list[bytes | None] = [data[begin:stop] for begin, stop in zip(begins, stops, strict=False)]
        for row in np.flatnonzero(self.nulls & null).tolist():
            parts[row] = None
        return parts

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> "RecordColumns": ...
    def __getitem__(self, at: int | slice) -> "Record | RecordColumns":
        if not isinstance(at, slice):
            row = range(len(self))[at]
            return next(iter(self[row : row + 1]))
        first, last, step = at.indices(len(self))
        if step != 1:
            raise ValueError("records are cut into pieces, not picked")
        last = max(first, last)
        begin = int(self.ends[first - 1]) + 1 if first else 0
        key_begin = int(self.key_ends[first - 1]) if first else 0
        behind = int(self.ends[last - 1]) + 1 if last else 0
        return RecordColumns(
            self.topic,
            self.partition,
            self.text[begin : max(begin, behind)],
            self.ends[first:last] - begin,
            self.keys[key_begin : int(self.key_ends[last - 1]) if last > first else key_begin],
            self.key_ends[first:last] - key_begin,
            self.offsets[first:last],
            self.times[first:last],
            self.nulls[first:last],
            {row - first: own for row, own in self.headers.items() if first <= row < last},
        )
