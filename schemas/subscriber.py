"""A subscriber to the outputs of a deployment: the program that a downstream team would write, ready-made.

It needs confluent-kafka and nothing of the pipeline.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self, get_args

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from resonance.schemas.cloudevents import without_envelope
from resonance.schemas.cluster_names import ClusterNames, PresentName
from resonance.schemas.cluster_table import ClusterTable, EventGapError
from resonance.schemas.interrupts import interruptible
from resonance.schemas.lineage import take_event
from resonance.schemas.repeats import Repeats

OutputKind = Literal["assignments", "cluster-events", "drift-events", "alerts", "dead-letters"]

BATCH: Final = 2_000
"""Most outputs that one poll returns."""

END_SECONDS: Final = 10.0
"""Time in which the broker must give a topic up to its present end."""

LOOK_SECONDS: Final = 10.0
"""Time after which a topic that did not exist is looked for again."""

CONSUMER: Final[Mapping[str, Any]] = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    # An offset is committed once its output is done with, not once it is fetched.
    "enable.auto.offset.store": False,
    # A topic that does not exist yet is found soon after its creation.
    "topic.metadata.refresh.interval.ms": 10_000,
}

_log = logging.getLogger(__name__)


class Output(NamedTuple):
    """One output of a deployment."""

    kind: OutputKind
    value: Any
    """The parsed payload (`Assignment`, `ClusterEvent`, `DriftEvent`, `Alert`); of a dead letter the original bytes."""
    topic: str
    partition: int
    offset: int
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class _Consumer(Consumer):  # type: ignore[misc] # confluent-kafka has no types
    """Writes its log from within `consume` and `close`, and lets Ctrl-C there be `KeyboardInterrupt`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__({**settings, "logger": _log})

    def consume(self, *arguments: Any) -> Any:
        with interruptible():
            return super().consume(*arguments)

    def close(self) -> None:
        with interruptible():
            super().close()


class Subscriber:
    """Reads the outputs of a deployment, each once, and keeps the table of its clusters.

    The consumer group remembers where it stopped: an output counts as done when the next one is taken, and is
    committed within five seconds or by `close`. After a crash of this program the last outputs come again.

    `table` is read from the compacted topic of the clusters. It knows all streams, whichever partitions this member of
    the group has, and is at least as new as the last output that was returned. So it needs no history, and the events
    that came while the program was down are still returned.

    Parameters
    ----------
    client : mapping or str
        librdkafka's configuration of the connection, or only its ``bootstrap.servers``. It may override the defaults,
        such as ``auto.offset.reset``: ``"earliest"``, where a new group begins.
    name : str
        Name of the deployment.
    group : str
        Consumer group of this program.
    kinds : sequence of str
        Which outputs to read; by default the events of the clusters.
    topics : mapping of str to str, optional
        Names of topics that are not ``<name>.<kind>``; the one of the table has kind ``"clusters"``, the one of the
        names ``"names"``.

    Raises
    ------
    ValueError
        A kind of output does not exist.
    KafkaException
        The cluster refuses the log-in or a right, here or while reading.

    Examples
    --------
    >>> with Subscriber("localhost:9092", "checkout", "pager") as subscriber:  # doctest: +SKIP
    ...     for event in subscriber:
    ...         print(event.value["kind"], event.value["cluster"])
    """

    def __init__(
        self,
        client: Mapping[str, Any] | str,
        name: str,
        group: str,
        kinds: Sequence[OutputKind] = ("cluster-events",),
        *,
        topics: Mapping[str, str] | None = None,
    ) -> None:
        if unknown := sorted({*kinds, *(topics or {})} - {*get_args(OutputKind), "clusters", "names"}):
            raise ValueError(f"{', '.join(unknown)}: the kinds of outputs are {', '.join(get_args(OutputKind))}")
        given = {"bootstrap.servers": client} if isinstance(client, str) else dict(client)
        names = {kind: f"{name}.{kind}" for kind in (*get_args(OutputKind), "clusters", "names")} | dict(topics or {})
        self._kinds: dict[str, OutputKind] = {names[kind]: kind for kind in kinds}
        self._waited_for: set[str] = set()
        self._repeats = Repeats()
        self._topics = names
        self._settings = {**CONSUMER, **given, "group.id": group}
        self._clusters = _Clusters(self._settings, names["clusters"])
        self._clusters.read_to_end()
        self._names: ClusterNames | None = None
        self._of_names: list[_WholeTopic] = []
        self._consumer = _Consumer(self._settings)
        self._consumer.subscribe(list(self._kinds))

    @property
    def table(self) -> ClusterTable:
        """The present clusters of all streams, and what became of those that ended."""
        return self._clusters.table

    @property
    def names(self) -> ClusterNames:
        """What people call the clusters, and their `Lineage`.

        The topics of the names and of the events are read whole at the first use, and followed from then on.
        """
        if self._names is None:
            names = ClusterNames()
            takes: dict[str, Callable[[bytes, bytes | None], object]] = {
                "names": names.apply,
                "cluster-events": lambda _, event: take_event(names.lineage, event),
            }
            self._of_names = [_WholeTopic(self._settings, self._topics[kind], take) for kind, take in takes.items()]
            for topic in self._of_names:
                topic.read_to_end()
            self._names = names
        return self._names

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Output]:
        """Yield outputs without end, those of one partition in order; each is done when the next is taken."""
        while True:
            for output in self._next(1.0):
                yield output
                self._store([output])

    def poll(self, timeout: float = 1.0) -> list[Output]:
        """Return the next outputs after at most `timeout` seconds; `done` tells which of them may be committed."""
        return self._next(timeout)

    def done(self, outputs: Sequence[Output]) -> None:
        """Let outputs of `poll` be committed."""
        self._store(outputs)

    def resolve(self, cluster: str) -> str | None:
        """Return what a cluster is now: itself, the cluster that absorbed it, or None where it is gone.

        Raises
        ------
        KeyError
            It ended longer ago than the deployment remembers (``output.clusters_grace``), or never was.
        """
        try:
            return self.table.resolve(cluster)
        except KeyError:
            # An assignment may be here before its cluster.
            self._clusters.read_to_end()
            return self.table.resolve(cluster)

    def name(self, cluster: str) -> PresentName:
        """Return what people call a cluster, or what it is now; an empty `PresentName` where it has no name."""
        try:
            heir = self.resolve(cluster)
        except KeyError:
            heir = None
        return self.names.of(heir or cluster)

    def close(self) -> None:
        """Commit what is done and leave the group."""
        for topic in (self._clusters, *self._of_names):
            topic.close()
        self._consumer.close()

    def _next(self, timeout: float) -> list[Output]:
        outputs = [output for message in self._consumer.consume(BATCH, timeout) if (output := self._output(message))]
        self._clusters.read()
        for topic in self._of_names:
            topic.follow()
        for output in outputs:
            if output.kind == "cluster-events":
                self._clusters.apply(output.value)
        return outputs

    def _output(self, message: Any) -> Output | None:
        error = message.error()
        if error is not None:
            self._note(message.topic() or "", error)
            return None
        place = message.topic(), message.partition(), message.offset()
        key, value, headers = message.key(), message.value(), message.headers() or []
        if self._repeats.has_seen((place[0], key, value, without_envelope(headers))):
            return None
        kind = self._kinds[place[0]]
        return Output(kind, value if kind == "dead-letters" else json.loads(value), *place, key, headers)

    def _note(self, topic: str, error: KafkaError) -> None:
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            if topic not in self._waited_for:
                self._waited_for.add(topic)
                _log.warning("topic %s does not exist yet; waiting for it", topic)
        elif not error.retriable() and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)

    def _store(self, outputs: Sequence[Output]) -> None:
        newest = {(output.topic, output.partition): output.offset + 1 for output in outputs}
        try:
            self._consumer.store_offsets(offsets=[TopicPartition(*at, offset) for at, offset in newest.items()])
        except KafkaException as error:
            # The partition went to another member, which reads the output again.
            if error.args[0].code() != KafkaError._STATE:
                raise


