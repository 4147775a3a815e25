"""The second hop: the models of one partition of the routes."""

import logging
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import orjson
from resonance.pipeline import mismatches
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.logs import at
from resonance.pipeline.records import Counts, Message, Outputs, RoutedRecord, SourceRecord
from resonance.pipeline.repartition.deduplication import Deduplicator
from resonance.pipeline.repartition.envelope import TOPIC_BYTES, Route, no_place, read_route
from resonance.pipeline.task.partition_task import PartitionTask

_log = logging.getLogger(__name__)


class RoutedTask(PartitionTask):
    """A partition task that learns routes, each as the record that was sent on it.

    Answers and dead letters go to the partition number of that record, and name its place; events and clusters go to
    that of the routes, where those of a stream stand in their order.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    topic : str
        The topic of the routes.
    partition : int
        Partition of it.
    inputs, labels : int
        Partitions of every input topic, and of the topic of labels: those that outputs have places for; 0 where that
        is of no meaning, because nothing is written.
    """

    def __init__(self, settings: Settings, topic: str, partition: int, inputs: int = 0, labels: int = 0) -> None:
        super().__init__(settings, topic, partition)
        self._repeats = Deduplicator(topic, partition)
        self._strange = 0
        self._inputs, self._most = inputs, max(inputs, labels)
        # What stands in other topics was routed under other settings.
        self._known = dict.fromkeys(settings.input.topics, inputs)
        if settings.labels.topic is not None:
            self._known[settings.labels.topic] = labels
        # A whole topic is a stream of its name, whatever the limit is.
        self._longest = max(settings.limits.key_bytes, TOPIC_BYTES)

    def process(self, records: Sequence[SourceRecord]) -> Outputs:
        """Learn routes and answer their records; see `PartitionTask.process`.

        What was routed from a topic that the settings do not name any more, such as labels before `labels.topic` was
        named otherwise, is a record like others; what is said of it goes to a partition that there is.

        Raises
        ------
        BrokerError
            A record stands in a partition that is not known, and so no output has a place for what follows from it.
        """
        found, elsewhere = self._received(records), False
        for record in found:
            known = self._known.get(record.topic)
            if known is None:
                elsewhere = True
            elif known and record.partition >= known:
                source = record.topic, record.partition, record.source_offset
                raise no_place(f"{self._where}@{record.offset}", source, known)
        outputs = super().process(found)
        if self._inputs:
            if elsewhere:
                outputs.assignments = [_placed(message, self._inputs) for message in outputs.assignments]
            # These can be about labels that have waited since.
            outputs.dead_letters = [_placed(message, self._most) for message in outputs.dead_letters]
        return outputs

    def catch_up(self, records: Sequence[SourceRecord]) -> None:
        """Learn routes again without answering them."""
        super().catch_up(self._received(records))

    def learn_silently(self, records: Sequence[SourceRecord]) -> None:
        """Learn routes that are told to nobody; see `PartitionTask.learn_silently`."""
        super().learn_silently(self._received(records))

    def _received(self, records: Sequence[SourceRecord]) -> list[RoutedRecord]:
        routes = [route for record in records if (route := read_route(record)) is not None and self._has_place(route)]
        if len(routes) < len(records):
            if not self._strange:
                _log.warning(
                    "%s[%d]: something else than routes stands there, which is left aside; only workers may write it",
                    self.topic,
                    self.partition,
                    extra=at(self.topic, self.partition),
                )
            self._strange += len(records) - len(routes)
        return self._repeats.kept(routes)

    def _has_place(self, route: Route) -> bool:
        """Whether what follows from a route fits into the topics: a worker routes nothing else.

        It depends on the route alone, and not on how many partitions the input has by now: a restart, and a replay,
        decide the same.
        """
        return len(route.record.stream) <= self._longest

    @property
    def repeats(self) -> int:
        """Routes that were dropped because their record had come, or comes again."""
        return self._repeats.repeated + self._repeats.early

    @property
    def counts(self) -> Counts:
        """What was seen so far; may be asked for in another thread."""
        return replace(super().counts, foreign=self._strange, repeated=self.repeats)

    def kept(self) -> Deduplicator:
        """Return what decides which of the routes that come next are learned; asking it changes nothing here."""
        return deepcopy(self._repeats)

    def accept_any_predecessor(self) -> None:
        """Let the routes begin in the middle: their first records need no predecessor."""
        self._repeats.accept_any_predecessor()

    def mark_seen(self, records: Sequence[SourceRecord]) -> None:
        """Take note of routes that other models have learned, so that repeats of them are known."""
        self._received(records)

    def adopt_position(self, other: PartitionTask) -> None:
        """Go on, with other models, where another task of the partition stands."""
        super().adopt_position(other)
        if isinstance(other, RoutedTask):
            self._repeats.take_over(other._repeats)

    def partition_state(self) -> bytes:
        """Return what the partition knows beside its streams, as JSON."""
        content = orjson.loads(super().partition_state())
        return orjson.dumps(content | {"routes": self._repeats.state(self.recovery_offset)})

    def restore_partition(self, state: bytes) -> None:
        """Continue from `partition_state`, before any stream is restored.

        Raises
        ------
        MismatchError
            It cannot be read, or a newer release wrote it.
        """
        super().restore_partition(state)
        try:
            content: Any = orjson.loads(state)
            self._repeats.restore(content["routes"])
        except (ValueError, KeyError, TypeError):
            raise mismatches.unreadable(self._where, "what is known of the routes") from None


def _placed(message: Message, partitions: int) -> Message:
    """Return an output so that it goes to one of the partitions that its topic has at least."""
    if message.partition is None or message.partition < partitions:
        return message
    return message._replace(partition=message.partition % partitions)
