"""Finds the models with which a replay begins: those of an archive, or empty ones."""

from bisect import bisect_left
from dataclasses import dataclass
from itertools import takewhile

from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.archive_reader import Archives, archive_name
from resonance.pipeline.checkpoint.changelog_records import ArchiveEntry, PartitionRecord
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.replay.opening import PartitionRange
from resonance.pipeline.task.model.stream_model import began_of
from resonance.pipeline.tasks import Task


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
    task = part.make_task()
    if part.fresh:
        return InitialModels(task, begin, f"empty models at offset {begin:,} (--fresh)", [])
    try:
        return _known(reader, part, begin, before)
    except MismatchError:
        if not part.or_fresh:
            raise
        return InitialModels(task, begin, f"empty models at offset {begin:,}, because those there are not known", [])


def _known(reader: LogReader, part: PartitionRange, begin: int, before: int | None) -> InitialModels:
    """Return the models of an archive, or empty ones where the deployment's models began."""
    source, at, task = part.source, part.at, part.make_task()
    notes: list[str] = []
    archives, record = Archives.of(reader, source, at)
    first, _ = reader.bounds([at])[at]
    # Archives older than the newest do not lead to these models.
    if (found := archives.newest(begin)) is not None:
        if changed := _changed(found.record, source):
            named = archive_name(found)
            notes.append(f"{named} was learned with other settings and is left aside: {'; '.join(changed)}")
        elif found.position < first:
            notes.append(
                f"{archive_name(found)} is left aside, because the records from there to offset {first:,} are deleted"
            )
        else:
            return _restored(found, task, notes)
    # Models can begin after `begin`, as a new version does: then their oldest archive below `before` is the start.
    if before is not None and record is not None and record.began < 0 and not _changed(record, source):
        between = [entry for entry in archives.entries if begin < entry.position < before]
        digest = source.identities[at[0]].digest
        fitting = list(takewhile(lambda entry: entry.digest == digest, reversed(between)))
        if fitting and (found := archives.read(fitting[-1])) is not None:
            notes.append(f"outputs from offset {begin:,} on came from earlier models and are not compared")
            start = _restored(found, task, notes)
            start.text += ", the first of these models"
            return start
    return _from_beginning(archives, part, begin, first, record, task, notes)


def _restored(archived: PartitionCheckpoint, task: Task, notes: list[str]) -> InitialModels:
    archived.restore(task)
    # An archive is also written where models begin.
    empty = f"empty models at offset {archived.position:,}, where they began"
    return InitialModels(
        task,
        archived.position,
        f"from {archive_name(archived)}" if archived.streams or archived.timestamp >= 0 else empty,
        notes,
    )


def later_version(reader: LogReader, part: PartitionRange, start: InitialModels) -> InitialModels | None:
    """Return the models of the first archive after a start and before the end that has a later version of a model.

    No record of the log shows that a version begins in its middle (`reset --stream`), but an archive does. A replay
    that begins with empty models has none.
    """
    if part.fresh:
        return None
    source, at = part.source, part.at
    known = {model.name: model.version for model in start.task.models}
    archives, _ = Archives.of(reader, source, at)
    entries = [entry for entry in archives.entries if start.offset < entry.position < part.end]

    def has_later(entry: ArchiveEntry) -> bool:
        found = archives.newest(entry.position)
        if found is None or found.position <= start.offset or _changed(found.record, source):
            return False
        first = start.task.models.first_version
        later = (one for one in found.streams if int(one.header["version"]) > known.get(one.stream, first))
        # A stream that began again behind the start did so by the log.
        ends = part.source.settings.limits.stream_ttl > 0
        return any(not ends or (began_of(one.body) or -1) < start.offset for one in later)

    # Once a version began, every later archive has it, or one after it.
    number = bisect_left(entries, True, key=has_later)
    found = archives.newest(entries[number].position) if number < len(entries) else None
    return None if found is None else _restored(found, part.make_task(), [])


def _changed(found: PartitionRecord, source: DeploymentContext) -> list[str]:
    """Return one phrase for each setting whose difference changes later outputs."""
    return mismatches.differences(found.identity.values, source.identities[found.identity.topic].values)


def _from_beginning(
    archives: Archives,
    part: PartitionRange,
    begin: int,
    first: int,
    record: PartitionRecord | None,
    task: Task,
    notes: list[str],
) -> InitialModels:
    source, at = part.source, part.at
    origin = first
    if record is not None:
        changed = _changed(record, source)
        if changed and not notes:
            notes.append(f"the deployment learned with other settings: {'; '.join(changed)}")
        # Models learned under other settings began somewhere; under the present ones they would have begun there too.
        origin = 0 if changed and record.began < 0 else record.began
        if not first <= origin:
            raise _lost(archives, source, at, begin, first, origin, notes)
        known = part.make_task()
        known.restore_partition(record.state)
        task.models.first_version = known.models.first_version
    return InitialModels(task, origin, f"empty models at offset {origin:,}, where they began", notes)


def _lost(
    archives: Archives,
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
    latest = archives.entries[-1] if archives.entries else None
    is_usable = latest is not None and latest.digest == source.identities[at[0]].digest
    place = f"{latest.position:,}" if latest is not None and is_usable else ""
    instead = f"replay from offset {place} on (--from), where there is one, or " if place else ""
    aside = f" ({'; '.join(notes)})" if notes else ""
    return MismatchError(
        f"{where}: the models at offset {begin:,} are not known: there is no archive at or before it that fits{aside}, "
        f"and {why}; {instead}begin with empty models: --fresh",
        ["--fresh"],
    )
