"""The records of a fetch, a batch at a time, unpacked no sooner than there is memory for them.

aiokafka makes a Python object of each record that its C parser has read, one call after the other: two thirds of the
cost of consuming. The parser's own records have what a partition task needs, and come as a list at the speed of C.

A compressed batch may become a thousand times as large. aiokafka keeps what it fetched as it came, so that the limit is
set here, where records are taken: a batch is unpacked into a buffer of known size, and one that is larger than a piece
(`MemoryBudget.piece`) is handed over in pieces, each parsed as an uncompressed batch.

The parser gives up a batch where a header's name is not UTF-8, which Kafka requires and no broker checks. Such a batch
is read once more, slowly; a record whose headers cannot be read counts as one without headers, here and where logs are
read again (`log_reader`).
"""

import struct
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import ref

import cramjam
import numpy as np
from aiokafka.consumer import fetcher as aiokafka_fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBase, DefaultRecordBatch, _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint
from resonance.pipeline.errors import ResourceError
from resonance.pipeline.memory_budget import RECORD, MemoryBudget
from resonance.pipeline.records import Record, SourceRecord

Codec = Callable[[Any, Any], int]
"""Unpacks bytes into a buffer and returns their number; raises cramjam's `DecompressionError` where it cannot."""

_COMMITTED: int = aiokafka_fetcher.READ_COMMITTED

HEADER: Final = int(DefaultRecordBase.HEADER_STRUCT.size)
"""Bytes of a batch before its records, which alone are compressed."""

_BEFORE, _MAGIC, _ATTRIBUTES, _COUNT = 12, 16, int(DefaultRecordBase.ATTRIBUTES_OFFSET), HEADER - 4
"""Bytes that the length of a batch does not count, and where parts of its header stand."""

_XERIAL, _XERIAL_HEADER = b"\x82SNAPPY\x00", 16

_TOO_LARGE: Final = ("write whole buffer", "smaller than required")
"""How cramjam says that a buffer is too small."""


class FetchedBatches:
    """The batches of a partition's part of a fetch, and the bytes they are parsed from, which the parser hides."""

    __slots__ = ("_at", "data", "has_next", "next_batch", "size_in_bytes")

    def __init__(self, data: bytes) -> None:
        parsed = MemoryRecords(data)
        self.data, self._at = memoryview(data), 0
        self.has_next, self.next_batch, self.size_in_bytes = parsed.has_next, parsed.next_batch, parsed.size_in_bytes

    def next_bytes(self) -> memoryview:
        """Return the bytes of the batch that `next_batch` returns with the same call."""
        start = self._at
        self._at += _BEFORE + int(struct.unpack_from(">i", self.data, start + 8)[0])
        return self.data[start : self._at]


def keep_bytes() -> None:
    """Make aiokafka's fetchers of this process keep the bytes that they parse, because `Unpacker` needs them."""
    aiokafka_fetcher.MemoryRecords = FetchedBatches


class Piece(NamedTuple):
    """Records that were unpacked together, the bytes of their contents, and whether they end their batch."""

    records: list[SourceRecord]
    size: int
    ends_batch: bool = True


class Taken(list[SourceRecord]):
    """Records of a partition, and the bytes that they take in memory."""

    size = 0


