"""What mends a named stop: each gives something up, so that only a user can ask for it.

`resume_from_snapshots`, `reset` and `begin_versions` are the three that `stops` names. `mend` does one of them before
the worker joins its group, on a group without members, and it is written at once where the broker has transactions:
offsets, tombstones and new snapshots count together. Where nothing is broken it changes nothing and waits for nobody,
so that a flag that stays on the command line of several workers does no harm, but for `reset`, which begins anew
whenever it is asked to.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import orjson
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException
from confluent_kafka import TopicPartition as Offset
from confluent_kafka.admin import AdminClient
from resonance.pipeline import stops
from resonance.pipeline.delivery import Batch, Outlet, producer_settings
from resonance.pipeline.errors import BrokerError, ConfigurationError, DeliveryError, MismatchError
from resonance.pipeline.exactly_once import ABORT_SECONDS
from resonance.pipeline.log_reader import NO_OFFSET, LogReader, RestoreCancelledError, TopicPartition
from resonance.pipeline.partition import PartitionTask
from resonance.pipeline.records import Message, StreamSnapshot
from resonance.pipeline.restore import Source, read_tables, restore_partitions
from resonance.pipeline.settings import Settings
from resonance.pipeline.snapshot_records import UNREADABLE, Identity, Manifest, PartitionRecord
from resonance.pipeline.snapshot_table import SnapshotTable
from resonance.pipeline.snapshots import SnapshotWriter, Task

ANSWER_SECONDS: Final = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """What is written for an input partition: messages to the snapshots topic, and where the group goes on."""

    at: TopicPartition
    messages: Iterable[Message]
    offset: int


def mend(command: str, settings: Settings, source: Source, cancelled: threading.Event | None = None) -> int:
    """Do what one of the commands that `stops` names stands for.

    Parameters
    ----------
    command : str
        `stops.RESUME`, `stops.RESET` or `stops.NEW_VERSION`.
    settings : Settings
        The deployment's.
    source : Source
        The deployment.
    cancelled : Event, optional
        Ends the waiting for an empty group, with `RestoreCancelledError`; nobody waits where nothing is broken.

    Returns
    -------
    int
        Partitions that were changed.

    Raises
    ------
    MismatchError
        Something that this command does not mend.
    BrokerError
        The group has members, or the broker does not do it.
    """
    atomic = not source.deployment.embedded and settings.delivery.mode == "exactly_once"

    def alone() -> None:
        _wait_for_empty_group(source, cancelled or threading.Event())

    if command == stops.RESUME:
        return resume_from_snapshots(source, alone, atomic=atomic)
    if command == stops.RESET:
        alone()
        return reset(source, lambda topic, partition: PartitionTask(settings, topic, partition), atomic=atomic)
    return begin_versions(settings, source, PartitionTask, alone, atomic=atomic)


def resume_from_snapshots(source: Source, alone: Callable[[], None] = lambda: None, *, atomic: bool = True) -> int:
    """Set lost and set-back offsets to where the snapshots end.

    Parameters
    ----------
    source : Source
        The deployment.
    alone : callable
        Returns once the group has no members; called where something is to be changed.
    atomic : bool
        The broker has transactions.

    Returns
    -------
    int
        Partitions whose offset was set; the others were in order.
    """
    if not _offsets_lost(source):
        return 0
    alone()
    # Whoever was there may have gone on meanwhile.
    changes = []
    for at, (committed, position) in _offsets_lost(source).items():
        changes.append(Change(at, [], position))
        was = "had no offset" if committed == NO_OFFSET else f"was at offset {committed}"
        _log.warning("%s[%d]: group %s %s, goes on at %d", *at, source.group, was, position)
    _write(source, changes, atomic=atomic)
    return len(changes)


def _offsets_lost(source: Source) -> dict[TopicPartition, tuple[int, int]]:
    """Return the committed offset and the snapshots' position of each partition where the one is behind the other."""
    inputs = _inputs(source)
    with LogReader(source.client, source.group, source.patience) as reader:
        # In this order a group that works meanwhile is never behind.
        tables = read_tables(reader, source, range(source.deployment.partitions), settle=source.patience)
        committed = reader.committed(inputs)
    lost = {}
    for at in inputs:
        record = tables[at[1]].records().get(at[0])
        if record is not None and committed[at] < record.committed:
            lost[at] = committed[at], record.position
    return lost


