"""The topics of a deployment: compared with what it wants of them, and made where they are missing and may be made.

Every output has as many partitions as the input, because an output goes to the partition number of its source; what
goes with streams that are re-keyed has at least as many as the routes, where these are learned. What is wanted stands
in `kinds`; the worker's start, ``topics plan``, ``topics create`` and ``topics check`` all look through `survey`.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from resonance.pipeline.errors import BrokerError, ConfigurationError, DeniedError, ResonanceError, nearest
from resonance.pipeline.kafka.acl import for_topic
from resonance.pipeline.kafka.admin import ClusterAdmin, FoundTopic
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.topics.inputs import check_inputs, check_labels
from resonance.pipeline.topics.kinds import LABELS, Topic, Topics

if TYPE_CHECKING:
    from resonance.pipeline.config.settings import Settings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """Something about a topic that is not as the deployment wants it.

    Attributes
    ----------
    text : str
        What, where, and what to do.
    stops : bool
        A worker does not start with it; otherwise it is worth a warning.
    error : type
        What a worker raises.
    """

    text: str
    stops: bool = True
    error: type[ResonanceError] = BrokerError


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic as it is, beside what is wanted of it.

    Attributes
    ----------
    topic : Topic
        What is wanted.
    found : FoundTopic or None
        What the broker has; None = the topic is missing.
    made_with : mapping of str to str
        Configuration with which it would be made.
    command : str
        The command that makes it.
    differences : sequence of TopicDifference
        What does not fit; empty for a missing topic.
    partitions : int
        How many it is to have.
    """

    topic: Topic
    found: FoundTopic | None
    made_with: Mapping[str, str]
    command: str
    differences: Sequence[TopicDifference] = ()
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class TopicSurvey:
    """Every topic of a deployment as it is.

    Attributes
    ----------
    partitions : int
        Partitions of every input.
    inputs, outputs, labels : sequence of TopicStatus
        In the order of `Topics`.
    """

    partitions: int
    inputs: Sequence[TopicStatus]
    outputs: Sequence[TopicStatus]
    labels: Sequence[TopicStatus] = ()

    @property
    def routes(self) -> int:
        """Partitions of the topic of the routes; 0 where there is none."""
        return next((status.partitions for status in self.outputs if status.topic.kind.name == "routes"), 0)

    @property
    def all(self) -> list[TopicStatus]:
        """What others write, then outputs."""
        return [*self.inputs, *self.labels, *self.outputs]

    @property
    def missing(self) -> list[TopicStatus]:
        """Outputs that do not exist."""
        return [status for status in self.outputs if status.found is None]


def prepare_topics(
    client: Mapping[str, Any],
    topics: Topics,
    *,
    create: bool = True,
    replication_factor: int = -1,
    timeout: float = 10.0,
) -> Deployment:
    """Check the topics of a deployment and make the missing outputs.

    Parameters
    ----------
    client : mapping
        librdkafka configuration: ``bootstrap.servers`` and what the connection needs.
    topics : Topics
        What the deployment wants; inputs are never made.
    create : bool
        Make missing outputs; otherwise a missing one is an error with the command that makes it.
    replication_factor : int
        Copies of the topics that are made; -1 = the broker's default.
    timeout : float
        Seconds that the broker has for its first answer.

    Raises
    ------
    ConfigurationError
        What the connection needs cannot be used.
    BrokerError
        The broker does not answer, an input is missing, partition counts differ, a topic has a cleanup policy that
        loses what it is there for, or the user lacks a right on it.
    """
    cluster = ClusterAdmin(client, timeout, replication_factor)
    if cluster.embedded:
        return _touched(cluster, topics)
    found = survey(cluster, topics)
    if found.missing:
        make_missing(cluster, found, create=create)
        found = survey(cluster, topics)
    return checked(found)


