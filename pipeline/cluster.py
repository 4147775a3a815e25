"""The Kafka cluster as its administrators see it, with errors that a user can act on."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from resonance.pipeline.acls import Acl, principal_of
from resonance.pipeline.embedded import is_embedded
from resonance.pipeline.errors import BrokerError, ConfigurationError

CONFIGS: Final = (
    "cleanup.policy",
    "max.message.bytes",
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "min.cleanable.dirty.ratio",
    "max.compaction.lag.ms",
)
"""What of a topic's configuration matters here."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the broker describes it.

    Attributes
    ----------
    topic_id : str
        Kafka's id, another one when the topic is deleted and made again.
    partitions : int
        Number of them.
    operations : frozenset of str or None
        What this user may do on it, as ``kafka-acls`` names it; None where the broker does not tell.
    config : mapping of str to str
        `CONFIGS`; empty where the broker does not tell.
    """

    topic_id: str
    partitions: int
    operations: frozenset[str] | None = None
    config: Mapping[str, str] = field(default_factory=dict)


class Cluster:
    """A connection for questions and changes.

    Parameters
    ----------
    client : mapping
        librdkafka configuration: ``bootstrap.servers`` and what the connection needs.
    timeout : float
        Seconds that the brokers have for an answer.
    replication_factor : int
        Copies of the topics that are made; -1 = the broker's default.

    Attributes
    ----------
    servers : str
        Brokers to ask first.
    principal : str
        Whom ACLs must name for this connection.
    embedded : bool
        It is the embedded one: no transactions, no topic configuration.

    Raises
    ------
    ConfigurationError
        What the connection needs cannot be used.
    BrokerError
        The broker does not answer.
    """

    def __init__(self, client: Mapping[str, Any], timeout: float = 10.0, replication_factor: int = -1) -> None:
        self.servers = str(client["bootstrap.servers"])
        self.principal = principal_of(client)
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
        """Return the number of partitions of every topic."""
        return {name: len(topic.partitions) for name, topic in self._metadata(self._timeout).topics.items()}

    def touch(self, topic: str) -> None:
        """Make a topic of the embedded broker, which knows no CreateTopics: one is there once somebody asks for it."""
        self._admin.list_topics(topic, timeout=self._timeout)

    def create(self, topic: str, partitions: int, config: Mapping[str, str], command: str) -> None:
        """Make a topic; `command` is what a user could do instead."""
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
        """Wait until every partition of the topics can be written."""
        end = time.monotonic() + self._timeout
        while time.monotonic() < end:
            known = self._metadata(self._timeout).topics
            if all(t in known and all(p.leader >= 0 for p in known[t].partitions.values()) for t in topics):
                return
            time.sleep(0.05)
        raise BrokerError(f"topics {', '.join(topics)} on {self.servers} have no leaders; look at the brokers")

    def find(self, topics: Sequence[str]) -> dict[str, FoundTopic]:
        """Return those of the topics that exist, without their configuration.

        Raises
        ------
        BrokerError
            The user may not even see one of them, or the broker does not answer.
        """
        asked = self._admin.describe_topics(
            TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=self._timeout
        )
        found = {}
        for topic, answer in asked.items():
            try:
                told = answer.result(self._timeout + 5)
            except (KafkaException, TimeoutError) as error:
                problem = error.args[0] if error.args else None
                code = problem.code() if isinstance(problem, KafkaError) else None
                if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise BrokerError(self.denied(Acl("topic", topic, ("Describe",), ""))) from error
                reason = problem.str() if isinstance(problem, KafkaError) else "no answer"
                raise BrokerError(f"{self.servers} does not describe topic {topic} ({reason})") from error
            # A broker without an authorizer allows everything; one of an old version says nothing.
            operations = told.authorized_operations
            names = frozenset(_camel(operation.name) for operation in operations) if operations else None
            found[topic] = FoundTopic(str(told.topic_id), len(told.partitions), names)
        return found

    def configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return `CONFIGS` of each topic, where the broker tells."""
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
            found[resource.name] = {name: entries[name].value for name in CONFIGS if name in entries}
        return found

    def denied(self, acl: Acl) -> str:
        """Return the sentence about a right that the user lacks, with the command that gives it."""
        listed = " and ".join(acl.operations)
        return (
            f"the user has no right to {listed} {acl.resource} {acl.name}{'*' if acl.prefixed else ''} on "
            f"{self.servers}; an administrator gives it: {acl.command(self.servers, self.principal)} (all that are "
            "needed: `resonance topics plan --acls`)"
        )

    def command(self, topic: str, partitions: str, config: Mapping[str, str] | None = None) -> str:
        """Return the command that makes a topic."""
        settings = "".join(f" --config {name}={value}" for name, value in (config or {}).items())
        return f"{self._tool('kafka-topics')} --create --topic {topic} --partitions {partitions}{settings}"

    def alter(self, topic: str, partitions: int) -> str:
        """Return the command that adds partitions."""
        return f"{self._tool('kafka-topics')} --alter --topic {topic} --partitions {partitions}"

    def configure(self, topic: str, settings: Mapping[str, str]) -> str:
        """Return the command that changes a topic's configuration."""
        listed = ",".join(f"{name}={value}" for name, value in settings.items())
        return f"{self._tool('kafka-configs')} --alter --entity-type topics --entity-name {topic} --add-config {listed}"

    def _tool(self, name: str) -> str:
        return f"{name}.sh --bootstrap-server {self.servers}"


def _camel(name: str) -> str:
    """``DESCRIBE_CONFIGS`` as `kafka-acls` has it: ``DescribeConfigs``."""
    return "".join(part.capitalize() for part in name.split("_"))
