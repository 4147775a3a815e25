"""Binary searches in a partition whose records are ordered: a few of them are read, never the whole."""

from collections.abc import Callable, Iterator

from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import Record, TopicPartition


def first_offset(reader: LogReader, partition: TopicPartition, holds: Callable[[Record], bool | None]) -> int:
    """Return the offset of the first committed record for which `holds` is true, or the end of the log.

    `holds` must be monotone (once true, true for all records behind); otherwise the result is some record for which it
    is true, or the end. Where it returns None the next record decides. Raises `BrokerError` where the broker does not
    answer, or where records were deleted meanwhile.
    """
    low, end = reader.bounds([partition])[partition]
    high, found = end, end
    while low < high:
        middle = (low + high) // 2
        found_at = _first_answer(reader, partition, middle, high, holds)
        if found_at is None:
            # No record from the middle on can decide: those before it do.
            high = middle
        elif found_at[1]:
            high, found = middle, found_at[0]
        else:
            low = found_at[0] + 1
    return found


def _first_answer(
    reader: LogReader, partition: TopicPartition, first: int, end: int, holds: Callable[[Record], bool | None]
) -> tuple[int, bool] | None:
    """Return offset and answer of the first record of a range that can decide."""
    for record in one_by_one(reader, partition, first, end):
        answer = holds(record)
        if answer is not None:
            return record.offset, answer
    return None


def one_by_one(reader: LogReader, partition: TopicPartition, first: int, end: int) -> Iterator[Record]:
    """Yield the committed records of a range, for a caller that needs only the first of them."""
    for _, records in reader.read({partition: (first, end)}, 1):
        yield from records
