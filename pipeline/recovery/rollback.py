"""Roll partitions back to an earlier state: to an archive, or to what an exported file holds of them.

When workers start, they relearn everything after that offset and emit it again. Under the same settings this gives the
same bytes. A rollback that would use cluster ids for something else goes on under new ones, or is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.archive_reader import Archives, archive_name
from resonance.pipeline.checkpoint.changelog_records import PartitionRecord
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.compatibility import check_record
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, OffsetRange
from resonance.pipeline.kafka.positions import Position, offsets_of
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.recovery.forgotten_alerts import ForgottenAlerts
from resonance.pipeline.recovery.models import check_models, models_then, used_versions, version_of_new
from resonance.pipeline.recovery.rewrite import (
    Change,
    StreamChange,
    StreamPosition,
    is_key_of,
    read_stored,
    rewrite,
    stream_positions,
)
from resonance.pipeline.recovery.routes import check_not_routed
from resonance.pipeline.recovery.succession import succession


def roll_back(
    source: DeploymentContext,
    checkpoint: PartitionCheckpoint,
    stored: ChangelogTable,
    committed: int,
    bounds: OffsetRange,
    alerts: ForgottenAlerts,
) -> Change:
    """Return the change that rolls a partition back to a checkpoint.

    `stored` is what stands on the snapshots topic, `alerts` are the open ones. Raises `MismatchError` where the
    checkpoint belongs to another deployment, log or settings or cannot be loaded, where the log no longer reaches back
    to it, or where cluster ids would be reused.
    """
    at, record, snapshots = checkpoint.at, checkpoint.record, checkpoint.streams
    first, end = bounds
    # Outputs up to the committed offset are emitted again and must be the same, or cluster ids would mean others.
    check_record(source, at, record, max(record.position, committed))
    task = check_models(source, checkpoint)
    first_version = task.models.first_version
    if record.recovery_offset > record.position:
        raise MismatchError(f"{at[0]}[{at[1]}]: offset {record.position}, where it is to go on, was not reached")
    if record.recovery_offset < first:
        raise mismatches.truncated(*at, first, record.recovery_offset, first - record.recovery_offset)
    if (furthest := max([record.position, *(snapshot.next for snapshot in snapshots)])) > end:
        raise mismatches.offset_beyond_end(source.group, *at, furthest, end)
    mine = {key for key in stored.keys if is_key_of(source, at, key)}
    for key in mine & stored.unreadable:
        raise MismatchError(
            f"{at[0]}[{at[1]}]: the record of key {key.decode(errors='replace')} on topic {source.snapshots} cannot be "
            "read, so that the versions in use are unknown, and ids of clusters could be used again; begin anew with "
            "`resonance reset`"
        )
    standing = stream_positions(source, at, stored)
    after = {snapshot.stream: StreamPosition(int(snapshot.header["version"]), snapshot.next) for snapshot in snapshots}
    # A stream without a model in the state starts with the state's first version.
    new = StreamPosition(first_version, record.position)
    if not _is_of_log(source, at, record, stored):
        _check_versions(at, {name: after.get(name, new) for name in standing}, standing)
    if (begun := version_of_new(source, at, stored) or 1) > first_version:
        raise _gone_behind(f"{at[0]}[{at[1]}]: every stream", begun, new)
    now = source.identities[at[0]]
    began = record.began if record.identity == now else NO_OFFSET
    # The archives behind it are of models that are given up.
    used = used_versions(source, at, stored, committed)
    archives = replace(stored.archives(at[0]), entries=stored.archives(at[0]).until(record.position), used=used)
    checkpoint = replace(checkpoint, record=replace(record, began=began))
    manifests = stored.writer(now).manifests
    closed = stored.records().get(at[0])
    change = rewrite(source, checkpoint, mine, committed, archives, manifests=manifests, closed=closed)
    streams = [
        StreamChange(name, standing.get(name), after.get(name))
        for name in sorted({*standing, *after})
        if standing.get(name) != after.get(name)
    ]
    kept = task.open_alerts
    # What opened among the records that are learned again without outputs opens again.
    again = range(record.recovery_offset, record.position)
    cleared = alerts.clear(at, "rollback", lambda found: found.key in kept or found.offset in again)
    return replace(change, streams=streams, outputs=cleared)


def _is_of_log(source: DeploymentContext, at: TopicPartition, record: PartitionRecord, stored: ChangelogTable) -> bool:
    """Whether the log alone raised the versions of streams since a state: it ended them, and will end them again."""
    if (now := stored.records().get(at[0])) is not None:
        return now.identity == record.identity == source.identities[at[0]] and 0 <= now.began <= record.position
    return False


def _check_versions(
    at: TopicPartition, after: Mapping[str, StreamPosition], standing: Mapping[str, StreamPosition]
) -> None:
    """Refuse to roll a stream back behind the start of its version: its next version would reuse this version's ids.

    Raises `MismatchError`, which names the stream: a later state, or a reset, is needed.
    """
    for stream, now in standing.items():
        if stream in after and after[stream].version < now.version:
            raise _gone_behind(f"{at[0]}[{at[1]}]: stream {stream}", now.version, after[stream])


class _GoneBehindError(MismatchError):
    """Models are from before the beginning of a version."""


def _gone_behind(who: str, version: int, back: StreamPosition) -> MismatchError:
    return _GoneBehindError(
        f"{who} has begun version {version} since it stood at offset {back.next} with version {back.version}, and a "
        "later version would use the ids of clusters again that it has used; choose a later state, or begin anew with "
        "`resonance reset`"
    )


def _is_routed(source: DeploymentContext, at: TopicPartition) -> bool:
    """Whether a partition is learned by its routes alone: what is routed stays so, and is not routed again."""
    return source.settings.is_rekeyed and at[0] != source.routes


def plan_import(source: DeploymentContext, partitions: Sequence[PartitionCheckpoint]) -> list[Change]:
    """Return the changes that roll partitions back to what an exported file holds of them.

    Raises `MismatchError` where the file belongs to another deployment, where `roll_back` refuses it, or where the
    offset of an input is lost and records behind the file's are routed already.
    """
    changes, lost = [], {}
    with source.reader() as reader:
        stored = read_stored(reader, source)
        alerts = ForgottenAlerts.read(reader, source)
        for partition in partitions:
            at = partition.at
            if at not in source.logs:
                raise MismatchError(f"{at[0]}[{at[1]}] is no input partition of this deployment")
            committed, bounds = reader.committed([at])[at], reader.bounds([at])[at]
            if committed == NO_OFFSET:
                lost[at] = partition.position
            elif _is_routed(source, at):
                here = replace(partition.record, position=committed, recovery_offset=committed)
                partition = replace(partition, record=here)  # noqa: PLW2901 - the same partition, further on
            changes.append(roll_back(source, partition, stored[at[1]], committed, bounds, alerts))
        # The models of the file are those that go on.
        imported = {one.at[1]: one.record for one in partitions if one.at[0] == source.routes}
        check_not_routed(reader, source, lost, stored, imported)
    return changes


def plan_return(source: DeploymentContext, place: Position) -> tuple[list[Change], list[TopicPartition]]:
    """Return the changes that roll every partition back to an archive, and the partitions that stay where they are.

    Models from before the beginning of a version go on as the next one, so that no id of a cluster is used again.
    Raises `MismatchError` where a partition has no archive that early, or where `roll_back` refuses its newest one:
    choose another time, or reset.
    """
    changes, unchanged = [], []
    inputs = source.logs
    with source.reader() as reader:
        stored = read_stored(reader, source)
        committed = reader.committed(inputs)
        bounds = reader.bounds(inputs)
        alerts = ForgottenAlerts.read(reader, source)
        # The offset behind the last record of that time.
        behind = {} if place.time is None else offsets_of(reader, Position(time=place.time + 1), bounds)
        for at in inputs:
            wanted = place.offset if place.offset is not None else behind[at]
            unknown = committed[at] == NO_OFFSET and not any(is_key_of(source, at, key) for key in stored[at[1]].keys)
            if unknown or NO_OFFSET < committed[at] <= wanted or _is_routed(source, at):
                unchanged.append(at)
                continue
            found = Archives(reader, source, at, stored[at[1]].archives(at[0]).entries).newest(wanted)
            if found is None:
                raise MismatchError(
                    f"{at[0]}[{at[1]}]: topic {source.archive} has no archive of it at or before offset {wanted}; "
                    "choose a later time, or begin anew with `resonance reset`"
                )
            found = _with_beginning(found, stored[at[1]])
            try:
                changes.append(roll_back(source, found, stored[at[1]], committed[at], bounds[at], alerts))
            except _GoneBehindError as error:
                changes.append(_as_next_version(source, found, stored[at[1]], alerts, error))
            except MismatchError as error:
                raise _not_this(found, error) from None
    return changes, unchanged


def _as_next_version(
    source: DeploymentContext,
    archived: PartitionCheckpoint,
    stored: ChangelogTable,
    alerts: ForgottenAlerts,
    error: MismatchError,
) -> Change:
    """Return the change that lets archived models go on as the next version; `error` says why not as theirs.

    Raises `error` where the present models cannot be restored, whose events the next version goes on with.
    """
    record = stored.records().get(archived.at[0])
    if source.settings.is_routed or record is None:
        raise error
    present = models_then(source, archived.at, record)
    if present is None:
        raise error
    return succession(source, archived.at, present, archived.record.state, archived.streams, archived.position, alerts)


def _not_this(archived: PartitionCheckpoint, error: MismatchError) -> MismatchError:
    """Return why an archive is refused, without the remedies of a worker, which would not roll back."""
    if not error.remedies:
        return error
    remedy = (
        "set settings and release back, or choose a time at which the present ones were in use"
        if error.remedies == (mismatches.NEW_VERSION,)
        else "choose another time, or begin anew with `resonance reset`"
    )
    return MismatchError(f"{error.problem}; {archive_name(archived)} cannot be gone back to: {remedy}")


def _with_beginning(archived: PartitionCheckpoint, stored: ChangelogTable) -> PartitionCheckpoint:
    """Return an archive with the offset where its models began, if the present record knows it."""
    record, present = archived.record, stored.records().get(archived.at[0])
    if present is not None and present.identity == record.identity and present.began <= record.position:
        return replace(archived, record=replace(record, began=present.began))
    return archived
