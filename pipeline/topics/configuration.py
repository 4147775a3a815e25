"""What Kafka must do to the topics of a deployment: the configuration they are made with, and what harm another does.

A broker has defaults for all of it, and who runs the cluster may change a topic. What a deployment depends on is
therefore set when a topic is made, and compared at every start: what loses data or ends the worker later stops the
start, what is only unwise is a warning. The requirements of one kind of topic stand in `kinds`.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from resonance.pipeline.errors import BrokerError, ConfigurationError, ResonanceError
from resonance.pipeline.kafka.admin import EVERY_MESSAGE, ClusterAdmin, FoundTopic
from resonance.pipeline.task.encode.message_sizes import EVENT_BYTES
from resonance.pipeline.topics.kinds import Topic

DEFAULT_MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default of ``max.message.bytes``, for which producers and consumers of other programs are made, too."""

LEAST: Final = {"retention.ms": 5 * 60_000, "retention.bytes": 1_048_576}
"""Retention below which messages may never be read: how often brokers delete, and one batch in a partition."""

DAY_MS: Final = 24 * 3_600_000
WEEK_MS: Final = 7 * DAY_MS

DRIFT_MS: Final = 3_600_000
"""Difference between the clocks of worker and broker that a topic should bear, Kafka's own default."""

SAFE_COPIES: Final = 3
"""Copies of a topic from which on one may be away while two have every message."""

MADE: Final[Mapping[str, str]] = {
    # The time of arrival: with a worker's own times its clock decides what retention deletes and the broker refuses.
    "message.timestamp.type": "LogAppendTime",
    # As the worker has compressed it.
    "compression.type": "producer",
}
"""Configuration of every topic that this program makes for itself."""

LIMITS: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
"""How far a message's own time may be from the broker's; a message beyond that is refused."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """Something about a topic that does not fit the deployment."""

    text: str
    """What differs, where, and what to do."""
    remedy: Mapping[str, str] = field(default_factory=dict)
    """Configuration of the topic that ends it; empty where there is a choice."""
    stops: bool = True
    """Whether it stops a worker's start; otherwise it is worth a warning."""
    error: type[ResonanceError] = BrokerError
    """What a worker raises."""


def made_with(topic: Topic, input_retention: Mapping[str, str], copies: int = -1) -> dict[str, str]:
    """Return the configuration to create a topic with.

    `input_retention` has ``retention.ms`` and ``retention.bytes`` of the input that is kept longest, where the broker
    reports them; `copies` is the replication factor, -1 for the broker's default.
    """
    if topic.kind.of_others:
        return {**EVERY_MESSAGE}
    made = {**topic.kind.config, **MADE}
    if topic.kind.policy == "delete":
        least = {name: str(LEAST[name]) for name in input_retention}
        if not topic.kind.retention_of_input:
            # Who subscribes may have been away for as long as Kafka keeps the offsets of a group, by default.
            least["retention.ms"] = str(WEEK_MS)
        made |= {name: longest([input_retention.get(name, kept), kept]) for name, kept in least.items()}
    made["max.message.bytes"] = str(max(topic.message_bytes, DEFAULT_MESSAGE_BYTES))
    if copies >= SAFE_COPIES:
        made["min.insync.replicas"] = "2"
    return made


def differences_of(
    cluster: ClusterAdmin, topic: Topic, found: FoundTopic, wanted: Mapping[str, str]
) -> list[TopicDifference]:
    """Return what Kafka does to a topic and should not, each with the command that ends it.

    `wanted` is what `made_with` returns. A broker that does not report its configuration is believed to fit.
    """
    rules = (_input,) if topic.kind.of_others else (_policy, _retention, _message_bytes, _copies, _timestamps, _rest)
    differences = []
    for difference in (each for rule in rules for each in rule(topic, found, wanted)):
        command = f": {cluster.configure(topic.name, difference.remedy)}" if difference.remedy else ""
        text = f"{topic.kind.title} topic {topic.name} {difference.text}{command}"
        differences.append(replace(difference, text=text))
    return differences


def refuse(differences: Iterable[TopicDifference]) -> None:
    """Raise the first difference that stops a worker."""
    for difference in differences:
        if difference.stops:
            raise difference.error(difference.text)


def refuse_or_warn(differences: Sequence[TopicDifference]) -> None:
    """Raise the first difference that stops a worker; without one, warn of all others."""
    refuse(differences)
    for difference in differences:
        _log.warning("%s", difference.text)


def _policy(topic: Topic, found: FoundTopic, wanted: Mapping[str, str]) -> Iterator[TopicDifference]:
    kind, policy = topic.kind, found.config.get("cleanup.policy", topic.kind.policy)
    # Without any policy everything is kept.
    if policy != kind.policy and (policy or kind.policy == "compact"):
        remedy = {name: value for name, value in wanted.items() if name in kind.config}
        yield TopicDifference(f"has cleanup.policy={policy} and {kind.otherwise}; it must be {kind.policy}", remedy)


