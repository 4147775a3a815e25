"""A reset: models and offsets are dropped, and everything starts over where the log begins now.

Where streams are re-keyed the inputs are routed once more; what was routed before is skipped, and the routes start at
their end.

A reset requires nothing of the snapshots topic except that it belongs to this pipeline, so it recovers from any damage
there.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Final

import orjson
from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.changelog_records import (
    UNREADABLE,
    Manifest,
    archives_key,
)
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_note import is_reproducible
from resonance.pipeline.disk_map import DiskMap
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader
from resonance.pipeline.records import Message, TopicPartition
from resonance.pipeline.recovery import rewrite
from resonance.pipeline.recovery.forgotten_alerts import ForgottenAlerts
from resonance.pipeline.recovery.rewrite import (
    Change,
    Standing,
    StreamChange,
    is_stream_of,
)
from resonance.pipeline.recovery.versions import highest_version, record_of, used_versions
from resonance.pipeline.tasks import MakeTask

_CHUNK: Final = b'["chunk",'
_OUR_KEYS: Final = tuple(f'["{kind}",'.encode() for kind in ("chunk", "manifest", "partition", "archives"))

_log = logging.getLogger(__name__)


def reset(source: DeploymentContext, make_task: MakeTask, *, atomic: bool = True) -> int:
    """Drop models, archives, clusters, alerts and offsets, and start over where the log begins now.

    Returns the number of partitions, which is all of them.
    """
    changes = plan_reset(source, make_task)
    carry_out_reset(source, changes, atomic=atomic)
    return len(changes)


def carry_out_reset(source: DeploymentContext, changes: list[Change], *, atomic: bool) -> None:
    """Write the changes of `plan_reset`."""
    rewrite.write(source, changes, atomic=atomic)
    for change in changes:
        _log.warning("%s[%d]: group %s begins anew at offset %d", *change.at, source.group, change.offset)


def plan_reset(source: DeploymentContext, make_task: MakeTask) -> list[Change]:
    """Return what a reset changes in every partition.

    Streams keep their version where every output is emitted again with the same bytes; otherwise they get one that was
    never used.
    """
    inputs = source.logs
    changes = []
    with source.reader() as reader:
        live = live_records(reader, source)
        clusters = _live_clusters(reader, source)
        alerts = ForgottenAlerts.read(reader, source)
        committed = reader.committed(inputs)
        bounds = reader.bounds(inputs)
    for records in live.values():
        check_pipeline(source, records)
    bounds |= {at: (end, end) for at, (_, end) in bounds.items() if at[0] == source.routes}
    versions = {at: _next_version(source, at, live[at[1]], bounds[at], committed[at], make_task) for at in inputs}
    if source.routes:
        # A re-keyed stream may have been learned in any partition of the routes, and has the same name in all.
        beyond = [number for number in live if number >= source.deployment.state_partitions]
        further = [_next_version(source, (source.routes, n), live.pop(n), (0, 0), NO_OFFSET, make_task) for n in beyond]
        highest = max([version for at, version in versions.items() if at[0] == source.routes] + further)
        versions |= {at: highest for at in versions if at[0] == source.routes}
    used = {at: used_versions(at, live[at[1]], committed[at], make_task) for at in inputs}
    standing = {partition: standing_streams(records) for partition, records in live.items()}
    for at in inputs:
        topic, partition = at
        first, _ = bounds[at]
        writer = ChangelogWriter(source.identities[topic], partition, began=first)
        task = make_task(topic, partition)
        task.models.first_version = versions[at]
        begin = list(writer.messages(task, first, first))
        if used[at] >= versions[at]:
            index = replace(writer.archives, used=used[at])
            begin.append(Message(archives_key(topic), index.value(), []))
        new = Standing(versions[at], first)
        known = standing[partition].items()
        forgotten = [StreamChange(name, before, new) for name, before in known if is_stream_of(source, at, name)]
        # The first input of a partition removes the records of all its inputs, whatever they hold.
        old = set(live.pop(partition, ())) - {message.key for message in begin}
        messages = chain((Message(key, None, []) for key in sorted(old)), begin)
        removed = [Message(key, None, []) for key in clusters.pop(partition, ())]
        changes.append(
            Change(
                at,
                messages,
                first,
                was=committed[at],
                streams=forgotten,
                clusters=removed,
                reproducible=is_reproducible(first, versions[at]),
                outputs=alerts.clear(at, "reset"),
            )
        )
    return changes


def _live_clusters(reader: LogReader, source: DeploymentContext) -> dict[int, list[bytes]]:
    """Return the keys of the live clusters by partition: after a reset no worker would ever remove them."""
    places = [(source.clusters, partition) for partition in range(source.deployment.state_partitions)]
    live: dict[int, dict[bytes, None]] = {}
    for (_, partition), records in reader.read(reader.bounds([place for place in places if reader.has(place)])):
        keys = live.setdefault(partition, {})
        for record in records:
            if record.key is not None and record.value is not None:
                keys[record.key] = None
            elif record.key is not None:
                keys.pop(record.key, None)
    return {partition: list(keys) for partition, keys in live.items()}


def live_records(reader: LogReader, source: DeploymentContext) -> dict[int, DiskMap]:
    """Return the live snapshot records by partition, chunks without their values.

    The keys are checked, the values are not parsed.
    """
    wanted = [(source.snapshots, partition) for partition in range(source.deployment.state_partitions)]
    while source.routes and reader.has((source.snapshots, len(wanted))):
        # The routes may have had more partitions before.
        wanted.append((source.snapshots, len(wanted)))
    live = {partition: DiskMap() for _, partition in wanted}
    for (_, partition), records in reader.read(reader.settled_bounds(wanted, source.patience)):
        for record in records:
            if record.key is None or not _is_ours(record.key):
                continue
            if record.value is None:
                live[partition].pop(record.key)
            else:
                live[partition].put(record.key, b"" if record.key.startswith(_CHUNK) else record.value)
    return live


def _is_ours(key: bytes) -> bool:
    """Whether a restore reads the record of a key; another program's does no harm."""
    with suppress(*UNREADABLE):
        return key.startswith(_OUR_KEYS) and isinstance(orjson.loads(key)[1], str)
    return False


