"""Searches in a partition whose records stand in an order: a few of them are read, never the whole."""

from collections.abc import Callable, Iterator

from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import Record, TopicPartition


def first_offset(reader: LogReader, partition: TopicPartition, holds: Callable[[Record], bool | None]) -> int:
    """Return the offset of the first committed record of a partition for which something holds.

    The partition is halved again and again, and one record read each time. So what is asked must be monotone: once it
    holds for a record it holds for all behind it. Where it is not, some offset comes out for whose record it holds
    (or the end), which need not be that of the first.

    Parameters
    ----------
    reader : LogReader
        Reads the partition.
    partition : (topic, int)
        The partition.
    holds : callable
        Asked with a record; None where this record cannot tell, so that the next one is asked.

    Returns
    -------
    int
        The offset; where the log ends if it holds for none.

    Raises
    ------
    BrokerError
        The broker does not answer, or records were deleted meanwhile.
    """
    low, end = reader.bounds([partition])[partition]
    high, found = end, end
    while low < high:
        middle = (low + high) // 2
        told = _first_told(reader, partition, middle, high, holds)
        if told is None:
            # Nothing from the middle on can tell: what comes before decides.
            high = middle
        elif told[1]:
            high, found = middle, told[0]
        else:
            low = told[0] + 1
    return found


def _first_told(
    reader: LogReader, partition: TopicPartition, first: int, end: int, holds: Callable[[Record], bool | None]
) -> tuple[int, bool] | None:
    """Return offset and answer of the first record of a range that can tell."""
    for record in one_by_one(reader, partition, first, end):
        answer = holds(record)
        if answer is not None:
            return record.offset, answer
    return None


def one_by_one(reader: LogReader, partition: TopicPartition, first: int, end: int) -> Iterator[Record]:
    """Yield the committed records of a range, for whoever needs only the first of them."""
    for _, records in reader.read({partition: (first, end)}, 1):
        yield from records
