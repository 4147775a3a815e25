"""The order of recorded partitions in an evaluation: that of their routes where workers have made them, or of time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.repartition.envelope import read_route
from resonance.pipeline.replay.opening import PartitionRange


@dataclass(frozen=True, slots=True)
class Ways:
    """The routes of the records of an input partition; arrays have an entry for each, sorted by `offset`."""

    offset: NDArray[np.int64]
    """Offset of the record."""
    partition: NDArray[np.int64]
    """Partition of its route."""
    place: NDArray[np.int64]
    """Offset of its route."""


def read_ways(routes: Sequence[PartitionRange]) -> dict[TopicPartition, Ways]:
    """Read which way the records of each input partition went; of a record that came twice, the first counts."""
    found: dict[TopicPartition, dict[int, tuple[int, int]]] = {}
    for part in routes:
        with part.open() as reader:
            for batch in part.records(reader, part.begin, part.end):
                for record in batch:
                    if (route := read_route(record)) is not None:
                        source = route.record
                        own = found.setdefault((source.topic, source.partition), {})
                        own.setdefault(source.source_offset, (record.partition, record.offset))
    return {at: _sorted(own) for at, own in found.items()}


def _sorted(own: dict[int, tuple[int, int]]) -> Ways:
    rows = np.array([(offset, *way) for offset, way in sorted(own.items())], dtype=np.int64)
    return Ways(*rows.T)


def ways_of(own: Ways | None, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return partition and offset of the route of each record of a partition, as columns; -1 where it has none."""
    rows = np.full((len(offsets), 2), -1, dtype=np.int64)
    if own is not None:
        places = np.minimum(np.searchsorted(own.offset, offsets), len(own.offset) - 1)
        known = own.offset[places] == offsets
        rows[known] = np.column_stack([own.partition, own.place])[places[known]]
    return rows


def merged(timestamps: NDArray[np.int64], log: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the order of records read one partition after the other: by time, and each partition in its own order."""
    return np.argsort(_moments(timestamps, log), kind="stable")


def _moments(timestamps: NDArray[np.int64], log: NDArray[np.int32]) -> NDArray[np.int64]:
    moments = timestamps.copy()
    for number in np.unique(log):
        mine = log == number
        # A record with an older time than one before it in its partition still comes after that one.
        moments[mine] = np.maximum.accumulate(moments[mine])
    return moments


def routed(
    timestamps: NDArray[np.int64], log: NDArray[np.int32], ways: NDArray[np.int64]
) -> tuple[NDArray[np.int64], bool]:
    """Return the order of records in which their routes stand, and whether it is exact.

    It keeps the order of each partition of the input and of the routes, and is otherwise that of time. It is not exact
    where these contradict each other: producers may have been late for one of the partitions of the routes.
    """
    moments = _moments(timestamps, log).tolist()
    to, places = ways.T
    queues = {number: np.flatnonzero(log == number).tolist()[::-1] for number in np.unique(log).tolist()}
    # Last comes what is next, so that it can be popped.
    lines = {
        way: mine[np.argsort(-places[mine])].tolist() for way in np.unique(to) for mine in [np.flatnonzero(to == way)]
    }
    lines.pop(-1, None)
    way_of, gone = to.tolist(), np.zeros(len(log), dtype=np.bool_)
    order, is_exact = [], True
    while queues:
        heads = [queue[-1] for queue in queues.values()]
        free = [head for head in heads if way_of[head] < 0 or lines[way_of[head]][-1] == head]
        is_exact = is_exact and bool(free)
        chosen = min(free or heads, key=moments.__getitem__)
        order.append(chosen)
        gone[chosen] = True
        number = int(log[chosen])
        queues[number].pop()
        if not queues[number]:
            del queues[number]
        line = lines.get(way_of[chosen], [])
        while line and gone[line[-1]]:
            line.pop()
    return np.array(order, dtype=np.int64), is_exact