def _retention(topic: Topic, found: FoundTopic, wanted: Mapping[str, str]) -> Iterator[TopicDifference]:
    if topic.kind.policy != "delete":
        return
    for name, what in (("retention.ms", "records for a shorter time"), ("retention.bytes", "fewer bytes")):
        kept, made = found.config.get(name, "-1"), wanted.get(name, str(WEEK_MS if name == "retention.ms" else -1))
        if 0 <= int(kept) < LEAST[name]:
            yield TopicDifference(
                f"has {name}={kept}: Kafka deletes messages before they can be read; raise it", {name: made}
            )
        elif topic.kind.retention_of_input and name in wanted and longest([kept, made]) != kept:
            text = f"keeps {what} ({name}={kept}) than the input ({made}), so the earliest of them cannot be replayed"
            yield TopicDifference(text, {name: made}, stops=False)
        elif name == "retention.ms" and not topic.kind.retention_of_input and 0 <= int(kept) < DAY_MS:
            text = f"has {name}={kept}: who subscribes loses what it does not read in that time; raise it"
            yield TopicDifference(text, {name: made}, stops=False)


def _message_bytes(topic: Topic, found: FoundTopic, _: Mapping[str, str]) -> Iterator[TopicDifference]:
    kind, needed = topic.kind, topic.message_bytes
    taken = int(found.config.get("max.message.bytes", needed))
    if taken >= needed:
        return
    text = f"takes messages of {taken} bytes (max.message.bytes), and one can have up to {needed}"
    if kind.message_setting:
        text += f" ({kind.message_setting} = {needed}); lower the setting or raise the topic's"
    elif kind.for_subscribers:
        text += ": the worker would end there; raise it"
    else:
        text += "; raise the topic's"
    # An event is hardly ever so large.
    stops = needed != EVENT_BYTES
    yield TopicDifference(text, {"max.message.bytes": str(needed)}, stops=stops, error=ConfigurationError)


def _copies(_: Topic, found: FoundTopic, __: Mapping[str, str]) -> Iterator[TopicDifference]:
    copies, name = found.copies, "min.insync.replicas"
    needed = int(found.config.get(name, 0))
    if not copies or not needed:
        return
    advised = {name: str(max(copies - 1, 1))}
    if needed > copies:
        yield TopicDifference(
            f"has {name}={needed} and {_counted(copies)}, so that it takes no message; add copies "
            "(kafka-reassign-partitions.sh), or lower it",
            advised,
        )
    elif needed == copies > 1:
        text = f"has {name}={needed} and {_counted(copies)}: it takes no message while one broker is away; lower it"
        yield TopicDifference(text, advised, stops=False)
    elif needed == 1 and copies >= SAFE_COPIES:
        text = f"has {name}=1: what only one of {_counted(copies)} has is lost with its broker; raise it"
        yield TopicDifference(text, {name: "2"}, stops=False)


def _counted(copies: int) -> str:
    return f"{copies} {'copy' if copies == 1 else 'copies'} of each partition"


def _timestamps(_: Topic, found: FoundTopic, wanted: Mapping[str, str]) -> Iterator[TopicDifference]:
    name = "message.timestamp.type"
    if found.config.get(name) != "CreateTime":
        return
    for limit in LIMITS:
        allowed = int(found.config.get(limit, DRIFT_MS))
        if allowed < DRIFT_MS:
            yield TopicDifference(
                f"has {limit}={allowed} and {name}=CreateTime: it refuses messages of a worker whose clock differs by "
                "more, or that wait for longer",
                {name: wanted[name]},
                stops=allowed < LEAST["retention.ms"],
            )


def _rest(topic: Topic, found: FoundTopic, wanted: Mapping[str, str]) -> Iterator[TopicDifference]:
    name, given = "compression.type", found.config.get("compression.type", "producer")
    if given != "producer":
        text = f"has {name}={given}: brokers unpack and pack every batch again; leave it to the worker"
        yield TopicDifference(f"{text} (broker.librdkafka.compression.type)", {name: wanted[name]}, stops=False)
    name = "unclean.leader.election.enable"
    if found.config.get(name) == "true":
        text = f"has {name}=true: a broker that lacks messages may come first, and they are lost"
        yield TopicDifference(text, {name: "false"}, stops=False)
    name = "delete.retention.ms"
    if topic.kind.policy == "compact" and 0 <= int(found.config.get(name, DAY_MS)) < DRIFT_MS:
        text = f"has {name}={found.config[name]}: who reads it for longer than that takes what was removed for present"
        yield TopicDifference(text, {name: str(DAY_MS)}, stops=False)


def _input(topic: Topic, found: FoundTopic, wanted: Mapping[str, str]) -> Iterator[TopicDifference]:
    """Yield what is unwise of a topic of other programs, who may have their reasons: nothing stops a start."""
    policy = found.config.get("cleanup.policy", "")
    if "compact" in policy.split(","):
        yield TopicDifference(
            f"is compacted (cleanup.policy={policy}): it takes no record without a key, and records that the broker "
            "removes are missing when a model is rebuilt, so answers after a restart can differ from those of a run "
            "that never stopped",
            wanted,
            stops=False,
        )
    for name, least, then in (
        ("retention.ms", DAY_MS, "records that wait longer for a worker are lost"),
        ("retention.bytes", LEAST["retention.bytes"], "records are deleted before they can be read"),
    ):
        if "delete" in policy.split(",") and 0 <= int(kept := found.config.get(name, "-1")) < least:
            yield TopicDifference(f"has {name}={kept}: {then}; raise it", {name: str(least)}, stops=False)
    if topic.gives_times and found.config.get("message.timestamp.type") == "LogAppendTime":
        yield TopicDifference(
            "has message.timestamp.type=LogAppendTime: a record's time is that of its arrival, however late; "
            "input.time_path can name a time of its own",
            {},
            stops=False,
        )


def longest(retentions: Sequence[str]) -> str:
    """Return the longest, or largest, of some retentions; -1 is without end."""
    return max(retentions, key=lambda each: float("inf") if int(each) < 0 else int(each))