def read_deployment(
    client: Mapping[str, Any],
    inputs: Sequence[str],
    timeout: float = 10.0,
    operations: Sequence[str] = ("Describe",),
    routes: str = "",
    labels: str = "",
) -> Deployment:
    """Return what the broker says of the inputs, for whoever only reads; nothing is made, no output need be there.

    Parameters
    ----------
    client : mapping
        librdkafka configuration: ``bootstrap.servers`` and what the connection needs.
    inputs : sequence of str
        Input topics.
    timeout : float
        Seconds that the broker has for its first answer.
    operations : sequence of str
        What is to be done on the inputs, for the error of whoever may not.
    routes, labels : str
        The topics of the routes and of the labels, which must be there, too; empty for none.

    Raises
    ------
    ConfigurationError
        What the connection needs cannot be used.
    BrokerError
        The broker does not answer, a topic is missing, or partition counts differ.
    """
    cluster = ClusterAdmin(client, timeout)
    if cluster.embedded:
        own = Topics.named(inputs, **({"routes": routes} if routes else {}))
        return _touched(cluster, replace(own, labels=[Topic(LABELS, labels)] if labels else []))
    logs = [topic for topic in (*inputs, labels, routes) if topic]
    found = cluster.find(logs, dict.fromkeys(logs, operations))
    partitions = check_inputs(cluster, inputs, found)
    if routes and routes not in found:
        cluster.check_seen(routes)
        raise BrokerError(
            f"there is no topic {routes} with the routes of this deployment on {cluster.servers}"
            f"{nearest(routes, cluster.partition_counts())}; look at name and topics.routes, or start a worker, which "
            "makes it"
        )
    if labels:
        check_labels(cluster, labels, found)
    ids = {topic: found[topic].topic_id for topic in logs}
    return Deployment(
        partitions,
        ids,
        routes=found[routes].partitions if routes else 0,
        labels=found[labels].partitions if labels else 0,
    )


def read_logs(client: Mapping[str, Any], settings: "Settings") -> Deployment:
    """Return what the broker says of everything that a deployment's workers process, for whoever only reads.

    Raises
    ------
    ConfigurationError, BrokerError
        As in `read_deployment`.
    """
    routes = settings.topic("routes") if settings.is_routed else ""
    labels = settings.labels.topic or ""
    return read_deployment(client, settings.input.topics, settings.broker.answer_timeout, routes=routes, labels=labels)


def survey(cluster: ClusterAdmin, topics: Topics) -> TopicSurvey:
    """Compare every topic with what is wanted of it; nothing is changed.

    Raises
    ------
    BrokerError
        An input is missing or cannot be seen, or the inputs' partition counts differ: nothing can be said of the
        outputs then.
    """
    inputs = topics.input_names
    found = cluster.find(
        [topic.name for topic in topics.all], {topic.name: topic.kind.operations for topic in topics.all}
    )
    partitions = check_inputs(cluster, inputs, found)
    labels = max((check_labels(cluster, topic.name, found) for topic in topics.labels), default=0)
    configs = cluster.configs(list(found))
    found = {name: replace(topic, config=configs.get(name, {})) for name, topic in found.items()}
    retention = {}
    for name in ("retention.ms", "retention.bytes"):
        if (longest := _longest([found[topic.name].config.get(name) for topic in topics.of_others])) is not None:
            retention[name] = longest

    own = next((topic.name for topic in topics.outputs if topic.kind.name == "routes"), None)
    routes = topics.routes or 0
    if own is not None and topics.routes is None:
        routes = found[own].partitions if own in found else partitions

    def status(topic: Topic) -> TopicStatus:
        made_with = topic.config(retention)
        wanted, why = partitions, f"the input {inputs[0]} has {partitions}"
        if topic.kind.name == "routes":
            wanted, why = routes, f"topics.routes_partitions = {routes}"
        elif topic.kind is LABELS:
            wanted = labels
        elif topic.kind.of_streams and routes > partitions:
            wanted, why = routes, f"the routes have {routes}"
        if topic.kind.of_labels and labels > wanted:
            wanted, why = labels, f"the labels have {labels}"
        command = cluster.command(topic.name, str(wanted), made_with)
        there = found.get(topic.name)
        differences = _differences(cluster, topic, there, made_with, wanted, why) if there else ()
        return TopicStatus(topic, there, made_with, command, differences, wanted)

    found_inputs, found_outputs, found_labels = (
        [status(topic) for topic in some] for some in (topics.inputs, topics.outputs, topics.labels)
    )
    return TopicSurvey(partitions, found_inputs, found_outputs, found_labels)