class WholeBatches(OrderedDict[Any, Any]):
    """What waits in aiokafka's fetcher by partition; each result is taken as whole batches, as far as there is room.

    It replaces ``Fetcher._records``, from where `fetched_records` takes results by their `getall`. What is left of a
    result stays packed, and the next fetch takes from other partitions first.
    """

    def __init__(self, memory: MemoryBudget) -> None:
        super().__init__()
        self._memory = memory
        self._unpacker = Unpacker(memory)
        self._room = 0
        # The result with a large batch that is unpacked and not yet taken to its end: there is memory for one.
        self._large: Any = None

    def begin(self, active: Collection[Any]) -> None:
        """Make room for a fetch from some partitions."""
        self._room = self._memory.taken
        if self._large is None:
            return
        partition = self._large._topic_partition
        if self.get(partition) is not self._large:
            self._large = None
        elif partition not in active:
            # The rest is not taken now; it is fetched again from where the partition stands.
            del self[partition]
            self._large = None

    def __setitem__(self, partition: Any, result: Any) -> None:
        """Store a result, which may also be an error."""
        if type(result) is aiokafka_fetcher.FetchResult:
            result.pieces = self._unpacker.pieces(result._partition_records)
            # Without a cycle, or what a rebalance drops would stay until the next garbage collection.
            result.getall = partial(self._take, ref(result))
        super().__setitem__(partition, result)

    def _take(self, weak: "ref[Any]", max_records: int | None = None) -> list[SourceRecord]:
        """Do what `FetchResult.getall` does, for as many records as there is room."""
        result: Any = weak()
        taken = Taken()
        if self._room <= 0 or self._large not in (None, result):
            return taken
        if not result.check_assignment(result._topic_partition) or not result.has_more():
            result.pieces.close()
            return taken
        most, piece = min(self._room, self._memory.piece), None
        while taken.size < most and (piece := next(result.pieces, None)) is not None:
            taken += piece.records
            taken.size += piece.size + RECORD * len(piece.records)
        self._room -= taken.size
        result._update_position()
        whole = piece is None or piece.ends_batch
        self._large = None if whole else result
        if whole and not result._partition_records._records.has_next():
            result._partition_records = None
        else:
            self.move_to_end(result._topic_partition)
        return taken


class Unpacker:
    """Unpacks the batches of a process, one at a time."""

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self._small: Any = np.empty(HEADER + memory.piece, np.uint8)

    def pieces(self, fetched: Any) -> Iterator[Piece]:
        """Yield the records of a partition's part of a fetch, without those of aborted transactions.

        `fetched` is aiokafka's `PartitionRecords` of `FetchedBatches`, not iterated yet; its `next_fetch_offset` moves
        behind what was yielded. Raises aiokafka's `CorruptRecordException` for a batch that is damaged, and
        `ResourceError` for one that is too large for the memory.
        """
        batches, tp = fetched._records, fetched._tp
        committed = fetched._isolation_level == _COMMITTED
        while batches.has_next():
            batch, data = batches.next_batch(), batches.next_bytes()
            if fetched._check_crcs and not batch.validate_crc():
                raise CorruptRecordException(f"Invalid CRC - {tp}")
            skipped = batch.is_control_batch
            if committed and batch.producer_id is not None:
                fetched._consume_aborted_up_to(batch.base_offset)
                if skipped and fetched._contains_abort_marker(batch):
                    fetched._aborted_producers.discard(batch.producer_id)
                skipped = skipped or (batch.is_transactional and batch.producer_id in fetched._aborted_producers)
            for piece in () if skipped else self._unpacked(batch, data, tp):
                records = piece.records
                # Behind the batch and not behind its last record, which compaction may have removed.
                end = batch.next_offset if piece.ends_batch else records[-1].offset + 1
                # A fetch begins with the batch that contains its offset, and so perhaps before that offset.
                if records and records[0].offset < fetched.next_fetch_offset:
                    records = [record for record in records if record.offset >= fetched.next_fetch_offset]
                fetched.next_fetch_offset = max(end, fetched.next_fetch_offset)
                yield piece._replace(records=records)
            fetched.next_fetch_offset = batch.next_offset

    def _unpacked(self, batch: Any, data: memoryview, tp: Any) -> Iterator[Piece]:
        if data[_MAGIC] < 2:
            # A format that Kafka 4 has no more.
            records: list[SourceRecord] = list(batch)
            yield Piece(records, sum(len(record.value or b"") for record in records))
            return
        if (codec := CODECS.get(batch.compression_type)) is None:
            # Not compressed, or in a way that the parser refuses.
            yield Piece(list(batch) if batch.compression_type else _parsed(data, tp), len(data))
            return
        place = f"{tp.topic}[{tp.partition}]@{batch.base_offset}"
        buffer, size = self._buffer(codec, data[HEADER:], place)
        header = bytearray(data[:HEADER])
        header[_ATTRIBUTES + 1] &= ~DefaultRecordBase.CODEC_MASK
        left = int(struct.unpack_from(">i", header, _COUNT)[0])
        start = at = HEADER
        while True:
            count = left
            if size > self._memory.piece:
                count, at = self._cut(buffer[: HEADER + size], start, left, place)
            left -= count
            # The header of an uncompressed batch, in place of what has been parsed.
            struct.pack_into(">i", header, _COUNT, count)
            buffer[start - HEADER : start] = header
            end = at if left else HEADER + size
            records = _parsed(buffer[start - HEADER : end], tp)
            piece = Piece(records, end - start, not left)
            if not left:
                # Large ones must be gone before the next.
                del buffer
            yield piece
            if not left:
                return
            start = end

    def _buffer(self, codec: Codec, packed: memoryview, place: str) -> tuple[memoryview, int]:
        """Return a buffer with room for a header and the unpacked records behind it, and their size."""
        with suppress(cramjam.DecompressionError):
            return memoryview(self._small), codec(packed, self._small[HEADER:])
        # Memory that nothing is written to is none.
        large: Any = np.empty(HEADER + self._memory.batch, np.uint8)
        try:
            return memoryview(large), codec(packed, large[HEADER:])
        except cramjam.DecompressionError as error:
            if not any(words in str(error) for words in _TOO_LARGE):
                raise CorruptRecordException(f"{place}: the batch cannot be unpacked: {error}") from None
            raise ResourceError(
                f"{place}: a batch of {len(packed):,} bytes becomes more than {self._memory.batch:,} when it is "
                f"unpacked, all that limits.memory = {self._memory.total:,} allows; raise it, or let the producer send "
                "smaller batches (batch.size); nothing of it was committed"
            ) from None

    def _cut(self, buffer: memoryview, start: int, left: int, place: str) -> tuple[int, int]:
        """Return how many records of a buffer make the next piece, and where it ends."""
        at = start
        for count in range(left):
            # It reads beyond the end, too.
            length, behind = decode_varint(buffer, at)
            if length < 0 or behind + length > len(buffer):
                raise CorruptRecordException(f"{place}: record {count} of the batch is longer than the batch")
            if count and behind + length - start > self._memory.piece:
                return count, at
            at = behind + length
        return left, at


