"""A file replayed: read once, its records routed to the partitions that they would be produced to.

Each partition is a lane of its own: a task, and a place for its outputs. With several processes the one that reads
sends each lane its records, as bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import count, repeat
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.partitioner import partition_of
from resonance.pipeline.files.record_file import Columns, FileRecord, RecordFile
from resonance.pipeline.partition import PartitionTask
from resonance.pipeline.records import Record
from resonance.pipeline.replay.jobs import Tell
from resonance.pipeline.replay.run import Answering, Replayed, sink_of
from resonance.pipeline.replay.starts import UNBOUNDED

TOGETHER: Final = 2_000
"""Records that are sent to a process at once, at least: with each sending a thread waits for its turn, up to 5 ms,
beside the one that reads."""

_make: Callable[[Iterable[Any]], Record] = partial(tuple.__new__, Record)


class Routed(NamedTuple):
    """The next records of a partition.

    Attributes
    ----------
    partition : int
        Which one.
    first : int
        Offset of the first of them; the others follow without gaps.
    records : sequence of FileRecord
        They.
    """

    partition: int
    first: int
    records: Sequence[FileRecord | tuple[Any, ...]]

    def on(self, topic: str) -> list[Record]:
        """Return the records as they would stand on a topic."""
        keys, values, stamps = zip(*self.records, strict=True)
        # A record without a time has the first there is; the broker would take the present.
        times = [-1 if stamp is None else stamp for stamp in stamps] if None in stamps else stamps
        columns = zip(
            repeat(topic), repeat(self.partition), count(self.first), times, keys, values, repeat(()), strict=False
        )
        return list(map(_make, columns))


def route(path: Path, columns: Columns, partitions: int, *, skip_bad: bool = False) -> Iterator[Routed]:
    """Yield the records of a file as they would stand on a topic, some of one partition at a time.

    Parameters
    ----------
    path : Path
        The file.
    columns : Columns
        What is used of it.
    partitions : int
        How many the topic has.
    skip_bad : bool
        Leave out rows that cannot be used.

    Raises
    ------
    InputFileError
        The file cannot be read, or a row of it not be used.
    """
    index, lengths = 0, [0] * partitions
    with RecordFile(path, columns, skip_bad=skip_bad) as file:
        for batch in file.batches():
            parts: list[list[FileRecord]] = [[] for _ in range(partitions)]
            for number, record in enumerate(batch, index):
                parts[partition_of(record[0], partitions, number)].append(record)
            index += len(batch)
            for partition, part in enumerate(parts):
                if part:
                    yield Routed(partition, lengths[partition], part)
                    lengths[partition] += len(part)


def gather(routed: Iterable[Routed], least: int = TOGETHER) -> Iterator[Routed]:
    """Yield the same records of each partition, many at a time."""
    waiting: dict[int, tuple[int, list[Any]]] = {}
    for part in routed:
        first, records = waiting.setdefault(part.partition, (part.first, []))
        records += part.records
        if len(records) >= least:
            del waiting[part.partition]
            yield Routed(part.partition, first, records)
    for partition, (first, records) in waiting.items():
        yield Routed(partition, first, records)


def pack(routed: Routed) -> bytes:
    """Return routed records as bytes; `unpack` gives them back."""
    keys, values, stamps = zip(*routed.records, strict=True)
    head = [
        routed.partition,
        routed.first,
        stamps,
        [-1 if key is None else len(key) for key in keys],
        list(map(len, values)),
    ]
    return b"".join((orjson.dumps(head), b"\n", *filter(None, keys), *values))


def unpack(data: bytes) -> Routed:
    """Return the routed records of `pack`."""
    place = data.index(b"\n")
    partition, first, stamps, key_lengths, lengths = orjson.loads(data[:place])
    place += 1
    keys: list[bytes | None] = []
    for length in key_lengths:
        keys.append(None if length < 0 else data[place : place + length])
        place += max(length, 0)
    values = []
    for length in lengths:
        values.append(data[place : place + length])
        place += length
    return Routed(partition, first, list(zip(keys, values, stamps, strict=True)))


def run_lanes(job: Mapping[str, Any], routed: Iterator[Routed], tell: Tell) -> list[Replayed]:
    """Replay what is routed to some partitions.

    Parameters
    ----------
    job : mapping
        ``settings``, ``topic``; ``lanes``: pairs of partition and output, as `sink_of` takes it.
    routed : iterator of Routed
        The records of these partitions.
    tell : callable
        Told how many more records are done.
    """
    settings = Settings.of(job["settings"])
    lanes: dict[int, Answering] = {}
    for partition, output in job["lanes"]:
        task = PartitionTask(settings, job["topic"], partition)
        task.event_bytes = UNBOUNDED
        begun = Replayed(job["topic"], partition, start="empty models")
        lanes[partition] = Answering(begun, task, sink_of(output, settings, partition))
    try:
        for part in routed:
            lanes[part.partition].take(part.on(job["topic"]))
            tell(len(part.records))
    finally:
        found = [lane.close() for lane in lanes.values()]
    for each in found:
        each.end = each.records
    return found


def work(job: Mapping[str, Any], tell: Tell, frames: Iterator[bytes]) -> dict[str, Any]:
    """Replay the lanes of one process; see `run_lanes`."""
    return {"parts": [asdict(part) for part in run_lanes(job, map(unpack, frames), tell)]}
