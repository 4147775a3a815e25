"""One partition of a bootstrap: learns recorded data without outputs and writes what a worker continues from."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from resonance.pipeline.checkpoint.archive_writer import archive_of
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.records import Record, TopicPartition
from resonance.pipeline.replay import sources
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.opening import open_job
from resonance.pipeline.replay.spool import spool
from resonance.pipeline.task.partition_task import PartitionTask


@dataclass(slots=True)
class BootstrapResult:
    """Result of one input partition."""

    topic: str
    partition: int
    records: int = 0
    """Records learned."""
    streams: int = 0
    clusters: int = 0
    """Clusters that exist in these streams at the end."""
    dead_letters: int = 0
    """Records that could not be used; no dead letters are emitted for them."""
    offset: int = 0
    """Offset at which the worker continues."""
    bytes: int = 0
    """Size of the snapshots."""
    archived: bool = False
    """Whether an archive was written, so that a replay can start here."""


class Learning:
    """A partition that is being learned.

    The job has ``at`` (topic and partition), the ``epoch`` and ``version`` to begin with, and ``spool``: the path of
    the snapshot file, to which the archive file adds ``.archive``.
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
        """Write the snapshots and the archive to files and return the result.

        `began` is the offset of the first record, `NO_OFFSET` if it is in no log; the worker continues at `position`.
        """
        found, task, spooled = self.found, self.task, self._job["spool"]
        found.offset = position
        found.streams = len(task.streams)
        found.clusters = sum(len(task.clusters(stream)) for stream in task.streams)
        found.dead_letters = sum(task.counts.dead_letters.values())
        # The archive comes first, because writing the snapshots marks the streams clean.
        writer = ChangelogWriter(self._source.identities[self.at[0]], epoch=self._job["epoch"], began=began)
        archive, listed = archive_of(self._source, self.at, task, writer, position)
        spool(Path(f"{spooled}.archive"), archive)
        found.archived = bool(archive)
        messages = chain(writer.messages(task, position, NO_OFFSET, everything=True), listed)
        found.bytes = spool(Path(spooled), messages)
        return found


def work(job: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Learn one partition of a topic, write its snapshots to files and return a `BootstrapResult` as a dict.

    The job has ``settings``, ``deployment``, ``range`` and what `Learning` needs.
    """
    with open_job(job) as opened:
        learning = Learning(opened.settings, opened.source, job)
        for batch in sources.of_topic(opened.reader, opened.at, opened.begin, opened.end):
            learning.take(batch)
            report(len(batch))
    return asdict(learning.close(opened.begin, opened.end))
