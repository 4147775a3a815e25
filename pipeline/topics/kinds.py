"""Define what a deployment requires of each of its topics: one list for the worker's start, `topics` and the ACLs.

A topic of the deployment is one entry of `KINDS`; its name comes from `topics.pattern`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from resonance.pipeline.checkpoint.changelog_writer import CHUNK_BYTES
from resonance.pipeline.kafka.admin import EVERY_MESSAGE
from resonance.pipeline.records import STREAM_BYTES
from resonance.pipeline.repartition.envelope import REST_BYTES
from resonance.pipeline.repartition.keyed.operation_records import operation_bytes
from resonance.pipeline.task.encode.assignments import DEAD_LETTER_BYTES
from resonance.pipeline.task.encode.message_sizes import EVENT_BYTES

if TYPE_CHECKING:
    from resonance.pipeline.config.settings import Settings

KEY_BYTES: Final = 8_000
"""Bytes that Kafka's framing, the record and the key add to a part of a snapshot, without the stream's own key."""

SMALL_SEGMENTS: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    # The cleaner never touches the active segment: a start reads about one segment in vain ...
    "segment.bytes": str(64 * 1024 * 1024),
    # ... and a tenth of the live bytes.
    "min.cleanable.dirty.ratio": "0.1",
    # An active segment is closed and cleaned after an hour, however slowly it fills.
    "max.compaction.lag.ms": str(60 * 60 * 1000),
}
"""Configuration of the compacted topics that this program creates: a read of the whole topic meets little history."""


def _snapshot_bytes(settings: "Settings") -> int:
    return CHUNK_BYTES + KEY_BYTES + 4 * STREAM_BYTES


def _route_bytes(settings: "Settings") -> int:
    return operation_bytes(settings) if settings.is_keyed else settings.limits.record_bytes + REST_BYTES


def always(_: "Settings") -> bool:
    """Return True: every deployment has a topic of such a kind."""
    return True


@dataclass(frozen=True, slots=True)
class TopicKind:
    """Requirements of every deployment for one kind of topic."""

    name: str
    """Name among the settings, ``topics.<name>``; ``input`` and ``labels`` for topics of other programs."""
    meaning: str
    """Content of the topic, as shown to users."""
    config: Mapping[str, str] = field(default_factory=lambda: EVERY_MESSAGE)
    """How it is cleaned up, and what `configuration` does not say of every topic."""
    otherwise: str = "would lose messages: all but the newest of each key, and those without a key"
    """What happens under another ``cleanup.policy``, which a start therefore refuses."""
    retention_of_input: bool = False
    """Whether it keeps records as long as the input does."""
    worker_reads: bool = False
    """Whether workers read it."""
    for_subscribers: bool = True
    """Whether other programs subscribe to it."""
    message_bytes: Callable[["Settings"], int] = lambda _: EVENT_BYTES
    """Bytes of the largest message that the settings allow."""
    message_setting: str = ""
    """Setting that this size follows from, which could be lowered instead."""
    of_streams: bool = False
    """Whether it follows the streams, not the input: re-keyed, it needs as many partitions as the routes."""
    of_labels: bool = False
    """Whether outputs of a label go to the label's partition number: it needs as many partitions as the labels."""
    wanted: Callable[["Settings"], bool] = always
    """Whether a deployment has it."""
    made_by: str = ""
    """The command that makes it, with one partition, where it is no topic of a worker."""

    @property
    def operations(self) -> tuple[str, ...]:
        """Operations of workers on it, as ``kafka-acls`` names them."""
        write = () if self.of_others else ("Write",)
        read = ("Read",) if self.worker_reads else ()
        return (*write, *read)

    @property
    def policy(self) -> str:
        """Cleanup policy without which it loses messages or grows without end."""
        return self.config["cleanup.policy"]

    @property
    def of_others(self) -> bool:
        """Whether other programs write it, and workers only read."""
        return self in (INPUT, LABELS)

    @property
    def title(self) -> str:
        """Its name in a sentence: ``dead letters``."""
        return self.name.replace("_", " ")


INPUT: Final = TopicKind("input", "feature records, written by others", worker_reads=True, for_subscribers=False)

LABELS: Final = TopicKind("labels", "labels of records, written by others", worker_reads=True, for_subscribers=False)

NAMES: Final = TopicKind(
    "names",
    "names that people gave clusters, by id",
    config=SMALL_SEGMENTS,
    otherwise="would lose names",
    made_by="inspect --as",
)
"""Who shows clusters reads it."""

