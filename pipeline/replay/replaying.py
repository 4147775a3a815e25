"""A whole replay: chooses partitions, ranges and outputs, and runs the partitions."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, ConfigurationError, counted
from resonance.pipeline.files.arrays import encoder
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka import clients
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.kernels import compile_engine
from resonance.pipeline.replay.file_partitions import replay_all, route, share
from resonance.pipeline.replay.jobs import Report, run_jobs
from resonance.pipeline.replay.opening import PartitionRange, open_ranges
from resonance.pipeline.replay.run import Replayed, replay_partition
from resonance.pipeline.replay.sinks import TOPICS, FolderSink, Sink, TopicSink, join_parts, open_folder
from resonance.pipeline.replay.two_stage_file import MADE_ORDER, Routes, by_time, read_rows
from resonance.pipeline.task.dead_letters import EXAMPLES
from resonance.pipeline.task.range_changes import together
from resonance.pipeline.topics.configuration import differences_of, made_with, refuse_or_warn
from resonance.pipeline.topics.kinds import Topics
from resonance.pipeline.topics.topics import prepare_topics


@dataclass(frozen=True, slots=True)
class Summary:
    """Result of a replay, with one part for each partition."""

    parts: Sequence[Replayed]
    seconds: float
    """Working time of the slowest process."""
    note: str = ""
    """What was decided for the records of all parts."""

    @property
    def records(self) -> int:
        """Records of the ranges; routed records count only in the partition that learns them."""
        return sum(part.records - part.routed for part in self.parts)

    @property
    def rate(self) -> float:
        """Records a second, including those learned without outputs."""
        return (self.records + self.silent) / max(self.seconds, 1e-9)

    @property
    def silent(self) -> int:
        """Records learned before the ranges, without outputs; those of topics that are routed come again as routes."""
        routers = {part.topic for part in self.parts if part.routed}
        return sum(part.silent for part in self.parts if part.topic not in routers)

    @property
    def assignments(self) -> int:
        """Assignments of all partitions."""
        return sum(part.assignments for part in self.parts)

    @property
    def events(self) -> int:
        """Cluster events of all partitions."""
        return sum(part.events for part in self.parts)

    @property
    def dead_letters(self) -> Counter[str]:
        """Dead letters by class."""
        return sum((Counter(part.dead_letters) for part in self.parts), Counter())

    @property
    def examples(self) -> list[dict[str, str]]:
        """The earliest dead letters of each class."""
        every = sorted((each for part in self.parts for each in part.examples), key=attrgetter("kind", "age"))
        kinds = groupby(every, attrgetter("kind"))
        return [each.as_json() for _, own in kinds for each in islice(own, EXAMPLES)]

    @property
    def alerts(self) -> Counter[str]:
        """Alerts that opened, by rule."""
        return sum((Counter(part.alerts) for part in self.parts), Counter())

    @property
    def open_alerts(self) -> Counter[str]:
        """Alerts that are open at the end, by rule."""
        return sum((Counter(part.open_alerts) for part in self.parts), Counter())

    @property
    def hint(self) -> str:
        """A sentence on features that left their range often, or none."""
        return together(part.ranges for part in self.parts).hint

    def as_json(self) -> dict[str, Any]:
        """Return the summary as a JSON object."""
        return {
            "records": self.records,
            "assignments": self.assignments,
            "events": self.events,
            "dead_letters": dict(self.dead_letters),
            "examples": self.examples,
            "alerts": dict(self.alerts),
            "seconds": round(self.seconds, 3),
            "rate": round(self.rate),
            "partitions": [
                {name: value for name, value in asdict(part).items() if name not in ("examples", "now")}
                for part in self.parts
            ],
        }


@dataclass(frozen=True, slots=True)
class ReplayOutput:
    """Where outputs go: into a folder, to the topics of another name, or nowhere."""

    folder: Path | None = None
    name: str | None = None
    kinds: Sequence[str] = TOPICS
    """Those that a folder takes."""


def replay_topics(
    settings: Settings,
    inputs: Collection[str],
    span: Span,
    output: ReplayOutput = ReplayOutput(),
    *,
    fresh: bool = False,
    or_fresh: bool = False,
    processes: int = 1,
    report: Report = lambda _: None,
) -> Summary:
    """Replay ranges of input topics, or of the routes; inputs that no worker has routed go through both stages here.

    The models are empty at the start of the range with `fresh`, and with `or_fresh` where those there cannot be
    recovered. Raises `ConfigurationError` where the output topics belong to the deployment itself, a partition does not
    exist, or a range without routes is to begin with other than empty models; `BrokerError` where the broker does not
    answer or the range has no records; and `MismatchError` where the models at its start cannot be recovered.
    """
    by_hand = list(inputs) == [settings.topic("routes")]
    opened = open_ranges(settings, inputs, span, fresh=fresh, or_fresh=or_fresh, or_unrouted=not by_hand)
    with opened as (_, ranges):
        routes = ranges[0].source.deployment.routes
    if all(part.begin >= part.end for part in ranges):
        whole = "holds no committed records" if span.whole else "has no committed records in that range"
        raise BrokerError(f"{', '.join(inputs)} on {settings.broker.bootstrap} {whole}; there is nothing to replay")
    if settings.is_routed and not routes:
        if not (span.whole or fresh or or_fresh):
            raise ConfigurationError(
                f"there is no topic {settings.topic('routes')} yet, so the models at the beginning of a range are not "
                "known: add --fresh for empty ones, or replay the whole topic"
            )
        return _replay_unrouted(settings, ranges, output, report)
    with _sinks(settings, output, [part.at[1] for part in ranges], routes=routes) as sinks:
        jobs = [partial(replay_partition, part, make_sink) for part, make_sink in zip(ranges, sinks, strict=True)]
        return Summary(*run_jobs(settings, jobs, processes, report))


def _replay_unrouted(
    settings: Settings, ranges: Sequence[PartitionRange], output: ReplayOutput, report: Report
) -> Summary:
    """Replay ranges of a deployment that has no routes yet, from empty models, in the order of the timestamps."""
    logs = [part.at for part in ranges]
    routes = Routes.of(settings, ranges[0].source.deployment.partitions)
    compile_engine(settings)
    every = [*logs, *routes.logs]
    with _sinks(settings, output, [at[1] for at in every], routes=len(routes.logs)) as sinks:
        began = time.perf_counter()
        read = partial(by_time, ranges)
        parts = replay_all(settings, routes, list(zip(every, sinks, strict=True)), read, report)
        seconds = time.perf_counter() - began
    for part, given in zip(parts, ranges, strict=False):
        part.begin, part.end = given.begin, given.end
    return Summary(parts, seconds, MADE_ORDER if settings.is_rekeyed and len(logs) > 1 else "")


def replay_file(
    settings: Settings,
    paths: Sequence[Path],
    columns: Columns,
    output: ReplayOutput = ReplayOutput(),
    *,
    partitions: int = 1,
    processes: int = 1,
    report: Report = lambda _: None,
) -> Summary:
    """Replay files, one behind the other, as if they had been produced to the first input topic; no broker is needed.

    Raises `ConfigurationError` where a suffix or column is unknown, or there are several partitions and no setting of
    which records share a model, and `InputFileError` where a file cannot be read, or one of its rows cannot be used.
    """
    settings.check_stream(partitions)
    routes, encode = Routes.of(settings, partitions), encoder(settings, paths[0])
    topic = settings.input.topics[0]
    every = [*((topic, number) for number in range(partitions)), *routes.logs]
    most = max(partitions, len(routes.logs))
    with _sinks(settings, output, [at[1] for at in every], count=most) as sinks:
        run, parts = partial(replay_all, settings, routes), list(zip(every, sinks, strict=True))
        if routes.logs:
            # Streams that are re-keyed learn in the order of the rows.
            compile_engine(settings)
            began = time.perf_counter()
            read = partial(read_rows, paths, columns, topic, partitions, encode=encode)
            return Summary(run(parts, read, report), time.perf_counter() - began)
        rows = partial(route, settings, paths, columns, partitions)
        found, seconds = share(settings, run, parts, rows, processes, report)
        return Summary(sorted(found, key=lambda part: part.partition), seconds)


@contextmanager
def _sinks(
    settings: Settings, output: ReplayOutput, partitions: Sequence[int], *, count: int | None = None, routes: int = 0
) -> Iterator[list[Callable[[], Sink]]]:
    """Yield for each part what makes its sink, in any process; then complete the files of a folder.

    `partitions` are those that topics get the outputs of the parts in. New topics have `count` of them, or as many as
    the input topics, or as the `routes`.
    """
    if output.name is not None:
        client, topics = clients.librdkafka(settings), target_topics(settings, output.name)
        _make_targets(settings, topics, count, routes)
        yield [partial(TopicSink, client, topics, partition) for partition in partitions]
    elif output.folder is not None:
        open_folder(output.folder)
        try:
            yield [partial(FolderSink, output.folder, part, output.kinds) for part in range(len(partitions))]
        finally:
            join_parts(output.folder, len(partitions))
    else:
        yield [Sink] * len(partitions)


def target_topics(settings: Settings, name: str) -> dict[str, str]:
    """Return the topics of another name that take the outputs, by kind.

    Raises ConfigurationError where the name is invalid or one of these topics belongs to the deployment itself, because
    a replay never writes among recorded outputs; the remedy is another name.
    """
    other = Settings.of({**settings.model_dump(), "name": name})
    wanted = {topic.kind.name for topic in Topics.of(settings).outputs}
    topics = {kind: other.topic(kind) for kind in TOPICS if kind in wanted}
    own = {topic.name for topic in Topics.of(settings).all}
    if taken := sorted(own & set(topics.values())):
        raise ConfigurationError(
            f"--to-name {name}: {', '.join(taken)} belong to the deployment {settings.name} itself, and a replay never "
            "writes among recorded outputs; choose another name"
        )
    return topics


def _make_targets(settings: Settings, topics: Mapping[str, str], partitions: int | None, routes: int) -> None:
    """Create the topics of another name, with `partitions` where no input topic gives their number."""
    client = clients.librdkafka(settings)
    cluster = ClusterAdmin(client, settings.broker.answer_timeout, settings.topics.replication_factor)
    if partitions is not None:
        there = cluster.describe(list(topics.values()))
        for topic in Topics.named([], **topics).outputs:
            name, config = topic.name, made_with(topic, {}, cluster.copies)
            if (found := there.get(name)) is None:
                cluster.create(name, partitions, config, cluster.command(name, str(partitions), config))
            elif found.partitions < partitions:
                raise BrokerError(
                    f"topic {name} has {counted(found.partitions, 'partition')}, the replay {partitions}; add some: "
                    f"{cluster.alter(name, partitions)}"
                )
            else:
                refuse_or_warn(differences_of(cluster, topic, found, config))
        cluster.wait_for_leaders(list(topics.values()))
        return
    wanted = Topics.named(settings.input.topics, **topics)
    wanted = replace(wanted, routes=routes or None, labels=Topics.of(settings).labels)
    prepare_topics(cluster, wanted, create=settings.topics.create)