def _snappy(packed: memoryview, to: Any) -> int:
    """Unpack snappy, which Java's clients write in blocks."""
    if packed[: len(_XERIAL)] != _XERIAL:
        return int(cramjam.snappy.decompress_raw_into(packed, to))
    at, size = _XERIAL_HEADER, 0
    while at < len(packed):
        (length,) = struct.unpack_from(">i", packed, at)
        at += 4 + length
        size += int(cramjam.snappy.decompress_raw_into(packed[at - length : at], to[size:]))
    return size


CODECS: Final[Mapping[int, Codec]] = {
    DefaultRecordBase.CODEC_GZIP: cramjam.gzip.decompress_into,
    DefaultRecordBase.CODEC_SNAPPY: _snappy,
    DefaultRecordBase.CODEC_LZ4: cramjam.lz4.decompress_into,
    DefaultRecordBase.CODEC_ZSTD: cramjam.zstd.decompress_into,
}


def _parsed(data: memoryview, tp: Any) -> list[SourceRecord]:
    """Return the records of an uncompressed batch."""
    try:
        return list(DefaultRecordBatch(data))
    except UnicodeDecodeError:
        return list(_readable(data, tp))


class _Text(bytearray):
    """Bytes of a header's name; those that are not UTF-8 become surrogates."""

    def decode(self, encoding: str = "utf-8", errors: str = "surrogateescape") -> str:
        return super().decode(encoding, errors)


class _Buffer(bytearray):
    """Bytes of a batch, any part of which can be decoded."""

    def __getitem__(self, at: Any) -> Any:
        part = super().__getitem__(at)
        return part if isinstance(part, int) else _Text(part)


class _FetchedBatch(_DefaultRecordBatchPy):  # type: ignore[misc] # aiokafka's modules are untyped for mypy
    """A batch, parsed by aiokafka's Python code, whose header names may be any bytes."""

    _buffer: bytearray

    def _maybe_uncompress(self) -> None:
        self._buffer = _Buffer(self._buffer)


def _readable(data: memoryview, tp: Any) -> Iterator[Record]:
    """Yield the records of an uncompressed batch; a record whose headers cannot be read has none."""
    for record in _FetchedBatch(data):
        headers = record.headers
        try:
            "".join(name for name, _ in headers).encode()
        except UnicodeEncodeError:
            headers = []
        yield Record(tp.topic, tp.partition, record.offset, record.timestamp, record.key, record.value, headers)
