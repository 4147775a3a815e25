"""Messages to the cluster: a producer whose failures are known."""

import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ThrottleEvent
from confluent_kafka import TopicPartition as Offset
from resonance.pipeline.crash_points import armed, reach
from resonance.pipeline.errors import DeliveryError, DeniedError, counted
from resonance.pipeline.kafka import librdkafka, self_check
from resonance.pipeline.kafka.access import Refusals
from resonance.pipeline.kafka.acl import for_topic
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.errors import code_of, configured, described, right_refused
from resonance.pipeline.kafka.threads import require_threads
from resonance.pipeline.records import Message, Messages

QUEUE_SECONDS = 0.05
"""How long to wait for room in a full producer queue before the next attempt."""

LOOK_SECONDS = 2.0
"""How long to wait for the broker before checking whether the connection is refused."""

ABORT_SECONDS = 5.0
"""How long a failing worker tries to abort; otherwise the broker aborts when the transaction times out."""

QUOTA_SECONDS = 60.0
"""How long a quota that held counts as one that may hold again; brokers count over 11 s by default."""

BATCH_BYTES = 1_000_000
"""Largest batch of outputs, below what a topic takes by default (max.message.bytes = 1,048,588)."""

NOT_YET_UP = re.compile(r"\(after \d+ms in state (INIT|DOWN|TRY_CONNECT|CONNECT|SSL_\w+|AUTH_\w+|APIVERSION_QUERY)\b")
"""How librdkafka ends its reports of connections that failed before they carried a request."""

LOSSES = ("FAIL", "REQTMOUT")
"""Facilities of librdkafka's log for a lost connection, and for a request without an answer."""

MAX_MESSAGE_BYTES = 1_000_000_000
"""librdkafka's limit of a message; a topic may allow more (max.message.bytes)."""

_log = logging.getLogger(__name__)

_librdkafka = logging.getLogger("resonance.librdkafka")
"""librdkafka's own messages; the errors raised here repeat all that matters of them."""


class Batch(NamedTuple):
    """Messages for one partition of a topic, in order; a message that names another partition goes there."""

    topic: str
    partition: int
    messages: Iterable[Message]

    @property
    def size(self) -> int:
        """Bytes of the values."""
        if isinstance(self.messages, Messages):
            return len(self.messages.text)
        return sum(map(len, filter(None, map(_value, self.messages))))


_value = itemgetter(1)


def producer_settings(
    client: Mapping[str, Any],
    *,
    message_bytes: Mapping[str, int] | None = None,
    queued_bytes: int = 1024**3,
) -> dict[str, Any]:
    """Return librdkafka's configuration for outputs.

    `message_bytes` is what each output topic takes in one message, where that is known; `queued_bytes` is what may wait
    to be sent.
    """
    limits = list((message_bytes or {}).values())
    return {
        "compression.type": "lz4",
        **client,
        "enable.idempotence": True,
        # Large batches compress well; a commit sends what waits without waiting for this.
        "linger.ms": 20,
        # A batch counts as a whole towards the topic's limit, 512 bytes of framing included.
        "batch.size": max(min([BATCH_BYTES + 512, *limits]) - 512, 1),
        # Limit of a single message: more than the default where a topic takes more.
        "message.max.bytes": min(max([BATCH_BYTES, *limits]), MAX_MESSAGE_BYTES),
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": queued_bytes // 1024,
    }


