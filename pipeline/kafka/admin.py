"""The Kafka cluster as its administrators see it, with errors that a user can act on."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType
from resonance.pipeline.errors import BrokerError, DeniedError
from resonance.pipeline.kafka.access import Refusals
from resonance.pipeline.kafka.acl import Acl, for_topic, principal_of
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.embedded import is_embedded
from resonance.pipeline.kafka.errors import (
    UNREACHED,
    code_of,
    configured,
    missing_right,
    reason_of,
    right_refused,
    translated,
)
from resonance.pipeline.kafka.listeners import wrong_listener
from resonance.pipeline.records import TopicPartition

CONFIGS: Final = (
    "cleanup.policy",
    "max.message.bytes",
    "retention.ms",
    "retention.bytes",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "min.insync.replicas",
    "compression.type",
    "unclean.leader.election.enable",
    "delete.retention.ms",
    "segment.bytes",
    "min.cleanable.dirty.ratio",
    "max.compaction.lag.ms",
)
"""The entries of a topic's configuration that matter here."""

EVERY_MESSAGE: Final[Mapping[str, str]] = {"cleanup.policy": "delete"}
"""Configuration of a topic that is no table: under a broker's default of ``compact`` it would lose messages."""

LOOK_SECONDS: Final = 1.0
"""How long to wait for a first answer before checking whether the connection is refused."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the broker describes it."""

    topic_id: str
    """Kafka's id; it changes when the topic is deleted and created again."""
    partitions: int
    operations: frozenset[str] | None = None
    """What this user may do on it, as ``kafka-acls`` names it; None where the broker does not report it."""
    config: Mapping[str, str] = field(default_factory=dict)
    """`CONFIGS`; empty where the broker does not report them."""
    copies: int = 0
    """Replication factor; 0 where the broker does not report it."""