def reset(source: Source, make_task: Callable[[str, int], Task], *, atomic: bool = True) -> int:
    """Forget models and offsets, and begin anew where the log begins now.

    Where this gives every output again with the same bytes the streams keep their version; otherwise they get one that
    was never used.

    Parameters
    ----------
    source : Source
        The deployment.
    make_task : callable
        Makes an empty task for an input partition.
    atomic : bool
        The broker has transactions.

    Returns
    -------
    int
        Partitions: all of them.
    """
    inputs = _inputs(source)
    changes = []
    with LogReader(source.client, source.group, source.patience) as reader:
        live = _live_records(reader, source)
        committed = reader.committed(inputs)
        bounds = reader.bounds(inputs)
    epochs = {partition: _checked_epoch(source, records) for partition, records in live.items()}
    versions = {at: _next_version(source, at, live[at[1]], bounds[at], committed[at], make_task) for at in inputs}
    for at in inputs:
        topic, partition = at
        first, _ = bounds[at]
        writer = SnapshotWriter(source.identities[topic], epoch=epochs[partition] + 1, began=first)
        task = make_task(topic, partition)
        task.first_version = versions[at]
        begin = list(writer.messages(task, first, first))
        # The first input of a partition forgets for all of them, whatever stands there.
        old = set(live.pop(partition, {})) - {message.key for message in begin}
        changes.append(Change(at, chain((Message(key, None, []) for key in sorted(old)), begin), first))
        told = (topic, partition, source.group, first, task.first_version)
        _log.warning("%s[%d]: group %s begins anew at offset %d, with version %d", *told)
    _write(source, changes, atomic=atomic)
    return len(changes)


def begin_versions(
    settings: Settings,
    source: Source,
    make_task: Callable[[Settings, str, int], PartitionTask],
    alone: Callable[[], None] = lambda: None,
    *,
    atomic: bool = True,
) -> int:
    """Begin new models, under the present settings, where the old ones cannot go on; the place in the log stays.

    Where the log still allows it the old models are rebuilt up to that place first, under the settings they were
    learned with; otherwise their last snapshots stand for them.

    Parameters
    ----------
    settings : Settings
        The present ones.
    source : Source
        The deployment under them.
    make_task : callable
        Makes an empty task under some settings for an input partition.
    alone : callable
        As in `resume_from_snapshots`.
    atomic : bool
        The broker has transactions.

    Returns
    -------
    int
        Partitions that got new models; the others go on as they are.

    Raises
    ------
    MismatchError
        Something that new models do not mend.
    """
    inputs = _inputs(source)

    def stop(at: TopicPartition) -> MismatchError | None:
        """Why a partition cannot go on as it is."""
        try:
            restore_partitions(source, [at], lambda topic, partition: make_task(settings, topic, partition))
        except MismatchError as found:
            return found
        return None

    # Other stops may be nothing but a group that works meanwhile; they come again where they are real.
    if not any(found and stops.NEW_VERSION in found.remedies for found in map(stop, inputs)):
        return 0
    alone()
    changes = []
    with LogReader(source.client, source.group, source.patience) as reader:
        tables = read_tables(reader, source, range(source.deployment.partitions), settle=source.patience)
        committed = reader.committed(inputs)
        bounds = reader.bounds(inputs)
    for at in inputs:
        topic, partition = at
        found = stop(at)
        if found is None:
            continue
        if stops.NEW_VERSION not in found.remedies:
            raise found
        _log.info("new models, because %s", found)
        table, record = tables[partition], tables[partition].records().get(topic)
        first, end = bounds[at]
        start = min(max(committed[at], record.position if record else first, first), end)
        task = make_task(settings, topic, partition)
        old, complete = _old_models(settings, source, at, table, make_task)
        if old:
            _take_over(settings, task, record)
        known = [snapshot.header["version"] for snapshot in old]
        before = make_task(settings, topic, partition)
        if record is not None:
            before.restore_partition(record.state)
            task.take_emission(before)
        # A stream that learned and was never snapshotted has used ids too, below this version.
        task.first_version = max([before.first_version, *known]) + (not complete)
        for snapshot in old:
            task.restore(replace(snapshot, next=start), new_version=True)
        writer = table.writer(source.identities[topic])
        writer.began = NO_OFFSET
        changes.append(Change(at, writer.messages(task, start, start, everything=True), start))
        _log.warning("%s[%d]: %d streams begin new models at offset %d", topic, partition, len(old), start)
    _write(source, changes, atomic=atomic)
    return len(changes)


