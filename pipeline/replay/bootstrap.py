"""Partitions of a bootstrap: learns recorded data without outputs and writes what a worker continues from."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.records import Outputs, Record, TopicPartition
from resonance.pipeline.recovery.rewrite import rewrite
from resonance.pipeline.repartition.router import RouterTask
from resonance.pipeline.replay.file_partitions import Routed
from resonance.pipeline.replay.jobs import Report
from resonance.pipeline.replay.opening import PartitionRange
from resonance.pipeline.replay.spool import spool
from resonance.pipeline.replay.two_stage_file import Routes, take_two_stages
from resonance.pipeline.tasks import make_task


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
    """What the learning of one partition begins with, and where it leaves its results."""

    at: TopicPartition
    version: int
    """First version of the models."""
    begin: int
    """Offset of the first record; where the records are not in this log, that at which a worker continues."""
    end: int
    """Offset at which a worker continues."""
    snapshots: Path
    """Written with the messages of the snapshots."""

    @property
    def archive(self) -> Path:
        """Written with the messages of the archive."""
        return self.snapshots.with_suffix(".archive")


class Learning:
    """A partition whose history is being learned, or routed to where it is learned."""

    def __init__(self, source: DeploymentContext, plan: LearningPlan) -> None:
        self.task = make_task(source.settings, *plan.at, source.task_context)
        self.task.models.first_version = plan.version
        self.found = BootstrapResult(*plan.at)
        self._source, self._plan = source, plan

    def take(self, batch: list[Record]) -> Outputs:
        """Learn the next records; return their routes where they are learned elsewhere, and nothing else."""
        if isinstance(self.task, RouterTask):
            return self.task.process(batch)
        self.task.catch_up(batch)
        self.found.records += len(batch)
        return Outputs()

    def close(self) -> BootstrapResult:
        """Write the snapshots and the archive to files and return the result."""
        found, task, plan = self.found, self.task, self._plan
        task.announce()
        if plan.begin == plan.end:
            # The records are in no log that can be read again.
            task.go_on_at(plan.end)
        found.offset = plan.end
        found.streams = len(task.models)
        found.clusters = sum(len(model.engine.clusters()) for model in task.models)
        found.dead_letters = sum(task.counts.dead_letters.values())
        checkpoint = PartitionCheckpoint.of(task, self._source.identities[plan.at[0]], plan.at[1], plan.end)
        made = rewrite(self._source, checkpoint, task=task)
        found.archived = spool(plan.archive, made.archive) > 0
        found.bytes = spool(plan.snapshots, made.messages)
        return found


def learn_partition(source: DeploymentContext, plan: LearningPlan, report: Report) -> BootstrapResult:
    """Learn one partition of a topic and write its snapshots to files."""
    learning, part = Learning(source, plan), PartitionRange(source, plan.at, plan.begin, plan.end)
    with part.open() as reader:
        for batch in part.records(reader, plan.begin, plan.end):
            learning.take(batch)
            report(len(batch))
    return learning.close()


def learn_file(
    source: DeploymentContext,
    plans: Sequence[LearningPlan],
    routed: Iterator[Routed],
    report: Report,
) -> list[BootstrapResult]:
    """Learn the records of a file that are routed to some partitions and write their snapshots to files."""
    learned = {plan.at[1]: (Learning(source, plan), plan) for plan in plans}
    for part in routed:
        learning, plan = learned[part.partition]
        learning.take(part.on(plan.at[0]))
        report(len(part))
    return [learning.close() for learning, _ in learned.values()]


def learn_rekeyed(
    source: DeploymentContext,
    plans: Sequence[LearningPlan],
    read: Callable[[], Iterable[list[Record]]],
    report: Report,
) -> list[BootstrapResult]:
    """Learn re-keyed streams and write their snapshots to files; `read` gives the records in the order of learning.

    The plans of the inputs come before those of the routes, which stand in memory alone.
    """
    learned = {plan.at: Learning(source, plan) for plan in plans}
    routes = Routes(source.routes, source.deployment.routes)

    def take(batch: list[Record]) -> Outputs:
        return learned[batch[0].topic, batch[0].partition].take(batch)

    take_two_stages(source.settings, take, read(), routes, report)
    return [learning.close() for learning in learned.values()]
