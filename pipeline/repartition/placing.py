"""Finds where a record that is on no topic would be learned."""

from dataclasses import dataclass, field

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.partitioner import partition_of
from resonance.pipeline.records import Record, RoutedRecord, SourceRecord, TopicPartition
from resonance.pipeline.repartition.router import RecordStreams
from resonance.pipeline.task.decode.mapping import make_mapping


class NoPlaceError(ValueError):
    """A record cannot stand where it is said to stand, or what its stream is depends on that."""


@dataclass(frozen=True, slots=True)
class Placing:
    """Finds where records are learned, with topics of so many partitions as the broker reports them."""

    settings: Settings
    inputs: int
    routes: int = 0
    _streams: dict[str, RecordStreams] = field(default_factory=dict)

    def place(self, record: Record) -> tuple[TopicPartition, SourceRecord]:
        """Return the partition whose task learns a record, and the record as this task takes it.

        An empty topic stands for the first input, a negative partition for the one where producers put the key. Raises
        `NoPlaceError`, or a `FaultError` where a record with a value names no stream.
        """
        topic, inputs = record.topic or self.settings.input.topics[0], self.settings.input.topics
        if topic not in inputs or record.partition >= self.inputs:
            raise NoPlaceError(
                f"{topic}[{record.partition}] is no partition of this deployment's input, which is "
                f"{', '.join(inputs)} with partitions 0 to {self.inputs - 1}"
            )
        partition = record.partition
        if partition < 0 and record.key is not None:
            partition = partition_of(record.key, self.inputs)
        elif partition < 0 and self.inputs == 1:
            partition = 0
        if self.settings.is_rekeyed:
            return self._routed(record._replace(topic=topic, partition=partition))
        if partition < 0:
            raise NoPlaceError(
                f"without a partition or a key it is not known which stream the record belongs to: name one of the "
                f"partitions 0 to {self.inputs - 1}"
            )
        return (topic, partition), record._replace(topic=topic, partition=partition)

    def _routed(self, record: Record) -> tuple[TopicPartition, RoutedRecord]:
        if record.topic not in self._streams:
            self._streams[record.topic] = RecordStreams(self.settings, record.topic, make_mapping(self.settings))
        stream = self._streams[record.topic].stream_of(record)
        at = self.of_stream(stream)
        # Of a record that is nowhere the place among the routes is known.
        stands = record.offset >= 0 <= record.partition
        own, source = ((record.topic, record.partition), record.offset) if stands else (at, -1)
        _, _, _, timestamp, key, value, headers, element = record
        return at, RoutedRecord(*own, 0, timestamp, key, value, headers, stream, source, element)

    def of_stream(self, stream: bytes) -> TopicPartition:
        """Return the partition where a stream of repartitioned records is learned."""
        return self.settings.topic("routes"), partition_of(stream, self.routes)
