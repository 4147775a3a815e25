"""Write the changes of a deployment whose group has no members: snapshots and offsets, atomically where the broker can.

Recovery, reset and import decide what becomes of each partition. This module makes sure that no worker runs meanwhile,
and writes everything in one transaction, so that messages and offsets take effect together.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

import orjson
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Offset
from confluent_kafka.admin import AdminClient
from resonance.pipeline.checkpoint.archive_writer import archive_of
from resonance.pipeline.checkpoint.changelog_records import (
    UNREADABLE,
    ArchiveIndex,
    Manifests,
    PartitionRecord,
    archives_key,
)
from resonance.pipeline.checkpoint.changelog_table import ChangelogTable
from resonance.pipeline.checkpoint.changelog_writer import NO_ARCHIVES, ChangelogWriter
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.offset_metadata import OffsetMetadata
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.errors import BrokerError, DeliveryError, counted
from resonance.pipeline.kafka.acl import for_group
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.errors import reason_of, right_refused, translated
from resonance.pipeline.kafka.groups import group_offsets, group_state
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader, RestoreCancelledError
from resonance.pipeline.kafka.producer import Batch, Outlet, producer_settings, step
from resonance.pipeline.records import Message, TopicPartition
from resonance.pipeline.tasks import Task

ANSWER_SECONDS: Final = 30.0

_log = logging.getLogger(__name__)


class StreamPosition(NamedTuple):
    """Where a stream's model stands."""

    version: int
    next: int | None
    """Offset behind its last record; None where it is in no snapshot."""


class StreamChange(NamedTuple):
    """What becomes of a stream, by its newest snapshot; shown to users."""

    stream: str
    before: StreamPosition | None
    after: StreamPosition | None


@dataclass(frozen=True, slots=True)
class Change:
    """What is written for a partition."""

    at: TopicPartition
    messages: Iterable[Message]
    """For the snapshots topic."""
    offset: int
    """Offset at which the group continues."""
    archive: Iterable[Message] = ()
    """For the archive topic."""
    was: int = NO_OFFSET
    """The group's offset before; `NO_OFFSET` where it had none."""
    streams: Sequence[StreamChange] = ()
    """The streams that change."""
    clusters: Iterable[Message] = ()
    """For the topic of the clusters."""
    reproducible: bool = False
    """As in `OffsetMetadata`."""
    outputs: Sequence[Batch] = ()
    """For the output topics."""


def rewrite(
    source: DeploymentContext,
    checkpoint: PartitionCheckpoint,
    stored: Collection[bytes] = (),
    was: int = NO_OFFSET,
    archives: ArchiveIndex = NO_ARCHIVES,
    task: Task | None = None,
    *,
    manifests: Manifests | None = None,
    closed: PartitionRecord | None = None,
) -> Change:
    """Return the change with which a checkpoint takes the place of all that is stored of a partition.

    Without transactions it may end behind any message. A start then finds each stream as it was or as it will be, or is
    refused; the same command, run again, completes the change. Between the tombstone of a manifest and an earlier one
    in its place only `closed`, or the mismatch that the command is for, refuses a start: it is the stored record, for a
    command that needs no model of before.

    What the checkpoint does not have of the `stored` keys is removed. `was` is the group's offset before, and
    `archives` are those that stay, with the versions that were used. A `task` begins a history that no log gives again,
    so an archive of it is written. The `manifests` are of the streams that are stored and are in the checkpoint too.
    """
    at, record = checkpoint.at, checkpoint.record
    writer = ChangelogWriter(source.identities[at[0]], at[1], manifests, began=record.began, archives=archives)
    key = archives_key(at[0])
    archive: Iterable[Message] = ()
    listed: Iterable[Message] = ()
    if task is not None:
        archive, listed = archive_of(source, at, task, writer, record.position)
    elif archives.entries or archives.used or key in stored:
        value = writer.archives.value() if archives.entries or archives.used else None
        listed = (Message(key, value, []),)
    first = () if closed is None else (writer.closed(closed, was),)
    # Without transactions the models can be read before the offset is committed. A start in between must not take it
    # for one that was set back: it goes on with the models, and the same command, run again, completes the change.
    messages = writer.rewrite(checkpoint, min(was, record.position), stored, listed)
    return Change(at, chain(first, messages), record.position, archive, was)


def rewrite_models(
    source: DeploymentContext, at: TopicPartition, task: Task, position: int, stored: ChangelogWriter, was: int
) -> Change:
    """Return the change that writes the models of a task, which no log gives again, and an archive of them.

    `position` is the offset at which the partition continues, `was` the group's offset before.
    """
    checkpoint = PartitionCheckpoint.of(task, source.identities[at[0]], at[1], position)
    return rewrite(source, checkpoint, stored.keys, was, stored.archives, task, manifests=stored.manifests)


def is_stream_of(source: DeploymentContext, at: TopicPartition, name: str) -> bool:
    """Whether a stream of this name belongs to a partition."""
    if "/" in name:
        # Only the name of a subtree has a slash: the name of its stream, the version and the root node.
        return at[0] == source.routes
    if source.settings.is_rekeyed:
        # The inputs' partitions have no streams.
        return at[0] == source.routes
    # With several inputs, the names of streams carry the topic.
    prefix = (f"{at[0]}." if len(source.identities[at[0]].inputs) > 1 else "") + f"p{at[1]}"
    return name == prefix or name.startswith(f"{prefix}:")


def is_key_of(source: DeploymentContext, at: TopicPartition, key: bytes) -> bool:
    """Whether a record of the snapshots topic belongs to an input partition."""
    kind, name, *_ = orjson.loads(key)
    return bool(name == at[0]) if kind in ("partition", "archives") else is_stream_of(source, at, str(name))


