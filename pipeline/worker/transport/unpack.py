"""The records of a fetch, a batch at a time.

aiokafka makes a Python object of each record that its C parser has read, one call after the other: two thirds of the
cost of consuming. The parser's own records have what a partition task needs, and come as a list at the speed of C.

The parser gives up a batch where a header's name is not UTF-8, which Kafka requires and no broker checks. Such a batch
is read once more, slowly; a record whose headers cannot be read counts as one without headers, here and where logs are
read again (`log_reader`).
"""

from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from typing import Any

from aiokafka.consumer import fetcher as aiokafka_fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords, _MemoryRecordsPy
from resonance.pipeline.records import Record, SourceRecord

_COMMITTED: int = aiokafka_fetcher.READ_COMMITTED


class FetchedBatches:
    """The batches of a partition's part of a fetch, and the bytes they are parsed from, which the parser hides."""

    __slots__ = ("data", "has_next", "next_batch", "size_in_bytes")

    def __init__(self, data: bytes) -> None:
        parsed = MemoryRecords(data)
        self.data = data
        self.has_next, self.next_batch, self.size_in_bytes = parsed.has_next, parsed.next_batch, parsed.size_in_bytes


def keep_bytes() -> None:
    """Make aiokafka's fetchers of this process keep the bytes that they parse, because `unpack` needs them."""
    aiokafka_fetcher.MemoryRecords = FetchedBatches


class WholeBatches(OrderedDict[Any, Any]):
    """What waits in aiokafka's fetcher by partition; each result is taken as whole batches.

    It replaces ``Fetcher._records``, from where `fetched_records` takes results by their `getall`.
    """

    def __setitem__(self, partition: Any, result: Any) -> None:
        """Store a result, which may also be an error."""
        if type(result) is aiokafka_fetcher.FetchResult:
            result.getall = partial(_take, result)
        super().__setitem__(partition, result)


def _take(result: Any, max_records: int | None = None) -> list[SourceRecord]:
    """Do what `FetchResult.getall` does, for all records at once."""
    if not result.check_assignment(result._topic_partition) or not result.has_more():
        return []
    taken = unpack(result._partition_records)
    result._update_position()
    result._partition_records = None
    return taken


def unpack(fetched: Any) -> list[SourceRecord]:
    """Return the records of a partition's part of a fetch, without those of aborted transactions.

    `fetched` is aiokafka's `PartitionRecords` of `FetchedBatches`, not iterated yet; its `next_fetch_offset` moves
    behind everything that was read. Raises aiokafka's `CorruptRecordException` for a batch whose checksum is wrong.
    """
    batches = fetched._records
    committed = fetched._isolation_level == _COMMITTED
    taken: list[SourceRecord] = []
    number = -1
    while batches.has_next():
        batch, number = batches.next_batch(), number + 1
        if fetched._check_crcs and not batch.validate_crc():
            raise CorruptRecordException(f"Invalid CRC - {fetched._tp}")
        skipped = batch.is_control_batch
        if committed and batch.producer_id is not None:
            fetched._consume_aborted_up_to(batch.base_offset)
            if skipped and fetched._contains_abort_marker(batch):
                fetched._aborted_producers.discard(batch.producer_id)
            skipped = skipped or (batch.is_transactional and batch.producer_id in fetched._aborted_producers)
        if not skipped:
            try:
                records = list(batch)
            except UnicodeDecodeError:
                records = list(_readable(batches.data, number, fetched._tp))
            # A fetch begins with the batch that contains its offset, and so perhaps before that offset.
            if records and records[0].offset < fetched.next_fetch_offset:
                records = [record for record in records if record.offset >= fetched.next_fetch_offset]
            taken += records
        # Behind the batch and not behind its last record, which compaction may have removed.
        fetched.next_fetch_offset = batch.next_offset
    return taken


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
        if not self._decompressed:
            super()._maybe_uncompress()
            self._buffer = _Buffer(self._buffer)


def _readable(data: bytes, number: int, tp: Any) -> Iterator[Record]:
    """Yield the records of a batch; a record whose headers cannot be read has none."""
    batches = _MemoryRecordsPy(data)
    for _ in range(number):
        batches.next_batch()
    for record in _FetchedBatch(batches._next_slice):
        headers = record.headers
        try:
            "".join(name for name, _ in headers).encode()
        except UnicodeEncodeError:
            headers = []
        yield Record(tp.topic, tp.partition, record.offset, record.timestamp, record.key, record.value, headers)
