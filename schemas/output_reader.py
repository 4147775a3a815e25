"""Reads the outputs of a deployment without a group: whole topics, or partitions from a place on.

It needs confluent-kafka and nothing of the pipeline.
"""

import json
import logging
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from operator import methodcaller
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, get_args

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from resonance.schemas.cloudevents import without_envelope
from resonance.schemas.files import SchemaName, has_shape
from resonance.schemas.interrupts import interruptible

OutputKind = Literal[
    "assignments", "cluster-events", "drift-events", "alerts", "dead-letters", "clusters", "names", "incidents"
]

COMPACTED: Final = ("clusters", "names", "incidents")
"""Kinds of which the newest value of a key counts, None where it has none any more."""

BATCH: Final = 2_000
"""Most outputs that one poll returns."""

END_SECONDS: Final = 10.0
"""Time in which the broker must give more of a topic up to its present end."""

LOOK_SECONDS: Final = 10.0
"""Time after which a topic that did not exist is looked for again."""

LEAST_SECONDS: Final = 0.5
"""Time that such a look may take where the caller gives less: no broker answers in none."""

FETCH_WAIT_MS: Final = 50
"""How long a fetch waits where nothing comes: the requests of a look stand behind it, one after the other."""

AWAY: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        # The topic has just been created.
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
"""Codes of errors of a look that pass by themselves: then the next one finds the topic."""

REPORTED: Final = 100
"""Messages that are no output, with a line of the log for each."""

SCHEMAS: Final[Mapping[str, SchemaName]] = {
    "assignments": "assignment",
    "cluster-events": "cluster_event",
    "drift-events": "drift_event",
    "alerts": "alert",
    "clusters": "cluster",
    "names": "cluster_name",
    "incidents": "incident",
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

WITHOUT_GROUP: Final[Mapping[str, Any]] = {
    # What was deleted before it was read is left out.
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    # Offsets have gaps, such as the marks of transactions: only this event shows that the end is reached.
    "enable.partition.eof": True,
}

REMEMBERED: Final = 200_000
"""Outputs that are recognised when they are repeated; repeats come within a worker's commit interval."""

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
    timestamp: int = 0
    """That of the message, in milliseconds since 1970."""


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


def parsed(value: Any) -> Any:
    """Return what a value holds as JSON, with a number that no float has as its text, as the id of a record may be."""
    return json.loads(value, parse_float=_fraction)


class Repeats:
    """Recognises an output that was seen before, among the last `remembered`."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        # Hashes, oldest first: 64 bits of 200,000 collide once in 10**9 of such sets.
        self._seen: dict[int, None] = {}
        self.count = 0

    def has_seen(self, output: Hashable) -> bool:
        """Note an output, and return whether it came before."""
        identity = hash(output)
        if identity in self._seen:
            self.count += 1
            return True
        self._seen[identity] = None
        if len(self._seen) > self._remembered:
            del self._seen[next(iter(self._seen))]
        return False


class OutputConsumer:
    """What `OutputReader` and `Subscriber` have in common: messages of a consumer become outputs, each once.

    A message that no worker wrote is left out, with a warning that has its place, and counted: `foreign`.
    """

    _known: ClassVar[Sequence[str]] = get_args(OutputKind)
    """Kinds of outputs that can be read."""
    _passing: ClassVar[Collection[int]] = ()
    """Codes of errors that say nothing of the outputs."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        name: str,
        kinds: Sequence[OutputKind],
        topics: Mapping[str, str] | None,
        loads: Callable[[Any], Any] | None = parsed,
    ) -> None:
        if unknown := sorted({*kinds, *(topics or {})} - {*self._known, *COMPACTED}):
            raise ValueError(f"{', '.join(unknown)}: the kinds of outputs are {', '.join(self._known)}")
        names = {kind: f"{name}.{kind}" for kind in get_args(OutputKind)} | dict(topics or {})
        self._kinds: dict[str, OutputKind] = {names[kind]: kind for kind in kinds}
        self._prefix = f"{name}.error."
        self._loads = loads
        self._repeats = Repeats()
        self._waited_for: set[str] = set()
        self._failure: Exception | None = None
        self._foreign = 0
        self._consumer = _Consumer({**CONSUMER, **settings})

    @property
    def foreign(self) -> int:
        """Messages that were left out because no worker wrote them."""
        return self._foreign

    @property
    def repeats(self) -> int:
        """Outputs that came again, and were left out."""
        return self._repeats.count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._consumer.close()

    def _fetch(self, timeout: float) -> list[Output]:
        """Return the next outputs; a failure is raised once those before it are returned."""
        if self._failure is None:
            found = [each for message in self._consumer.consume(BATCH, timeout) for each in self._outputs(message)]
            if found or self._failure is None:
                return found
        failure, self._failure = self._failure, None
        raise failure

    def _outputs(self, message: Any) -> Iterator[Output]:
        """Yield the output that a message is; nothing where it is none, or an error."""
        topic, partition, error = message.topic() or "", message.partition(), message.error()
        if error is None:
            self._advance(topic, partition, message.offset() + 1)
            if (output := self._output(message)) is not None:
                yield output
        elif error.code() == KafkaError._PARTITION_EOF:
            self._advance(topic, partition, message.offset())
        elif (failure := self._failed(topic, partition, error)) is not None:
            self._failure = failure

    def _advance(self, topic: str, partition: int, offset: int) -> None:
        """Note that everything below an offset has been read."""

    def _failed(self, topic: str, partition: int, error: KafkaError) -> Exception | None:
        """Return what an error raises; None where it may pass."""
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            if topic not in self._waited_for:
                self._waited_for.add(topic)
                _log.warning("topic %s does not exist yet; waiting for it", topic)
            return None
        return None if error.retriable() or error.code() in self._passing else KafkaException(error)

    def _output(self, message: Any) -> Output | None:
        place = message.topic(), message.partition(), message.offset()
        key, value, headers = message.key(), message.value(), headers_of(message)
        kind = self._kinds[place[0]]
        # An assignment names its record and an event its number, but only the headers of a dead letter name its record.
        content = (place[0], key, value, without_envelope(headers))
        if kind not in COMPACTED and self._repeats.has_seen(content):
            return None
        if self._loads is not None:
            if kind == "dead-letters":
                fits = any(name.startswith(self._prefix) for name, _ in headers)
            elif value is None or (key is None and kind in COMPACTED):
                fits = key is not None and kind in COMPACTED
            else:
                value = self._parsed(value)
                fits = has_shape(SCHEMAS[kind], value)
            if not fits:
                self._leave_out(*place)
                return None
        return Output(kind, value, *place, key, headers, message.timestamp()[1])

    def _parsed(self, value: bytes) -> Any:
        try:
            return self._loads(value) if self._loads else value
        except (TypeError, ValueError, RecursionError):
            return None

    def _leave_out(self, topic: str, partition: int, offset: int) -> None:
        self._foreign += 1
        if self._foreign <= REPORTED:
            _log.warning("%s[%d]@%d is no output of a worker: left out", topic, partition, offset)