class ClusterAdmin:
    """A connection for queries and changes; a `replication_factor` of -1 is the broker's default.

    Raises `ConfigurationError` where the settings of the connection cannot be used, and `BrokerError` where the broker
    does not answer within `timeout` seconds.
    """

    def __init__(self, client: Mapping[str, Any], timeout: float = 10.0, replication_factor: int = -1) -> None:
        self.servers = str(client["bootstrap.servers"])
        self._client = dict(client)
        self._timeout = timeout
        self.copies = replication_factor
        self._refusals = Refusals(self._client)
        self._unread: set[str] = set()
        self._is_reached = False
        # librdkafka reports why a connection fails (name, certificate, password) to this callback alone.
        self._admin = new_client(AdminClient, {"log_level": 0, **client, "error_cb": self._refusals.note})
        # The embedded broker has no transactions and no topic configuration.
        self.embedded = is_embedded(self._metadata(timeout).cluster_id)

    def _metadata(self, timeout: float) -> Any:
        end = time.monotonic() + timeout
        while True:
            try:
                # Of the whole cluster: a request for one topic would create it where brokers create topics on demand.
                return self._admin.list_topics(timeout=max(min(end - time.monotonic(), LOOK_SECONDS), 0.1))
            except KafkaException as error:
                self._admin.poll(0)
                self._refusals.check(at_once=True)
                if time.monotonic() >= end:
                    raise BrokerError(
                        f"no Kafka broker answers at {self.servers} within {timeout:g} s "
                        f"({self._refusals.last or reason_of(error)}); start it, or set broker.bootstrap; "
                        "another broker.librdkafka.security.protocol than the brokers' looks the same"
                    ) from error

    def _answer(self, request: Future[Any]) -> Any:
        """Return the answer to a request of the brokers' own addresses, which may be wrong (`wrong_listener`)."""
        seconds = LOOK_SECONDS
        while True:
            try:
                return request.result(seconds)
            except (KafkaException, TimeoutError) as error:
                if code_of(error) not in (None, *UNREACHED):
                    raise
                is_last = request.done() or seconds > LOOK_SECONDS
                # Once is enough while a broker may only be slow.
                if is_last or not self._is_reached:
                    self._is_reached = True
                    if wrong := wrong_listener(self._client, all_of_them=not is_last):
                        raise wrong from error
                if is_last:
                    raise
                seconds = self._timeout + 5

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of every topic."""
        return {name: len(topic.partitions) for name, topic in self._metadata(self._timeout).topics.items()}

    def touch(self, topic: str) -> None:
        """Create a topic of the embedded broker, which has no CreateTopics: a first request for a topic creates it."""
        self._admin.list_topics(topic, timeout=self._timeout)

    def create(self, topic: str, partitions: int, config: Mapping[str, str], command: str) -> None:
        """Create a topic; `command` is what a user could do instead."""
        request = NewTopic(topic, partitions, self.copies, config=dict(config))
        try:
            self._answer(self._admin.create_topics([request], request_timeout=self._timeout)[topic])
        except (KafkaException, TimeoutError) as error:
            # Another worker of the deployment was quicker.
            if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            if denied := right_refused(self._client, error, for_topic(topic, ["Create"])):
                raise DeniedError(f"topic {topic} does not exist: {denied}; or create it: {command}") from error
            raise BrokerError(
                f"topic {topic} does not exist on {self.servers} and could not be made ({reason_of(error)}); "
                f"create it: {command}"
            ) from error

    def wait_for_leaders(self, topics: Sequence[str]) -> None:
        """Wait until every partition of the topics can be written, as long as more of them come to that."""
        missing, end = set(topics), time.monotonic() + self._timeout
        while True:
            known = self._metadata(self._timeout).topics
            led = {t for t in missing if t in known and all(p.leader >= 0 for p in known[t].partitions.values())}
            missing -= led
            if not missing:
                return
            if led:
                end = time.monotonic() + self._timeout
            elif time.monotonic() >= end:
                raise BrokerError(
                    f"topics {', '.join(sorted(missing))} on {self.servers} have no leaders after "
                    f"{self._timeout:g} s (broker.answer_timeout); look at the brokers"
                )
            time.sleep(0.05)

    def find(
        self, topics: Sequence[str], operations: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, FoundTopic]:
        """Return those of the topics that exist, without their configuration; with `operations`, what is allowed.

        Raises `DeniedError`, with the `operations` to be done on a topic, where the user may not even see it, whether
        it exists or not, and `BrokerError` where the broker does not answer.
        """
        if self.embedded:
            counts = self.partition_counts()
            return {topic: FoundTopic("", counts[topic]) for topic in topics if topic in counts}
        answers = self._admin.describe_topics(
            TopicCollection(list(topics)),
            # A broker looks up each right; who repeats the request twice a second needs none of them.
            include_authorized_operations=operations is not None,
            request_timeout=self._timeout,
        )
        found = {}
        for topic, answer in answers.items():
            right = for_topic(topic, (operations or {}).get(topic, ["Describe"]))
            with translated(self._client, f"{self.servers} does not describe topic {topic} ({{reason}})", right):
                try:
                    description = self._answer(answer)
                except KafkaException as error:
                    if code_of(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue
                    raise
            # A broker without an authorizer allows everything; one of an old version reports nothing.
            allowed = description.authorized_operations
            names = frozenset(_camel(operation.name) for operation in allowed) if allowed else None
            copies = min((len(each.replicas) for each in description.partitions), default=0)
            found[topic] = FoundTopic(str(description.topic_id), len(description.partitions), names, copies=copies)
        return found

    def check_seen(self, topic: str) -> None:
        """Raise `DeniedError`, with the missing right, where a seemingly missing topic is hidden from this user."""
        self.find([topic])

    def describe(
        self, topics: Sequence[str], operations: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, FoundTopic]:
        """Return what `find` does, with the configuration where the broker reports it."""
        found = self.find(topics, operations)
        configs = self.configs(list(found)) if found and not self.embedded else {}
        return {name: replace(topic, config=configs.get(name, {})) for name, topic in found.items()}

    def configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return `CONFIGS` of each topic where the broker reports them."""
        answers = self._admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, topic) for topic in topics], request_timeout=self._timeout
        )
        found, unread = {}, dict[str, str]()
        for resource, answer in answers.items():
            try:
                entries = self._answer(answer)
            except (KafkaException, TimeoutError) as error:
                unread[resource.name] = reason_of(error)
                continue
            values = {name: entries[name].value for name in CONFIGS if name in entries}
            found[resource.name] = {name: value for name, value in values.items() if value is not None}
        if new := unread.keys() - self._unread:
            # A right that a production cluster may refuse; everything else works without it.
            self._unread |= new
            right = for_topic(sorted(new)[0], ["DescribeConfigs"])
            _log.warning(
                "the configuration of %s cannot be read (%s), so that it is not checked what Kafka deletes there; an "
                "administrator gives the right to it: %s",
                ", ".join(sorted(new)),
                unread[right.name],
                right.command(self.servers, principal_of(self._client)),
            )
        return found

    def denied(self, right: Acl) -> str:
        """Return the sentence about a right that the user lacks, with the command that gives it."""
        return missing_right(self._client, right)

    def command(self, topic: str, partitions: str, config: Mapping[str, str] | None = None) -> str:
        """Return the command that creates a topic."""
        settings = "".join(f" --config {name}={value}" for name, value in (config or {}).items())
        return f"{self._kafka_topics} --create --topic {topic} --partitions {partitions}{settings}"

    def alter(self, topic: str, partitions: int) -> str:
        """Return the command that adds partitions."""
        return f"{self._kafka_topics} --alter --topic {topic} --partitions {partitions}"

    def configure(self, topic: str, settings: Mapping[str, str]) -> str:
        """Return the command that changes a topic's configuration."""
        listed = ",".join(f"{name}={value}" for name, value in settings.items())
        return configured(topic, listed, self.servers)

    @property
    def _kafka_topics(self) -> str:
        return f"kafka-topics.sh --bootstrap-server {self.servers}"


def latest_offsets(
    admin: AdminClient, places: Iterable[TopicPartition], level: IsolationLevel, seconds: float, *, some: bool = False
) -> dict[TopicPartition, int]:
    """Return the ends of some logs as their leaders report them, all at once.

    Raises `KafkaException`, or `TimeoutError`, where one does not within `seconds`; `some` leaves its partitions out.
    """
    wanted = {Place(*place): OffsetSpec.latest() for place in places}
    found: dict[TopicPartition, int] = {}
    if not wanted:
        return found
    for place, answer in admin.list_offsets(wanted, isolation_level=level, request_timeout=seconds).items():
        try:
            offset = answer.result(2 * seconds).offset
            if offset < 0:
                # So librdkafka reports a broker that is away while others answer.
                reason = f"{place.topic}[{place.partition}]: its leader gave no end within {seconds:g} s"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
            found[place.topic, place.partition] = offset
        except (KafkaException, TimeoutError):
            if not some:
                raise
    return found


def _camel(name: str) -> str:
    """Return ``DESCRIBE_CONFIGS`` as `kafka-acls` writes it: ``DescribeConfigs``."""
    return "".join(part.capitalize() for part in name.split("_"))
