"""Records of one partition as columns: as they are fetched, and as kernels read them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.columns import Texts, behind
from resonance.pipeline.records import Record, RoutedRecord, SourceRecord, TopicPartition
from resonance.pipeline.text.messages import NULL_KEY, NULL_VALUE

Headers = Sequence[tuple[str, bytes | None]]

MESSAGE: Final = -1
"""Stands for a record that is a message of its own."""


@dataclass(slots=True, eq=False)
class RecordColumns(Sequence[SourceRecord]):
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

    elements: NDArray[np.int64] | None = None
    """Which record of its message each is, `MESSAGE` for one that is the message; None where all are."""

    routed: Sequence[RoutedRecord] | None = None
    """The records themselves where they came over the routes, and then have more than these columns."""

    @classmethod
    def of(cls, records: Sequence[SourceRecord]) -> "RecordColumns":
        """Return records of one partition, or such as came over the routes to it, as columns."""
        if isinstance(records, RecordColumns):
            return records
        values = [record.value for record in records]
        keys = [record.key for record in records]
        nulls = np.zeros(len(records), np.uint8)
        if None in values:
            nulls[[value is None for value in values]] |= NULL_VALUE
        if None in keys:
            nulls[[key is None for key in keys]] |= NULL_KEY
        first = records[0] if records else None
        routed = [record for record in records if isinstance(record, RoutedRecord)]
        elements = [MESSAGE if record.element is None else record.element for record in records]
        return cls(
            first.topic if first else "",
            first.partition if first else 0,
            np.frombuffer(b"\0".join([*(value or b"" for value in values), b""]), np.uint8),
            np.cumsum([len(value or b"") + 1 for value in values], dtype=np.int64) - 1,
            np.frombuffer(b"".join([key or b"" for key in keys]), np.uint8),
            np.cumsum([len(key or b"") for key in keys], dtype=np.int64),
            np.array([record.offset for record in records], np.int64),
            np.array([record.timestamp for record in records], np.int64),
            nulls,
            {row: record.headers for row, record in enumerate(records) if record.headers},
            np.array(elements, np.int64) if max(elements, default=MESSAGE) > MESSAGE else None,
            routed or None,
        )

    @classmethod
    def of_values(cls, at: TopicPartition, values: Sequence[bytes], key: bytes | None, time: int) -> "RecordColumns":
        """Return values as records of one key and one time, which stand nowhere in the log: their offset is -1."""
        count, sizes = len(values), np.fromiter(map(len, values), np.int64, len(values))
        return cls(
            *at,
            np.frombuffer(b"\0".join([*values, b""]), np.uint8),
            np.cumsum(sizes + 1) - 1,
            np.frombuffer((key or b"") * count, np.uint8),
            np.arange(1, count + 1) * len(key or b""),
            np.full(count, -1),
            np.full(count, time),
            np.full(count, NULL_KEY if key is None else 0, np.uint8),
        )

    def copy(self) -> "RecordColumns":
        """Return the same records in arrays of their own."""
        arrays = ("text", "ends", "keys", "key_ends", "offsets", "times", "nulls")
        return replace(self, **{name: getattr(self, name).copy() for name in arrays})

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[SourceRecord]:
        if self.routed is not None:
            return iter(self.routed)
        headers = map(self.headers.get, range(len(self)), repeat(())) if self.headers else repeat(())
        offsets, times = self.offsets.tolist(), self.times.tolist()
        places = repeat(self.topic), repeat(self.partition)
        columns = offsets, times, self.named_keys(), self.values(), headers, self.named_elements() or repeat(None)
        return map(Record._make, zip(*places, *columns, strict=False))

    def named_elements(self) -> list[int | None] | None:
        """Return which record of its message each is; None where all are messages."""
        if self.elements is None:
            return None
        return [None if element == MESSAGE else element for element in self.elements.tolist()]

    def values(self) -> Texts[bytes | None]:
        """Return the values as a column of their own."""
        return Texts(self.text, behind(self.ends, 1), self.ends, self._null(NULL_VALUE))

    def named_keys(self) -> Texts[bytes | None]:
        """Return the keys as a column of their own."""
        return Texts(self.keys, behind(self.key_ends), self.key_ends, self._null(NULL_KEY))

    def has_null(self, what: int) -> bool:
        """Return whether any value, or any key, is null."""
        # Mostly there is none, which numpy takes longer to find out.
        return self.nulls.tobytes().count(0) < len(self) and bool((self.nulls & what).any())

    def _null(self, what: int) -> NDArray[np.bool_] | None:
        return (self.nulls & what) != 0 if self.has_null(what) else None

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each value."""
        sizes = self.ends.copy()
        sizes[1:] -= self.ends[:-1] + 1
        return sizes

    @overload
    def __getitem__(self, at: int) -> SourceRecord: ...
    @overload
    def __getitem__(self, at: slice) -> "RecordColumns": ...
    def __getitem__(self, at: int | slice) -> "SourceRecord | RecordColumns":
        if not isinstance(at, slice):
            row = range(len(self))[at]
            if self.routed is not None:
                return self.routed[row]
            null = int(self.nulls[row])
            begin = int(self.ends[row - 1]) + 1 if row else 0
            key_begin = int(self.key_ends[row - 1]) if row else 0
            return Record(
                self.topic,
                self.partition,
                int(self.offsets[row]),
                int(self.times[row]),
                None if null & NULL_KEY else self.keys[key_begin : self.key_ends[row]].tobytes(),
                None if null & NULL_VALUE else self.text[begin : self.ends[row]].tobytes(),
                self.headers.get(row, ()),
                None if self.elements is None or self.elements[row] == MESSAGE else int(self.elements[row]),
            )
        first, last, step = at.indices(len(self))
        if step != 1:
            raise ValueError("records are cut into pieces, not picked")
        last = max(first, last)
        if last - first == len(self):
            return self
        begin = int(self.ends[first - 1]) + 1 if first else 0
        key_begin = int(self.key_ends[first - 1]) if first else 0
        rows = self.headers if len(self.headers) < last - first else range(first, last)
        return RecordColumns(
            self.topic,
            self.partition,
            self.text[begin : int(self.ends[last - 1]) + 1 if last > first else begin],
            self.ends[first:last] - begin,
            self.keys[key_begin : int(self.key_ends[last - 1]) if last > first else key_begin],
            self.key_ends[first:last] - key_begin,
            self.offsets[first:last],
            self.times[first:last],
            self.nulls[first:last],
            {row - first: self.headers[row] for row in rows if first <= row < last and row in self.headers},
            None if self.elements is None else self.elements[first:last],
            None if self.routed is None else self.routed[first:last],
        )