def _take_over(settings: Settings, task: PartitionTask, record: PartitionRecord | None) -> None:
    """Give a task what the partition knew of its records' features, where they stand where they stood."""
    before = record.identity.settings.get("input.features") if record else None
    if settings.features is None and before != settings.input.features:
        raise ConfigurationError(
            f"input.features = {settings.input.features!r} was {before!r}: what stands there is not known before "
            "records are read, so new models cannot take over; list the paths one by one, or use --reset"
        )
    if record is not None and settings.features is None:
        task.restore_partition(record.state)


def _old_models(
    settings: Settings,
    source: Source,
    at: TopicPartition,
    table: SnapshotTable,
    make_task: Callable[[Settings, str, int], PartitionTask],
) -> tuple[list[StreamSnapshot], bool]:
    """Return the old models of a partition, and whether these are all of them, at its place in the log.

    Otherwise they are those that were snapshotted, as they were then.
    """
    record = table.records().get(at[0])
    snapshots = {stream: table.newest(stream)[0] for stream in table.streams(at[0])}
    if record is None:
        return list(snapshots.values()), False
    now = source.identities[at[0]]
    try:
        learned = _settings_then(settings, record.identity)
        # The present program learns again: it has to be the revision that learned before.
        identity = replace(record.identity, revision=now.revision)
        old_source = replace(source, identities={at[0]: identity})
        part = restore_partitions(old_source, [at], lambda *own: make_task(learned, *own))[at]
    except (MismatchError, ConfigurationError) as error:
        _log.warning("%s[%d]: the last snapshots stand for the old models: %s", *at, error)
        return list(snapshots.values()), False
    snapshots |= {stream: part.task.snapshot(stream) for stream in part.task.dirty()}
    return list(snapshots.values()), True


def _settings_then(settings: Settings, identity: Identity) -> Settings:
    """Return the settings under which models were learned."""
    values = settings.model_dump()
    values["engine"] = {"name": identity.engine}
    for name, value in [*identity.settings.items(), *identity.limits.items()]:
        section, _, key = name.rpartition(".")
        (values[section] if section else values)[key] = value
    return Settings.of(values)


def _inputs(source: Source) -> list[TopicPartition]:
    return [(topic, partition) for topic in source.identities for partition in range(source.deployment.partitions)]


def _live_records(reader: LogReader, source: Source) -> dict[int, dict[bytes, bytes]]:
    """Return the live records under keys of ours by partition, without asking what they mean."""
    wanted = [(source.snapshots, partition) for partition in range(source.deployment.partitions)]
    live: dict[int, dict[bytes, bytes]] = {partition: {} for _, partition in wanted}
    for (_, partition), records in reader.read(reader.settled_bounds(wanted, source.patience)):
        for record in records:
            if record.key is None or not record.key.startswith((b'["chunk",', b'["manifest",', b'["partition",')):
                continue
            if record.value is None:
                live[partition].pop(record.key, None)
            else:
                live[partition][record.key] = record.value
    return live


def _checked_epoch(source: Source, live: Mapping[bytes, bytes]) -> int:
    """Return the highest epoch of the records of a partition, as far as they can be read and are this pipeline's."""
    highest = 0
    pipeline = next(iter(source.identities.values())).pipeline
    for key, value in live.items():
        if key.startswith(b'["chunk",'):
            continue
        try:
            data = orjson.loads(value)
            owner, epoch = data.get("pipeline", pipeline), int(data["epoch"])
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if owner != pipeline:
            raise stops.other_pipeline(source.snapshots, owner, pipeline)
        highest = max(highest, epoch)
    return highest


