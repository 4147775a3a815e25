"""What the tasks of all kinds share: their streams, their dead letters, and their counts."""

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from resonance.pipeline import mismatches
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.logs import at
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Outputs, SourceRecord, StreamSnapshot
from resonance.pipeline.task.alerts.partition_alerts import PartitionAlerts
from resonance.pipeline.task.counts import Counts
from resonance.pipeline.task.dead_letters import DeadLetters
from resonance.pipeline.task.decode.unpacking import Unpacker
from resonance.pipeline.task.encode.assignments import Encoder
from resonance.pipeline.task.encode.cluster_events import EventEncoder
from resonance.pipeline.task.encode.message_sizes import EVENT_BYTES
from resonance.pipeline.task.feature_discovery import FeatureDiscovery
from resonance.pipeline.task.model_health import ModelHealth
from resonance.pipeline.task.streams import Streams

_log = logging.getLogger(__name__)

FORMAT: Final = 6
"""Format of `StreamTask.partition_state`."""


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What a task knows of the topics of its deployment."""

    event_bytes: int = EVENT_BYTES
    """Bytes that the topics of events and clusters take in one message."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Kafka's id of each input topic, as far as it is known; each dead letter shows that of its topic."""
    routes: int = 0
    """Partitions of the routes topic; 0 where nothing is sent there."""
    inputs: int = 0
    """Partitions of every input topic; 0 where no outputs are written.

    A record that no output partition exists for stops the task.
    """
    labels: int = 0
    """Partitions of the labels topic; 0 where there is none, or no outputs are written."""


NO_CONTEXT: Final = TaskContext()
"""For a task whose topics are not known."""


class StreamTask(ABC):
    """The streams of a partition and its dead letters; a partition whose records are learned elsewhere has none."""

    _format = FORMAT
    _health = ModelHealth
    _messages = "routes"
    """What only workers may write to its input."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        partition: int,
        context: TaskContext,
        streams: type[Streams] = Streams,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.health = self._health()
        """Quality of the models; not part of the state."""
        self._settings = settings
        self._where = f"{topic}[{partition}]"
        self._encoder = Encoder(settings, topic, partition)
        self._dead_letters = DeadLetters(settings, self._encoder, context.topic_ids)
        self._features = FeatureDiscovery(settings, topic, partition, self._dead_letters)
        self.mapping = self._features.mapping
        """Decodes the records that are learned here, once their features are known."""
        self.models = streams(settings, topic, partition, self._features)
        self.models.loaded.append(self.health.loaded)
        self.models.evicted.append(self.health.evicted)
        self._alerts: PartitionAlerts | None = None
        self._unpacker: Unpacker | None = None
        self._skipped = self._foreign = self.records = 0
        """Records so far: more than messages where these have many."""

    @property
    def open_alerts(self) -> set[str]:
        """Keys of the open alerts."""
        return set() if self._alerts is None else self._alerts.open_keys()

    def messages(self, found: RecordColumns, start: int, records: int) -> int:
        """Return how many messages from `start` on have about so many records; at least one."""
        return records if self._unpacker is None else self._unpacker.messages(found, start, records)

    @property
    def counts(self) -> Counts:
        """Counts of what was seen so far; safe to read from another thread."""
        dead, models = self._dead_letters, self.models
        # Copied in one step, because the learning thread keeps counting meanwhile.
        seen, examples = Counter(dead.seen.copy()), dead.examples.copy()
        found = self.records, self._skipped, seen, examples, models.loads, models.totals
        return Counts(*found, foreign=self._foreign)

    def process(self, records: Sequence[SourceRecord]) -> Outputs:
        """Process records, or messages that have many of them, and return their outputs.

        Records must be in offset order, with gaps or without; so are the outputs of each kind.
        """
        outputs = Outputs()
        self._run(records, outputs)
        return outputs.sort()

    def catch_up(self, records: Sequence[SourceRecord]) -> None:
        """Process records without outputs; each stream skips the records below its own `next`."""
        self._run(records, None)

    @abstractmethod
    def _run(self, records: Sequence[SourceRecord], outputs: Outputs | None) -> None:
        """Process records, with outputs or without."""

    def _leave_aside(self, count: int) -> None:
        """Count messages that no worker wrote."""
        if count and not self._foreign:
            _log.warning(
                "%s: something else than %s stands there, which is left aside; only workers may write it",
                self._where,
                self._messages,
                extra=at(self.topic, self.partition),
            )
        self._foreign += count

    # Snapshots

    @abstractmethod
    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Restore a stream from a snapshot, after `restore_partition`."""

    def partition_state(self) -> bytes:
        """Return the state of the partition beside its streams, as JSON."""
        return orjson.dumps({"format": self._format, "first_version": self.models.first_version, **self._own_state()})

    def _own_state(self) -> dict[str, Any]:
        return {}

    def _raise_alerts(self) -> PartitionAlerts:
        """Return the alerts of the partition, new ones where there are none yet."""
        if self._alerts is None:
            encoder = EventEncoder(self._settings, self.topic, self.partition)
            place = self._settings, self.topic, self.partition, self.models, encoder, self.health
            self._alerts = PartitionAlerts(*place)
        return self._alerts

    def _restore_alerts(self, content: Any) -> None:
        """Continue the alerts of a state, also where every rule is off: the numbers go on."""
        if (alerts := content.get("alerts")) is not None:
            self._raise_alerts().restore(alerts)

    def restore_partition(self, state: bytes) -> None:
        """Continue from `partition_state`, before any stream is restored.

        Raises `MismatchError` if the state cannot be read, or another release wrote it.
        """
        try:
            content = orjson.loads(state)
            self._restore_own(content)
            self.models.first_version = int(content["first_version"])
        except (ValueError, KeyError, TypeError, IndexError):
            raise mismatches.unreadable(self._where, "the state of the partition") from None

    def _restore_own(self, content: Any) -> None:
        if (found := int(content["format"])) != self._format:
            raise mismatches.other_format(self._where, found, self._format)

    def announce(self) -> None:
        """Let the first record behind a bootstrap emit what is open."""
        if self._alerts is not None:
            self._alerts.announce()

    def go_on_at(self, offset: int) -> None:
        """Let the partition continue at an offset, whatever the offsets of its records so far."""
        if self._alerts is not None:
            self._alerts.go_on_at(offset)
