"""Opens recorded topics for a replay or verification: first as a whole, then one partition in each process."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka import clients
from resonance.pipeline.kafka.log_reader import LogReader, OffsetRange
from resonance.pipeline.kafka.ranges import Span, choose, resolve
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.replay.initial_models import InitialModels, find_start, later_version
from resonance.pipeline.replay.jobs import described
from resonance.pipeline.tasks import task_maker
from resonance.pipeline.topics.topics import read_logs


@dataclass(frozen=True, slots=True)
class OpenedRanges:
    """A deployment and the ranges of its input that are read."""

    source: DeploymentContext
    """The deployment as the settings and the broker describe it."""
    reader: LogReader
    """Open only within `open_ranges`."""
    ranges: dict[TopicPartition, OffsetRange]
    """First offset of each range, and the one after its last."""


@contextmanager
def open_ranges(settings: Settings, inputs: Collection[str], span: Span) -> Iterator[OpenedRanges]:
    """Open a deployment and resolve a span in each partition of some of its input topics."""
    client = clients.librdkafka(settings)
    deployment = read_logs(client, settings)
    settings.check_stream(deployment.partitions)
    source = DeploymentContext.of(settings, client, deployment)
    with LogReader(client, source.group, settings.broker.answer_timeout) as reader:
        chosen = [at for topic in inputs for at in choose(span, [topic], source.identities[topic].partitions)]
        ranges = resolve(reader, span, chosen)
        yield OpenedRanges(source, reader, ranges)


@dataclass(frozen=True, slots=True)
class OpenedJob:
    """One input partition, in the process that works on it."""

    settings: Settings
    source: DeploymentContext
    reader: LogReader
    """Open only within `open_job`."""
    at: TopicPartition
    begin: int
    end: int
    """Offset after the last one of the range."""
    fresh: bool
    """Begin with empty models."""

    def find_start(self, begin: int, before: int | None = None) -> InitialModels:
        """Return the models with which to begin at an offset, by `initial_models.find_start`."""
        tasks = task_maker(self.settings, self.source.deployment.routes)
        return find_start(self.reader, self.source, self.at, begin, tasks, fresh=self.fresh, before=before)

    def later_version(self, start: InitialModels, end: int) -> InitialModels | None:
        """Return the later versions that follow the models of a start, by `initial_models.later_version`."""
        if self.fresh:
            return None
        tasks = task_maker(self.settings, self.source.deployment.routes)
        return later_version(self.reader, self.source, self.at, start, end, tasks)


@contextmanager
def open_job(job: Mapping[str, Any]) -> Iterator[OpenedJob]:
    """Open the partition of a job, which has ``settings``, ``deployment``, ``at``, ``range`` and maybe ``fresh``."""
    settings, source = described(job)
    (topic, partition), (begin, end) = job["at"], job["range"]
    with LogReader(source.client, source.group, source.patience) as reader:
        yield OpenedJob(settings, source, reader, (topic, partition), begin, end, job.get("fresh", False))
