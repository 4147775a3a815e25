"""The records of a fetch, a batch at a time.

aiokafka makes a Python object of each record that its C parser has read, one call after the other: two thirds of what
consuming costs. The parser's own records have what a partition task needs, and come as a list at the speed of C.
"""

from collections import OrderedDict
from functools import partial
from typing import Any

from aiokafka.consumer import fetcher as aiokafka_fetcher
from aiokafka.errors import CorruptRecordException
from resonance.pipeline.records import SourceRecord

_COMMITTED: int = aiokafka_fetcher.READ_COMMITTED


class WholeBatches(OrderedDict[Any, Any]):
    """What waits in aiokafka's fetcher by partition; each result that comes in is to be taken as whole batches.

    To stand in the place of ``Fetcher._records``, from where `fetched_records` takes results by their `getall`.
    """

    def __setitem__(self, partition: Any, result: Any) -> None:
        """Let a result, which may also be an error, wait."""
        if type(result) is aiokafka_fetcher.FetchResult:
            result.getall = partial(_take, result)
        super().__setitem__(partition, result)


def _take(result: Any, max_records: int | None = None) -> list[SourceRecord]:
    """Do what `FetchResult.getall` does for all records at once."""
    if not result.check_assignment(result._topic_partition) or not result.has_more():
        return []
    taken = unpack(result._partition_records)
    result._update_position()
    result._partition_records = None
    return taken


def unpack(fetched: Any) -> list[SourceRecord]:
    """Return the records of a partition's part of a fetch, without those of aborted transactions.

    Parameters
    ----------
    fetched : aiokafka.consumer.fetcher.PartitionRecords
        Not iterated yet; its `next_fetch_offset` moves behind everything that was read, skipped or not.

    Raises
    ------
    aiokafka.errors.CorruptRecordException
        A batch whose checksum is wrong.
    """
    batches = fetched._records
    committed = fetched._isolation_level == _COMMITTED
    taken: list[SourceRecord] = []
    while batches.has_next():
        batch = batches.next_batch()
        if fetched._check_crcs and not batch.validate_crc():
            raise CorruptRecordException(f"Invalid CRC - {fetched._tp}")
        skipped = batch.is_control_batch
        if committed and batch.producer_id is not None:
            fetched._consume_aborted_up_to(batch.base_offset)
            if skipped and fetched._contains_abort_marker(batch):
                fetched._aborted_producers.discard(batch.producer_id)
            skipped = skipped or (batch.is_transactional and batch.producer_id in fetched._aborted_producers)
        if not skipped:
            records = list(batch)
            # A fetch begins with the batch that contains its offset, and so perhaps before it.
            if records and records[0].offset < fetched.next_fetch_offset:
                records = [record for record in records if record.offset >= fetched.next_fetch_offset]
            taken += records
        # Behind the batch and not behind its last record, which compaction may have removed.
        fetched.next_fetch_offset = batch.next_offset
    return taken
