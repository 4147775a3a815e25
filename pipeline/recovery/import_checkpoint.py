"""Write the snapshots of an exported file into a deployment whose workers are stopped.

A partition that the file holds completely is restored as a whole, with the offset that belongs to it. Single streams
are added beside the existing ones; at its next start the partition relearns the records that they lack.
"""

from collections.abc import Sequence
from dataclasses import replace

from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.compatibility import check_record
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader, OffsetRange
from resonance.pipeline.recovery.forgotten_alerts import ForgottenAlerts
from resonance.pipeline.recovery.model_checks import check_models
from resonance.pipeline.recovery.reset import live_records
from resonance.pipeline.recovery.rewrite import Change, Standing, StreamChange
from resonance.pipeline.recovery.rollback import check_versions, roll_back
from resonance.pipeline.tasks import MakeTask


def plan_import(
    source: DeploymentContext, partitions: Sequence[PartitionCheckpoint], make_task: MakeTask
) -> list[Change]:
    """Return what an import changes in each partition.

    Raises `MismatchError` where the file belongs to another deployment or log, was learned under other settings, cannot
    be loaded, or would reuse cluster ids.
    """
    changes = []
    with LogReader(source.client, source.group, source.patience) as reader:
        live = live_records(reader, source)
        alerts = ForgottenAlerts.read(reader, source)
        for partition in partitions:
            at = partition.at
            if at not in source.logs:
                raise MismatchError(f"{at[0]}[{at[1]}] is no input partition of this deployment")
            committed, bounds = reader.committed([at])[at], reader.bounds([at])[at]
            if partition.complete:
                changes.append(roll_back(source, partition, live[at[1]], committed, bounds, alerts, make_task))
            else:
                table = read_tables(reader, source, {at[1]})[at[1]]
                changes.append(_beside(source, partition, table, committed, bounds, alerts, make_task))
    return changes


def _beside(
    source: DeploymentContext,
    partition: PartitionCheckpoint,
    table: ChangelogTable,
    committed: int,
    bounds: OffsetRange,
    alerts: ForgottenAlerts,
    make_task: MakeTask,
) -> Change:
    """Return the change that adds streams beside the existing ones; the partition keeps its offset."""
    at, record = partition.at, table.records().get(partition.at[0])
    where = f"{at[0]}[{at[1]}]"
    if record is None:
        raise MismatchError(
            f"{where}: the file holds only some of its streams, and the deployment has none there; import a file of all"
        )
    stands = max(committed, record.position)
    recovery_offset = min(record.recovery_offset, *(snapshot.next for snapshot in partition.streams))
    for one in (partition.record, record):
        # Relearning must give the same models under the file's identity and under the present one.
        check_record(source, at, replace(one, recovery_offset=recovery_offset, position=stands))
    given = replace(partition, record=replace(record, recovery_offset=recovery_offset))
    kept = check_models(source, given, make_task).open_alerts
    changes = []
    for snapshot in partition.streams:
        if snapshot.next > stands:
            raise MismatchError(
                f"{where}: the file has stream {snapshot.stream} at offset {snapshot.next}, the deployment stands at "
                f"{stands}; import a file of all its streams"
            )
        if snapshot.next < bounds[0]:
            raise MismatchError(
                f"{where}: the log begins at offset {bounds[0]}, and what stream {snapshot.stream} has not learned in "
                f"the file, from offset {snapshot.next} on, is deleted"
            )
        present = table.newest(snapshot.stream)[0] if snapshot.stream in table.streams(at[0]) else None
        before = Standing(int(present.header["version"]), present.next) if present else None
        after = Standing(int(snapshot.header["version"]), snapshot.next)
        check_versions(at, {snapshot.stream: after}, {snapshot.stream: before} if before else {})
        changes.append(StreamChange(snapshot.stream, before, after))
    writer = table.writer(source.identities[at[0]])
    if partition.record.began != record.began:
        # These streams were learned from another start: a reset that emits everything again would emit something else.
        writer.began = NO_OFFSET
    messages = writer.checkpoint_messages(given, record.committed)
    learned = {snapshot.stream: snapshot.next for snapshot in partition.streams}
    # What opened behind the state of its stream opens again, while the stream learns what it lacks.
    cleared = alerts.clear(
        at,
        "rollback",
        lambda found: found.key in kept or found.stream not in learned or found.offset >= learned[found.stream],
    )
    return Change(at, messages, stands, was=committed, streams=changes, outputs=cleared)
