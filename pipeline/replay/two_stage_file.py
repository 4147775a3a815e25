"""Replays a file whose streams are re-keyed: rows are routed, and learned, in the order of the file."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.record_file import RecordFile
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka.partitioner import partition_of
from resonance.pipeline.records import Record
from resonance.pipeline.replay.initial_models import UNBOUNDED
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.run import Answering, Replayed, sink_of
from resonance.pipeline.tasks import make_task


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


def replay_hops(
    settings: Settings,
    batches: Iterator[list[Record]],
    partitions: int,
    routes: int,
    places: Sequence[dict[str, Any] | None],
    report: Report,
) -> list[Replayed]:
    """Replay the records of one input topic through both stages, in one process so that the routes keep their order.

    `partitions` and `routes` are the partition counts of the topic and of the routes. `places` has the output of each
    input partition, then of each routes partition, as `sink_of` takes it.
    """
    topic, own = settings.input.topics[0], settings.topic("routes")
    lanes: dict[tuple[str, int], Answering] = {}
    logs = [(topic, number) for number in range(partitions)] + [(own, number) for number in range(routes)]
    for at, place in zip(logs, places, strict=True):
        task = make_task(settings, *at, routes)
        task.event_bytes = UNBOUNDED
        lanes[at] = Answering(Replayed(*at, start="empty models"), task, sink_of(place, settings, at[1]))
    lengths = [0] * routes
    try:
        for batch in batches:
            waiting: dict[int, list[Record]] = defaultdict(list)
            for at, rows in groupby(batch, attrgetter("topic", "partition")):
                for message in lanes[at].take(list(rows)).routes:
                    to = message.partition or 0
                    waiting[to].append(Record(own, to, lengths[to], -1, message.key, message.value, message.headers))
                    lengths[to] += 1
            for to, records in waiting.items():
                lanes[own, to].take(records)
            report(len(batch))
    finally:
        found = [lane.close() for lane in lanes.values()]
    for each in found:
        each.end = each.records
    return found
