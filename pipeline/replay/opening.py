"""Opens recorded topics for a replay or verification: first as a whole, then one partition in each process."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka import clients
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.positions import Span, choose, resolve
from resonance.pipeline.records import Record, TopicPartition
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import Task, make_task
from resonance.pipeline.topics.topics import read_logs

UNBOUNDED: Final = 2**31 - 1
"""Byte limit of an event where no topic sets one."""


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """A range of a recorded partition, with the deployment as the settings and the broker describe it."""

    source: DeploymentContext
    at: TopicPartition
    begin: int
    end: int
    """Offset after the last one of the range."""
    fresh: bool = False
    """Begin with empty models."""
    or_fresh: bool = False
    """Begin with empty models where those at the beginning are not known."""

    def records(self, reader: LogReader, first: int, end: int) -> Iterator[list[Record]]:
        """Yield the committed records from one offset of the partition to another, in batches."""
        for _, records in reader.read({self.at: (first, end)}):
            yield records

    def batches(self) -> Iterator[list[Record]]:
        """Yield the committed records of the range, in batches."""
        with self.source.reader() as reader:
            yield from self.records(reader, self.begin, self.end)

    def make_task(self) -> Task:
        """Return a task of the partition with empty models."""
        settings, deployment = self.source.settings, self.source.deployment
        return make_task(settings, *self.at, TaskContext(UNBOUNDED, deployment.topic_ids, deployment.routes))


@contextmanager
def open_ranges(
    settings: Settings,
    inputs: Collection[str],
    span: Span,
    *,
    fresh: bool = False,
    or_fresh: bool = False,
    or_unrouted: bool = False,
) -> Iterator[tuple[LogReader, list[PartitionRange]]]:
    """Open a deployment and resolve a span in each partition of some of its input topics.

    With `or_unrouted` the routes are left out where no worker has made them.
    """
    client = clients.librdkafka(settings)
    deployment = read_logs(client, settings, or_unrouted=or_unrouted)
    settings.check_stream(deployment.partitions)
    source = DeploymentContext.of(settings, client, deployment)
    with source.reader(patience=settings.broker.answer_timeout) as reader:
        there = {topic: source.identities[topic] for topic in inputs if topic in source.identities or not or_unrouted}
        chosen = [at for topic, one in there.items() for at in choose(span, [topic], one.partitions)]
        ranges = resolve(reader, span, chosen)
        yield reader, [PartitionRange(source, at, *found, fresh, or_fresh) for at, found in ranges.items()]
