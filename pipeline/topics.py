"""The topics of a deployment: checked at the start, and made where they are missing and may be made.

Every output has as many partitions as the input, because an output goes to the partition number of its source. The
snapshots topic is compacted, in small segments that are cleaned early, so that a start never reads gigabytes of
history.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from resonance.pipeline.cluster import Cluster
from resonance.pipeline.errors import BrokerError, nearest

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
    broker = Cluster(client, timeout, replication_factor)
    partitions = check_inputs(broker, inputs)
    _make_missing(broker, [*outputs, snapshots], snapshots, partitions, create=create)
    return _checked(broker, inputs, [*outputs, snapshots], snapshots, partitions)


def read_deployment(client: Mapping[str, Any], inputs: Sequence[str], timeout: float = 10.0) -> Deployment:
    """Return what the broker says of the inputs, for whoever only reads; nothing is made, no output need be there.

    Parameters
    ----------
    client : mapping
        librdkafka configuration: ``bootstrap.servers`` and what the connection needs.
    inputs : sequence of str
        Input topics.
    timeout : float
        Seconds that the broker has for its first answer.

    Raises
    ------
    ConfigurationError
        What the connection needs cannot be used.
    BrokerError
        The broker does not answer, an input is missing, or partition counts differ.
    """
    broker = Cluster(client, timeout)
    partitions = check_inputs(broker, inputs)
    if broker.embedded:
        return Deployment(partitions, dict.fromkeys(inputs, ""), embedded=True)
    return Deployment(partitions, broker.topic_ids(inputs))


def check_inputs(broker: Cluster, inputs: Sequence[str]) -> int:
    """Return the number of partitions that all input topics have.

    Raises
    ------
    BrokerError
        One is missing, or their numbers differ.
    """
    counts = broker.partition_counts()
    for topic in inputs:
        if topic not in counts and broker.embedded:
            broker.touch(topic)
        elif topic not in counts:
            raise BrokerError(
                f"input topic {topic} does not exist on {broker.servers}{nearest(topic, counts)}; check input.topics, "
                "or create it: " + broker.command(topic, "<n>")
            )
    counts = broker.partition_counts()
    return _same_partitions({topic: counts[topic] for topic in inputs}, broker)


def _same_partitions(counts: Mapping[str, int], broker: Cluster) -> int:
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{topic} has {number}" for topic, number in counts.items())
        most = max(counts.values())
        fewer = [topic for topic, number in counts.items() if number < most]
        raise BrokerError(
            f"input.topics on {broker.servers} must have the same number of partitions, but {listed}; "
            f"run one pipeline for each of them, or add partitions: {broker.alter(fewer[0], most)}"
        )
    return next(iter(counts.values()))


def _make_missing(broker: Cluster, topics: Sequence[str], snapshots: str, partitions: int, *, create: bool) -> None:
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
    broker: Cluster, inputs: Sequence[str], outputs: Sequence[str], snapshots: str, partitions: int
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
