"""A whole replay: chooses partitions, ranges and outputs, and runs the partitions."""

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, ConfigurationError
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka import clients
from resonance.pipeline.kafka.ranges import Span
from resonance.pipeline.replay import file_partitions, two_stage_file
from resonance.pipeline.replay.jobs import Report, as_json, describe, load_kernels, run_jobs
from resonance.pipeline.replay.opening import open_ranges
from resonance.pipeline.replay.run import Replayed
from resonance.pipeline.replay.sinks import TOPICS, join_parts, open_folder
from resonance.pipeline.topics.kinds import Topics
from resonance.pipeline.topics.topics import prepare_topics


@dataclass(frozen=True, slots=True)
class Summary:
    """Result of a replay, with one part for each partition."""

    parts: Sequence[Replayed]
    seconds: float
    """Working time of the slowest process."""

    @property
    def records(self) -> int:
        """Records of the ranges; routed records count only in the partition that learns them."""
        return sum(part.records - part.routed for part in self.parts)

    @property
    def rate(self) -> float:
        """Records a second, including those learned without outputs."""
        return (self.records + sum(part.silent for part in self.parts)) / max(self.seconds, 1e-9)

    @property
    def dead_letters(self) -> Counter[str]:
        """Dead letters by class."""
        return sum((Counter(part.dead_letters) for part in self.parts), Counter())

    def as_json(self) -> dict[str, Any]:
        """Return the summary as a JSON object."""
        return {
            "records": self.records,
            "assignments": sum(part.assignments for part in self.parts),
            "events": sum(part.events for part in self.parts),
            "dead_letters": dict(self.dead_letters),
            "seconds": round(self.seconds, 3),
            "rate": round(self.rate),
            "partitions": [asdict(part) for part in self.parts],
        }


@dataclass(frozen=True, slots=True)
class ReplayOutput:
    """Where outputs go: into a folder, to the topics of another name, or nowhere."""

    folder: Path | None = None
    name: str | None = None


def replay_topics(
    settings: Settings,
    inputs: Collection[str],
    span: Span,
    output: ReplayOutput = ReplayOutput(),
    *,
    fresh: bool = False,
    processes: int = 1,
    report: Report = lambda _: None,
) -> Summary:
    """Replay ranges of input topics.

    Parameters
    ----------
    inputs : collection of str
        Input topics, or the topic of the routes.
    fresh : bool
        Begin with empty models at the start of the range.
    processes : int
        How many partitions are replayed at once.
    report : callable
        Receives the number of records done since its last call.

    Raises
    ------
    ConfigurationError
        The output topics belong to the deployment itself, or a partition does not exist.
    BrokerError
        The broker does not answer, or the range has no records.
    MismatchError
        The models at the start of the range cannot be recovered.
    """
    with open_ranges(settings, inputs, span) as opened:
        source, ranges = opened.source, opened.ranges
    if all(first >= end for first, end in ranges.values()):
        whole = "holds no committed records" if span.whole else "has no committed records in that range"
        raise BrokerError(f"{', '.join(inputs)} on {settings.broker.bootstrap} {whole}; there is nothing to replay")
    load_kernels(settings)
    common = describe(settings, source.deployment) | {"fresh": fresh}
    places = _places(settings, output, len(ranges), settings.input.topics, source.deployment.routes)
    jobs = [
        common | {"at": at, "range": found, "output": place}
        for (at, found), place in zip(ranges.items(), places, strict=True)
    ]
    try:
        results, seconds = run_jobs("replay", jobs, processes, report)
    finally:
        _join(output, len(jobs))
    return Summary([Replayed(**result) for result in results], seconds)