def read_stored(reader: LogReader, source: DeploymentContext) -> dict[int, ChangelogTable]:
    """Return what is stored by partition, as far as it can be read: a command replaces it, whatever it holds."""
    partitions = [*range(source.deployment.state_partitions)]
    while source.routes and reader.has((source.snapshots, len(partitions))):
        # The routes may have had more partitions before.
        partitions.append(len(partitions))
    return read_tables(reader, source, partitions, source.patience, strict=False)


def stream_positions(
    source: DeploymentContext, at: TopicPartition, stored: ChangelogTable
) -> dict[str, StreamPosition]:
    """Return where the streams of a partition stand, as far as that can be read."""
    found = {}
    for manifest in stored.manifests():
        with suppress(*UNREADABLE):
            if is_stream_of(source, at, manifest.stream):
                found[manifest.stream] = StreamPosition(int(manifest.header["version"]), manifest.next)
    return dict(sorted(found.items()))


WAITING_SECONDS: Final = 5.0
"""Seconds beyond the session timeout for which members of a group are waited for."""


def members_of(source: DeploymentContext) -> list[str] | None:
    """Return the members of the group as client and host, in any order; None where it has none.

    Raises `BrokerError` where the broker does not describe the group, and `DeniedError` without the right to it.
    """
    if source.deployment.embedded:
        return None
    with translated(source.client, f"group {source.group} cannot be described: {{reason}}", for_group(source.group)):
        # Without the right to describe it the group would look as if it had no members; its offsets need the same.
        group_offsets(source.client, source.group, [Offset(*source.logs[0])], ANSWER_SECONDS)
        found = group_state(new_client(AdminClient, {"log_level": 0, **source.client}), source.group, ANSWER_SECONDS)
    if found is None or found.state in ("Empty", "Dead"):
        return None
    # The list is empty while members are only joining.
    return [f"{member.client} on {member.host}" for member in found.members]


def wait_for_empty_group(
    source: DeploymentContext,
    cancelled: threading.Event,
    report: Callable[[str], None] = _log.info,
    *,
    at_once: bool = False,
) -> None:
    """Wait until the group has no members: a killed worker counts as one until its session times out.

    `report` is called once with the members, and `cancelled` ends the wait with `RestoreCancelledError`. Raises
    `BrokerError` where a member remains, or is there `at_once`: every worker of the group must be stopped first.
    """
    end = time.monotonic() + (0 if at_once else source.settings.broker.session_timeout + WAITING_SECONDS)
    is_logged = False
    while True:
        members = members_of(source)
        if members is None:
            return
        hosts = ", ".join(sorted({*members})) or "joining"
        if time.monotonic() > end:
            raise BrokerError(
                f"group {source.group} has {counted(len(members), 'member')} ({hosts}); stop every worker of the "
                "group first"
            )
        if not is_logged:
            report(f"waiting for the members of group {source.group} to be gone: {hosts}")
            is_logged = True
        if cancelled.wait(0.5):
            raise RestoreCancelledError


def metadata_of(source: DeploymentContext, change: Change) -> str:
    """Return the metadata to commit with the offset of a change."""
    return OffsetMetadata(source.identities[change.at[0]].topic_id, change.reproducible).at(change.offset)


def end_open_transaction(source: DeploymentContext) -> None:
    """End the transaction that a killed command has left open, for which a restore would wait until it times out."""
    producer = new_client(Producer, {"log_level": 0, **source.client, **_transactional(source)})
    with translated(source.client, f"group {source.group} cannot be changed: {{reason}}"):
        producer.init_transactions(ANSWER_SECONDS)


def _transactional(source: DeploymentContext) -> dict[str, Any]:
    """Return the settings of the producer of changes, which may write for as long as a worker's may."""
    return {
        "transactional.id": f"{source.group}-recovery",
        "transaction.timeout.ms": round(1000 * source.settings.delivery.transaction_timeout),
    }


def write(source: DeploymentContext, changes: Sequence[Change]) -> None:
    """Write the changes, in one transaction where workers have them."""
    if not changes:
        return
    atomic = not source.deployment.embedded and source.settings.delivery.mode == "exactly_once"
    outputs = (batch.topic for change in changes for batch in change.outputs)
    written = {source.snapshots, source.archive, source.settings.topic("clusters"), *outputs}
    limits = {topic: size for topic, size in source.deployment.message_bytes.items() if topic in written}
    settings: dict[str, Any] = producer_settings(source.client, message_bytes=limits)
    if atomic:
        settings |= _transactional(source)
    outlet = Outlet(settings, ANSWER_SECONDS, reports=True)
    consumer = new_client(
        Consumer, {"log_level": 0, **source.client, "group.id": source.group, "enable.auto.commit": False}
    )
    offsets = [Offset(*change.at, change.offset, metadata_of(source, change)) for change in changes]
    try:
        if atomic:
            outlet.producer.init_transactions(ANSWER_SECONDS)
        with step(outlet, consumer, offsets, atomic=atomic):
            for change in changes:
                # The messages list the archive: it has to be stored before them.
                outlet.send(Batch(source.archive, change.at[1], change.archive))
                outlet.flush()
                outlet.send(Batch(source.snapshots, change.at[1], change.messages))
                outlet.send(Batch(source.settings.topic("clusters"), change.at[1], change.clusters))
                for batch in change.outputs:
                    outlet.send(batch)
    except (KafkaException, DeliveryError) as error:
        raise right_refused(source.client, error) or BrokerError(
            f"group {source.group} and topic {source.snapshots} could not be changed ({reason_of(error)}); run the "
            "same command again"
        ) from error
    finally:
        consumer.close()
