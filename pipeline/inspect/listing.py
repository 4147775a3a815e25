"""List what the snapshots topic of a deployment holds: read as a restore reads it, without writing.

Workers may run meanwhile; the list shows one moment of their work.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, settings_then
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, nearest
from resonance.pipeline.kafka.log_reader import LogReader
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
        written = {name: table.written(name) for name in table.streams(at[0])}
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
