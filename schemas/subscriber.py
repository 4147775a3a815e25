"""A subscriber to the outputs of a deployment: the program that a downstream team would write, ready-made.

It needs confluent-kafka and nothing of the pipeline.
"""

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self, get_args

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from resonance.schemas.cloudevents import without_envelope
from resonance.schemas.cluster_names import ClusterNames, PresentName
from resonance.schemas.cluster_table import ClusterTable, EventGapError
from resonance.schemas.files import SchemaName, has_shape
from resonance.schemas.interrupts import interruptible
from resonance.schemas.repeats import Repeats

OutputKind = Literal["assignments", "cluster-events", "drift-events", "alerts", "dead-letters"]

BATCH: Final = 2_000
"""Most outputs that one poll returns."""

END_SECONDS: Final = 10.0
"""Time in which the broker must give a topic up to its present end."""

LOOK_SECONDS: Final = 10.0
"""Time after which a topic that did not exist is looked for again."""

FOREIGN: Final = "%s[%d]@%d is no output of a worker: left out"

REPORTED: Final = 100
"""Messages that are no output, with a line of the log for each."""

UNKNOWN: Final = 100_000
"""Clusters of which it is remembered that nothing is known."""

SCHEMAS: Final[Mapping[str, SchemaName]] = {
    "assignments": "assignment",
    "cluster-events": "cluster_event",
    "drift-events": "drift_event",
    "alerts": "alert",
}
"""Schemas of the outputs that are JSON."""

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

    A message that no worker wrote is left out, with a warning that has its place, and counted: `foreign`.

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
        self._prefix = f"{name}.error."
        # Outputs that the table does not have yet, and those that may be returned.
        self._fetched: deque[Output] = deque()
        self._ready: deque[Output] = deque()
        self._failure: KafkaException | None = None
        # Clusters that nothing is known of, and whether the table was read to its end since the last outputs came.
        self._unknown: dict[str, None] = {}
        self._is_newest = False
        self._foreign = 0
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
    def foreign(self) -> int:
        """Messages that were left out because no worker wrote them."""
        return self._foreign + self._clusters.foreign

    @property
    def names(self) -> ClusterNames:
        """What people call the clusters, over a table of their lives.

        The topics of the names and of the events are read whole at the first use, and followed from then on.
        """
        if self._names is None:
            names = ClusterNames()
            takes: dict[str, Callable[[bytes, bytes | None], object]] = {
                "names": names.apply,
                "cluster-events": lambda _, event: names.table.apply(event or b""),
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
            if not self._ready:
                self._read(1.0)
            if self._ready:
                output = self._ready.popleft()
                yield output
                self._store([output])

    def poll(self, timeout: float = 1.0) -> list[Output]:
        """Return the next outputs after at most `timeout` seconds; `done` tells which of them may be committed."""
        if not self._ready:
            self._read(timeout)
        outputs = list(self._ready)
        self._ready.clear()
        return outputs

    def done(self, outputs: Sequence[Output]) -> None:
        """Let outputs of `poll` be committed."""
        self._store(outputs)

    def resolve(self, cluster: str) -> str | None:
        """Return what a cluster is now: itself, the cluster that absorbed it, or None where it is gone.

        Gone are those, too, that ended longer ago than the deployment remembers (``output.clusters_grace``).
        """
        with suppress(KeyError):
            return self.table.resolve(cluster)
        if not self._is_newest and cluster not in self._unknown:
            # An assignment may be here before its cluster.
            self._clusters.read_to_end()
            self._is_newest = True
            with suppress(KeyError):
                return self.table.resolve(cluster)
        if len(self._unknown) >= UNKNOWN:
            self._unknown.clear()
        self._unknown[cluster] = None
        return None

    def name(self, cluster: str) -> PresentName:
        """Return what people call a cluster, or what it is now; an empty `PresentName` where it has no name."""
        return self.names.of(self.resolve(cluster) or cluster)

    def close(self) -> None:
        """Commit what is done and leave the group."""
        for topic in (self._clusters, *self._of_names):
            topic.close()
        self._consumer.close()

    def _read(self, timeout: float) -> None:
        """Add the next outputs to those that are ready; a failure comes once those before it are taken."""
        if not self._fetched:
            self._fetch(timeout)
        self._clusters.read()
        for topic in self._of_names:
            topic.follow()
        # Of all gaps together: a program has to poll again in time, however many streams have one.
        end = time.monotonic() + END_SECONDS
        while self._fetched:
            output = self._fetched[0]
            if output.kind != "cluster-events" or self._clusters.apply(output.value, end):
                self._ready.append(output)
            else:
                self._leave_out(output.topic, output.partition, output.offset)
            self._fetched.popleft()

    def _fetch(self, timeout: float) -> None:
        if self._failure is None:
            self._is_newest = False
            for message in self._consumer.consume(BATCH, timeout):
                try:
                    if (output := self._output(message)) is not None:
                        self._fetched.append(output)
                except KafkaException as error:
                    self._failure = error
        if self._failure is not None and not self._fetched:
            failure, self._failure = self._failure, None
            raise failure

    def _output(self, message: Any) -> Output | None:
        error = message.error()
        if error is not None:
            self._note(message.topic() or "", error)
            return None
        place = message.topic(), message.partition(), message.offset()
        key, value, headers = message.key(), message.value(), _headers(message)
        if self._repeats.has_seen((place[0], key, value, without_envelope(headers))):
            return None
        kind = self._kinds[place[0]]
        if kind == "dead-letters":
            fits = any(name.startswith(self._prefix) for name, _ in headers)
        else:
            value = _parsed(value)
            fits = has_shape(SCHEMAS[kind], value)
        if fits:
            return Output(kind, value, *place, key, headers)
        self._leave_out(*place)
        return None

    def _leave_out(self, topic: str, partition: int, offset: int) -> None:
        self._foreign += 1
        if self._foreign <= REPORTED:
            _log.warning(FOREIGN, topic, partition, offset)

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


def _parsed(value: Any) -> Any:
    """Return what a value holds as JSON; None where it is none."""
    try:
        return json.loads(value, parse_float=_fraction)
    except (TypeError, ValueError, RecursionError):
        return None


def _fraction(text: str) -> float | str:
    """Return a number as a float; as its text where no float has its value, as the id of a record may be."""
    found = float(text)
    try:
        return found if repr(found) == text or Decimal(repr(found)) == Decimal(text) else text
    except InvalidOperation:
        return text


def _headers(message: Any) -> list[tuple[str, bytes | None]]:
    try:
        return message.headers() or []
    except (SystemError, UnicodeDecodeError):
        # The name of one of them is not UTF-8; a second call would return what breaks Python.
        return []


class _WholeTopic:
    """A topic that is read from its beginning, all partitions of it; `take` gets each key and value."""

    def __init__(self, settings: Mapping[str, Any], topic: str, take: Callable[[bytes, bytes | None], object]) -> None:
        self._topic = topic
        self._take = take
        self._looked = 0.0
        self.foreign = 0
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
                try:
                    self._take(message.key(), message.value())
                except (AttributeError, KeyError, TypeError, ValueError):
                    self.foreign += 1
                    if self.foreign <= REPORTED:
                        _log.warning(FOREIGN, self._topic, message.partition(), message.offset())
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
        # Streams and subtrees of which events are missing: these are not waited for again, until one fits.
        self._gaps: set[tuple[str, int | None]] = set()
        super().__init__(settings, topic, self._take_cluster)

    def _take_cluster(self, key: bytes | None, value: bytes | None) -> None:
        description = None if value is None else _parsed(value)
        if key is None or (value is not None and not has_shape("cluster", description)):
            raise ValueError("no cluster")
        self.table.apply_cluster(key, description)

    def apply(self, event: Mapping[str, Any], end: float) -> bool:
        """Apply an event, which may be here before the clusters that it changed, or behind events of another member.

        What it misses is waited for until `end`. Return False where it is none.
        """
        while True:
            try:
                at = event["stream"], event.get("subtree")
                if self.table.apply(event):
                    self._gaps.discard(at)
                return True
            except EventGapError as gap:
                if at in self._gaps:
                    return True
                if time.monotonic() > end:
                    _log.warning("%s; the table has no more of this stream than its clusters' own topic", gap)
                    self._gaps.add(at)
                    return True
                self.read_to_end()
                self.read(0.1)
            except (AttributeError, KeyError, TypeError, ValueError):
                return False
