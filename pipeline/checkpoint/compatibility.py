"""Find where a partition stands in its log, and check that log, topics, offset, snapshots and settings belong together.

Where they do not, the start ends with a startup mismatch (`mismatches`).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from resonance.pipeline import logs, mismatches
from resonance.pipeline.checkpoint.changelog_records import Identity, PartitionRecord
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_metadata import CommittedOffset, OffsetMetadata, is_proved
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.admin import FoundTopic
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader
from resonance.pipeline.kafka.positions import Position, offsets_of
from resonance.pipeline.records import TopicPartition

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a partition stands in its log, according to the broker and to its snapshots."""

    recovery_offset: int
    """Lowest offset that no snapshot contains."""
    start: int
    """The outputs of every record below this offset were delivered."""
    committed: int
    """The group's offset, or `NO_OFFSET`."""
    record: PartitionRecord | None
    """Partition record on the snapshots topic; None where there is none."""
    pinned: bool = True
    """False where a setting chose `start`: another start may choose another offset."""


def locate(
    source: DeploymentContext, table: ChangelogTable, at: TopicPartition, group: CommittedOffset, first: int, end: int
) -> ResumePoint:
    """Return where a partition stands; `group` is the group's offset, `first` and `end` are the bounds of the log.

    Raises MismatchError where log, offset and snapshots contradict each other.
    """
    topic, partition = at
    record, committed = table.records().get(topic), group.offset
    if record is None:
        return _locate_unknown(source, at, group, (first, end))
    check_log(source, record.identity)
    if committed == NO_OFFSET and record.committed != NO_OFFSET:
        raise mismatches.offset_missing(source.group, topic, partition, record.position)
    if committed < record.committed:
        raise mismatches.offset_behind(source.group, topic, partition, committed, record.committed)
    if committed != NO_OFFSET and not is_proved(group, record):
        raise mismatches.offset_of_others(source.group, topic, partition, committed, record.position)
    start = max(committed, record.position)
    if start > end:
        raise mismatches.offset_beyond_end(source.group, topic, partition, start, end)
    return ResumePoint(record.recovery_offset, start, committed, record)


def _locate_unknown(
    source: DeploymentContext, at: TopicPartition, group: CommittedOffset, bounds: tuple[int, int]
) -> ResumePoint:
    """Locate a partition that has no record on the snapshots topic."""
    (topic, partition), (first, end) = at, bounds
    committed, note = group.offset, OffsetMetadata.read(group)
    if committed == NO_OFFSET:
        if first > 0 and source.start_of(topic) == "earliest":
            _log.warning(
                "%s[%d]: the group is new and the log begins at offset %d, earlier records are deleted: starting there",
                topic,
                partition,
                first,
                extra=logs.at(topic, partition, first),
            )
        return ResumePoint(first, first, committed, None)
    if note is not None and note.topic_id != (now := source.identities[topic].topic_id):
        raise mismatches.topic_made_again(topic, note.topic_id, now)
    if first > 0:
        raise mismatches.no_snapshot(topic, partition, committed, f"the log begins at offset {first}")
    if source.start_of(topic) != "earliest":
        # Models that begin with the log's first record would give the ids of clusters to other clusters.
        why = f"with start = {source.settings.start} they did not begin where the log does"
        raise mismatches.no_snapshot(topic, partition, committed, why)
    if committed > end:
        raise mismatches.offset_beyond_end(source.group, topic, partition, committed, end)
    if note is None:
        raise mismatches.no_snapshot(topic, partition, committed, "no worker committed that offset")
    if not note.reproducible:
        why = "the models did not come from this log alone (a file, a new version, a reset, other settings)"
        raise mismatches.no_snapshot(topic, partition, committed, why)
    return ResumePoint(0, committed, committed, None)


def begin(source: DeploymentContext, reader: LogReader, at: TopicPartition, first: int, end: int) -> ResumePoint:
    """Locate a partition of a new group where `start` says, between `first` and `end` of its log."""
    chosen = offsets_of(reader, Position.parse(source.settings.start, "start"), {at: (first, end)})[at]
    emitted = (*at, chosen, source.settings.start)
    _log.info("%s[%d]: the group is new and begins at offset %d (start = %s)", *emitted, extra=logs.at(*at, chosen))
    return ResumePoint(chosen, chosen, NO_OFFSET, None, pinned=False)


