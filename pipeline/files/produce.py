"""From a file onto a topic: every record to the partition of its key, all of them known to be stored at the end."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from resonance.pipeline.errors import (
    BrokerError,
    ConfigurationError,
    DeliveryError,
    InputFileError,
    ResonanceError,
    counted,
    nearest,
)
from resonance.pipeline.files.rows import BATCH, FileRecord
from resonance.pipeline.kafka.acl import for_topic
from resonance.pipeline.kafka.admin import EVERY_MESSAGE, ClusterAdmin
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.errors import described, reason_of, right_refused
from resonance.pipeline.kafka.listeners import wrong_listener
from resonance.pipeline.kafka.partitioner import partition_of
from resonance.pipeline.kafka.producer import producer_settings

PATIENCE: Final = 60.0
"""Seconds without any progress after which the broker is given up."""

STEPS: Final = 20
"""Sends per second where the rate of records is limited."""

_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_ANY: Final = str(2**63 - 1)
_KEEP_ALL: Final = {"retention.ms": "-1"}


@dataclass(frozen=True, slots=True)
class Target:
    """A topic to produce into."""

    topic: str
    partitions: int
    message_bytes: int | None = None
    """Largest message that it accepts, where the broker reports it."""
    retention_ms: int | None = None
    """How long it keeps records by their own timestamps; None for ever, or where these do not count."""
    created: bool = False
    """Whether it was created just now."""
    oldest_ms: int | None = None
    """How far a record's timestamp may be behind the broker's clock; None for as far as it likes."""
    newest_ms: int | None = None
    """How far it may be ahead of it."""


@dataclass(frozen=True, slots=True)
class Produced:
    """What was produced."""

    by_partition: tuple[int, ...]
    """Records of each partition."""
    bytes: int
    """Bytes of the keys and values."""
    seconds: float
    interrupted: bool
    """Whether the user ended it before the last record."""

    @property
    def records(self) -> int:
        """Number of records in all partitions."""
        return sum(self.by_partition)


def find_target(
    cluster: ClusterAdmin, topic: str, create_partitions: int | None = None, *, own_times: bool = False
) -> Target:
    """Return a topic to produce into, and create it where that is requested, with that number of partitions.

    Where records have their `own_times`, the created topic keeps them, however old they are. Raises `BrokerError` where
    the topic is missing, and is not to be created or cannot be.
    """
    found = cluster.describe([topic]).get(topic)
    if found is None:
        if cluster.embedded:
            cluster.touch(topic)
            return Target(topic, cluster.partition_counts()[topic], created=True)
        config = {**EVERY_MESSAGE, **(_KEEP_ALL if own_times else {})}
        if create_partitions is None:
            raise BrokerError(
                f"topic {topic} does not exist on {cluster.servers}{nearest(topic, cluster.partition_counts())}; add "
                "--create-partitions N to have it made with N partitions, or make it: "
                + cluster.command(topic, "<n>", config)
            )
        command = cluster.command(topic, str(create_partitions), config)
        cluster.create(topic, create_partitions, config, command)
        cluster.wait_for_leaders([topic])
        return Target(topic, create_partitions, created=True)
    kept = int(found.config.get("retention.ms", -1))
    policy = found.config.get("cleanup.policy", "")
    own = found.config.get("message.timestamp.type") == "CreateTime"
    size = found.config.get("max.message.bytes")
    oldest, newest = (own and found.config.get(setting) for setting in (_BEFORE, _AFTER))
    return Target(
        topic,
        found.partitions,
        int(size) if size else None,
        kept if own and "delete" in policy and kept >= 0 else None,
        oldest_ms=int(oldest) if oldest else None,
        newest_ms=int(newest) if newest else None,
    )


def check_times(
    target: Target,
    records: Sequence[FileRecord],
    cluster: ClusterAdmin,
    now_ms: int | None = None,
    *,
    time_path_reads: bool = True,
) -> None:
    """Refuse records, by the first ones, whose own timestamps the topic does not take, or would delete at once.

    The `ConfigurationError` names the ways to keep them; to leave the times out is one of them only where
    `input.time_path` can read them.
    """
    times = [record.timestamp for record in records if record.timestamp is not None]
    if not times:
        return
    now = int(time.time() * 1000) if now_ms is None else now_ms
    without = "leave --time out (input.time_path reads a record's time all the same); " if time_path_reads else ""
    for setting, apart, most, where in (
        (_BEFORE, now - min(times), target.oldest_ms, "old"),
        (_AFTER, max(times) - now, target.newest_ms, "ahead of now"),
    ):
        if most is not None and apart > most:
            raise ConfigurationError(
                f"--time: the first records are up to {apart / 86_400_000:,.1f} days {where}, and {target.topic} takes "
                f"{most / 86_400_000:,.2f} ({setting}): correct their times; {without}or let the topic take them, "
                "with a tool of Kafka: " + cluster.configure(target.topic, {setting: _ANY})
            )
    age = now - min(times)
    if target.retention_ms is not None and age > target.retention_ms:
        raise ConfigurationError(
            f"--time: the first records are {age / 86_400_000:,.0f} days old and {target.topic} keeps records for "
            f"{target.retention_ms / 86_400_000:,.1f} days, so Kafka would delete them within minutes; {without}"
            f"produce into a new topic, which keeps them: --topic {target.topic}-2 --create-partitions "
            f"{target.partitions}; or let this topic keep them, with a tool of Kafka: "
            + cluster.configure(target.topic, _KEEP_ALL)
        )


def produce(
    client: Mapping[str, Any],
    target: Target,
    batches: Iterable[Sequence[FileRecord]],
    *,
    rate: float | None = None,
    limit: int | None = None,
    advanced: Callable[[int], None] = lambda _: None,
) -> Produced:
    """Produce records, and wait until the broker has stored every one.

    Parameters
    ----------
    client : mapping
        librdkafka configuration of the connection.
    rate, limit : float and int, optional
        Most records per second, and most records.
    advanced : callable
        Called after each send with the number of records sent so far.

    Raises
    ------
    DeliveryError
        The topic does not accept a record, or the broker no longer answers.
    InputFileError
        The batches raise it; the message adds how much of the file is stored by then.
    """
    limits = {target.topic: target.message_bytes} if target.message_bytes else {}
    sender = _Sender({**producer_settings(client, message_bytes=limits)}, target)
    step = max(int(rate / STEPS), 1) if rate else None
    began = time.monotonic()
    interrupted = False
    try:
        for batch in batches:
            wanted = batch if limit is None else batch[: limit - sender.sent]
            for start in range(0, len(wanted), step or BATCH):
                sender.send(wanted[start : start + (step or BATCH)])
                advanced(sender.sent)
                if rate:
                    sender.wait_until(began + sender.sent / rate)
            if sender.sent == limit:
                break
    except KeyboardInterrupt:
        interrupted = True
    except InputFileError as error:
        sender.flush()
        raise InputFileError(
            f"{error}; {counted(sender.sent, 'record')} before it are on {target.topic} already, so produce into a new "
            "topic, or the rest only"
        ) from error
    sender.flush()
    return Produced(tuple(sender.counts), sender.bytes, time.monotonic() - began, interrupted)


class _Sender:
    def __init__(self, settings: dict[str, Any], target: Target) -> None:
        self._failure: KafkaError | None = None
        self._client = settings
        self._target = target
        self.sent = 0
        self.bytes = 0
        self.counts = [0] * target.partitions
        self._producer = new_client(
            Producer, {"log_level": 0, **settings, "on_delivery": self._report, "delivery.report.only.error": True}
        )

    def _report(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._failure = self._failure or error

    def send(self, records: Sequence[FileRecord]) -> None:
        topic, partitions = self._target.topic, self._target.partitions
        for record in records:
            key, value, timestamp = record
            partition = partition_of(key, partitions, self.sent)
            end = time.monotonic() + PATIENCE
            while True:
                try:
                    # librdkafka takes 0 for now, so that the first millisecond of 1970 becomes the second one.
                    stamp = 0 if timestamp is None else timestamp or 1
                    self._producer.produce(topic, value, key, partition, timestamp=stamp)
                    break
                except BufferError:
                    self._producer.poll(0.05)
                    if time.monotonic() > end:
                        raise self._stuck(f"the broker took nothing for {PATIENCE:g} s") from None
                except KafkaException as error:
                    raise self._lost(reason_of(error), record) from error
            self.sent += 1
            self.counts[partition] += 1
            self.bytes += len(value) + len(key or b"")
        self._producer.poll(0)
        self._check()

    def wait_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            self._producer.poll(min(left, 0.2))
        self._check()

    def flush(self) -> None:
        waiting = len(self._producer)
        end = time.monotonic() + PATIENCE
        while left := self._producer.flush(0.5):
            self._check()
            if left < waiting:
                waiting, end = left, time.monotonic() + PATIENCE
            if time.monotonic() > end:
                raise self._stuck(f"{counted(left, 'record')} still wait after {PATIENCE:g} s")
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            right = for_topic(self._target.topic, ["Write"])
            if denied := right_refused(self._client, self._failure, right):
                raise denied
            late = self._failure.code() == KafkaError.INVALID_TIMESTAMP
            hint = "leave --time out, or: " if late else ""
            raise self._lost(hint + described(self._failure, self._target.topic))

    def _stuck(self, reason: str) -> ResonanceError:
        return wrong_listener(self._client, all_of_them=False) or self._lost(reason)

    def _lost(self, reason: str, record: FileRecord | None = None) -> DeliveryError:
        which = (
            f"record {self.sent + 1:,}, {len(record.value):,} bytes, was refused" if record else "not all was stored"
        )
        return DeliveryError(
            f"{self._target.topic}: {which} ({reason}); what was sent before may stand in the topic: remove the cause, "
            "and produce into a new topic, or the rest only"
        )