class Outlet:
    """A producer whose failures are known: the part of a delivery that sends.

    A wait for the broker is given up after `timeout` seconds; with `reports` each failed message is reported. Once the
    producer is `doubtful`, a request whose answer was not seen may still reach the broker.
    """

    def __init__(self, settings: Mapping[str, Any], timeout: float, *, reports: bool) -> None:
        self.timeout = timeout
        self.doubtful = False
        self._fatal: KafkaError | None = None
        self._failure = ""
        self._denied: DeniedError | None = None
        self._client = settings
        self._refusals = Refusals(settings)
        # Until when the cluster lets this producer wait, and what it has said of that.
        self._paused_until, self._quota = -QUOTA_SECONDS, ""
        self._left = 0
        callbacks: dict[str, Any] = {"error_cb": self._note, "throttle_cb": self._pause}
        # A transaction needs no reports: its commit fails where a message did. Elsewhere a report is the only sign of a
        # failure. Each takes the interpreter's lock, also where only failures are requested.
        if reports:
            callbacks |= {"on_delivery": self._report, "delivery.report.only.error": True}
        require_threads()
        # The log is the only place where librdkafka reports every kind of connection; `log` reads it.
        self.producer = new_client(Producer, {**settings, **callbacks}, logger=self)
        self._library = None if reports else self_check.checked()

    def log(self, level: int, form: str, *values: object) -> None:
        """Take a line of librdkafka's log: its form, facility, client and text."""
        _librdkafka.log(level, form, *values)
        # The same loss is reported once in 30 s, so the doubt stays for good. With `debug` there are lines for more.
        if level > logging.DEBUG and values[0] in LOSSES and not NOT_YET_UP.search(str(values[-1])):
            self.doubtful = True

    def _report(self, error: KafkaError | None, message: Any) -> None:
        if error is not None and not self._failure:
            self._failure = f"{message.topic()}[{message.partition()}]: {described(error, message.topic())}"
            _log.error("not stored: %s", self._failure)
            self._denied = right_refused(self._client, error, for_topic(message.topic(), ["Write"]))

    def _note(self, error: KafkaError) -> None:
        self._refusals.note(error)
        # librdkafka restores broken connections; the next call of this producer reports what ended it.
        if error.fatal():
            self._fatal = error
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            # Also where an idle connection is closed; the next call of this producer tells whether brokers are away.
            _log.debug("librdkafka: %s", error.str())

    def _pause(self, event: ThrottleEvent) -> None:
        # librdkafka reports the end of a throttle, too.
        if event.throttle_time:
            self._paused_until = max(self._paused_until, time.monotonic() + event.throttle_time)
            self._quota = (
                f"; {event.broker_name} lets this client wait {event.throttle_time:.1f} s for its quota, raise "
                "producer_byte_rate or request_percentage of its user or client id (kafka-configs.sh)"
            )

    @property
    def throttled(self) -> str:
        """What a quota of the cluster did to this producer lately; empty where none did."""
        return self._quota if time.monotonic() < self._paused_until + QUOTA_SECONDS else ""

    def look(self) -> None:
        """Take note of what librdkafka has reported until now."""
        with suppress(KafkaException):
            self.producer.poll(0)

    def is_late(self) -> bool:
        """Return whether an answer is late and not lost: something was stored since the last look, or a quota holds."""
        self.look()
        before, self._left = self._left, len(self.producer)
        return self._left < before or time.monotonic() < self._paused_until

    def wait_for_quota(self, end: float) -> None:
        """Where a quota holds, wait until nothing is on its way, or until `end`: a request would stand behind it."""
        while self.throttled and time.monotonic() < end and not self.denied():
            left = self._paused_until - time.monotonic()
            if len(self.producer):
                self.producer.flush(LOOK_SECONDS)
            elif left > 0:
                time.sleep(min(left, LOOK_SECONDS))
                self.look()
            else:
                return

    def fatal_error(self) -> KafkaError | None:
        """Return what ended the producer; the codes of its calls show only that it has ended."""
        try:
            self.producer.poll(0)
        except KafkaException as error:
            self._fatal = self._fatal or error.args[0]
        return self._fatal

    def denied(self, *, at_once: bool = False) -> DeniedError | None:
        """Return why the cluster refuses this producer's work, None as far as is known; see `Refusals`."""
        self.look()
        return self._denied or self._refusals.error(at_once=at_once)

    def send(self, batch: Batch) -> None:
        """Queue messages for one partition.

        Raises `DeliveryError` where the producer refuses a message or its queue stays full, `DeniedError` where the
        cluster does, and `KafkaException` where the producer has ended.
        """
        topic, partition, messages = batch
        produce = self.producer.produce
        rest: Iterable[Message] = messages
        if isinstance(messages, Messages):
            library = self._library
            # What it does not take, the calls below take later, or report as refused.
            taken = librdkafka.send(library, self.producer, topic, partition, messages) if library is not None else 0
            rest = messages.behind(taken) if taken < len(messages) else ()
        for message in rest:
            key, value, headers, own = message
            to = partition if own is None else own
            try:
                # By position, and no more than needed: names cost a third of the call, what has a default a sixth.
                if headers:
                    # No callback, and the message's timestamp is now.
                    produce(topic, value, key, to, None, None, 0, headers)
                else:
                    produce(topic, value, key, to)
            except BufferError:
                self._produce_later(batch, message)
            except KafkaException as error:
                raise self._refused(batch, message, error) from error
        self.producer.poll(0)

    def _produce_later(self, batch: Batch, message: Message) -> None:
        end = time.monotonic() + self.timeout
        key, value, headers, own = message
        to = batch.partition if own is None else own
        while time.monotonic() < end:
            self.producer.poll(QUEUE_SECONDS)
            try:
                self.producer.produce(batch.topic, value, key, to, headers=headers)
            except BufferError:
                continue
            except KafkaException as error:
                raise self._refused(batch, message, error) from error
            return
        raise DeliveryError(
            f"{batch.topic}[{batch.partition}]: the broker took nothing for {self.timeout:g} s; nothing was committed, "
            f"look at the broker and start again{self.throttled}"
        )

    def _refused(self, batch: Batch, message: Message, error: Exception) -> Exception:
        if code_of(error) != KafkaError.MSG_SIZE_TOO_LARGE:
            return right_refused(self._client, error, for_topic(batch.topic, ["Write"])) or error
        # A batch counts as a whole towards the topic's limit, framing included.
        size = (
            len(message.value or b"")
            + len(message.key or b"")
            + sum(len(n) + len(v or b"") for n, v in message.headers)
        )
        command = configured(batch.topic, f"max.message.bytes={size + 1_000}")
        return DeliveryError(
            f"{batch.topic}[{batch.partition}]: an output of {size:,} bytes is larger than the topic takes; raise it "
            f"({command}){_smaller(message)}; nothing was committed"
        )

    def flush(self) -> None:
        """Wait until everything queued is stored; raise `DeliveryError` where something was not.

        Raises `DeniedError` instead where the cluster refuses it.
        """
        end = time.monotonic() + self.timeout
        try:
            while (waiting := self.producer.flush(min(LOOK_SECONDS, self.timeout))) and time.monotonic() < end:
                if denied := self.denied():
                    raise denied
        except KafkaException as error:
            waiting, self._fatal = 0, error.args[0]
        if denied := self.denied(at_once=True) if waiting else self._denied:
            raise denied
        failure = self._failure or (described(self._fatal) if self._fatal else "")
        if waiting or failure:
            reason = failure or f"{counted(waiting, 'message')} still waiting after {self.timeout:g} s"
            raise DeliveryError(
                f"outputs were not stored ({reason}); no offset was committed, start again{self.throttled}"
            )