def replay_file(
    settings: Settings,
    path: Path,
    columns: Columns,
    output: ReplayOutput = ReplayOutput(),
    *,
    partitions: int = 1,
    skip_bad: bool = False,
    processes: int = 1,
    report: Report = lambda _: None,
) -> Summary:
    """Replay a file as if it had been produced to the first input topic; no broker is needed.

    Parameters
    ----------
    columns : Columns
        The columns that are used.
    partitions : int
        Partitions of the topic that the file stands for.
    skip_bad : bool
        Leave out rows that cannot be used.
    processes : int
        How many partitions are replayed at once.
    report : callable
        Receives the number of records done since its last call.

    Raises
    ------
    ConfigurationError
        A suffix or column is unknown, or there are several partitions and no setting of which records share a model.
    InputFileError
        The file cannot be read, or one of its rows cannot be used.
    """
    settings.check_stream(partitions)
    load_kernels(settings)
    if settings.is_routed:
        return _replay_hops(settings, path, columns, output, partitions, skip_bad=skip_bad, report=report)
    topic = settings.input.topics[0]
    common = {"settings": as_json(settings), "topic": topic}
    places = _places(settings, output, partitions, inputs=None)
    routed = file_partitions.route(path, columns, partitions, skip_bad=skip_bad)
    own = list(enumerate(places))
    try:
        found, seconds = file_partitions.share(
            "lanes", file_partitions.run_lanes, common, own, routed, processes, report
        )
    finally:
        _join(output, partitions)
    parts = [Replayed(**part) for part in found]
    return Summary(sorted(parts, key=lambda part: part.partition), seconds)


def _replay_hops(
    settings: Settings,
    path: Path,
    columns: Columns,
    output: ReplayOutput,
    partitions: int,
    *,
    skip_bad: bool,
    report: Report,
) -> Summary:
    """Replay a file whose streams are re-keyed; they learn in the order of its rows."""
    routes = settings.topics.routes_partitions or partitions
    places = _places(settings, output, max(partitions, routes), inputs=None)
    if output.folder is not None:
        places = [{"folder": str(output.folder.absolute()), "part": part} for part in range(partitions + routes)]
    else:
        places = places[:partitions] + places[:routes]
    began = time.perf_counter()
    rows = two_stage_file.read_rows(path, columns, settings.input.topics[0], partitions, skip_bad=skip_bad)
    try:
        parts = two_stage_file.replay_hops(settings, rows, partitions, routes, places, report)
    finally:
        _join(output, partitions + routes)
    return Summary(parts, time.perf_counter() - began)


def _places(
    settings: Settings, output: ReplayOutput, count: int, inputs: Sequence[str] | None, routes: int = 0
) -> list[dict[str, Any] | None]:
    """Create the targets of the outputs and return that of each of `count` parts, as `run.sink_of` takes it.

    `inputs` are the topics that are replayed, None for a file; `routes` is the partition count of replayed routes.
    """
    if output.name is not None:
        topics = target_topics(settings, output.name)
        _make_targets(settings, topics, None if inputs else count, routes)
        return [{"topics": topics}] * count
    if output.folder is not None:
        open_folder(output.folder)
        return [{"folder": str(output.folder.absolute()), "part": part} for part in range(count)]
    return [None] * count


def _join(output: ReplayOutput, count: int) -> None:
    if output.folder is not None:
        join_parts(output.folder, count)


def target_topics(settings: Settings, name: str) -> dict[str, str]:
    """Return the topics of another name that take the outputs, by kind.

    Raises ConfigurationError where the name is invalid or one of these topics belongs to the deployment itself, because
    a replay never writes among recorded outputs; the remedy is another name.
    """
    values = as_json(settings)
    other = Settings.of({**values, "name": name, "topics": {}})
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
    from resonance.pipeline.kafka.admin import ClusterAdmin  # noqa: PLC0415 - a file alone needs no broker

    client = clients.librdkafka(settings)
    cluster = ClusterAdmin(client, settings.broker.answer_timeout, settings.topics.replication_factor)
    if partitions is not None:
        counts = cluster.partition_counts()
        for topic in Topics.named([], **topics).outputs:
            name, config = topic.name, topic.config()
            if name not in counts:
                cluster.create(name, partitions, config, cluster.command(name, str(partitions), config))
            elif counts[name] < partitions:
                raise BrokerError(
                    f"topic {name} has {counts[name]} partitions, the replay {partitions}; add some: "
                    f"{cluster.alter(name, partitions)}"
                )
        cluster.wait_for_leaders(list(topics.values()))
        return
    wanted = Topics.named(settings.input.topics, **topics)
    wanted = replace(wanted, routes=routes or None, labels=Topics.of(settings).labels)
    prepare_topics(cluster, wanted, create=settings.topics.create)