INCIDENTS: Final = TopicKind(
    "incidents",
    "what happened, as it is known now, by the key of each incident",
    config=SMALL_SEGMENTS,
    otherwise="would lose incidents, or grow without end",
    made_by="alerts --publish",
)

OPTIONAL: Final = (NAMES, INCIDENTS)

KINDS: Final[tuple[TopicKind, ...]] = (
    TopicKind("assignments", "an answer for each record"),
    TopicKind("cluster_events", "every change of the clusters", of_streams=True),
    TopicKind(
        "drift_events",
        "changes of the data themselves",
        of_streams=True,
        wanted=lambda settings: settings.emits_drift,
    ),
    TopicKind(
        "alerts",
        "what needs a look: alerts that opened and cleared",
        # A reset reads the alerts that it clears.
        worker_reads=True,
        of_streams=True,
        of_labels=True,
        wanted=lambda settings: settings.raises_alerts,
    ),
    TopicKind(
        "dead_letters",
        "records that could not be used, with the reason in headers",
        of_labels=True,
        message_bytes=lambda _: DEAD_LETTER_BYTES,
    ),
    TopicKind(
        "clusters",
        "the present clusters, by id",
        config=SMALL_SEGMENTS,
        otherwise="would lose clusters without recent events, or grow without end",
        # A reset reads the clusters that it removes.
        worker_reads=True,
        of_streams=True,
    ),
    TopicKind(
        "snapshots",
        "the models; nothing for subscribers",
        of_labels=True,
        config=SMALL_SEGMENTS,
        otherwise="would lose snapshots or grow without end",
        worker_reads=True,
        of_streams=True,
        for_subscribers=False,
        message_bytes=_snapshot_bytes,
    ),
    TopicKind(
        "archive",
        "the models of earlier hours, for replays",
        of_labels=True,
        otherwise="would keep the newest models alone, or lose none ever",
        retention_of_input=True,
        worker_reads=True,
        of_streams=True,
        for_subscribers=False,
        message_bytes=_snapshot_bytes,
    ),
    TopicKind(
        "routes",
        "records on their way to where their stream is learned",
        otherwise="would lose records of streams before they are learned, and when they are learned again",
        retention_of_input=True,
        worker_reads=True,
        for_subscribers=False,
        message_bytes=_route_bytes,
        message_setting="limits.record_bytes",
        wanted=lambda settings: settings.is_routed,
    ),
)
"""Every topic that a worker writes, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of one deployment."""

    kind: TopicKind
    name: str
    """Name on the broker."""
    message_bytes: int = EVENT_BYTES
    """Bytes that it must take in one message."""
    gives_times: bool = False
    """Whether Kafka's timestamps are the times of its records."""

    @property
    def is_log(self) -> bool:
        """Whether workers process its records."""
        return self.kind.of_others or self.kind.name == "routes"


@dataclass(frozen=True, slots=True)
class Topics:
    """All topics of one deployment."""

    inputs: Sequence[Topic]
    """Written by other programs."""
    outputs: Sequence[Topic]
    """Written by workers."""
    routes: int | None = None
    """Partitions required of the routes, None where not set; what follows streams has at least as many."""
    labels: Sequence[Topic] = ()
    """The labels topic, where there is one: written by other programs, with any number of partitions."""

    @classmethod
    def of(cls, settings: "Settings") -> Self:
        """Return the topics that the settings require."""
        return cls(
            [Topic(INPUT, name, gives_times=settings.input.time_path is None) for name in settings.input.topics],
            [
                Topic(kind, settings.topic(kind.name), kind.message_bytes(settings))
                for kind in KINDS
                if kind.wanted(settings)
            ],
            settings.topics.routes_partitions if settings.is_routed else None,
            [Topic(LABELS, topic) for topic in (settings.labels.topic,) if topic is not None],
        )

    @classmethod
    def named(cls, inputs: Sequence[str], **outputs: str) -> Self:
        """Return topics without any settings: the inputs, and by kind the name of each output."""
        kinds = {kind.name: kind for kind in KINDS}
        return cls(
            [Topic(INPUT, name) for name in inputs], [Topic(kinds[kind], name) for kind, name in outputs.items()]
        )

    @property
    def logs(self) -> list[Topic]:
        """Topics that workers process: those of other programs, and the routes."""
        return [topic for topic in self.all if topic.is_log]

    @property
    def of_others(self) -> list[Topic]:
        """Topics that workers read and other programs write."""
        return [*self.inputs, *self.labels]

    @property
    def all(self) -> list[Topic]:
        """Every topic."""
        return [*self.of_others, *self.outputs]

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs."""
        return [topic.name for topic in self.inputs]
