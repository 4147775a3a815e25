"""Versions that the models of a partition have used, as far as the live records of the snapshots topic show it.

An id of a cluster contains the version: one that begins on request must never have been used before.
"""

import time
from contextlib import suppress
from typing import Final

import orjson
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, PartitionRecord
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.recovery.models import tasks_of

TTL: Final = "limits.stream_ttl"

_UNREADABLE: Final = (MismatchError, AttributeError, *UNREADABLE)


def highest_version(source: DeploymentContext, at: TopicPartition, table: ChangelogTable, committed: int) -> int:
    """Return a version that is no lower than any that the models of a partition may have used."""
    # A record or a committed offset proves that version 1 was used.
    highest = int(bool(table.keys) or committed != NO_OFFSET)
    # Every owner writes the partition's record with its first commit.
    known = not table.unreadable and (committed == NO_OFFSET or at[0] in table.records())
    try:
        versions = [int(manifest.header["version"]) for manifest in table.manifests()]
        used = [table.archives(topic).used for topic in {at[0], *table.records()}]
        begun = [_begun(source, at, record, committed) for record in table.records().values()]
        highest = max([highest, *versions, *used, *begun])
    except _UNREADABLE:
        known = False
    return highest if known else max(highest, _beyond())


def used_versions(source: DeploymentContext, at: TopicPartition, table: ChangelogTable, committed: int) -> int:
    """Return the highest version that an `ArchiveIndex` must keep where a partition goes back; 0 for none.

    The versions of streams that have ended are in no snapshot, and the log lets them begin again only later.
    """
    used, record = table.archives(at[0]).used, table.records().get(at[0])
    if record is not None and TTL in record.identity.limits:
        return max(used, highest_version(source, at, table, committed))
    return used


def version_of_new(source: DeploymentContext, at: TopicPartition, table: ChangelogTable) -> int | None:
    """Return the version with which new streams of a partition start now; None where it cannot be read."""
    with suppress(MismatchError):
        if (record := table.records().get(at[0])) is not None:
            task = tasks_of(source)(*at)
            task.restore_partition(record.state)
            return task.models.first_version
    return None


def _beyond() -> int:
    """Return a version above all that can be in use: there were never more than one for each millisecond since 1970."""
    return time.time_ns() // 1_000_000


def _begun(source: DeploymentContext, at: TopicPartition, record: PartitionRecord, committed: int) -> int:
    """Return the highest version that streams may have begun with, others having ended before."""
    content = orjson.loads(record.state)
    if "expiry" not in content:
        return int(content["first_version"])
    task = tasks_of(source)(record.identity.topic, at[1])
    task.restore_partition(record.state)
    version = task.models.new_version
    if record.identity.topic != at[0] or TTL not in record.identity.limits:
        return version
    # Of the records behind the snapshots each can have ended a stream, or let it begin once more.
    return version + max(committed - record.position, 0)
