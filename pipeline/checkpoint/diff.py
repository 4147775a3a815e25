"""Compare two sets of snapshots: which streams differ, and in what."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.listing import empty_task
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import StreamSnapshot
from resonance.pipeline.task.encode.assignments import present


@dataclass(frozen=True, slots=True)
class Side:
    """A stream on one side."""

    version: int
    next: int
    """Offset behind its last record."""
    size: int
    """Bytes of its state."""


@dataclass(frozen=True, slots=True)
class StateDifference:
    """A stream that is not the same on both sides."""

    stream: str
    before: Side | None
    """None where the first side does not have the stream."""
    after: Side | None
    """None where the second side does not have the stream."""
    appeared: list[str]
    """Ids of clusters that only the second side has."""
    gone: list[str]
    """Ids of clusters that only the first side has."""

    def as_json(self) -> dict[str, Any]:
        """Return all fields as plain values."""
        return asdict(self)


def compare(
    settings: Settings, before: Sequence[PartitionCheckpoint], after: Sequence[PartitionCheckpoint]
) -> tuple[int, list[StateDifference]]:
    """Return how many streams are identical, byte for byte, and how the others differ.

    Models are read under the settings with which they were learned. Raises MismatchError or ConfigurationError where
    this release cannot read a snapshot.
    """
    sides = [_by_stream(partitions) for partitions in (before, after)]
    compared = {*sides[0], *sides[1]}
    for partitions, side in zip((before, after), sides, strict=True):
        if not all(partition.complete for partition in partitions):
            # A partial export was never meant to contain the other streams.
            compared &= {*side}
    same, differences = 0, []
    for stream in sorted(compared):
        old, new = (side.get(stream) for side in sides)
        if old and new and (old[1].body, old[1].next) == (new[1].body, new[1].next):
            same += 1
            continue
        clusters = [_clusters(settings, found) for found in (old, new)]
        differences.append(
            StateDifference(
                stream,
                _side(old),
                _side(new),
                appeared=sorted(clusters[1] - clusters[0]),
                gone=sorted(clusters[0] - clusters[1]),
            )
        )
    return same, differences


Found = tuple[PartitionCheckpoint, StreamSnapshot]


def _by_stream(partitions: Sequence[PartitionCheckpoint]) -> dict[str, Found]:
    return {snapshot.stream: (partition, snapshot) for partition in partitions for snapshot in partition.streams}


def _side(found: Found | None) -> Side | None:
    if found is None:
        return None
    snapshot = found[1]
    return Side(int(snapshot.header["version"]), snapshot.next, len(snapshot.body))


def _clusters(settings: Settings, found: Found | None) -> set[str]:
    """Return the ids of a stream's clusters."""
    if found is None:
        return set()
    partition, snapshot = found
    task = empty_task(settings, partition)
    task.restore(snapshot)
    return {cluster["id"] for cluster in present(task.models.named(snapshot.stream))}
