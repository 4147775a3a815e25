"""One partition of a bootstrap: recorded data learned silently, and what a worker needs to go on from there."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from resonance.pipeline.checkpoint.archive_writer import archive_of
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.records import Record, TopicPartition
from resonance.pipeline.replay import sources
from resonance.pipeline.replay.jobs import Tell
from resonance.pipeline.replay.opening import open_job
from resonance.pipeline.replay.spool import spool
from resonance.pipeline.task.partition_task import PartitionTask


@dataclass(slots=True)
class BootstrapResult:
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


class Learning:
    """A partition that is being learned.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    source : DeploymentContext
        The deployment as settings and broker describe it.
    job : mapping
        ``at``: topic and partition; ``epoch`` and ``version`` of what is begun; ``spool``: path of the snapshots' file,
        that of the archive has ``.archive`` behind it.
    """

    def __init__(self, settings: Settings, source: DeploymentContext, job: Mapping[str, Any]) -> None:
        self.at: TopicPartition = (job["at"][0], job["at"][1])
        self.task = PartitionTask(settings, *self.at)
        self.task.event_bytes = source.event_bytes
        self.task.first_version = job["version"]
        self.found = BootstrapResult(*self.at)
        self._source, self._job = source, job

    def take(self, batch: list[Record]) -> None:
        """Learn the next records."""
        self.task.learn_silently(batch)
        self.found.records += len(batch)

    def close(self, began: int, position: int) -> BootstrapResult:
        """Leave snapshots and archive in files; return what came of it.

        Parameters
        ----------
        began : int
            Offset of the first record; `NO_OFFSET` where they stand in no log.
        position : int
            Where the worker goes on.
        """
        found, task, spooled = self.found, self.task, self._job["spool"]
        found.offset = position
        found.streams = len(task.streams)
        found.clusters = sum(len(task.clusters(stream)) for stream in task.streams)
        found.dead_letters = sum(task.counts.dead_letters.values())
        # Before the snapshots, which leave the streams clean.
        archive = archive_of(self._source, self.at, task, position)
        spool(Path(f"{spooled}.archive"), archive)
        found.archived = bool(archive)
        writer = ChangelogWriter(self._source.identities[self.at[0]], epoch=self._job["epoch"], began=began)
        found.bytes = spool(Path(spooled), writer.messages(task, position, NO_OFFSET, everything=True))
        return found


def work(job: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Learn one partition of a topic and leave its snapshots in files.

    Parameters
    ----------
    job : mapping
        ``settings``, ``deployment``; what `Learning` needs; ``range``.
    tell : callable
        Told how many more records are done.

    Returns
    -------
    dict
        A `BootstrapResult`.
    """
    with open_job(job) as opened:
        learning = Learning(opened.settings, opened.source, job)
        for batch in sources.of_topic(opened.reader, opened.at, opened.begin, opened.end):
            learning.take(batch)
            tell(len(batch))
    return asdict(learning.close(opened.begin, opened.end))
