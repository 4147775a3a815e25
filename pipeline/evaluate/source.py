"""The recorded data of an evaluation, which each candidate reads again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, ConfigurationError, InputFileError
from resonance.pipeline.files.arrays import Encode
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.records import Record, TopicPartition
from resonance.pipeline.replay.opening import PartitionRange, open_ranges
from resonance.pipeline.replay.two_stage_file import MADE_ORDER, read_rows
from resonance.pipeline.task.decode.unpacking import Unpacker

Offsets = NDArray[np.int64]


class Recording(Protocol):
    """Records that can be read more than once."""

    @property
    def in_order(self) -> bool:
        """Whether `batches` yields them in the order of the evaluation, and not one partition after the other."""

    @property
    def logs(self) -> list[TopicPartition]:
        """Partitions that the records are of."""

    @property
    def remedy(self) -> str:
        """What helps where the settings fit none of the records."""

    def order(self, offsets: Offsets, times: Offsets, log: NDArray[np.int32]) -> tuple[Offsets, str]:
        """Return the order of the evaluation, and a remark, of records as `batches` yields them.

        `log` has the number of each record's partition among `logs`.
        """

    def batches(self) -> Iterator[list[Record]]:
        """Yield the records that have a value."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file, as if it had been produced to a topic."""

    path: Path
    columns: Columns
    topic: str
    partitions: int = 1
    in_order: bool = True
    encode: Encode = list
    """Gives records the format of the input."""
    unpacker: Unpacker | None = None
    """Takes rows apart; None where each is a record."""
    remedy: str = "compare input.features with a record"

    @property
    def logs(self) -> list[TopicPartition]:
        """Partitions of the topic that the file stands for."""
        return [(self.topic, number) for number in range(self.partitions)]

    def order(self, offsets: Offsets, times: Offsets, log: NDArray[np.int32]) -> tuple[Offsets, str]:
        """Return the order of the file."""
        return np.arange(len(offsets)), ""

    def batches(self) -> Iterator[list[Record]]:
        """Yield the rows in the order of the file; raise `InputFileError` where it has none."""
        is_empty = True
        for rows in read_rows([self.path], self.columns, self.topic, self.partitions, encode=self.encode):
            is_empty = is_empty and not rows
            yield rows if self.unpacker is None else list(self.unpacker.single(rows))
        if is_empty:
            raise InputFileError(f"{self.path} holds no records; there is nothing to evaluate")


@dataclass(frozen=True, slots=True)
class TopicSource:
    """Ranges of recorded partitions, with fixed ends."""

    ranges: tuple[PartitionRange, ...]
    in_order: bool = False
    remedy: str = "compare input.features with a record"
    unpacker: Unpacker | None = None
    """Takes messages apart; None where each is a record."""
    remark: str = ""
    """What is said of an order that is of time alone."""

    @property
    def logs(self) -> list[TopicPartition]:
        """The partitions."""
        return [part.at for part in self.ranges]

    def order(self, offsets: Offsets, times: Offsets, log: NDArray[np.int32]) -> tuple[Offsets, str]:
        """Return the order of time."""
        return merged(times, log), self.remark

    def batches(self) -> Iterator[list[Record]]:
        """Yield the records of one partition after the other."""
        with self.ranges[0].source.reader() as reader:
            for part in self.ranges:
                for batch in part.records(reader, part.begin, part.end):
                    valued = [record for record in batch if record.value is not None]
                    if self.unpacker is not None:
                        valued = list(self.unpacker.single(valued))
                    if valued:
                        yield valued


def open_topic(settings: Settings, topic: str, span: Span, labels: str | None = None) -> TopicSource:
    """Return a range of a topic, and with it all that is on the topic of the `labels`.

    Raises `ConfigurationError` for another topic, `BrokerError` where the range has no record, or the broker does not
    answer.
    """
    if topic not in settings.input.topics:
        raise ConfigurationError(f"{topic} is no input; evaluate {' or '.join(settings.input.topics)} (input.topics)")
    with open_ranges(settings, [topic], span, or_unrouted=True) as (_, ranges):
        found = [part for part in ranges if part.begin < part.end]
    if not found:
        whole = "holds no committed records" if span.whole else "has no committed records in that range"
        raise BrokerError(f"{topic} on {settings.broker.bootstrap} {whole}; there is nothing to evaluate")
    remark = MADE_ORDER if settings.is_rekeyed and len(found) > 1 else ""
    if labels is not None:
        with open_ranges(settings, [labels], Span(), or_unrouted=True) as (_, late):
            found += late
    return TopicSource(tuple(found), unpacker=Unpacker.of(settings), remark=remark)


def merged(timestamps: NDArray[np.int64], log: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the order of records read one partition after the other: by time, and each partition in its own order."""
    moments = timestamps.copy()
    for number in np.unique(log):
        mine = log == number
        # A record with an older time than one before it in its partition still comes after that one.
        moments[mine] = np.maximum.accumulate(moments[mine])
    return np.argsort(moments, kind="stable")


def with_members(columns: Columns, paths: Sequence[str]) -> Columns:
    """Return columns that, where only some are taken, have these paths as well."""
    missing = {path: path for path in paths if columns.members and path not in columns.members}
    return replace(columns, members={**columns.members, **missing})


def shuffled(log: NDArray[np.int32], seed: int) -> NDArray[np.int64]:
    """Return for each record which record takes its place in a random order of its partition."""
    rng = np.random.default_rng(seed)
    order = np.arange(len(log))
    for number in np.unique(log):
        mine = np.flatnonzero(log == number)
        order[mine] = rng.permutation(mine)
    return order


def loaded(source: Recording) -> list[Record]:
    """Return all records in the order of the evaluation."""
    records = [record for batch in source.batches() for record in batch]
    if source.in_order:
        return records
    numbers = {at: number for number, at in enumerate(source.logs)}
    log = np.array([numbers[record.topic, record.partition] for record in records], dtype=np.int32)
    times = np.array([record.timestamp for record in records], dtype=np.int64)
    offsets = np.array([record.offset for record in records], dtype=np.int64)
    return [records[place] for place in source.order(offsets, times, log)[0]]


def rearranged(records: Sequence[Record], order: NDArray[np.int64]) -> list[Record]:
    """Return records whose keys and values are those of others; offsets and times stay."""
    return [
        record._replace(key=other.key, value=other.value, headers=other.headers)
        for record, other in zip(records, (records[place] for place in order), strict=True)
    ]


def separated(batch: Sequence[Record], *, in_order: bool) -> Iterator[list[Record]]:
    """Yield the records of one partition at a time; `in_order` those of one topic that follow each other."""
    place = attrgetter("topic") if in_order else attrgetter("topic", "partition")
    for _, records in groupby(batch if in_order else sorted(batch, key=place), place):
        yield list(records)