def reach_during_commit(producer: Producer, timeout: float) -> None:
    """Reach the fault point at which a transaction's commit is on its way."""
    if armed("during-commit"):
        producer.flush(timeout)
        # Long enough for the request to be sent, too short for its answer to be seen.
        with suppress(KafkaException):
            producer.commit_transaction(0.001)
    reach("during-commit")


@contextmanager
def step(outlet: Outlet, consumer: Consumer, offsets: Sequence[Offset], *, atomic: bool) -> Iterator[None]:
    """Commit a group's `offsets` with what the block sends: in one transaction if `atomic`, else once it is stored.

    The `consumer` gives the group; it has no members.
    """
    producer, timeout = outlet.producer, outlet.timeout
    try:
        if atomic:
            producer.begin_transaction()
        reach("after-begin")
        yield
        outlet.flush()
        reach("after-produce")
        if atomic:
            producer.send_offsets_to_transaction(list(offsets), consumer.consumer_group_metadata(), timeout)
            reach("after-offsets")
            reach_during_commit(producer, timeout)
            producer.commit_transaction(timeout)
        else:
            consumer.commit(offsets=list(offsets), asynchronous=False)
    except BaseException:
        if atomic:
            # An open transaction would block the readers of its topics.
            with suppress(KafkaException):
                producer.abort_transaction(ABORT_SECONDS)
        raise


def _smaller(message: Message) -> str:
    """Return what makes outputs of a message's kind smaller; empty where only a larger limit of the topic helps."""
    value = message.value or b""
    if value.startswith(b'{"id":'):
        return ", or copy fewer members into the answers (output.include)"
    if value.startswith(b'{"kind":'):
        return ", or describe clusters with fewer features (input.features)"
    return ""