def check_record(source: DeploymentContext, at: TopicPartition, record: PartitionRecord, start: int) -> None:
    """Raise MismatchError where the snapshots of a partition cannot go on at an offset."""
    check_owner(source, record.identity)
    check_log(source, record.identity)
    _check_settings(source, at, record)
    _check_relearning(source, at, record, start)


def check_owner(source: DeploymentContext, found: Identity) -> None:
    """Raise MismatchError where the snapshots are another pipeline's, or their stream names mean other streams."""
    now = next(iter(source.identities.values()))
    if found.pipeline != now.pipeline:
        raise mismatches.other_pipeline(source.snapshots, found.pipeline, now.pipeline)
    # With several inputs the name of a stream contains its topic; a name without one means the only input.
    only = [inputs[0] if len(inputs) == 1 else None for inputs in (found.inputs, now.inputs)]
    if only[0] != only[1]:
        raise mismatches.inputs_changed(source.snapshots, ", ".join(found.inputs), ", ".join(now.inputs))


def check_log(source: DeploymentContext, found: Identity) -> None:
    """Raise MismatchError where the log is not the one that the snapshots are of, or has other partitions."""
    now = source.identities[found.topic]
    if found.topic_id != now.topic_id:
        raise mismatches.topic_made_again(found.topic, found.topic_id, now.topic_id)
    if found.partitions != now.partitions and found.topic == source.routes:
        raise mismatches.routes_changed(found.topic, found.partitions, now.partitions)
    if not source.is_same_log(found):
        raise mismatches.partitions_changed(found.topic, found.partitions, now.partitions)


def _check_settings(source: DeploymentContext, at: TopicPartition, record: PartitionRecord) -> None:
    """Raise MismatchError, which lists the settings, where the present ones would have given other models."""
    found, now = record.identity, source.identities[at[0]]
    streams = [str(identity.settings.get("stream")) for identity in (found, now)]
    if streams[0] != streams[1] and any(stream == "topic" or stream.startswith("field:") for stream in streams):
        raise mismatches.stream_changed(f"{at[0]}[{at[1]}]", *streams)
    levels = [str(identity.settings.get("hierarchy", "local")) for identity in (found, now)]
    if levels[0] != levels[1]:
        raise mismatches.hierarchy_changed(f"{at[0]}[{at[1]}]", *levels)
    changed = mismatches.differences({"engine": found.engine, **found.settings}, {"engine": now.engine, **now.settings})
    if changed:
        raise mismatches.settings_differ(f"{at[0]}[{at[1]}]", changed)


def _check_relearning(source: DeploymentContext, at: TopicPartition, record: PartitionRecord, start: int) -> None:
    """Raise MismatchError, which lists the changes, where records to be learned again would now give other models.

    What a snapshot contains stays as it was learned. After a clean stop these may therefore change: the release, the
    limits, and where in a record its id, its time and what is copied stand.
    """
    if record.recovery_offset >= start:
        return
    found, now = record.identity, source.identities[at[0]]
    before = {"revision of the engine": found.revision, **found.limits}
    changed = mismatches.differences(before, {"revision of the engine": now.revision, **now.limits})
    if changed:
        raise mismatches.unclean_change(*at, changed, record.recovery_offset, start - 1)


def check_topics(source: DeploymentContext, found: Mapping[str, FoundTopic]) -> None:
    """Check that no topic was deleted or recreated, and that no log got partitions that its models cannot have.

    Raises MismatchError, with the remedy, where one was; BrokerError for a topic that the next start makes again.
    """
    for topic, known in source.identities.items():
        if (there := found.get(topic)) is None:
            raise mismatches.topic_deleted(topic)
        now = replace(known, topic_id=there.topic_id, partitions=there.partitions)
        check_log(replace(source, identities={**source.identities, topic: now}), known)
    for topic, topic_id in source.deployment.output_ids.items():
        there = found.get(topic)
        if there is not None and there.topic_id == topic_id:
            continue
        if topic in (source.snapshots, source.archive):
            raise BrokerError(
                f"topic {topic} was deleted under the running worker; the next start makes it again, and learns from "
                "the log what its snapshots held"
            )
        raise mismatches.output_deleted(topic)
