"""Compare the topics of a deployment with what it requires of them, and create the missing ones where that is allowed.

Every output has as many partitions as the input, because an output goes to the partition number of its source. What
follows re-keyed streams has at least as many as the routes, where these streams are learned. The requirements stand in
`kinds` and `configuration`; a worker's start, ``topics plan``, ``topics create`` and ``topics check`` use `survey`.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, DeniedError, counted, nearest
from resonance.pipeline.kafka.acl import for_topic
from resonance.pipeline.kafka.admin import EVERY_MESSAGE, ClusterAdmin, FoundTopic
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.topics.configuration import (
    TopicDifference,
    differences_of,
    longest,
    made_with,
    refuse,
    refuse_or_warn,
)
from resonance.pipeline.topics.kinds import LABELS, Topic, TopicKind, Topics

_log = logging.getLogger(__name__)


def check_inputs(cluster: ClusterAdmin, inputs: Sequence[str], found: Mapping[str, FoundTopic]) -> int:
    """Return the number of partitions that all input topics have.

    Raises BrokerError, with the command that helps, where one is missing or their numbers differ.
    """
    for topic in inputs:
        if topic not in found:
            raise BrokerError(
                f"input topic {topic} does not exist on {cluster.servers}{nearest(topic, cluster.partition_counts())}; "
                f"check input.topics, or create it: {cluster.command(topic, '<n>')}"
            )
    counts = {topic: found[topic].partitions for topic in inputs}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{topic} has {number}" for topic, number in counts.items())
        most = max(counts.values())
        fewer = [topic for topic, number in counts.items() if number < most]
        raise BrokerError(
            f"input.topics on {cluster.servers} must have the same number of partitions, but {listed}; "
            f"run one pipeline for each of them, or add partitions: {cluster.alter(fewer[0], most)}"
        )
    return counts[inputs[0]]


def check_labels(cluster: ClusterAdmin, topic: str, found: Mapping[str, FoundTopic]) -> int:
    """Return the number of partitions that the labels topic has.

    Raises BrokerError, with the command that creates it, where it is missing.
    """
    if topic not in found:
        raise BrokerError(
            f"there is no topic {topic} with labels on {cluster.servers}{nearest(topic, cluster.partition_counts())}; "
            f"check labels.topic, or create it: {cluster.command(topic, '<n>')}"
        )
    return found[topic].partitions


def make_inputs(cluster: ClusterAdmin, topics: Topics, partitions: int) -> list[str]:
    """Create the missing topics of other programs, which happens on request only; return their names."""
    names = [topic.name for topic in topics.of_others]
    there = cluster.find(names)
    made = [name for name in names if name not in there]
    for name in made:
        cluster.create(name, partitions, EVERY_MESSAGE, cluster.command(name, str(partitions), EVERY_MESSAGE))
    if made:
        cluster.wait_for_leaders(made)
    return made


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic as it is, beside what is required of it."""

    topic: Topic
    """What is required."""
    found: FoundTopic | None
    """What the broker has; None where the topic is missing."""
    made_with: Mapping[str, str]
    """Configuration to create it with."""
    command: str
    """The command that creates it."""
    differences: Sequence[TopicDifference] = ()
    """What does not fit; empty for a missing topic."""
    partitions: int = 0
    """Required number of partitions."""


@dataclass(frozen=True, slots=True)
class TopicSurvey:
    """Every topic of a deployment as it is, in the order of `Topics`."""

    partitions: int
    """Partitions of every input."""
    all: Sequence[TopicStatus]

    @property
    def differences(self) -> list[TopicDifference]:
        """What does not fit."""
        return [difference for status in self.all for difference in status.differences]

    @property
    def missing(self) -> list[TopicStatus]:
        """Outputs that do not exist."""
        return [status for status in self.all if status.found is None]


def prepare_topics(cluster: ClusterAdmin, topics: Topics, *, create: bool = True) -> Deployment:
    """Check the topics of a deployment and `create` the missing outputs, but never an input.

    Raises BrokerError, with the command that helps, where a topic is missing or does not fit, or where the user lacks a
    right on it; ConfigurationError where a setting does not fit a topic.
    """
    if cluster.embedded:
        return _touched(cluster, topics.all)
    found = survey(cluster, topics)
    if found.missing:
        # A start that is refused has made no topics.
        refuse(found.differences)
        make_missing(cluster, found, create=create)
        found = survey(cluster, topics)
    return checked(found)