class _WholeTopic:
    """A topic that is read from its beginning, all partitions of it; `take` gets each key and value."""

    def __init__(self, settings: Mapping[str, Any], topic: str, take: Callable[[bytes, bytes | None], object]) -> None:
        self._topic = topic
        self._take = take
        self._looked = 0.0
        # Partitions are assigned by hand: the group is named for its rights alone.
        own = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "enable.partition.eof": True}
        self._consumer = _Consumer({**settings, **own})
        self._positions: dict[int, int] = {}

    def close(self) -> None:
        self._consumer.close()

    def read(self, timeout: float = 0.0) -> None:
        """Take in what is there."""
        for message in self._consumer.consume(BATCH, timeout):
            error = message.error()
            if error is None:
                self._positions[message.partition()] = message.offset() + 1
                self._take(message.key(), message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                self._positions[message.partition()] = message.offset()
            elif not error.retriable() and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise KafkaException(error)

    def follow(self) -> None:
        """Take in what is there; look for a topic that did not exist now and then."""
        if self._positions:
            self.read()
        elif time.monotonic() - self._looked > LOOK_SECONDS:
            self.read_to_end()

    def read_to_end(self) -> None:
        """Read all partitions up to where they end now; a topic that does not exist has none."""
        self._looked = time.monotonic()
        found = self._consumer.list_topics(self._topic, END_SECONDS).topics[self._topic]
        if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(found.error)
        partitions = sorted(found.partitions)
        if new := [partition for partition in partitions if partition not in self._positions]:
            self._positions |= dict.fromkeys(new, 0)
            at = self._positions.items()
            self._consumer.assign([TopicPartition(self._topic, partition, offset) for partition, offset in at])
        ends = {
            partition: self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), END_SECONDS)[1]
            for partition in partitions
        }
        end = time.monotonic() + END_SECONDS
        while any(self._positions[partition] < ends[partition] for partition in partitions):
            self.read(0.1)
            if time.monotonic() > end:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{self._topic} is not given up to its end"))


class _Clusters(_WholeTopic):
    """The compacted topic of the clusters, folded into a table."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self.table = ClusterTable.from_clusters([])
        super().__init__(settings, topic, self.table.apply_cluster)

    def apply(self, event: Mapping[str, Any]) -> None:
        """Apply an event that may be here before the clusters that it changed, or behind events of another member."""
        end = time.monotonic() + END_SECONDS
        while True:
            try:
                self.table.apply(event)
                return
            except EventGapError:
                self.read_to_end()
                if time.monotonic() > end:
                    raise
