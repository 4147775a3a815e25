"""The records that are replayed: a range of a partition, or a file split as `produce` splits it."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any

from resonance.pipeline.files import Columns, RecordFile
from resonance.pipeline.log_reader import LogReader, TopicPartition
from resonance.pipeline.partitioner import partition_of
from resonance.pipeline.records import Record

_offset = attrgetter("offset")


def of_topic(reader: LogReader, at: TopicPartition, first: int, end: int) -> Iterator[list[Record]]:
    """Yield the committed records of a range, in batches."""
    for _, records in reader.read({at: (first, end)}):
        yield records


def of_file(
    path: Path, columns: Columns, at: TopicPartition, partitions: int, *, skip_bad: bool = False
) -> Iterator[list[Record]]:
    """Yield the records of a file that would be produced to a partition, as they would stand on the topic.

    Parameters
    ----------
    path : Path
        The file.
    columns : Columns
        What is used of it.
    at : (topic, partition)
        The partition; offsets are numbered from 0.
    partitions : int
        How many the topic has.
    skip_bad : bool
        Leave out rows that cannot be used.

    Raises
    ------
    InputFileError
        The file cannot be read, or a row of it not be used.
    """
    topic, partition = at
    index, offsets = 0, count()
    with RecordFile(path, columns, skip_bad=skip_bad) as file:
        for batch in file.batches():
            mine = []
            for key, value, timestamp in batch:
                if partitions == 1 or partition_of(key, partitions, index) == partition:
                    # A record without a time has the first there is; the broker would take the present.
                    stamp = -1 if timestamp is None else timestamp
                    mine.append(Record(topic, partition, next(offsets), stamp, key, value))
                index += 1
            if mine:
                yield mine


def cut(records: Sequence[Record], offset: int) -> tuple[Sequence[Record], Sequence[Record]]:
    """Return the records below an offset, and the others."""
    if records[0].offset >= offset:
        return (), records
    place = bisect_left(records, offset, key=_offset)
    return records[:place], records[place:]


def columns_of(job: Mapping[str, Any]) -> Columns:
    """Return the columns of a job about a file."""
    return Columns(job["members"], job["key"], job["time"], tuple(job["nulls"]))
