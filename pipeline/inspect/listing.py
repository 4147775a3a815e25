"""List what the snapshots topic of a deployment holds, or held: read as a restore reads it, without writing.

Workers may run meanwhile; the list shows one moment of their work.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from resonance.pipeline.checkpoint.archive_reader import Archives, archive_name
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, settings_then
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, MismatchError, nearest
from resonance.pipeline.kafka.log_reader import NO_OFFSET, LogReader
from resonance.pipeline.kafka.positions import Position, offsets_of
from resonance.pipeline.records import StreamSnapshot, TopicPartition
from resonance.pipeline.task.decode.stream_names import StreamNames
from resonance.pipeline.task.snapshot_schedule import FIRST_RECORDS
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import Task, make_task


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """What the broker holds of an input partition."""

    at: TopicPartition
    checkpoint: PartitionCheckpoint | None
    """Its streams are in the order of their names; None where no worker has written one."""
    committed: int
    """The group's offset; -1 where it has none."""
    written: Mapping[str, int]
    """Time of writing of each stream's snapshot, in milliseconds since 1970."""

    @property
    def streams(self) -> Sequence[StreamSnapshot]:
        """The newest complete snapshot of each stream."""
        return self.checkpoint.streams if self.checkpoint is not None else ()


def read_states(source: DeploymentContext, reader: LogReader) -> list[StoredPartition]:
    """Return the newest checkpoint of every input partition.

    Raises MismatchError where they belong to another pipeline, were written by a newer release, or are damaged.
    """
    tables = read_tables(reader, source, range(source.deployment.state_partitions))
    committed = reader.committed(source.logs)
    found = []
    for at in source.logs:
        table = tables[at[1]]
        written = {each.stream: each.written for each in table.manifests() if each.topic == at[0]}
        found.append(StoredPartition(at, table.checkpoint(at[0]), committed[at], written))
    return found


def check_stream(name: str, known: Collection[str], name_of_deployment: str) -> None:
    """Raise ConfigurationError, with the nearest names, for a stream that does not exist."""
    if name not in known:
        some = "it has none yet" if not known else f"it has {len(known):,}"
        raise ConfigurationError(
            f"--stream {name}: deployment {name_of_deployment} has no such stream, {some}{nearest(name, known, 3)}; a "
            "stream is known here from its first snapshot on"
        )


def check_stored(name: str, states: Sequence[StoredPartition], settings: Settings) -> None:
    """Raise ConfigurationError for a stream without a snapshot.

    The error says when there will be one where such a stream may exist, and otherwise offers the nearest names.
    """
    known = names_of(states)
    if name in known:
        return
    if settings.is_rekeyed:
        whole, keyed = settings.stream == "topic" and name in settings.input.topics, settings.stream != "topic"
    else:
        prefixes = {StreamNames.of(settings, *state.at).prefix for state in states}
        whole = settings.stream != "key" and name in prefixes
        keyed = settings.stream != "partition" and any(name.startswith(f"{prefix}:") for prefix in prefixes)
    # The keys are not known beforehand; where some are known, another one is rather a slip.
    if whole or (keyed and not known):
        raise ConfigurationError(f"--stream {name}: {none_yet(settings, name)}")
    check_stream(name, known, settings.name)


def none_yet(settings: Settings, whose: str) -> str:
    """Return a sentence: there is no snapshot yet, when there will be one, and what shows the clusters until then.

    `whose` is a stream, or the deployment.
    """
    records = min(settings.snapshots.records, FIRST_RECORDS)
    return (
        f"no snapshot of {whose} yet: a worker writes a stream's first after {records:,} records that its partition "
        "learned, later where other streams wait (snapshots.ratio), or at a clean stop; `resonance watch --kind "
        "clusters --from earliest --until-end` shows the clusters of now"
    )


def names_of(states: Iterable[StoredPartition]) -> list[str]:
    """Return the names of all streams, each once; subtrees are not streams of their own."""
    names = (snapshot.stream for state in states for snapshot in state.streams)
    return [name for name in names if stream_of(name) == name]


def stream_of(name: str) -> str:
    """Return the stream that a snapshot belongs to: its own name, or what precedes a subtree's (`part_name`)."""
    return name.rsplit("/", 2)[0] if "/" in name else name


def empty_task(settings: Settings, checkpoint: PartitionCheckpoint) -> Task:
    """Return a task that can load the streams of a checkpoint for inspection, under the settings they learned with."""
    # Nothing is emitted here, so nothing can be too large for its topic.
    context = TaskContext(sys.maxsize)
    task = make_task(settings_then(settings, checkpoint.record.identity), *checkpoint.at, context)
    task.restore_partition(checkpoint.record.state)
    return task


EARLIER: Final = "choose a later time, or see the events: resonance watch --kind events --from earliest"


def states_at(
    source: DeploymentContext, reader: LogReader, states: Sequence[StoredPartition], place: Position, text: str
) -> list[StoredPartition]:
    """Return the newest state of each partition at or before a place, as if the group stood there.

    `states` are the present ones, which are taken where nothing of them is later; else it is the newest archive. Raises
    `MismatchError`, with the time of the oldest archive, where no state is that early; `text` is how the user named the
    place.
    """
    bounds = reader.bounds([state.at for state in states])
    # With a time, the offset behind the last record of that time.
    wanted = offsets_of(reader, place if place.time is None else Position(time=place.time + 1), bounds)
    tables = read_tables(reader, source, range(source.deployment.state_partitions))
    found, too_early = [], list[str]()
    for state in states:
        offset = min(wanted[state.at], state.committed)
        if state.checkpoint is None or state.committed == NO_OFFSET:
            found.append(replace(state, checkpoint=None))
        elif max([state.checkpoint.record.position, *(one.next for one in state.streams)]) <= offset:
            found.append(replace(state, committed=offset))
        else:
            archives = Archives(reader, source, state.at, tables[state.at[1]].archives(state.at[0]).entries)
            archived = archives.newest(offset)
            # A worker may archive before it has learned any record.
            if archived is not None and archived.streams:
                entry = next(entry for entry in archives.entries if entry.position == archived.position)
                written = dict.fromkeys((one.stream for one in archived.streams), entry.written)
                found.append(StoredPartition(state.at, archived, offset, written))
            else:
                found.append(replace(state, checkpoint=None))
                too_early.append(f"{state.at[0]}[{state.at[1]}] has {_oldest(archives)}")
    if too_early and all(state.checkpoint is None for state in found):
        raise MismatchError(
            f"--at {text}: topic {source.archive} has no archive from so early; {too_early[0]}; {EARLIER}"
        )
    return found


def _oldest(archives: Archives) -> str:
    found = (archives.read(entry) for entry in archives.entries)
    archived = next((each for each in found if each is not None and each.streams), None)
    if archived is None:
        return "none (snapshots.archive_interval, and the retention of that topic)"
    return f"{archive_name(archived)} as its oldest"
