"""Replays re-keyed records that no worker has routed: in the order of a file, or of their timestamps."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import groupby, islice, product
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Final, Self

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.arrays import Encode
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.several_files import SeveralFiles
from resonance.pipeline.kafka.log_reader import BATCH, LogReader
from resonance.pipeline.kafka.partitioner import partition_of
from resonance.pipeline.records import Message, Outputs, Record
from resonance.pipeline.repartition.envelope import source_of
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.opening import PartitionRange

MADE_ORDER: Final = "partitions are merged by the Kafka timestamps of their records, as workers need not have done"
"""Remark where an order was made that no log has."""


def read_rows(
    paths: Sequence[Path],
    columns: Columns,
    topic: str,
    partitions: int,
    *,
    encode: Encode = list,
) -> Iterator[list[Record]]:
    """Yield the rows of files as they would be on a topic, in batches, in their order.

    Rows that cannot be used raise InputFileError unless the columns skip them.
    """
    index, lengths = 0, [0] * partitions
    with SeveralFiles(paths, columns) as file:
        for batch in map(encode, file.batches()):
            rows = []
            for number, (key, value, timestamp) in enumerate(batch, index):
                at = partition_of(key, partitions, number)
                # A record without a time has the earliest one; the broker would set the present.
                rows.append(Record(topic, at, lengths[at], -1 if timestamp is None else timestamp, key, value))
                lengths[at] += 1
            index += len(batch)
            yield rows


def by_time(parts: Sequence[PartitionRange]) -> Iterator[list[Record]]:
    """Yield the records of several partitions, in batches: by their timestamps, and each partition in its own order."""

    def timed(part: PartitionRange, reader: LogReader) -> Iterator[tuple[int, Record]]:
        # A record with an older time than one before it in its partition still comes after that one.
        newest = -1
        for batch in part.records(reader, part.begin, part.end):
            for record in batch:
                newest = max(newest, record.timestamp)
                yield newest, record

    with ExitStack() as stack:
        logs = [timed(part, stack.enter_context(part.source.reader())) for part in parts]
        records = map(itemgetter(1), merge(*logs, key=itemgetter(0)))
        while batch := list(islice(records, BATCH)):
            yield batch


Take = Callable[[list[Record]], Outputs]
"""Gives the next records of a partition to its task."""


class Routes:
    """The routes topic in memory, with so many partitions."""

    def __init__(self, settings: Settings, partitions: int) -> None:
        self.logs = list(product([settings.topic("routes")], range(partitions)))
        self._lengths = [0] * partitions
        self._is_rekeyed = settings.is_rekeyed

    @classmethod
    def of(cls, settings: Settings, partitions: int) -> Self:
        """Return the routes that settings need, if any; `partitions` is how many unless the settings say so."""
        return cls(settings, (settings.topics.routes_partitions or partitions) if settings.is_routed else 0)

    def take(self, take: Take, records: Sequence[Record]) -> None:
        """Take records of several partitions through the first stage, and their routes through the second.

        The routes come in the order of the records. Of re-keyed streams each partition is taken at once.
        """
        log = attrgetter("topic", "partition")
        groups = groupby(sorted(records, key=log) if self._is_rekeyed else records, log)
        found = [take(list(part)).routes for _, part in groups]
        messages = [message for part in found for message in part]
        if self._is_rekeyed and len(found) > 1:
            places = {record[:3]: place for place, record in enumerate(records)}
            messages.sort(key=lambda message: places[source_of(message)])
        for routed in self._records(messages):
            take(routed)

    def _records(self, messages: Sequence[Message]) -> list[list[Record]]:
        """Append messages, and return the new records of each partition."""
        waiting: dict[int, list[Record]] = defaultdict(list)
        for message in messages:
            topic, to = self.logs[message.partition or 0]
            content = message.key, message.value, message.headers
            waiting[to].append(Record(topic, to, self._lengths[to], -1, *content))
            self._lengths[to] += 1
        return list(waiting.values())


def take_all(take: Take, batches: Iterable[list[Record]], routes: Routes, report: Report) -> None:
    """Take the records of partitions, each batch of one; with `routes` of any, through both stages.

    That is in one process, so that the routes keep their order.
    """
    for batch in batches:
        if routes.logs:
            routes.take(take, batch)
        else:
            take(batch)
        report(len(batch))
