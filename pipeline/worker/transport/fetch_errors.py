"""What the errors of the worker's consumer mean: which pass, and the others in words for a user."""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError
from resonance.pipeline import mismatches
from resonance.pipeline.errors import BrokerError, ConfigurationError, FencedError, ResourceError
from resonance.pipeline.kafka.acl import for_group, for_topic
from resonance.pipeline.kafka.errors import UNREACHED, right_refused
from resonance.pipeline.kafka.intake import Event
from resonance.pipeline.kafka.log_reader import is_passing
from resonance.pipeline.memory_budget import MemoryBudget

MISSING: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""Codes of topics that no broker has described."""

REFUSED_MEMBERS: Final = {
    KafkaError.INVALID_SESSION_TIMEOUT: (
        "broker.session_timeout: the broker does not allow it; choose seconds between its group.min.session.timeout.ms "
        "(6 s by default) and group.max.session.timeout.ms (30 minutes by default), or change these"
    ),
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: (
        "name: the consumer group of this name has members of another program, or of another way to share partitions; "
        "choose another name, or stop those members"
    ),
    KafkaError.INVALID_GROUP_ID: ("name: the broker does not take it as the name of a consumer group; choose another"),
}
"""Codes with which the group refuses this worker for good: each is caused by a setting."""


def passes(problem: KafkaError) -> bool:
    """Return whether librdkafka goes on by itself, and the group with it."""
    return is_passing(problem) or problem.code() == KafkaError._MAX_POLL_EXCEEDED


def explained(event: Event, client: Mapping[str, Any], group: str, memory: MemoryBudget) -> Exception:
    """Return what a consumer of a group reports in words for a user.

    `client` is the librdkafka configuration of the connection, which shows what was refused to which user, `memory` the
    budget of the worker.
    """
    problem, place = event.error, f"{event.topic}[{event.partition}]@{event.offset}"
    code, servers = problem.code(), client["bootstrap.servers"]
    if code in REFUSED_MEMBERS:
        return ConfigurationError(REFUSED_MEMBERS[code])
    if denied := right_refused(client, problem, for_topic(event.topic, ["Read"]) if event.topic else for_group(group)):
        return denied
    # Of a consumer that has ended for good the text alone has the reason.
    if KafkaError(KafkaError.FENCED_INSTANCE_ID).str() in problem.str():
        return FencedError(
            f"group {group}: another worker has joined as {client['client.id']}; give each worker its own worker.id "
            "(or web port), and start again where this one was silent while another took its place"
        )
    if code == KafkaError._AUTO_OFFSET_RESET:
        return mismatches.truncated_ahead(event.topic, event.partition, event.offset)
    if code in UNREACHED:
        return BrokerError(
            f"no Kafka broker answers any more at {servers} ({problem.str()}); the worker may be started again at "
            "once, and begins with the same question"
        )
    if code == KafkaError._BAD_COMPRESSION:
        return ResourceError(
            f"{place}: a batch cannot be unpacked to {memory.batch:,} bytes at most, all that limits.memory = "
            f"{memory.total:,} allows; raise it, or let the producer send smaller batches (batch.size), unless the "
            f"batch is damaged ({problem.str()}); nothing of it was committed"
        )
    where = f"{place}: " if event.topic else ""
    return BrokerError(
        f"{where}the broker refuses to serve the input: {problem.str()}; check the topic, its ACLs and the broker"
    )