def _next_version(
    source: Source,
    at: TopicPartition,
    live: Mapping[bytes, bytes],
    bounds: tuple[int, int],
    committed: int,
    make_task: Callable[[str, int], Task],
) -> int:
    """Return the version with which the models of a partition begin anew.

    It is one that was never used, as far as the live records tell; but the same where the log tells everything again.
    """
    topic, partition = at
    # Whoever wrote anything has begun with version 1, whatever can be read of it now.
    highest = int(bool(live) or committed != NO_OFFSET)
    for key, value in live.items():
        with suppress(MismatchError, AttributeError, *UNREADABLE):
            kind, name, *_ = orjson.loads(key)
            if kind == "manifest":
                manifest = Manifest.parse(value, name)
                versions = [version for version in (manifest.current, manifest.previous) if version is not None]
                highest = max([highest, *(int(version.header["version"]) for version in versions)])
            elif kind == "partition":
                record = PartitionRecord.parse(value, name)
                task = make_task(topic, partition)
                task.restore_partition(record.state)
                first, end = bounds
                same = record.identity == source.identities[topic] and record.began == first
                if same and max(record.position, committed) <= end:
                    return task.first_version
                highest = max(highest, task.first_version)
    return highest + 1


def _wait_for_empty_group(source: Source, cancelled: threading.Event) -> None:
    """Wait until the group has no members: a worker that was killed counts as one until its session times out.

    Raises
    ------
    BrokerError
        Somebody is still there.
    """
    if source.deployment.embedded:
        return
    admin = AdminClient({"log_level": 0, **source.client})
    end = time.monotonic() + source.session_timeout + 5
    told = False
    while True:
        try:
            group = admin.describe_consumer_groups([source.group], request_timeout=ANSWER_SECONDS)[
                source.group
            ].result()
        except KafkaException as error:
            raise BrokerError(f"group {source.group} cannot be described: {error.args[0].str()}") from error
        if group.state in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
            return
        hosts = ", ".join(sorted({f"{member.client_id} on {member.host}" for member in group.members})) or "joining"
        if time.monotonic() > end:
            raise BrokerError(
                f"group {source.group} has {len(group.members)} members ({hosts}); stop every worker of the group first"
            )
        if not told:
            _log.info("waiting for the members of group %s to be gone: %s", source.group, hosts)
            told = True
        if cancelled.wait(0.5):
            raise RestoreCancelledError


def _write(source: Source, changes: Sequence[Change], *, atomic: bool) -> None:
    """Write the changes; in one transaction if `atomic`."""
    if not changes:
        return
    limits = {topic: size for topic, size in source.deployment.message_bytes.items() if topic == source.snapshots}
    settings: dict[str, Any] = producer_settings(source.client, message_bytes=limits)
    if atomic:
        settings["transactional.id"] = f"{source.group}-mending"
    outlet = Outlet(settings, ANSWER_SECONDS, reports=True)
    producer = outlet.producer
    consumer = Consumer({"log_level": 0, **source.client, "group.id": source.group, "enable.auto.commit": False})
    offsets = [Offset(*change.at, change.offset) for change in changes]
    try:
        if atomic:
            producer.init_transactions(ANSWER_SECONDS)
            producer.begin_transaction()
        for change in changes:
            outlet.send(Batch(source.snapshots, change.at[1], change.messages))
        outlet.flush()
        if atomic:
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), ANSWER_SECONDS)
            producer.commit_transaction(ANSWER_SECONDS)
        else:
            consumer.commit(offsets=offsets, asynchronous=False)
    except BaseException as error:
        if atomic:
            # Readers of the snapshots topic would wait for the end of what is left open.
            with suppress(KafkaException):
                producer.abort_transaction(ABORT_SECONDS)
        if not isinstance(error, (KafkaException, DeliveryError)):
            raise
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise BrokerError(
            f"group {source.group} and topic {source.snapshots} could not be changed ({reason}); run the same command "
            "again"
        ) from error
    finally:
        consumer.close()
