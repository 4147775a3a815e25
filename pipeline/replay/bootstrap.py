"""Partitions of a bootstrap: learns recorded data without outputs and writes what a worker continues from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from resonance.pipeline.checkpoint.archive_writer import archive_of
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.records import Record, TopicPartition
from resonance.pipeline.replay.file_partitions import Routed
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.opening import PartitionRange
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


@dataclass(frozen=True, slots=True)
class LearningPlan:
    """What the learning of one input partition begins with, and where it leaves its results."""

    at: TopicPartition
    version: int
    """First version of the models."""
    begin: int
    """Offset of the first record; of a file, the offset at which a worker continues."""
    end: int
    """Offset at which a worker continues."""
    snapshots: Path
    """Written with the messages of the snapshots."""

    @property
    def archive(self) -> Path:
        """Written with the messages of the archive."""
        return self.snapshots.with_suffix(".archive")


class Learning:
    """A partition that is being learned."""

    def __init__(self, settings: Settings, source: DeploymentContext, plan: LearningPlan) -> None:
        self.task = PartitionTask(settings, *plan.at, source.task_context)
        self.task.models.first_version = plan.version
        self.found = BootstrapResult(*plan.at)
        self._source, self._plan = source, plan

    def take(self, batch: list[Record]) -> None:
        """Learn the next records."""
        self.task.learn_silently(batch)
        self.found.records += len(batch)

    def close(self, began: int) -> BootstrapResult:
        """Write the snapshots and the archive to files and return the result.

        `began` is the offset of the first record, `NO_OFFSET` if it is in no log.
        """
        found, task, plan = self.found, self.task, self._plan
        found.offset = plan.end
        found.streams = len(task.models)
        found.clusters = sum(len(model.engine.clusters()) for model in task.models)
        found.dead_letters = sum(task.counts.dead_letters.values())
        # The archive comes first, because writing the snapshots marks the streams clean.
        writer = ChangelogWriter(self._source.identities[plan.at[0]], plan.at[1], began=began)
        archive, listed = archive_of(self._source, plan.at, task, writer, plan.end)
        spool(plan.archive, archive)
        found.archived = bool(archive)
        messages = chain(writer.messages(task, plan.end, NO_OFFSET, everything=True), listed)
        found.bytes = spool(plan.snapshots, messages)
        return found


def learn_partition(
    settings: Settings, source: DeploymentContext, plan: LearningPlan, report: Report
) -> BootstrapResult:
    """Learn one partition of a topic and write its snapshots to files."""
    learning, part = Learning(settings, source, plan), PartitionRange(settings, source, plan.at, plan.begin, plan.end)
    with part.open() as reader:
        for batch in part.records(reader, plan.begin, plan.end):
            learning.take(batch)
            report(len(batch))
    return learning.close(plan.begin)


def learn_file(
    settings: Settings,
    source: DeploymentContext,
    plans: Sequence[LearningPlan],
    routed: Iterator[Routed],
    report: Report,
) -> list[BootstrapResult]:
    """Learn the records of a file that are routed to some partitions and write their snapshots to files."""
    learned = {plan.at[1]: (Learning(settings, source, plan), plan) for plan in plans}
    for part in routed:
        learning, plan = learned[part.partition]
        learning.take(part.on(plan.at[0]))
        report(len(part))
    found = []
    for learning, plan in learned.values():
        learning.task.go_on_at(plan.end)
        # The learned records are in no log, so a replay can start only from the archive.
        found.append(learning.close(NO_OFFSET))
    return found
