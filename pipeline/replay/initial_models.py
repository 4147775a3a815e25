"""Finds the models with which a replay begins: those of an archive, or empty ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.archive_reader import Archived, ListedArchive, archives_before, newest_archive
from resonance.pipeline.checkpoint.archive_records import ArchiveManifest
from resonance.pipeline.checkpoint.changelog_records import Identity, PartitionRecord
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.repartition.routed_task import RoutedTask
from resonance.pipeline.replay.opening import PartitionRange
from resonance.pipeline.tasks import Task
from resonance.pipeline.timestamps import TimeTexts

UNBOUNDED: Final = 2**31 - 1
"""Byte limit of an event where no topic sets one."""


@dataclass(slots=True)
class InitialModels:
    """Models as they were at an offset of the log."""

    task: Task
    """Has learned everything below `offset` that these models learned."""
    offset: int
    """Next record that the task needs; later than the requested offset where the models began later."""
    text: str
    """Where the models come from, to be shown."""
    notes: list[str]
    """What was left aside, and why."""

    @property
    def new_version(self) -> str:
        """Note of a replay that goes on with these models."""
        return f"a new version of a model began at offset {self.offset:,}: from there on {self.text}"


def find_start(reader: LogReader, part: PartitionRange, begin: int, before: int | None = None) -> InitialModels:
    """Return the models with which an input partition is replayed, for outputs from the offset `begin` on.

    They come from the newest archive at or before `begin`, if it was learned under the present settings; else they are
    empty and start where the deployment's models began, as long as the log still has that offset. Raises MismatchError
    where the models cannot be recovered; its remedies are a later offset and ``--fresh``.
    """
    source, at, task = part.source, part.at, _empty(part)
    if part.fresh:
        _begin_anywhere(task)
        return InitialModels(task, begin, f"empty models at offset {begin:,}, as asked", [])
    notes: list[str] = []
    for listed in archives_before(reader, source, at, begin):
        changed = _changed(listed.manifest, source, at)
        where = _named(listed.manifest)
        first, _ = reader.bounds([at])[at]
        if changed:
            notes.append(f"{where} was learned with other settings and is left aside: {'; '.join(changed)}")
        elif listed.manifest.position < first:
            notes.append(f"{where} is left aside, because the records from there to offset {first:,} are deleted")
        elif (archived := listed.read()) is not None:
            archived.restore(task)
            return InitialModels(task, archived.position, f"from {where}", notes)
        else:
            continue
        # Older archives do not lead to these models either.
        break
    record = partition_record(reader, source, at)
    # Models can begin after `begin`, as a new version does: then their oldest archive below `before` is the start.
    if before is not None and record is not None and record.began < 0 and not _changed(record, source, at):
        oldest = _oldest_fitting(reader, source, at, begin, before)
        if oldest is not None and (archived := oldest.read()) is not None:
            archived.restore(task)
            where = _named(oldest.manifest)
            notes.append(f"outputs from offset {begin:,} on came from earlier models and are not compared")
            return InitialModels(task, archived.position, f"from {where}, the first of these models", notes)
    return _from_beginning(reader, part, begin, record, task, notes)


def _empty(part: PartitionRange) -> Task:
    task = part.make_task()
    task.event_bytes = UNBOUNDED
    task.topic_ids = part.source.deployment.topic_ids
    return task


def _begin_anywhere(task: Task) -> None:
    if isinstance(task, RoutedTask):
        task.accept_any_predecessor()


def later_version(reader: LogReader, part: PartitionRange, start: InitialModels) -> InitialModels | None:
    """Return the models of the first archive after a start and before the end that has a later version of a model.

    No record of the log shows that a version begins in its middle (`reset --stream`), but an archive does. A replay
    that begins with empty models has none.
    """
    if part.fresh:
        return None
    source, at = part.source, part.at
    known = {name: start.task.model(name).version for name in start.task.streams}

    def later(offset: int) -> Archived | None:
        found = newest_archive(reader, source, at, offset)
        if found is None or found.position <= start.offset or _changed(found, source, at):
            return None
        first = start.task.first_version
        versions = ((one.stream, int(one.header["version"])) for one in found.snapshots)
        return found if any(version > known.get(name, first) for name, version in versions) else None

    found = later(part.end - 1)
    low = start.offset
    while found is not None and low < found.position - 1:
        middle = (low + found.position) // 2
        earlier = later(middle)
        low, found = (middle, found) if earlier is None else (low, earlier)
    if found is None:
        return None
    task = _empty(part)
    found.restore(task)
    return InitialModels(task, found.position, f"from {_named(found)}", [])


def _named(archived: Archived | ArchiveManifest) -> str:
    # An archive written before any record was read has no time.
    time = f" ({time_text(archived.timestamp)})" if archived.timestamp >= 0 else ""
    return f"the archive at offset {archived.position:,}{time}"


def _changed(
    found: Archived | ArchiveManifest | PartitionRecord, source: DeploymentContext, at: TopicPartition
) -> list[str]:
    return differing(found.identity, source.identities[at[0]])


def _oldest_fitting(
    reader: LogReader, source: DeploymentContext, at: TopicPartition, begin: int, before: int
) -> ListedArchive | None:
    """Return the oldest of the archives between two offsets that fit the settings without a gap up to the newest."""
    found = _fitting(reader, source, at, begin, before - 1)
    low = begin
    while found is not None and low < found.manifest.position - 1:
        middle = (low + found.manifest.position) // 2
        older = _fitting(reader, source, at, begin, middle)
        if older is None:
            low = middle
        else:
            found = older
    return found


def _fitting(
    reader: LogReader, source: DeploymentContext, at: TopicPartition, begin: int, offset: int
) -> ListedArchive | None:
    """Return the newest archive at or before `offset`, if it fits the settings and is after `begin`."""
    found = next(archives_before(reader, source, at, offset), None)
    if found is None or found.manifest.position <= begin or _changed(found.manifest, source, at):
        return None
    return found


def _from_beginning(
    reader: LogReader,
    part: PartitionRange,
    begin: int,
    record: PartitionRecord | None,
    task: Task,
    notes: list[str],
) -> InitialModels:
    source, at = part.source, part.at
    first, _ = reader.bounds([at])[at]
    origin = first
    if record is None and first > 0:
        _begin_anywhere(task)
    if record is not None:
        changed = _changed(record, source, at)
        if changed and not notes:
            notes.append(f"the deployment learned with other settings: {'; '.join(changed)}")
        # Models learned under other settings began somewhere; under the present ones they would have begun there too.
        origin = 0 if changed and record.began < 0 else record.began
        if not first <= origin:
            raise _lost(reader, source, at, begin, first, origin, notes)
        known = part.make_task()
        known.restore_partition(record.state)
        task.first_version = known.first_version
        # Outputs that were suppressed then are suppressed now.
        task.adopt_emission(known)
    return InitialModels(task, origin, f"empty models at offset {origin:,}, where they began", notes)


def _lost(
    reader: LogReader,
    source: DeploymentContext,
    at: TopicPartition,
    begin: int,
    first: int,
    origin: int,
    notes: list[str],
) -> MismatchError:
    where = f"{at[0]}[{at[1]}]"
    if origin < 0:
        why = "the models did not begin in this log (a new version, a reset that kept them, or a file)"
    else:
        why = f"the log begins at offset {first:,}, and the models began at {origin:,}"
    _, end = reader.bounds([at])[at]
    later = next(archives_before(reader, source, at, end), None)
    usable = later is not None and not _changed(later.manifest, source, at)
    place = f"{later.manifest.position:,}" if usable and later else ""
    instead = f"replay from offset {place} on (--from), where there is one, or " if place else ""
    aside = f" ({'; '.join(notes)})" if notes else ""
    return MismatchError(
        f"{where}: the models at offset {begin:,} are not known: there is no archive at or before it that fits{aside}, "
        f"and {why}; {instead}begin with empty models: --fresh",
        ["--fresh"],
    )


def partition_record(reader: LogReader, source: DeploymentContext, at: TopicPartition) -> PartitionRecord | None:
    """Return the record of an input partition on the snapshots topic, None where the topic or the record is missing."""
    if not reader.has((source.snapshots, at[1])):
        return None
    record = read_tables(reader, source, [at[1]])[at[1]].records().get(at[0])
    return record if record is not None and source.is_same_log(record.identity) else None


def differing(found: Identity, now: Identity) -> list[str]:
    """Return one phrase for each setting whose difference changes later outputs."""

    def values_of(identity: Identity) -> Mapping[str, Any]:
        own = {"engine": identity.engine, "revision of the engine": identity.revision}
        return own | dict(identity.settings) | dict(identity.limits)

    return mismatches.differences(values_of(found), values_of(now))


def time_text(milliseconds: int) -> str:
    """Return a Kafka timestamp as text."""
    return TimeTexts()[milliseconds]
