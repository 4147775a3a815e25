"""How whatever goes through recorded topics again begins: as a whole in one process, then a partition in each."""

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
    """A deployment, and the ranges of its input that are gone through.

    Attributes
    ----------
    source : DeploymentContext
        The deployment, as settings and broker describe it.
    reader : LogReader
        Reads its topics, as long as it is open.
    ranges : dict of (topic, partition) to (int, int)
        First offset, and the one behind the last.
    """

    source: DeploymentContext
    reader: LogReader
    ranges: dict[TopicPartition, OffsetRange]


@contextmanager
def open_ranges(settings: Settings, inputs: Collection[str], span: Span) -> Iterator[OpenedRanges]:
    """Open a deployment and choose ranges of input topics.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    inputs : collection of str
        Which of its input topics.
    span : Span
        Which part of them.

    Raises
    ------
    ConfigurationError
        The settings do not fit the topics; a partition that is not there.
    BrokerError
        The broker does not answer.
    """
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
    """One partition of it, in the process that works on it.

    Attributes
    ----------
    settings, source
        The deployment.
    reader : LogReader
        Reads its topics, as long as it is open.
    at : (topic, partition)
        The input partition.
    begin, end : int
        Its range.
    fresh : bool
        Begin with empty models.
    """

    settings: Settings
    source: DeploymentContext
    reader: LogReader
    at: TopicPartition
    begin: int
    end: int
    fresh: bool

    def find_start(self, begin: int, before: int | None = None) -> InitialModels:
        """Return the models with which to begin at an offset; see `starts.find_start`."""
        tasks = task_maker(self.settings, self.source.deployment.routes)
        return find_start(self.reader, self.source, self.at, begin, tasks, fresh=self.fresh, before=before)

    def later_version(self, start: InitialModels, end: int) -> InitialModels | None:
        """Return where the models of a start are followed by later versions; see `starts.later_version`."""
        if self.fresh:
            return None
        tasks = task_maker(self.settings, self.source.deployment.routes)
        return later_version(self.reader, self.source, self.at, start, end, tasks)


@contextmanager
def open_job(job: Mapping[str, Any]) -> Iterator[OpenedJob]:
    """Open what ``settings``, ``deployment``, ``at``, ``range`` and ``fresh``, if there, of a job name."""
    settings, source = described(job)
    (topic, partition), (begin, end) = job["at"], job["range"]
    with LogReader(source.client, source.group, source.patience) as reader:
        yield OpenedJob(settings, source, reader, (topic, partition), begin, end, job.get("fresh", False))
