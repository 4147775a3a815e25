"""Replays or learns a file: reads it once and routes its records to the partitions they would be produced to.

Each partition has its own task and its own output. With several processes, each reads the file and keeps the records of
its partitions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import Task, make_task

Part = TypeVar("Part")
"""What a partition of the file needs: its sink, or where its models are written."""

_make: Callable[[Iterable[Any]], Record] = partial(tuple.__new__, Record)


@dataclass(frozen=True, slots=True)
class Routed:
    """The next records of a partition, in columns."""

    partition: int
    first: int
    """Offset of the first record; the others follow without gaps."""
    keys: list[bytes | None]
    values: list[bytes]
    timestamps: list[int | None]

    def __len__(self) -> int:
        return len(self.values)

    def on(self, topic: str) -> list[Record]:
        """Return the records as they would be on a topic."""
        # A record without a time has the earliest one; the broker would set the present.
        times = [-1 if at is None else at for at in self.timestamps]
        columns = zip(
            repeat(topic),
            repeat(self.partition),
            count(self.first),
            times,
            self.keys,
            self.values,
            repeat(()),
            repeat(None),
            strict=False,
        )
        return list(map(_make, columns))


def route(settings: Settings, paths: Sequence[Path], columns: Columns, partitions: int) -> Iterator[Routed]:
    """Yield the records of files as they would be on a topic, a batch of one partition at a time.

    Rows that cannot be used raise InputFileError unless the columns skip them.
    """
    index, lengths = 0, [0] * partitions
    with SeveralFiles(paths, columns) as file:
        for batch in map(encoder(settings, paths[0]), file.batches()):
            parts: list[list[FileRecord]] = [[] for _ in range(partitions)]
            for number, record in enumerate(batch, index):
                parts[partition_of(record[0], partitions, number)].append(record)
            index += len(batch)
            for partition, part in enumerate(parts):
                if part:
                    yield Routed(partition, lengths[partition], *map(list, zip(*part, strict=True)))
                    lengths[partition] += len(part)


def share(
    settings: Settings,
    run: Callable[[Sequence[Part], Iterator[Routed], Report], list[Result]],
    parts: Sequence[Part],
    read: Callable[[], Iterator[Routed]],
    processes: int,
    report: Report,
) -> tuple[list[Result], float]:
    """Process the partitions of a file, and return their results in any order and the seconds of the slowest process.

    `run` returns a result for each of its parts. With several processes, each runs a share of the parts and reads the
    whole file, so `run` and `read` must be jobs as `jobs` describes them.
    """
    owners = min(processes, len(parts))
    jobs = [partial(_run_share, run, parts[number::owners], read, number, owners) for number in range(owners)]
    results, seconds = run_jobs(settings, jobs, owners, report)
    return [one for result in results for one in result], seconds


def _run_share(
    run: Callable[[Sequence[Part], Iterator[Routed], Report], list[Result]],
    parts: Sequence[Part],
    read: Callable[[], Iterator[Routed]],
    number: int,
    owners: int,
    report: Report,
) -> list[Result]:
    return run(parts, (routed for routed in read() if routed.partition % owners == number), report)


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

    @property
    def tasks(self) -> list[Task]:
        """The tasks of the partitions."""
        return [one.task for one in self._partitions.values()]

    def close(self) -> list[Replayed]:
        """Ensure that all outputs are stored and return the results."""
        found = [one.close() for one in self._partitions.values()]
        for each in found:
            each.end = each.records
        return found


def replay_routed(
    settings: Settings, sinks: Sequence[tuple[int, Callable[[], Sink]]], routed: Iterator[Routed], report: Report
) -> list[Replayed]:
    """Replay the records routed to some partitions, each with what makes its sink."""
    topic, replay = settings.input.topics[0], FileReplay(settings)
    for partition, make_sink in sinks:
        replay.add((topic, partition), make_sink)
    try:
        for part in routed:
            replay.take(part.on(topic))
            report(len(part))
    finally:
        found = replay.close()
    return found
