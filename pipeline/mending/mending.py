"""What mends a named stop: each gives something up, so that only a user can ask for it.

`resume_from_snapshots`, `reset` and `begin_versions` are the three that `stops` names. `mend` does one of them before
the worker joins its group, on a group without members, and it is written at once where the broker has transactions:
offsets, tombstones and new snapshots count together. Where nothing is broken it changes nothing and waits for nobody,
so that a flag that stays on the command line of several workers does no harm, but for `reset`, which begins anew
whenever it is asked to.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from resonance.pipeline import stops
from resonance.pipeline.broker.log_reader import NO_OFFSET, LogReader, TopicPartition
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, MismatchError
from resonance.pipeline.mending.changes import Change, acknowledged, inputs_of, is_atomic, wait_for_empty_group, write
from resonance.pipeline.mending.resetting import reset
from resonance.pipeline.records import StreamSnapshot
from resonance.pipeline.routing.routed_task import RoutedTask
from resonance.pipeline.states.archives import archive_of
from resonance.pipeline.states.restore import read_tables, restore_partitions
from resonance.pipeline.states.snapshot_records import Identity, PartitionRecord
from resonance.pipeline.states.snapshot_table import SnapshotTable
from resonance.pipeline.states.source import Source
from resonance.pipeline.tasks import Task, make_task, task_maker

_log = logging.getLogger(__name__)


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
    atomic = is_atomic(settings, source)

    def alone() -> None:
        wait_for_empty_group(source, cancelled or threading.Event())

    if command == stops.RESUME:
        return resume_from_snapshots(source, alone, atomic=atomic)
    if command == stops.RESET:
        alone()
        return reset(source, task_maker(settings, source.deployment.routes), atomic=atomic)
    tasks = partial(make_task, routes=source.deployment.routes)
    return begin_versions(settings, source, tasks, alone, atomic=atomic)


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
    write(source, changes, atomic=atomic)
    return len(changes)


def _offsets_lost(source: Source) -> dict[TopicPartition, tuple[int, int]]:
    """Return the committed offset and the snapshots' position of each partition where the one is behind the other."""
    inputs = inputs_of(source)
    with LogReader(source.client, source.group, source.patience) as reader:
        # In this order a group that works meanwhile is never behind.
        tables = read_tables(reader, source, range(source.deployment.homes), settle=source.patience)
        committed = reader.committed(inputs)
    lost = {}
    for at in inputs:
        record = tables[at[1]].records().get(at[0])
        if record is not None and committed[at] < record.committed:
            lost[at] = committed[at], record.position
    return lost


def begin_versions(
    settings: Settings,
    source: Source,
    make_task: Callable[[Settings, str, int], Task],
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
    inputs = inputs_of(source)

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
        tables = read_tables(reader, source, range(source.deployment.homes), settle=source.patience)
        committed = reader.committed(inputs)
        bounds = reader.bounds(inputs)
    for at in inputs:
        topic, partition = at
        found = stop(at)
        if found is None:
            continue
        if stops.NEW_VERSION not in found.remedies:
            raise found
        _log.info("new models, because %s", found.problem)
        table, record = tables[partition], tables[partition].records().get(topic)
        first, end = bounds[at]
        start = min(max(committed[at], record.position if record else first, first), end)
        task = make_task(settings, topic, partition)
        old, learned = _old_models(settings, source, at, table, make_task)
        if old:
            _take_over(settings, task, record)
        known = [snapshot.header["version"] for snapshot in old]
        before = learned or make_task(settings, topic, partition)
        if learned is None:
            if record is not None:
                before.restore_partition(record.state)
            _pass_over(source, before, record.position if record else 0, first, start)
        task.take_place(before)
        # A stream that learned and was never snapshotted has used ids too, below this version.
        task.first_version = max([before.first_version, *known]) + (learned is None)
        for snapshot in old:
            task.restore(replace(snapshot, next=start), new_version=True)
        writer = table.writer(source.identities[topic])
        writer.began = NO_OFFSET
        messages = writer.messages(task, start, acknowledged(committed[at], start), everything=True)
        changes.append(Change(at, messages, start, archive=archive_of(source, at, task, start)))
        _log.warning("%s[%d]: %d streams begin new models at offset %d", topic, partition, len(old), start)
    write(source, changes, atomic=atomic)
    return len(changes)


def _pass_over(source: Source, before: Task, position: int, first: int, end: int) -> None:
    """Let a second hop that stands at a position see which routes were learned since, though by nobody who is left."""
    if not isinstance(before, RoutedTask) or position >= end:
        return
    if first > position:
        # Deleted: any of them may be the predecessor of the next.
        before.begin_anywhere()
    at = before.topic, before.partition
    with LogReader(source.client, source.group, source.patience) as reader:
        for _, records in reader.read({at: (max(first, position), end)}):
            before.pass_over(records)


def _take_over(settings: Settings, task: Task, record: PartitionRecord | None) -> None:
    """Give a task what the partition knew of its records' features, where they stand where they stood."""
    before = record.identity.settings.get("input.features") if record else None
    if not settings.finds_features:
        return
    if before != settings.input.features:
        raise ConfigurationError(
            f"input.features = {settings.input.features!r} was {before!r}: what stands there is not known before "
            "records are read, so new models cannot take over; list the paths one by one, or use --reset"
        )
    if record is not None:
        task.restore_partition(record.state)


def _old_models(
    settings: Settings,
    source: Source,
    at: TopicPartition,
    table: SnapshotTable,
    make_task: Callable[[Settings, str, int], Task],
) -> tuple[list[StreamSnapshot], Task | None]:
    """Return the old models of a partition, and the task that has learned them up to its place in the log.

    Without it they are those that were snapshotted, as they were then.
    """
    record = table.records().get(at[0])
    snapshots = {stream: table.newest(stream)[0] for stream in table.streams(at[0])}
    if record is None:
        return list(snapshots.values()), None
    now = source.identities[at[0]]
    try:
        learned = settings_then(settings, record.identity)
        # The present program learns again: it has to be the revision that learned before.
        identity = replace(record.identity, revision=now.revision)
        old_source = replace(source, identities={at[0]: identity})
        part = restore_partitions(old_source, [at], lambda *own: make_task(learned, *own))[at]
    except (MismatchError, ConfigurationError) as error:
        # Without what would mend it: that is being done.
        why = error.problem if isinstance(error, MismatchError) else error
        _log.warning("%s[%d]: the last snapshots stand for the old models: %s", *at, why)
        return list(snapshots.values()), None
    snapshots |= {stream: part.task.snapshot(stream) for stream in part.task.dirty()}
    return list(snapshots.values()), part.task


def settings_then(settings: Settings, identity: Identity) -> Settings:
    """Return the settings under which models were learned."""
    values = settings.model_dump()
    for name in ("features", "sparse"):
        # One of them stands there, not always the one of now.
        values["input"].pop(name, None)
    values["engine"] = {"name": identity.engine}
    for name, value in [*identity.settings.items(), *identity.limits.items()]:
        section, _, key = name.rpartition(".")
        (values[section] if section else values)[key] = value
    return Settings.of(values)