class OutputReader(OutputConsumer):
    """Reads the outputs of a deployment from a place on, each once: to the end, or following what comes.

    It joins no group and commits nothing. A message that no worker wrote is left out, with a warning that has its
    place, and counted: `foreign`.

    Parameters
    ----------
    client : mapping or str
        librdkafka's configuration of the connection, or only its ``bootstrap.servers``. A ``group.id`` in it is named
        where rights are given by group.
    name : str
        Name of the deployment.
    kinds : sequence of str
        Which outputs to read; also ``"clusters"``, ``"names"`` and ``"incidents"``, of which the newest value of
        a key counts, None where it is removed.
    start : {"earliest", "latest"} or mapping of (topic, partition) to int
        Where to begin: all partitions, also those of topics that do not exist yet, or some with an offset.
    topics : mapping of str to str, optional
        Names of topics that are not ``<name>.<kind>``.
    loads : callable, optional
        Parses the JSON of a value, as ``orjson.loads`` does; None leaves all values as bytes, and none out.

    Attributes
    ----------
    positions : dict of (topic, partition) to int
        The next offset of each partition.

    Raises
    ------
    ValueError
        A kind of output does not exist.
    KafkaException
        The cluster refuses the log-in or a right, here or while reading.

    Examples
    --------
    >>> with OutputReader("localhost:9092", "checkout", ["alerts"]) as outputs:  # doctest: +SKIP
    ...     for alert in outputs.to_end():
    ...         print(alert.value["text"])
    """

    _passing = (KafkaError.GROUP_AUTHORIZATION_FAILED,)

    def __init__(
        self,
        client: Mapping[str, Any] | str,
        name: str,
        kinds: Sequence[OutputKind],
        start: Literal["earliest", "latest"] | Mapping[tuple[str, int], int] = "earliest",
        *,
        topics: Mapping[str, str] | None = None,
        loads: Callable[[Any], Any] | None = parsed,
    ) -> None:
        given = {"bootstrap.servers": client} if isinstance(client, str) else client
        own = {"group.id": f"{name}-outputs", "fetch.wait.max.ms": FETCH_WAIT_MS}
        super().__init__({**own, **given, **WITHOUT_GROUP}, name, kinds, topics, loads)
        self.positions: dict[tuple[str, int], int] = {}
        self._looked = float("inf")
        if isinstance(start, str):
            self._look()
            if start == "latest":
                self._assign(self.ends())
        else:
            self._assign(start)

    def poll(self, timeout: float = 1.0) -> list[Output]:
        """Return the next outputs after at most `timeout` seconds, those of a partition in order.

        A topic that did not exist is looked for again, at times; such a poll may take 0.5 s where `timeout` is shorter.
        """
        is_whole = self._kinds.keys() <= {topic for topic, _ in self.positions}
        if not is_whole and time.monotonic() - self._looked > LOOK_SECONDS:
            began = time.monotonic()
            try:
                self._look(min(max(timeout, LEAST_SECONDS), END_SECONDS))
            except KafkaException as error:
                if error.args[0].code() not in AWAY:
                    raise
                _log.debug("topics that did not exist are looked for later: %s", error)
            timeout = max(timeout - (time.monotonic() - began), 0.0)
        return self._fetch(timeout)

    def to_end(self) -> Iterator[Output]:
        """Yield the outputs up to where the topics end now; one that does not exist has none."""
        if self._looked < float("inf"):
            self._look()
        ends, moved = self.ends(), time.monotonic()
        while not self.has_reached(ends):
            before = self.positions.copy()
            yield from self._fetch(0.1)
            if self.positions != before:
                moved = time.monotonic()
            elif time.monotonic() - moved > END_SECONDS:
                what = f"{', '.join(self._kinds)}: the broker gives no more, and the end is not reached"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, what))

    def ends(self) -> dict[tuple[str, int], int]:
        """Return where each partition ends now."""
        request = self._consumer.get_watermark_offsets
        return {at: request(TopicPartition(*at), END_SECONDS)[1] for at in self.positions}

    def has_reached(self, ends: Mapping[tuple[str, int], int]) -> bool:
        """Return whether everything below some offsets has been read."""
        return all(self.positions[at] >= end for at, end in ends.items())

    def _look(self, seconds: float = END_SECONDS) -> None:
        """Begin with the partitions that were not there before, each from its beginning."""
        new: dict[tuple[str, int], int] = {}
        end = time.monotonic() + seconds
        try:
            for topic in self._kinds:
                with interruptible():
                    found = self._consumer.list_topics(topic, max(end - time.monotonic(), 0.0)).topics[topic]
                if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise KafkaException(found.error)
                new |= {(topic, at): 0 for at in sorted(found.partitions) if (topic, at) not in self.positions}
        finally:
            self._looked = time.monotonic()
            if new:
                self._assign(new)

    def _assign(self, starts: Mapping[tuple[str, int], int]) -> None:
        self.positions |= starts
        self._consumer.assign([TopicPartition(*at, offset) for at, offset in self.positions.items()])

    def _advance(self, topic: str, partition: int, offset: int) -> None:
        self.positions[topic, partition] = offset


# Only a call that is not compiled into the caller checks whether an error was raised beside a result.
_headers: Final = methodcaller("headers")


def headers_of(message: Any) -> list[tuple[str, bytes | None]]:
    """Return the headers of a message; none where they cannot be read."""
    try:
        return _headers(message) or []
    except (SystemError, UnicodeDecodeError):
        # The name of one of them is not UTF-8; a second call would return what breaks Python.
        return []


def _fraction(text: str) -> float | str:
    found = float(text)
    try:
        return found if repr(found) == text or Decimal(repr(found)) == Decimal(text) else text
    except InvalidOperation:
        return text
