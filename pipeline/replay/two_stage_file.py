"""Replays a file whose streams are re-keyed: rows are routed, and learned, in the order of the file."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, product
from operator import attrgetter
from pathlib import Path

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.record_file import RecordFile
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka.partitioner import partition_of
from resonance.pipeline.records import Message, Record
from resonance.pipeline.replay.file_partitions import FileReplay
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.run import Replayed
from resonance.pipeline.replay.sinks import Sink


def read_rows(path: Path, columns: Columns, topic: str, partitions: int, *, skip_bad: bool) -> Iterator[list[Record]]:
    """Yield the rows of a file as they would be on a topic, in batches, in the order of the file.

    Rows that cannot be used raise InputFileError, or are left out with `skip_bad`.
    """
    index, lengths = 0, [0] * partitions
    with RecordFile(path, columns, skip_bad=skip_bad) as file:
        for batch in file.batches():
            rows = []
            for number, (key, value, timestamp) in enumerate(batch, index):
                at = partition_of(key, partitions, number)
                # A record without a time has the earliest one; the broker would set the present.
                rows.append(Record(topic, at, lengths[at], -1 if timestamp is None else timestamp, key, value))
                lengths[at] += 1
            index += len(batch)
            yield rows


class Routes:
    """The routes topic in memory; it has no partition where the settings need no routes.

    `partitions` is how many it has unless the settings say so.
    """

    def __init__(self, settings: Settings, partitions: int) -> None:
        count = (settings.topics.routes_partitions or partitions) if settings.is_routed else 0
        self.logs = list(product([settings.topic("routes")], range(count)))
        self._lengths = [0] * count

    def records(self, messages: Sequence[Message]) -> list[list[Record]]:
        """Append messages, and return the new records of each partition."""
        waiting: dict[int, list[Record]] = defaultdict(list)
        for message in messages:
            topic, to = self.logs[message.partition or 0]
            content = message.key, message.value, message.headers
            waiting[to].append(Record(topic, to, self._lengths[to], -1, *content))
            self._lengths[to] += 1
        return list(waiting.values())


def replay_two_stages(
    settings: Settings,
    batches: Iterator[list[Record]],
    partitions: int,
    routes: Routes,
    sinks: Sequence[Callable[[], Sink]],
    report: Report,
) -> list[Replayed]:
    """Replay the records of one input topic through both stages, in one process so that the routes keep their order.

    `partitions` is the partition count of the topic. `sinks` makes the sink of each input partition, then of each
    routes partition.
    """
    replay = FileReplay(settings, len(routes.logs))
    logs = [*product(settings.input.topics[:1], range(partitions)), *routes.logs]
    for at, make_sink in zip(logs, sinks, strict=True):
        replay.add(at, make_sink)
    try:
        for batch in batches:
            messages: list[Message] = []
            for _, rows in groupby(batch, attrgetter("topic", "partition")):
                messages += replay.take(list(rows)).routes
            for records in routes.records(messages):
                replay.take(records)
            report(len(batch))
    finally:
        found = replay.close()
    return found
