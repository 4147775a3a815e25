"""Reads the records of a partition that are replayed."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter

from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import Record, TopicPartition

_offset = attrgetter("offset")


def of_topic(reader: LogReader, at: TopicPartition, first: int, end: int) -> Iterator[list[Record]]:
    """Yield the committed records of a range, in batches."""
    for _, records in reader.read({at: (first, end)}):
        yield records


def cut(records: Sequence[Record], offset: int) -> tuple[Sequence[Record], Sequence[Record]]:
    """Split records at an offset: those below it, and the others."""
    if records[0].offset >= offset:
        return (), records
    place = bisect_left(records, offset, key=_offset)
    return records[:place], records[place:]
