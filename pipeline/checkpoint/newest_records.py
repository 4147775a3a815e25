"""Compare settings and logs with the newest partition records: a few records of the snapshots topic, not all of it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, PartitionRecord, partition_key
from resonance.pipeline.checkpoint.compatibility import check_log, check_owner, check_record
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import SETTLE_SECONDS
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import TopicPartition

TAIL: Final = 50
"""Offsets of a first look: the partition record is the last one of each snapshot."""


def newest_records(reader: LogReader, source: DeploymentContext) -> dict[TopicPartition, PartitionRecord]:
    """Return the newest partition record of each input partition that has one; unreadable ones are left out."""
    wanted = {
        (source.snapshots, number): {partition_key(at[0]): at for at in source.logs if at[1] == number}
        for number in range(source.deployment.state_partitions)
        if reader.has((source.snapshots, number))
    }
    # A reset or another recovery may have ended a moment ago.
    bounds = reader.settled_bounds(list(wanted), SETTLE_SECONDS)
    ends = {place: end for place, (first, end) in bounds.items() if first < end}
    values: dict[TopicPartition, bytes | None] = {}
    tail = TAIL
    while ends:
        ranges = {place: (max(bounds[place][0], end - tail), end) for place, end in ends.items()}
        found: dict[TopicPartition, bytes | None] = {}
        for place, records in reader.read(ranges):
            found |= {wanted[place][one.key]: one.value for one in records if one.key in wanted[place]}
        values = {**found, **values}
        ends = {
            place: begin
            for place, (begin, _) in ranges.items()
            if begin > bounds[place][0] and not values.keys() >= set(wanted[place].values())
        }
        tail *= 10
    parsed = {}
    for at, value in values.items():
        # A restore says what is wrong with one that cannot be read.
        with suppress(*UNREADABLE, MismatchError):
            record = PartitionRecord.parse(value or b"null", source.snapshots)
            if (record.identity.topic, record.partition) == at:
                parsed[at] = record
    return parsed


def check_newest(source: DeploymentContext, records: dict[TopicPartition, PartitionRecord], recovery: str = "") -> None:
    """Raise MismatchError where the log or the settings are not those of the newest snapshots.

    The logs of all partitions are compared first: another log is the reason for whatever else does not fit. What the
    command `recovery` recovers from is left to it.
    """
    for record in records.values():
        with _without_remedy(recovery):
            check_owner(source, record.identity)
            check_log(source, record.identity)
    for at, record in records.items():
        with _without_remedy(recovery):
            check_record(source, at, record, record.position)


@contextmanager
def _without_remedy(recovery: str) -> Iterator[None]:
    """Pass over the mismatches that a command recovers from."""
    try:
        yield
    except MismatchError as error:
        if recovery not in error.remedies:
            raise