def make_missing(cluster: ClusterAdmin, found: TopicSurvey, *, create: bool = True) -> list[str]:
    """Make the outputs that are missing; return their names.

    Raises
    ------
    BrokerError
        One is missing and may not, or cannot, be made.
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
    """Return what a worker needs to know of its topics, and warn of what does not stop it.

    Raises
    ------
    BrokerError, ConfigurationError
        The first difference that stops it.
    """
    for status in found.all:
        for difference in status.differences:
            if difference.stops:
                raise difference.error(difference.text)
            _log.warning("%s", difference.text)
    there = {status.topic.name: status.found for status in found.all if status.found is not None}
    sizes = {name: int(topic.config["max.message.bytes"]) for name, topic in there.items() if topic.config}
    logs = [status.topic for status in found.all if status.topic.kind.of_others or status.topic.kind.name == "routes"]
    ids = {topic.name: there[topic.name].topic_id for topic in logs}
    labels = max((status.partitions for status in found.labels), default=0)
    return Deployment(found.partitions, ids, sizes, routes=found.routes, labels=labels)


def _touched(cluster: ClusterAdmin, topics: Topics) -> Deployment:
    """Make the topics of the embedded broker, which has no administration."""
    names = [topic.name for topic in topics.all]
    for name in names:
        cluster.touch(name)
    cluster.wait_for_leaders(names)
    counts = cluster.partition_counts()
    routes = [topic.name for topic in topics.outputs if topic.kind.name == "routes"]
    labels = [topic.name for topic in topics.labels]
    logs = [*topics.input_names, *labels, *routes]
    return Deployment(
        counts[logs[0]],
        dict.fromkeys(logs, ""),
        embedded=True,
        routes=counts[routes[0]] if routes else 0,
        labels=counts[labels[0]] if labels else 0,
    )


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
                f"topic {topic.name} on {cluster.servers} has {found.partitions} partitions, {why}; an output goes to "
                f"the partition number of its source; {remedy}"
            )
        )
    allowed = found.operations
    lacking = [] if allowed is None else [name for name in topic.kind.operations if name not in allowed]
    if lacking:
        differences.append(TopicDifference(cluster.denied(for_topic(topic.name, lacking)), error=DeniedError))
    policy = found.config.get("cleanup.policy", "")
    if topic.kind.of_others and "compact" in policy.split(","):
        differences.append(
            TopicDifference(
                f"{topic.kind.title} topic {topic.name} is compacted (cleanup.policy={policy}): records that the "
                "broker removes are missing when a model is rebuilt, so answers after a restart can differ from those "
                "of a run that never stopped",
                stops=False,
            )
        )
    if topic.kind.policy and policy not in ("", topic.kind.policy):
        differences.append(
            TopicDifference(
                f"{topic.kind.title} topic {topic.name} on {cluster.servers} has cleanup.policy={policy} and "
                f"{topic.kind.otherwise}; it must be {topic.kind.policy}: {cluster.configure(topic.name, wanted)}"
            )
        )
    differences += _sizes(cluster, topic, found, wanted)
    return differences


def _sizes(cluster: ClusterAdmin, topic: Topic, found: FoundTopic, wanted: Mapping[str, str]) -> list[TopicDifference]:
    """Return what is wrong with message sizes and retention."""
    differences = []
    taken = int(found.config.get("max.message.bytes", topic.message_bytes))
    if taken < topic.message_bytes:
        remedy = cluster.configure(topic.name, {"max.message.bytes": str(topic.message_bytes)})
        where = f"{topic.kind.title} topic {topic.name} takes messages of {taken} bytes (max.message.bytes)"
        if setting := topic.kind.message_setting:
            text = f"{setting} = {topic.message_bytes}: {where}; lower the setting or raise the topic's: {remedy}"
        else:
            text = f"{where}, and one can have up to {topic.message_bytes}; raise the topic's: {remedy}"
        differences.append(TopicDifference(text, error=ConfigurationError))
    for name, less in (("retention.ms", "records for a shorter time"), ("retention.bytes", "fewer bytes")):
        kept = found.config.get(name)
        if not topic.kind.retention_of_input or name not in wanted or kept is None:
            continue
        if _longest([kept, wanted[name]]) != kept:
            remedy = cluster.configure(topic.name, {name: wanted[name]})
            differences.append(
                TopicDifference(
                    f"{topic.kind.title} topic {topic.name} keeps {less} ({name}={kept}) than the input "
                    f"({wanted[name]}), so the earliest of them cannot be replayed: {remedy}",
                    stops=False,
                )
            )
    return differences


def _longest(times: Sequence[str | None]) -> str | None:
    """Return the longest of some retentions, of which -1 is without end."""
    known = [time for time in times if time is not None]
    return max(known, key=lambda time: float("inf") if int(time) < 0 else int(time), default=None)