def standing_streams(live: Mapping[bytes, bytes], keys: Iterable[bytes] | None = None) -> dict[str, Standing]:
    """Return where the streams of a partition stand, or those of some keys, as far as their manifests can be read."""
    found = {}
    for key in live if keys is None else keys:
        with suppress(MismatchError, *UNREADABLE):
            kind, name, *_ = orjson.loads(key)
            if kind == "manifest":
                newest = Manifest.parse(live[key], name)
                found[str(name)] = Standing(int(newest.header["version"]), newest.next)
    return dict(sorted(found.items()))


def check_pipeline(source: DeploymentContext, live: Mapping[bytes, bytes]) -> None:
    """Refuse the records of another pipeline, as far as they can be read."""
    pipeline = next(iter(source.identities.values())).pipeline
    for key, value in live.items():
        if key.startswith(_CHUNK):
            continue
        with suppress(ValueError, TypeError, AttributeError):
            if (owner := orjson.loads(value).get("pipeline", pipeline)) != pipeline:
                raise mismatches.other_pipeline(source.snapshots, owner, pipeline)


def _next_version(
    source: DeploymentContext,
    at: TopicPartition,
    live: Mapping[bytes, bytes],
    bounds: tuple[int, int],
    committed: int,
    make_task: MakeTask,
) -> int:
    """Return the version with which the models of a partition start over.

    It is one that the live records do not show as used, or the same one where the log gives every output again.
    """
    record, (first, end) = record_of(at, live), bounds
    same = record is not None and record.identity == source.identities[at[0]] and record.began == first
    if record is not None and same and max(record.position, committed) <= end:
        with suppress(MismatchError):
            task = make_task(*at)
            task.restore_partition(record.state)
            return task.models.first_version
    return highest_version(at, live, committed, make_task) + 1
