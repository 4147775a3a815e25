"""A replay as a whole: which partitions, from where to where, with what output."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from resonance.pipeline import clients
from resonance.pipeline.errors import BrokerError, ConfigurationError
from resonance.pipeline.files import Columns
from resonance.pipeline.log_reader import LogReader
from resonance.pipeline.replay.jobs import Tell, as_json, describe, run_jobs
from resonance.pipeline.replay.ranges import Span, choose, resolve
from resonance.pipeline.replay.run import Replayed
from resonance.pipeline.replay.sinks import KINDS, join_parts, open_folder
from resonance.pipeline.restore import Source
from resonance.pipeline.settings import Settings
from resonance.pipeline.topic_kinds import Topics
from resonance.pipeline.topics import prepare_topics, read_deployment


@dataclass(frozen=True, slots=True)
class Summary:
    """What a replay came to.

    Attributes
    ----------
    parts : sequence of Replayed
        Each partition.
    seconds : float
        How long the slowest process worked.
    """

    parts: Sequence[Replayed]
    seconds: float

    @property
    def records(self) -> int:
        """Records of the ranges."""
        return sum(part.records for part in self.parts)

    @property
    def rate(self) -> float:
        """Records a second, those that were learned silently included."""
        return (self.records + sum(part.silent for part in self.parts)) / max(self.seconds, 1e-9)

    def as_json(self) -> dict[str, Any]:
        """Return the summary as JSON has it."""
        dead = sum((Counter(part.dead_letters) for part in self.parts), Counter())
        return {
            "records": self.records,
            "assignments": sum(part.assignments for part in self.parts),
            "events": sum(part.events for part in self.parts),
            "dead_letters": dict(dead),
            "seconds": round(self.seconds, 3),
            "rate": round(self.rate),
            "partitions": [asdict(part) for part in self.parts],
        }


@dataclass(frozen=True, slots=True)
class Output:
    """Where outputs go: into a folder, to the topics of another name, or nowhere."""

    folder: Path | None = None
    name: str | None = None


def replay_topics(
    settings: Settings,
    inputs: Collection[str],
    span: Span,
    output: Output = Output(),
    *,
    fresh: bool = False,
    processes: int = 1,
    told: Tell = lambda _: None,
) -> Summary:
    """Replay ranges of input topics.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    inputs : collection of str
        Which of its input topics.
    span : Span
        Which part of them.
    output : Output
        Where the outputs go.
    fresh : bool
        Begin with empty models where the range begins.
    processes : int
        How many partitions at once.
    told : callable
        Told how many more records are done.

    Raises
    ------
    ConfigurationError
        An output that the deployment itself has, a partition that is not there.
    BrokerError
        The broker does not answer; the range has no records.
    MismatchError
        The models at the beginning of the range are not known any more.
    """
    client = clients.librdkafka(settings)
    deployment = read_deployment(client, settings.input.topics, settings.broker.answer_timeout)
    settings.check_stream(deployment.partitions)
    source = Source.of(settings, client, deployment)
    with LogReader(client, source.group, settings.broker.answer_timeout) as reader:
        ranges = resolve(reader, client, span, choose(span, inputs, deployment.partitions))
    if all(first >= end for first, end in ranges.values()):
        whole = "holds no committed records" if span.whole else "has no committed records in that range"
        raise BrokerError(f"{', '.join(inputs)} on {settings.broker.bootstrap} {whole}; there is nothing to replay")
    common = describe(settings, deployment) | {"fresh": fresh}
    jobs = [common | {"at": at, "range": found} for at, found in ranges.items()]
    return _run(settings, jobs, output, processes, told)


def replay_file(
    settings: Settings,
    path: Path,
    columns: Columns,
    output: Output = Output(),
    *,
    partitions: int = 1,
    skip_bad: bool = False,
    processes: int = 1,
    told: Tell = lambda _: None,
) -> Summary:
    """Replay a file as if it had been produced to the first input topic, which needs no broker.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    path : Path
        The file.
    columns : Columns
        What is used of it.
    output : Output
        Where the outputs go.
    partitions : int
        Partitions of the topic it stands for.
    skip_bad : bool
        Leave out rows that cannot be used.
    processes : int
        How many partitions at once.
    told : callable
        Told how many more records are done.

    Raises
    ------
    ConfigurationError
        A suffix or column that is not known; several partitions, and no word of which records share a model.
    InputFileError
        The file cannot be read, or a row of it not be used.
    """
    settings.check_stream(partitions)
    given = {"path": str(path), "skip_bad": skip_bad, **asdict(columns)}
    common = {"settings": as_json(settings), "file": given, "partitions": partitions}
    jobs = [common | {"at": (settings.input.topics[0], partition)} for partition in range(partitions)]
    return _run(settings, jobs, output, processes, told)


def _run(settings: Settings, jobs: Sequence[Mapping[str, Any]], output: Output, processes: int, told: Tell) -> Summary:
    # Once, before several processes want the same.
    settings.engine_class.compile()
    places: list[Any] = [None] * len(jobs)
    if output.name is not None:
        topics = target_topics(settings, output.name)
        partitions = max(job["at"][1] for job in jobs) + 1
        _make_targets(settings, topics, jobs[0], partitions)
        places = [{"topics": topics}] * len(jobs)
    elif output.folder is not None:
        open_folder(output.folder)
        places = [{"folder": str(output.folder.absolute()), "part": part} for part in range(len(jobs))]
    given = [{**job, "output": place} for job, place in zip(jobs, places, strict=True)]
    try:
        results, seconds = run_jobs("replay", given, processes, told)
    finally:
        if output.folder is not None:
            join_parts(output.folder, len(jobs))
    return Summary([Replayed(**result) for result in results], seconds)


def target_topics(settings: Settings, name: str) -> dict[str, str]:
    """Return the topics of another name that take the outputs, by kind.

    Raises
    ------
    ConfigurationError
        The name cannot be one, or the deployment has one of these topics itself: recorded outputs are never touched.
    """
    values = as_json(settings)
    other = Settings.of({**values, "name": name, "topics": {}})
    topics = {kind: other.topic(kind) for kind in KINDS}
    own = {topic.name for group in (Topics.of(settings).inputs, Topics.of(settings).outputs) for topic in group}
    if taken := sorted(own & set(topics.values())):
        raise ConfigurationError(
            f"--to-name {name}: {', '.join(taken)} belong to the deployment {settings.name} itself, and a replay never "
            "writes among recorded outputs; choose another name"
        )
    return topics


def _make_targets(settings: Settings, topics: Mapping[str, str], job: Mapping[str, Any], partitions: int) -> None:
    client = clients.librdkafka(settings)
    if "file" in job:
        from resonance.pipeline.cluster import Cluster  # noqa: PLC0415 - a file alone needs no broker

        cluster = Cluster(client, settings.broker.answer_timeout, settings.topics.replication_factor)
        counts = cluster.partition_counts()
        for topic in topics.values():
            if topic not in counts:
                cluster.create(topic, partitions, {}, cluster.command(topic, str(partitions)))
            elif counts[topic] < partitions:
                raise BrokerError(
                    f"topic {topic} has {counts[topic]} partitions, the replay {partitions}; add some: "
                    f"{cluster.alter(topic, partitions)}"
                )
        cluster.wait_for_leaders(list(topics.values()))
        return
    prepare_topics(
        client,
        Topics.named(settings.input.topics, **topics),
        create=settings.topics.create,
        replication_factor=settings.topics.replication_factor,
        timeout=settings.broker.answer_timeout,
    )
