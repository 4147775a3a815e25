"""A reset: models and offsets are dropped, and everything, or one stream, starts over.

All models start over where the log begins now, and a single one where its partition stands.

Where streams are re-keyed the inputs are routed once more; what was routed before is skipped, and the routes start at
their end.

A reset requires nothing of the snapshots topic except that it belongs to this pipeline, so it recovers from any damage
there.
"""

import logging
from dataclasses import replace

from resonance.pipeline.checkpoint.changelog_records import ArchiveIndex
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_metadata import is_reproducible
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.inspect.listing import check_stream
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader
from resonance.pipeline.records import Message, TopicPartition
from resonance.pipeline.recovery import rewrite
from resonance.pipeline.recovery.forgotten_alerts import ForgottenAlerts
from resonance.pipeline.recovery.models import highest_version, tasks_of, used_versions, version_of_new
from resonance.pipeline.recovery.rewrite import (
    Change,
    StreamChange,
    StreamPosition,
    is_key_of,
    is_stream_of,
    read_stored,
    rewrite_models,
    stream_positions,
)
from resonance.pipeline.recovery.routes import settled_routes

_log = logging.getLogger(__name__)


def reset(source: DeploymentContext) -> int:
    """Drop models, archives, clusters, alerts and offsets, and start over where the log begins now.

    Returns the number of partitions, which is all of them.
    """
    changes = plan_reset(source)
    rewrite.write(source, changes)
    for change in changes:
        _log.warning("%s[%d]: group %s begins anew at offset %d", *change.at, source.group, change.offset)
    return len(changes)


def plan_reset(source: DeploymentContext) -> list[Change]:
    """Return what a reset changes in every partition.

    Streams keep their version where every output is emitted again with the same bytes; otherwise they get one that was
    never used. Raises `BrokerError` where a transaction stays open among the routes.
    """
    inputs, make_task = source.logs, tasks_of(source)
    changes = []
    with source.reader() as reader:
        stored = read_stored(reader, source)
        clusters = _live_clusters(reader, source)
        alerts = ForgottenAlerts.read(reader, source)
        committed = reader.committed(inputs)
        bounds = reader.bounds(inputs)
        bounds |= {at: (end, end) for at, (_, end) in settled_routes(reader, source).items()}
    versions = {at: _next_version(source, at, stored[at[1]], bounds[at], committed[at]) for at in inputs}
    if source.routes:
        # A re-keyed stream may have been learned in any partition of the routes, and has the same name in all.
        beyond = [number for number in stored if number >= source.deployment.state_partitions]
        further = [highest_version(source, (source.routes, n), stored[n], NO_OFFSET) + 1 for n in beyond]
        highest = max([version for at, version in versions.items() if at[0] == source.routes] + further)
        versions |= {at: highest for at in versions if at[0] == source.routes}
    # Each input of a partition removes its own records, whatever they hold, and the first one those of no input.
    keys = {number: table.keys for number, table in stored.items()}
    owners = {at: {key for key in keys[at[1]] if is_key_of(source, at, key)} for at in inputs}
    for at, own in owners.items():
        keys[at[1]] -= own
    for at in inputs:
        (topic, partition), (first, _), version = at, bounds[at], versions[at]
        identity, task = source.identities[topic], make_task(topic, partition)
        task.models.first_version = version
        used = used_versions(source, at, stored[partition], committed[at])
        archives = ArchiveIndex(identity.topic_id, partition, used=used if used >= version else 0)
        checkpoint = PartitionCheckpoint.of(task, identity, partition, first, began=first)
        removed = owners[at] | keys.pop(partition, set())
        closed = stored[partition].records().get(topic)
        change = rewrite.rewrite(source, checkpoint, removed, committed[at], archives, closed=closed)
        known = stream_positions(source, at, stored[partition]).items()
        changes.append(
            replace(
                change,
                streams=[StreamChange(name, before, StreamPosition(version, first)) for name, before in known],
                clusters=[Message(key, None, []) for key in clusters.pop(partition, ())],
                reproducible=is_reproducible(first, version),
                outputs=alerts.clear(at, "reset"),
            )
        )
    return changes


def _live_clusters(reader: LogReader, source: DeploymentContext) -> dict[int, list[bytes]]:
    """Return the keys of the live clusters by partition: after a reset no worker would ever remove them."""
    places = [(source.settings.topic("clusters"), partition) for partition in range(source.deployment.state_partitions)]
    live: dict[int, dict[bytes, None]] = {}
    for (_, partition), records in reader.read(reader.bounds([place for place in places if reader.has(place)])):
        keys = live.setdefault(partition, {})
        for record in records:
            if record.key is not None and record.value is not None:
                keys[record.key] = None
            elif record.key is not None:
                keys.pop(record.key, None)
    return {partition: list(keys) for partition, keys in live.items()}


def _next_version(
    source: DeploymentContext, at: TopicPartition, stored: ChangelogTable, bounds: tuple[int, int], committed: int
) -> int:
    """Return the version with which the models of a partition start over.

    It is one that the live records do not show as used, or the same one where the log gives every output again.
    """
    record, (first, end) = stored.records().get(at[0]), bounds
    same = record is not None and record.identity == source.identities[at[0]] and record.began == first
    if record is not None and same and max(record.position, committed) <= end:
        version = version_of_new(source, at, stored)
        if version is not None:
            return version
    return highest_version(source, at, stored, committed) + 1


def plan_stream_reset(source: DeploymentContext, stream: str) -> Change:
    """Return the change with which one stream's model is dropped; the other streams of its partition continue.

    Raises `ConfigurationError`, with the nearest names, where there is no such stream, and `MismatchError` where the
    partition cannot be restored.
    """
    # A stream without a snapshot counts too; where its name gives no partition, all of them are restored to find it.
    chosen = [at for at in source.logs if is_stream_of(source, at, stream)] or source.logs
    parts = restore_partitions(source, chosen, tasks_of(source))
    known = {name: at for at, part in parts.items() for name in part.task.models.names}
    check_stream(stream, known, source.group)
    at = known[stream]
    part, task, start = parts[at], parts[at].task, parts[at].start
    snapshot = next(state for _, state in task.models.changes([stream]) if state is not None)
    manifest = part.writer.manifests.get(stream)
    before = StreamPosition(task.models.named(stream).version, manifest.next if manifest else None)
    task.models.used = part.writer.archives.used
    task.restore(replace(snapshot, next=start), new_version=True)
    changed = StreamChange(stream, before, StreamPosition(task.models.named(stream).version, start))
    return replace(rewrite_models(source, at, task, start, part.writer, part.committed), streams=[changed])
