"""The topics of a deployment: checked at the start, and made where they are missing and may be made.

Every output has as many partitions as the input, because an output goes to the partition number of its source. The
snapshots topic is compacted, in small segments that are cleaned early, so that a start never reads gigabytes of
history.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from resonance.pipeline.embedded import is_embedded
from resonance.pipeline.errors import BrokerError, ConfigurationError

SNAPSHOT_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    # The cleaner never touches the active segment: what a start reads in vain is about one segment ...
    "segment.bytes": str(64 * 1024 * 1024),
    # ... and a tenth of the live bytes behind it.
    "min.cleanable.dirty.ratio": "0.1",
    # An active segment is closed and cleaned after an hour, however slowly it fills.
    "max.compaction.lag.ms": str(60 * 60 * 1000),
}
"""Configuration of a snapshots topic that this program makes."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the broker says of a deployment's topics.

    Attributes
    ----------
    partitions : int
        Partitions of every topic.
    topic_ids : mapping of str to str
        Kafka's id of each input topic, which changes when a topic is deleted and made again; ``""`` where the broker
        gives none (the embedded one).
    message_bytes : mapping of str to int
        ``max.message.bytes`` of each topic, where the broker tells.
    embedded : bool
        The broker is the embedded one: no transactions, no topic configuration.
    """

    partitions: int
    topic_ids: Mapping[str, str]
    message_bytes: Mapping[str, int] = field(default_factory=dict)
    embedded: bool = False


def prepare_topics(
    client: Mapping[str, Any],
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    snapshots: str,
    create: bool = True,
    replication_factor: int = -1,
    timeout: float = 10.0,
) -> Deployment:
    """Check the topics of a deployment and make the missing outputs.

    Parameters
    ----------
    client : mapping
        librdkafka configuration: ``bootstrap.servers`` and what the connection needs.
    inputs : sequence of str
        Input topics; they are never made.
    outputs : sequence of str
        Output topics without the snapshots topic.
    snapshots : str
        The compacted topic.
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
        The broker does not answer, an input is missing, partition counts differ, or the snapshots topic is not
        compacted.
    """
    broker = _Broker(client, timeout, replication_factor)
    counts = broker.partition_counts()
    for topic in inputs:
        if topic not in counts and broker.embedded:
            broker.touch(topic)
        elif topic not in counts:
            raise BrokerError(
                f"input topic {topic} does not exist on {broker.servers}; check input.topics, or create it: "
                + broker.command(topic, "<n>")
            )
    counts = broker.partition_counts()
    partitions = _input_partitions({topic: counts[topic] for topic in inputs}, broker)
    _make_missing(broker, [*outputs, snapshots], snapshots, partitions, create=create)
    return _checked(broker, inputs, [*outputs, snapshots], snapshots, partitions)


def _input_partitions(counts: Mapping[str, int], broker: "_Broker") -> int:
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{topic} has {number}" for topic, number in counts.items())
        most = max(counts.values())
        fewer = [topic for topic, number in counts.items() if number < most]
        raise BrokerError(
            f"input.topics on {broker.servers} must have the same number of partitions, but {listed}; "
            f"run one pipeline for each of them, or add partitions: {broker.alter(fewer[0], most)}"
        )
    return next(iter(counts.values()))


def _make_missing(broker: "_Broker", topics: Sequence[str], snapshots: str, partitions: int, *, create: bool) -> None:
    counts = broker.partition_counts()
    missing = [topic for topic in topics if topic not in counts]
    for topic in missing:
        config = SNAPSHOT_CONFIG if topic == snapshots else {}
        if broker.embedded:
            broker.touch(topic)
            continue
        command = broker.command(topic, str(partitions), config)
        if not create:
            raise BrokerError(
                f"topic {topic} does not exist on {broker.servers} and topics.create is off; create it: {command}"
            )
        broker.create(topic, partitions, config, command)
        _log.info("made topic %s with %d partitions", topic, partitions)
    broker.wait_for_leaders(missing)


def _checked(
    broker: "_Broker", inputs: Sequence[str], outputs: Sequence[str], snapshots: str, partitions: int
) -> Deployment:
    counts = broker.partition_counts()
    for topic in outputs:
        found = counts[topic]
        if found != partitions:
            remedy = (
                f"add partitions: {broker.alter(topic, partitions)}"
                if found < partitions
                else "partitions cannot be taken away: name another topic in the settings (topics.*), or delete it"
            )
            raise BrokerError(
                f"topic {topic} on {broker.servers} has {found} partitions, the input {inputs[0]} has {partitions}; "
                f"an output goes to the partition number of its source; {remedy}"
            )
    if broker.embedded:
        return Deployment(partitions, dict.fromkeys(inputs, ""), embedded=True)
    configs = broker.configs([*inputs, *outputs])
    policy = configs.get(snapshots, {}).get("cleanup.policy", "compact")
    if "compact" not in policy.split(",") or "delete" in policy.split(","):
        settings = ",".join(f"{name}={value}" for name, value in SNAPSHOT_CONFIG.items())
        raise BrokerError(
            f"snapshots topic {snapshots} on {broker.servers} has cleanup.policy={policy} and would lose snapshots or "
            f"grow without end; it must be compact: {broker.configure(snapshots, settings)}"
        )
    for topic in inputs:
        policy = configs.get(topic, {}).get("cleanup.policy", "delete")
        if "compact" in policy.split(","):
            _log.warning(
                "input topic %s is compacted (cleanup.policy=%s): records that the broker removes are missing when a "
                "model is rebuilt, so answers after a restart can differ from those of a run that never stopped",
                topic,
                policy,
            )
    sizes = {topic: int(config["max.message.bytes"]) for topic, config in configs.items()}
    return Deployment(partitions, broker.topic_ids(inputs), sizes)


class _Broker:
    """The questions that the check asks, with errors that a user can act on."""

    def __init__(self, client: Mapping[str, Any], timeout: float, replication_factor: int) -> None:
        self.servers = str(client["bootstrap.servers"])
        self._timeout = timeout
        self._copies = replication_factor
        self._reasons: list[str] = []
        try:
            # librdkafka tells why a connection fails (name, certificate, password) to this callback alone.
            self._admin = AdminClient(
                {"log_level": 0, **client, "error_cb": lambda error: self._reasons.append(error.str())}
            )
        except KafkaException as error:
            raise ConfigurationError(
                f"[broker]: no connection can be made with these settings ({error.args[0].str()}); look at "
                "broker.security_protocol, broker.sasl_* and broker.ssl_*"
            ) from error
        self.embedded = is_embedded(self._metadata(timeout).cluster_id)

    def _metadata(self, timeout: float) -> Any:
        try:
            # Of the whole cluster: asking for one topic by name would make it where brokers make topics on demand.
            return self._admin.list_topics(timeout=timeout)
        except KafkaException as error:
            self._admin.poll(0)
            reason = self._reasons[-1] if self._reasons else error.args[0].str()
            raise BrokerError(
                f"no Kafka broker answers at {self.servers} within {timeout:g} s ({reason}); "
                "start it, or set broker.bootstrap (and broker.security_protocol)"
            ) from error

    def partition_counts(self) -> dict[str, int]:
        return {name: len(topic.partitions) for name, topic in self._metadata(self._timeout).topics.items()}

    def touch(self, topic: str) -> None:
        # The embedded broker knows no CreateTopics: a topic is there once somebody asks for it.
        self._admin.list_topics(topic, timeout=self._timeout)

    def create(self, topic: str, partitions: int, config: Mapping[str, str], command: str) -> None:
        request = NewTopic(topic, partitions, self._copies, config=dict(config))
        try:
            self._admin.create_topics([request], request_timeout=self._timeout)[topic].result(self._timeout + 5)
        except (KafkaException, TimeoutError) as error:
            problem = error.args[0] if error.args else None
            # Another worker of the deployment was quicker.
            if isinstance(problem, KafkaError) and problem.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            reason = problem.str() if isinstance(problem, KafkaError) else "no answer"
            raise BrokerError(
                f"topic {topic} does not exist on {self.servers} and could not be made ({reason}); create it: {command}"
            ) from error

    def wait_for_leaders(self, topics: Sequence[str]) -> None:
        end = time.monotonic() + self._timeout
        while time.monotonic() < end:
            known = self._metadata(self._timeout).topics
            if all(t in known and all(p.leader >= 0 for p in known[t].partitions.values()) for t in topics):
                return
            time.sleep(0.05)
        raise BrokerError(f"topics {', '.join(topics)} on {self.servers} have no leaders; look at the brokers")

    def configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        names = ("cleanup.policy", "max.message.bytes")
        asked = self._admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, topic) for topic in topics], request_timeout=self._timeout
        )
        found = {}
        for resource, answer in asked.items():
            try:
                entries = answer.result(self._timeout + 5)
            except (KafkaException, TimeoutError) as error:
                # A right that a production cluster may refuse; everything else works without it.
                _log.warning("configuration of topic %s cannot be read, so it is not checked: %s", resource.name, error)
                continue
            found[resource.name] = {name: entries[name].value for name in names}
        return found

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        asked = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=self._timeout)
        try:
            return {topic: str(answer.result(self._timeout + 5).topic_id) for topic, answer in asked.items()}
        except (KafkaException, TimeoutError) as error:
            raise BrokerError(
                f"{self.servers} does not describe the input topics {', '.join(topics)} ({error}); "
                "the user needs the right to describe them"
            ) from error

    def command(self, topic: str, partitions: str, config: Mapping[str, str] | None = None) -> str:
        settings = "".join(f" --config {name}={value}" for name, value in (config or {}).items())
        return f"{self._tool('kafka-topics')} --create --topic {topic} --partitions {partitions}{settings}"

    def alter(self, topic: str, partitions: int) -> str:
        return f"{self._tool('kafka-topics')} --alter --topic {topic} --partitions {partitions}"

    def configure(self, topic: str, settings: str) -> str:
        return (
            f"{self._tool('kafka-configs')} --alter --entity-type topics --entity-name {topic} --add-config {settings}"
        )

    def _tool(self, name: str) -> str:
        return f"{name}.sh --bootstrap-server {self.servers}"
