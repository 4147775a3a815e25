"""Replays or learns a file: reads it once and routes its records to the partitions they would be produced to.

Each partition has its own task and its own output. With several processes, the process that reads the file sends each
of the others the records of its partitions as bytes.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, repeat
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.arrays import Encode
from resonance.pipeline.files.record_file import RecordFile
from resonance.pipeline.files.rows import Columns, FileRecord
from resonance.pipeline.kafka.partitioner import partition_of
from resonance.pipeline.records import Outputs, Record, TopicPartition
from resonance.pipeline.replay.jobs import Report, Result, run_with_frames
from resonance.pipeline.replay.opening import UNBOUNDED
from resonance.pipeline.replay.run import Answering, Replayed
from resonance.pipeline.replay.sinks import Sink
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import Task, make_task

TOGETHER: Final = 1_000
"""Least number of records sent to a process at once."""

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
            strict=False,
        )
        return list(map(_make, columns))


def route(
    path: Path, columns: Columns, partitions: int, *, skip_bad: bool = False, encode: Encode = list
) -> Iterator[Routed]:
    """Yield the records of a file as they would be on a topic, a batch of one partition at a time.

    Rows that cannot be used raise InputFileError, or are left out with `skip_bad`.
    """
    index, lengths = 0, [0] * partitions
    with RecordFile(path, columns, skip_bad=skip_bad) as file:
        for batch in map(encode, file.batches()):
            parts: list[list[FileRecord]] = [[] for _ in range(partitions)]
            for number, record in enumerate(batch, index):
                parts[partition_of(record[0], partitions, number)].append(record)
            index += len(batch)
            for partition, part in enumerate(parts):
                if part:
                    yield Routed(partition, lengths[partition], *map(list, zip(*part, strict=True)))
                    lengths[partition] += len(part)


def gather(routed: Iterable[Routed], least: int = TOGETHER) -> Iterator[Routed]:
    """Yield the same records in batches of at least `least`, but for the last batch of each partition."""
    waiting: dict[int, Routed] = {}
    for part in routed:
        together = waiting.get(part.partition)
        if together is None:
            together = waiting[part.partition] = Routed(part.partition, part.first, [], [], [])
        together.keys.extend(part.keys)
        together.values.extend(part.values)
        together.timestamps.extend(part.timestamps)
        if len(together) >= least:
            yield waiting.pop(part.partition)
    yield from waiting.values()


def pack(routed: Routed) -> bytes:
    """Return routed records as bytes, which `unpack` reads."""
    keys: Sequence[bytes] = [key or b"" for key in routed.keys]
    # No value and few keys have line breaks, and splitting lines takes a tenth of the time of cutting by lengths.
    joined = b"\n".join(keys)
    plain = None not in routed.keys and joined.count(b"\n") == len(keys) - 1
    lengths = None if plain else [-1 if key is None else len(key) for key in routed.keys]
    times = None if routed.timestamps.count(None) == len(keys) else routed.timestamps
    head = orjson.dumps([routed.partition, routed.first, times, lengths])
    return b"\n".join((head, joined if plain else b"".join(keys), *routed.values))


def unpack(data: bytes) -> Routed:
    """Return the records that `pack` wrote."""
    head, _, rest = data.partition(b"\n")
    partition, first, times, lengths = orjson.loads(head)
    keys: list[bytes | None]
    if lengths is None:
        lines = rest.split(b"\n")
        size = len(lines) // 2
        keys, values = [*lines[:size]], lines[size:]
    else:
        keys, values = _cut(rest, lengths)
    return Routed(partition, first, keys, values, times or [None] * len(values))


def _cut(data: bytes, lengths: Sequence[int]) -> tuple[list[bytes | None], list[bytes]]:
    """Return the keys at the beginning of some bytes, cut by their lengths, and the lines after them."""
    keys: list[bytes | None] = []
    place = 0
    for length in lengths:
        keys.append(None if length < 0 else data[place : place + length])
        place += max(length, 0)
    return keys, data[place + 1 :].split(b"\n")


def share(
    settings: Settings,
    run: Callable[[Sequence[Part], Iterator[Routed], Report], list[Result]],
    parts: Sequence[Part],
    routed: Iterator[Routed],
    processes: int,
    report: Report,
) -> tuple[list[Result], float]:
    """Process the partitions of a file, and return their results in any order and the seconds of the slowest process.

    `run` returns a result for each of its parts. With several processes, each runs a share of the parts, so `run` must
    be a job as `jobs` describes it.
    """
    owners = min(processes, len(parts))
    if owners == 1:
        settings.compile_engine()
        began = time.perf_counter()
        return run(parts, routed, report), time.perf_counter() - began
    jobs = [partial(_run_share, run, parts[number::owners]) for number in range(owners)]
    frames = ((part.partition % owners, pack(part)) for part in gather(routed))
    results, seconds = run_with_frames(settings, jobs, frames, report)
    return [one for result in results for one in result], seconds


def _run_share(
    run: Callable[[Sequence[Part], Iterator[Routed], Report], list[Result]],
    parts: Sequence[Part],
    frames: Iterator[bytes],
    report: Report,
) -> list[Result]:
    return run(parts, map(unpack, frames), report)


class FileReplay:
    """Partitions of the log that a file stands for, each replayed from empty models."""

    def __init__(self, settings: Settings, routes: int = 0) -> None:
        self._settings, self._context = settings, TaskContext(UNBOUNDED, routes=routes)
        self._partitions: dict[TopicPartition, Answering] = {}

    def add(self, at: TopicPartition, make_sink: Callable[[], Sink]) -> None:
        """Add a partition."""
        task = make_task(self._settings, *at, self._context)
        self._partitions[at] = Answering(Replayed(*at, start="empty models"), task, make_sink())

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