def read_deployment(
    cluster: ClusterAdmin, topics: Topics, operations: Sequence[str] = ("Describe",), *, or_unrouted: bool = False
) -> Deployment:
    """Return what the broker reports of the topics that workers process; on Kafka nothing is created.

    Other outputs need not exist, and with `or_unrouted` the routes need not, which a worker makes. Raises BrokerError
    where a topic is missing, partition counts differ, or the user lacks the right to one of `operations`, which it
    names.
    """
    if cluster.embedded:
        return _touched(cluster, topics.logs)
    names = [topic.name for topic in topics.logs]
    found = cluster.find(names, dict.fromkeys(names, operations))
    check_inputs(cluster, topics.input_names, found)
    logs = topics.logs
    for topic in topics.logs:
        if topic.kind.name == "routes" and topic.name not in found:
            if or_unrouted:
                logs.remove(topic)
                continue
            raise BrokerError(
                f"there is no topic {topic.name} with the routes of this deployment on {cluster.servers}"
                f"{nearest(topic.name, cluster.partition_counts())}; look at name and topics.pattern, or start a "
                "worker, which makes it"
            )
        if topic.kind is LABELS:
            check_labels(cluster, topic.name, found)
    return _deployment((topic, found[topic.name]) for topic in logs)


def read_logs(client: Mapping[str, Any], settings: "Settings", *, or_unrouted: bool = False) -> Deployment:
    """Call `read_deployment` for the deployment of some settings."""
    cluster = ClusterAdmin(client, settings.broker.answer_timeout)
    return read_deployment(cluster, Topics.of(settings), or_unrouted=or_unrouted)


def survey(cluster: ClusterAdmin, topics: Topics) -> TopicSurvey:
    """Compare every topic with what is required of it; nothing is changed.

    Raises BrokerError where a topic of other programs is missing or cannot be seen, or where the inputs' partition
    counts differ: the outputs cannot be judged then.
    """
    inputs = topics.input_names
    found = cluster.describe(
        [topic.name for topic in topics.all], {topic.name: topic.kind.operations for topic in topics.all}
    )
    partitions = check_inputs(cluster, inputs, found)
    labels = max((check_labels(cluster, topic.name, found) for topic in topics.labels), default=0)
    retention = {}
    for name in ("retention.ms", "retention.bytes"):
        if kept := [config[name] for topic in topics.of_others if name in (config := found[topic.name].config)]:
            retention[name] = longest(kept)

    own = next((topic.name for topic in topics.outputs if topic.kind.name == "routes"), None)
    routes = topics.routes or 0
    if own is not None and topics.routes is None:
        routes = found[own].partitions if own in found else partitions

    def status(topic: Topic) -> TopicStatus:
        made = made_with(topic, retention, cluster.copies)
        wanted, why = partitions, f"the input {inputs[0]} has {partitions}"
        if topic.kind.name == "routes":
            wanted, why = routes, f"topics.routes_partitions = {routes}"
        elif topic.kind is LABELS:
            wanted = labels
        elif topic.kind.of_streams and routes > partitions:
            wanted, why = routes, f"the routes have {routes}"
        if topic.kind.of_labels and labels > wanted:
            wanted, why = labels, f"the labels have {labels}"
        command = cluster.command(topic.name, str(wanted), made)
        there = found.get(topic.name)
        differences = _differences(cluster, topic, there, made, wanted, why) if there else ()
        return TopicStatus(topic, there, made, command, differences, wanted)

    return TopicSurvey(partitions, [status(topic) for topic in topics.all])


def make_missing(cluster: ClusterAdmin, found: TopicSurvey, *, create: bool = True) -> list[str]:
    """Create the missing outputs; return their names.

    Raises BrokerError, with the command that creates it, where one may not, or cannot, be created.
    """
    for status in found.missing:
        name = status.topic.name
        if not create:
            raise BrokerError(
                f"topic {name} does not exist on {cluster.servers}; make it by `resonance topics create`, or by "
                f"{status.command} (a worker makes it unless topics.create is off)"
            )
        cluster.create(name, status.partitions, status.made_with, status.command)
        _log.info("made topic %s with %d partitions", name, status.partitions)
    made = [status.topic.name for status in found.missing]
    if made:
        cluster.wait_for_leaders(made)
    return made


