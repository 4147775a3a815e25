"""What the snapshots topic of a deployment holds, for people: read as a restore reads it, and nothing is written.

Workers may be at work meanwhile; what is read is a moment of theirs.
"""

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from resonance.pipeline.checkpoint.changelog_records import PartitionRecord
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, settings_then
from resonance.pipeline.checkpoint.restore import read_tables
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, several_nearest
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import StreamSnapshot, TopicPartition
from resonance.pipeline.task.decode.stream_names import StreamNames
from resonance.pipeline.task.streams import FIRST_RECORDS
from resonance.pipeline.tasks import Task, make_task


@dataclass(frozen=True, slots=True)
class StoredStream:
    """The newest complete snapshot of a stream.

    Attributes
    ----------
    snapshot : StreamSnapshot
        What it holds.
    written : int
        When it was written, in milliseconds since 1970.
    """

    snapshot: StreamSnapshot
    written: int


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """What is known of an input partition.

    Attributes
    ----------
    at : (topic, partition)
        The input partition.
    committed : int
        The group's offset; -1 where it has none.
    record : PartitionRecord or None
        None where no worker has written one.
    streams : list of StoredStream
        By name.
    """

    at: TopicPartition
    committed: int
    record: PartitionRecord | None
    streams: list[StoredStream]


def read_states(source: DeploymentContext, reader: LogReader) -> list[StoredPartition]:
    """Return the newest snapshots of every input partition.

    Raises
    ------
    MismatchError
        They belong to another pipeline, were written by a newer release, or are damaged.
    """
    tables = read_tables(reader, source, range(source.deployment.state_partitions))
    committed = reader.committed(source.logs)
    found = []
    for at in source.logs:
        table, record = tables[at[1]], tables[at[1]].records().get(at[0])
        newest = {name: table.newest(name) for name in table.streams(at[0])}
        streams = [StoredStream(snapshot, table.written(name)) for name, (snapshot, _) in newest.items()]
        # As a restore does: what a damaged snapshot contained, the one before it lacks.
        lacking = [snapshot.next for snapshot, relied_on in newest.values() if not relied_on]
        if record is not None and lacking:
            record = replace(record, recovery_offset=min(record.recovery_offset, *lacking))
        found.append(StoredPartition(at, committed[at], record, streams))
    return found


def check_stream(name: str, known: Collection[str], name_of_deployment: str) -> None:
    """Refuse a stream that there is not.

    Raises
    ------
    ConfigurationError
        With the nearest names that there are.
    """
    if name not in known:
        some = "it has none yet" if not known else f"it has {len(known):,}"
        raise ConfigurationError(
            f"--stream {name}: deployment {name_of_deployment} has no such stream, {some}{several_nearest(name, known)}"
        )


def check_stored(name: str, states: Sequence[StoredPartition], settings: Settings) -> None:
    """Refuse a stream of which there is no snapshot.

    Raises
    ------
    ConfigurationError
        Saying when there will be one, where there may be such a stream; otherwise with the nearest names.
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
    # Which keys there are nobody knows; where some are known, this is rather a slip.
    if whole or (keyed and not known):
        raise ConfigurationError(f"--stream {name}: {none_yet(settings, name)}")
    check_stream(name, known, settings.name)


def none_yet(settings: Settings, whose: str) -> str:
    """Return that there is no snapshot, when there will be one, and what shows the clusters until then.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    whose : str
        A stream, or the deployment.
    """
    records = min(settings.snapshots.records, FIRST_RECORDS)
    return (
        f"no snapshot of {whose} yet: a worker writes a stream's first after {records:,} records that its partition "
        "learned, later where other streams wait (snapshots.ratio), or at a clean stop; `resonance watch --kind "
        "clusters --from earliest --until-end` shows the clusters of now"
    )


def names_of(states: Iterable[StoredPartition]) -> list[str]:
    """Return the names of all streams, each once; the subtrees of one are no streams of their own."""
    names = (stream.snapshot.stream for state in states for stream in state.streams)
    return [name for name in names if stream_of(name) == name]


def stream_of(name: str) -> str:
    """Return the stream that a snapshot belongs to: its own name, or that in front of a subtree's (`part_name`)."""
    return name.rsplit("/", 2)[0] if "/" in name else name


def empty_task(settings: Settings, at: TopicPartition, record: PartitionRecord | None) -> Task:
    """Return a task into which the snapshots of a partition can be loaded, to look at them.

    Parameters
    ----------
    settings : Settings
        The present ones; with a record it is those under which the models were learned that count.
    at : (topic, partition)
        The input partition.
    record : PartitionRecord or None
        What stands beside the snapshots.
    """
    task = make_task(settings_then(settings, record.identity) if record else settings, *at)
    # Nothing is told here, so nothing can be too large for its topic.
    task.event_bytes = sys.maxsize
    if record is not None:
        task.restore_partition(record.state)
    return task
