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
from resonance.pipeline.records import Record
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


def replay_two_stages(
    settings: Settings,
    batches: Iterator[list[Record]],
    partitions: int,
    routes: int,
    sinks: Sequence[Callable[[], Sink]],
    report: Report,
) -> list[Replayed]:
    """Replay the records of one input topic through both stages, in one process so that the routes keep their order.

    `partitions` and `routes` are the partition counts of the topic and of the routes. `sinks` makes the sink of each
    input partition, then of each routes partition.
    """
    topic, own = settings.input.topics[0], settings.topic("routes")
    replay = FileReplay(settings, routes)
    logs = [*product([topic], range(partitions)), *product([own], range(routes))]
    for at, make_sink in zip(logs, sinks, strict=True):
        replay.add(at, make_sink)
    lengths = [0] * routes
    try:
        for batch in batches:
            waiting: dict[int, list[Record]] = defaultdict(list)
            for _, rows in groupby(batch, attrgetter("topic", "partition")):
                for message in replay.take(list(rows)).routes:
                    to = message.partition or 0
                    waiting[to].append(Record(own, to, lengths[to], -1, message.key, message.value, message.headers))
                    lengths[to] += 1
            for records in waiting.values():
                replay.take(records)
            report(len(batch))
    finally:
        found = replay.close()
    return found