def checked(found: TopicSurvey) -> Deployment:
    """Return what a worker needs to know of its topics, and warn of differences that do not stop it.

    Raises the first difference that stops a worker, as BrokerError or ConfigurationError with the remedy.
    """
    refuse_or_warn(found.differences)
    return _deployment((status.topic, status.found) for status in found.all if status.found is not None)


def _touched(cluster: ClusterAdmin, topics: Sequence[Topic]) -> Deployment:
    """Create topics of the embedded broker, which has no administration."""
    names = [topic.name for topic in topics]
    for name in names:
        cluster.touch(name)
    cluster.wait_for_leaders(names)
    found = cluster.find(names)
    return replace(_deployment((topic, found[topic.name]) for topic in topics), embedded=True)


def _deployment(found: Iterable[tuple[Topic, FoundTopic]]) -> Deployment:
    counts, ids, outputs, sizes = dict[str, int](), dict[str, str](), dict[str, str](), dict[str, int]()
    for topic, there in found:
        if there.config:
            sizes[topic.name] = int(there.config["max.message.bytes"])
        if topic.is_log:
            counts[topic.kind.name], ids[topic.name] = there.partitions, there.topic_id
        else:
            outputs[topic.name] = there.topic_id
    routes, labels = (counts.get(kind, 0) for kind in ("routes", "labels"))
    return Deployment(counts["input"], ids, sizes, routes=routes, labels=labels, output_ids=outputs)


def _differences(
    cluster: ClusterAdmin, topic: Topic, found: FoundTopic, wanted: Mapping[str, str], partitions: int, why: str
) -> list[TopicDifference]:
    differences = []
    if found.partitions != partitions:
        remedy = (
            f"add partitions: {cluster.alter(topic.name, partitions)}"
            if found.partitions < partitions
            else "partitions cannot be taken away: name another topic in the settings (topics.*), or delete it"
        )
        differences.append(
            TopicDifference(
                f"topic {topic.name} on {cluster.servers} has {counted(found.partitions, 'partition')}, {why}; an "
                f"output goes to the partition number of its source; {remedy}"
            )
        )
    allowed = found.operations
    lacking = [] if allowed is None else [name for name in topic.kind.operations if name not in allowed]
    if lacking:
        differences.append(TopicDifference(cluster.denied(for_topic(topic.name, lacking)), error=DeniedError))
    return [*differences, *differences_of(cluster, topic, found, wanted)]


def look_at(settings: Settings, admin: ClusterAdmin, kind: TopicKind, operations: Sequence[str] = ()) -> TopicStatus:
    """Return the topic of a kind as it is; `DeniedError` where it is hidden from who needs one of `operations`."""
    topic = Topic(kind, settings.topic(kind.name))
    config = made_with(topic, {}, admin.copies)
    found = admin.describe([topic.name], {topic.name: operations}).get(topic.name)
    differences = () if found is None else differences_of(admin, topic, found, config)
    return TopicStatus(topic, found, config, admin.command(topic.name, "1", config), differences, 1)


def ready(settings: Settings, admin: ClusterAdmin, kind: TopicKind) -> None:
    """Make the topic of a kind where it is missing, and check it where it is there."""
    topic = settings.topic(kind.name)
    if admin.embedded:
        admin.touch(topic)
        return
    status = look_at(settings, admin, kind, ("Write", "Read"))
    if status.found is None:
        if not settings.topics.create:
            missing = f"topic {topic} does not exist on {admin.servers} and topics.create is off"
            raise BrokerError(f"{missing}: {status.command}")
        admin.create(topic, 1, status.made_with, status.command)
        admin.wait_for_leaders([topic])
        return
    if status.found.operations is not None and "Write" not in status.found.operations:
        raise DeniedError(admin.denied(for_topic(topic, ["Write"])))
    refuse_or_warn(status.differences)
