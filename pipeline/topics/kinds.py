"""What a deployment wants of each of its topics: the one list behind the worker's start, `topics` and the ACLs.

A topic of the deployment is one entry of `KINDS`; its name comes from the settings (``topics.<kind>``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Self

from resonance.pipeline.checkpoint.changelog_writer import CHUNK_BYTES
from resonance.pipeline.repartition.envelope import REST_BYTES
from resonance.pipeline.repartition.keyed.operation_sizes import ask_bytes

if TYPE_CHECKING:
    from resonance.pipeline.config.settings import Settings

KEY_BYTES: Final = 8_000
"""What Kafka's framing, the record and the key add to a part of a snapshot, a stream's own key left out."""

DEFAULT_MESSAGE_BYTES: Final = 1_048_588
"""What a topic takes in one message unless its configuration, or the broker's, says otherwise."""

SMALL_SEGMENTS: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    # The cleaner never touches the active segment: what a start reads in vain is about one segment ...
    "segment.bytes": str(64 * 1024 * 1024),
    # ... and a tenth of the live bytes behind it.
    "min.cleanable.dirty.ratio": "0.1",
    # An active segment is closed and cleaned after an hour, however slowly it fills.
    "max.compaction.lag.ms": str(60 * 60 * 1000),
}
"""Configuration of the compacted topics that this program makes: readers of the whole topic never read much history."""


def _no_bytes(settings: "Settings") -> int:
    return 0


def _snapshot_bytes(settings: "Settings") -> int:
    return CHUNK_BYTES + KEY_BYTES + 4 * settings.limits.key_bytes


def _route_bytes(settings: "Settings") -> int:
    return ask_bytes(settings) if settings.is_keyed else settings.limits.record_bytes + REST_BYTES


def _always(settings: "Settings") -> bool:
    return True


def _dead_letter_bytes(settings: "Settings") -> int:
    return settings.limits.dead_letter_bytes


@dataclass(frozen=True, slots=True)
class TopicKind:
    """What every deployment wants of a topic.

    Attributes
    ----------
    name : str
        Its name among the settings, ``topics.<name>``; ``input`` and ``labels`` for those of others.
    meaning : str
        What stands in it, for people.
    config : mapping of str to str
        What it is made with; the broker's defaults for the rest.
    policy : {"", "compact", "delete"}
        The cleanup policy without which the deployment does not work; ``""`` where any will do.
    otherwise : str
        What happens under another policy.
    retention_of_input : bool
        It keeps records as long as the input does.
    worker_reads : bool
        Workers read it back.
    for_subscribers : bool
        Others subscribe to it.
    message_bytes : callable
        Bytes of the largest message that the settings allow, 0 where nothing bounds it from below.
    message_setting : str
        The setting that this follows from, which could be lowered instead.
    emptied : bool
        A reset deletes its records: they are of another history.
    of_streams : bool
        What stands in a partition goes with the streams that are learned there, and not with the records of the input:
        where these are re-keyed it needs as many partitions as the routes.
    of_labels : bool
        What goes back to a message of labels goes to its partition number, too: it needs as many partitions as these.
    wanted : callable
        Whether a deployment has it.
    """

    name: str
    meaning: str
    config: Mapping[str, str] = field(default_factory=dict)
    policy: Literal["", "compact", "delete"] = ""
    otherwise: str = ""
    retention_of_input: bool = False
    worker_reads: bool = False
    for_subscribers: bool = True
    message_bytes: Callable[["Settings"], int] = _no_bytes
    message_setting: str = ""
    emptied: bool = False
    of_streams: bool = False
    of_labels: bool = False
    wanted: Callable[["Settings"], bool] = _always

    @property
    def operations(self) -> tuple[str, ...]:
        """What workers do on it, as ``kafka-acls`` names it."""
        write = () if self.of_others else ("Write",)
        read = ("Read",) if self.worker_reads else ()
        delete = ("Delete",) if self.emptied else ()
        return (*write, *read, *delete)

    @property
    def of_others(self) -> bool:
        """Whether others write it, and workers only read."""
        return self in (INPUT, LABELS)

    @property
    def title(self) -> str:
        """What to call it in a sentence: ``dead letters``."""
        return self.name.replace("_", " ")


