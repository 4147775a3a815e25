"""One partition of a bootstrap: recorded data learned silently, and what a worker needs to go on from there."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from resonance.pipeline.broker.log_reader import NO_OFFSET, LogReader, TopicPartition
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.files.record_file import Columns
from resonance.pipeline.partition import PartitionTask
from resonance.pipeline.records import Record
from resonance.pipeline.replay import sources
from resonance.pipeline.replay.jobs import Tell, described
from resonance.pipeline.replay.lanes import route
from resonance.pipeline.replay.spool import spool
from resonance.pipeline.states.archives import archive_of
from resonance.pipeline.states.snapshots import SnapshotWriter


@dataclass(slots=True)
class Learned:
    """What came of a partition.

    Attributes
    ----------
    topic : str
        The input topic.
    partition : int
        Its partition.
    records : int
        Records that were learned.
    streams : int
        Streams that they belong to.
    clusters : int
        Clusters of these that exist now.
    dead_letters : int
        Records that could not be used; nobody is told.
    offset : int
        Where the worker goes on.
    bytes : int
        Size of the snapshots.
    archived : bool
        Whether a replay can start from here.
    """

    topic: str
    partition: int
    records: int = 0
    streams: int = 0
    clusters: int = 0
    dead_letters: int = 0
    offset: int = 0
    bytes: int = 0
    archived: bool = False


def work(job: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Learn one partition and leave its snapshots in files.

    Parameters
    ----------
    job : mapping
        ``settings``, ``deployment``; ``at``: topic and partition; ``epoch`` and ``version`` of what is begun;
        ``spool``: path of the snapshots' file, that of the archive has ``.archive`` behind it; ``range`` of a topic,
        or ``file`` and the ``offset`` at which the log goes on.
    tell : callable
        Told how many more records are done.

    Returns
    -------
    dict
        A `Learned`.

    Raises
    ------
    ConfigurationError
        A file that has too few records to show their features.
    """
    settings, source = described(job)
    at: TopicPartition = (job["at"][0], job["at"][1])
    task = PartitionTask(settings, *at)
    task.event_bytes = source.event_bytes
    task.first_version = job["version"]
    found = Learned(*at)
    if "file" in job:
        given, position = job["file"], job["offset"]
        columns = Columns(given["members"], given["key"], given["time"], tuple(given["nulls"]))
        # Every process reads the file, and learns what is its partition's.
        routed = route(Path(given["path"]), columns, source.deployment.partitions, skip_bad=given["skip_bad"])
        batches = (part.on(at[0]) for part in routed if part.partition == at[1])
        _learn(task, batches, found, tell)
        try:
            task.go_on_at(position)
        except ValueError as error:
            raise ConfigurationError(
                f"{given['path']}: partition {at[1]} gets {found.records} records of it, too few to show their "
                "features; say with input.dimension how many there are, or list them in input.features"
            ) from error
        # What was learned is in no log: only an archive can be replayed from.
        began = NO_OFFSET
    else:
        began, position = job["range"]
        with LogReader(source.client, source.group, source.patience) as reader:
            _learn(task, sources.of_topic(reader, at, began, position), found, tell)
    found.offset = position
    found.streams = len(task.streams)
    found.clusters = sum(len(task.clusters(stream)) for stream in task.streams)
    found.dead_letters = sum(task.counts.dead_letters.values())
    # Before the snapshots, which leave the streams clean.
    archive = archive_of(source, at, task, position)
    spool(Path(f"{job['spool']}.archive"), archive)
    found.archived = bool(archive)
    writer = SnapshotWriter(source.identities[at[0]], epoch=job["epoch"], began=began)
    found.bytes = spool(Path(job["spool"]), writer.messages(task, position, position, everything=True))
    return asdict(found)


def _learn(task: PartitionTask, batches: Iterable[list[Record]], found: Learned, tell: Tell) -> None:
    for batch in batches:
        task.learn_silently(batch)
        found.records += len(batch)
        tell(len(batch))
