"""Versions that the models of a partition have used, as far as the live records of the snapshots topic show it.

An id of a cluster contains the version: one that begins on request must never have been used before.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import orjson
from resonance.pipeline.checkpoint.changelog_records import (
    UNREADABLE,
    ArchiveIndex,
    Manifest,
    PartitionRecord,
    archives_key,
    partition_key,
)
from resonance.pipeline.checkpoint.changelog_writer import NO_ARCHIVES
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.tasks import MakeTask

TTL: Final = "limits.stream_ttl"

_UNREADABLE: Final = (MismatchError, AttributeError, *UNREADABLE)


def unreadable(live: Mapping[bytes, bytes], keys: Iterable[bytes]) -> bytes | None:
    """Return the first key whose record cannot be read; None where all can."""
    for key in keys:
        try:
            _read(key, live[key])
        except _UNREADABLE:
            return key
    return None


def record_of(at: TopicPartition, live: Mapping[bytes, bytes]) -> PartitionRecord | None:
    """Return a partition's record; None where there is none, or none that can be read."""
    with suppress(MismatchError, *UNREADABLE):
        return PartitionRecord.parse(live[partition_key(at[0])], "")
    return None


def index_of(at: TopicPartition, live: Mapping[bytes, bytes]) -> ArchiveIndex:
    """Return what is listed of a partition's archives; nothing where that cannot be read."""
    with suppress(MismatchError, *UNREADABLE):
        return ArchiveIndex.parse(live[archives_key(at[0])], "")
    return NO_ARCHIVES


def highest_version(at: TopicPartition, live: Mapping[bytes, bytes], committed: int, make_task: MakeTask) -> int:
    """Return a version that is no lower than any that the models of a partition may have used."""
    # A record or a committed offset proves that version 1 was used.
    highest = int(bool(live) or committed != NO_OFFSET)
    # Every owner writes the partition's record with its first commit.
    known = committed == NO_OFFSET or partition_key(at[0]) in live
    for key, value in live.items():
        try:
            versions, record = _read(key, value)
            highest = max([highest, *versions])
            if record is not None:
                highest = max(highest, _versions_of(at, record, committed, make_task))
        except _UNREADABLE:
            known = False
    return highest if known else max(highest, _beyond())


def used_versions(at: TopicPartition, live: Mapping[bytes, bytes], committed: int, make_task: MakeTask) -> int:
    """Return the highest version that an `ArchiveIndex` must keep where a partition goes back; 0 for none.

    The versions of streams that have ended are in no snapshot, and the log lets them begin again only later.
    """
    used, record = index_of(at, live).used, record_of(at, live)
    if record is not None and TTL in record.identity.limits:
        return max(used, highest_version(at, live, committed, make_task))
    return used


def _beyond() -> int:
    """Return a version above all that can be in use: there were never more than one for each millisecond since 1970."""
    return time.time_ns() // 1_000_000


def _read(key: bytes, value: bytes) -> tuple[list[int], PartitionRecord | None]:
    """Return the versions that a record names, and itself where it is a partition's; raises one of `_UNREADABLE`."""
    kind, name, *_ = orjson.loads(key)
    if kind == "manifest":
        return [int(Manifest.parse(value, name).header["version"])], None
    if kind == "archives":
        return [ArchiveIndex.parse(value, name).used], None
    if kind != "partition":
        return [], None
    record = PartitionRecord.parse(value, name)
    return [int(orjson.loads(record.state)["first_version"])], record


def _versions_of(at: TopicPartition, record: PartitionRecord, committed: int, make_task: MakeTask) -> int:
    """Return the highest version that streams may have begun with when others had ended."""
    if "expiry" not in orjson.loads(record.state):
        return 0
    task = make_task(record.identity.topic, at[1])
    task.restore_partition(record.state)
    version = task.models.new_version
    if record.identity.topic != at[0] or TTL not in record.identity.limits:
        return version
    # Of the records behind the snapshots each can have ended a stream, or let it begin once more.
    return version + max(committed - record.position, 0)