INPUT: Final = TopicKind("input", "feature records, written by others", worker_reads=True, for_subscribers=False)

LABELS: Final = TopicKind("labels", "labels of records, written by others", worker_reads=True, for_subscribers=False)

KINDS: Final[tuple[TopicKind, ...]] = (
    TopicKind("assignments", "an answer for each record"),
    TopicKind("cluster_events", "every change of the clusters", of_streams=True),
    TopicKind(
        "drift_events",
        "changes of the data themselves",
        of_streams=True,
        wanted=lambda settings: settings.tells_drift,
    ),
    TopicKind(
        "dead_letters",
        "records that could not be used, with the reason in headers",
        of_labels=True,
        message_bytes=_dead_letter_bytes,
        message_setting="limits.dead_letter_bytes",
    ),
    TopicKind(
        "clusters",
        "the present clusters, by id",
        config=SMALL_SEGMENTS,
        policy="compact",
        otherwise="would lose clusters that nothing was said of for long, or grow without end",
        # A reset removes what stands there.
        worker_reads=True,
        of_streams=True,
    ),
    TopicKind(
        "snapshots",
        "the models; nothing for subscribers",
        of_labels=True,
        config=SMALL_SEGMENTS,
        policy="compact",
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
        config={"cleanup.policy": "delete"},
        policy="delete",
        otherwise="would keep the newest models alone, or lose none ever",
        retention_of_input=True,
        emptied=True,
        worker_reads=True,
        of_streams=True,
        for_subscribers=False,
        message_bytes=_snapshot_bytes,
    ),
    TopicKind(
        "routes",
        "records on their way to where their stream is learned",
        config={"cleanup.policy": "delete"},
        policy="delete",
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
    """A topic of one deployment.

    Attributes
    ----------
    kind : TopicKind
        What it is for.
    name : str
        Its name on the broker.
    message_bytes : int
        What it must take in one message; 0 = nothing in particular.
    """

    kind: TopicKind
    name: str
    message_bytes: int = 0

    def config(self, input_retention: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the configuration to make it with.

        Parameters
        ----------
        input_retention : mapping of str to str, optional
            ``retention.ms`` and ``retention.bytes`` of the input that is kept longest, where the broker tells.
        """
        made = dict(self.kind.config)
        if self.kind.retention_of_input:
            made |= input_retention or {}
        if self.message_bytes > DEFAULT_MESSAGE_BYTES:
            made["max.message.bytes"] = str(self.message_bytes)
        return made


@dataclass(frozen=True, slots=True)
class Topics:
    """All topics of one deployment.

    Attributes
    ----------
    inputs : sequence of Topic
        Written by others.
    outputs : sequence of Topic
        Written by workers.
    routes : int or None
        Partitions that the routes are wanted to have; None where nobody says it. What goes with streams has at least
        as many, also where the routes are not among these topics.
    labels : sequence of Topic
        The topic of labels, where there is one: written by others, with any number of partitions.
    """

    inputs: Sequence[Topic]
    outputs: Sequence[Topic]
    routes: int | None = None
    labels: Sequence[Topic] = ()

    @classmethod
    def of(cls, settings: "Settings") -> Self:
        """Return the topics that the settings ask for."""
        return cls(
            [Topic(INPUT, name) for name in settings.input.topics],
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
        """Return topics without any settings: the inputs, and by kind the name of each output that there is."""
        kinds = {kind.name: kind for kind in KINDS}
        return cls(
            [Topic(INPUT, name) for name in inputs], [Topic(kinds[kind], name) for kind, name in outputs.items()]
        )

    @property
    def of_others(self) -> list[Topic]:
        """What workers read and others write."""
        return [*self.inputs, *self.labels]

    @property
    def all(self) -> list[Topic]:
        """Every topic."""
        return [*self.of_others, *self.outputs]

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs."""
        return [topic.name for topic in self.inputs]
