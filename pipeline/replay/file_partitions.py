"""Replays or learns a file: reads it once and routes its records to the partitions they would be produced to.

Each partition has its own task and its own output. With several processes, each reads the file and keeps the records of
its partitions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, repeat
from pathlib import Path
from typing import Any, TypeVar

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.arrays import encoder
from resonance.pipeline.files.rows import Columns, FileRecord
from resonance.pipeline.files.several_files import SeveralFiles
from resonance.pipeline.kafka.partitioner import partition_of
from resonance.pipeline.records import Outputs, Record, TopicPartition
from resonance.pipeline.replay.jobs import Report, Result, run_jobs
from resonance.pipeline.replay.opening import UNBOUNDED
from resonance.pipeline.replay.run import Answering, Replayed
from resonance.pipeline.replay.sinks import Sink
from resonance.pipeline.replay.two_stage_file import Routes, take_all
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import make_task

Part = TypeVar("Part")
"""What a partition of the file needs: its sink, or where its models are written."""

_make: Callable[[Iterable[Any]], Record] = partial(tuple.__new__, Record)


def route(
    settings: Settings, paths: Sequence[Path], columns: Columns, partitions: int, number: int = 0, owners: int = 1
) -> Iterator[list[Record]]:
    """Yield the records of files as they would be on the first input topic, a batch of one partition at a time.

    Of so many `owners`, that with this `number` gets every so many-th partition. Rows that cannot be used raise
    InputFileError unless the columns skip them.
    """
    topic, index, lengths = settings.input.topics[0], 0, [0] * partitions
    with SeveralFiles(paths, columns) as file:
        for batch in map(encoder(settings, paths[0]), file.batches()):
            parts: list[list[FileRecord]] = [[] for _ in range(partitions)]
            for place, record in enumerate(batch, index):
                parts[partition_of(record[0], partitions, place)].append(record)
            index += len(batch)
            for partition in range(number, partitions, owners):
                if part := parts[partition]:
                    yield _records(topic, partition, lengths[partition], part)
                    lengths[partition] += len(part)


def _records(topic: str, partition: int, first: int, rows: Iterable[FileRecord]) -> list[Record]:
    """Return the next rows of a partition, which have offsets from the first one on without gaps."""
    keys, values, timestamps = zip(*rows, strict=True)
    # A record without a time has the earliest one; the broker would set the present.
    times = [-1 if at is None else at for at in timestamps]
    places = repeat(topic), repeat(partition), count(first)
    return list(map(_make, zip(*places, times, keys, values, repeat(()), repeat(None), strict=False)))


Read = Callable[[], Iterable[list[Record]]]
"""Returns records in batches."""


def share(
    settings: Settings,
    run: Callable[[Sequence[Part], Read, Report], list[Result]],
    parts: Sequence[Part],
    read: Callable[[int, int], Iterator[list[Record]]],
    processes: int,
    report: Report,
) -> tuple[list[Result], float]:
    """Process the partitions of a file, and return their results in any order and the seconds of the slowest process.

    `run` returns a result for each of its parts. With several processes, each runs a share of the parts and reads the
    whole file, so `run` and `read`, which takes number and owners of `route`, must be jobs as `jobs` describes them.
    """
    owners = min(processes, len(parts))
    jobs = [partial(run, parts[number::owners], partial(read, number, owners)) for number in range(owners)]
    results, seconds = run_jobs(settings, jobs, owners, report)
    return [one for result in results for one in result], seconds


class FileReplay:
    """Partitions of the log that a file stands for, each replayed from empty models."""

    def __init__(self, settings: Settings, routes: int = 0) -> None:
        self._settings, self._context = settings, TaskContext(UNBOUNDED, routes=routes)
        self._partitions: dict[TopicPartition, Answering] = {}

    def add(self, at: TopicPartition, make_sink: Callable[[], Sink]) -> None:
        """Add a partition."""
        task = make_task(self._settings, *at, self._context)
        self._partitions[at] = Answering(Replayed(*at), task, make_sink())

    def take(self, records: Sequence[Record]) -> Outputs:
        """Learn the next records of a partition; write and return their outputs."""
        return self._partitions[records[0].topic, records[0].partition].take(records)

    def close(self) -> list[Replayed]:
        """Ensure that all outputs are stored and return the results."""
        found = [one.close() for one in self._partitions.values()]
        for each in found:
            each.end = each.records
        return found


def replay_all(
    settings: Settings,
    routes: Routes,
    sinks: Sequence[tuple[TopicPartition, Callable[[], Sink]]],
    read: Read,
    report: Report,
) -> list[Replayed]:
    """Replay the records of some partitions, each with what makes its sink, also those of the `routes`."""
    replay = FileReplay(settings, len(routes.logs))
    for at, make_sink in sinks:
        replay.add(at, make_sink)
    try:
        take_all(replay.take, read(), routes, report)
    finally:
        found = replay.close()
    return found
