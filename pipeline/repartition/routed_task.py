"""Second stage: the models of one partition of the routes."""

from collections.abc import Sequence

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import STREAM_BYTES, Message, Messages, Outputs, RoutedRecord, SourceRecord
from resonance.pipeline.repartition.envelope import no_place, read_route
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.task.stream_task import NO_CONTEXT, TaskContext


class RoutedTask(PartitionTask):
    """Partition task that learns routes, each as the record that it carries.

    Assignments and dead letters go to the partition number of that record and name its place. Events and clusters go to
    the partition number of the routes, where those of a stream are in order.
    """

    def __init__(self, settings: Settings, topic: str, partition: int, context: TaskContext = NO_CONTEXT) -> None:
        super().__init__(settings, topic, partition, context)
        self._unpacker = None
        self._inputs, self._most = context.inputs, max(context.inputs, context.labels)
        # Records of other topics were routed under other settings.
        self._known = dict.fromkeys(settings.input.topics, context.inputs)
        if settings.labels.topic is not None:
            self._known[settings.labels.topic] = context.labels

    def process(self, records: Sequence[SourceRecord]) -> Outputs:
        """Learn routes and return the outputs of their records; see `PartitionTask.process`.

        A record from a topic that the settings no longer name, such as labels before `labels.topic` changed, is learned
        like others, and its outputs go to an existing partition. A record from an unknown partition is a `BrokerError`,
        because no output has a place for what follows from it.
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
                outputs.assignments = Messages.of(_placed(message, self._inputs) for message in outputs.assignments)
            # Dead letters can concern labels that have waited since.
            outputs.dead_letters = [_placed(message, self._most) for message in outputs.dead_letters]
        return outputs

    def catch_up(self, records: Sequence[SourceRecord]) -> None:
        """Learn routes without any output."""
        super().catch_up(self._received(records))

    def _received(self, records: Sequence[SourceRecord]) -> list[RoutedRecord]:
        # No worker writes a longer name. That depends on the route alone, and not on the present number of input
        # partitions, so that a restart and a replay decide the same.
        found = map(read_route, records)
        routes = [route for route in found if route is not None and len(route.stream) <= STREAM_BYTES]
        self._leave_aside(len(records) - len(routes))
        return routes


def _placed(message: Message, partitions: int) -> Message:
    """Return an output with a partition that its topic has, given that it has at least `partitions`."""
    if message.partition is None or message.partition < partitions:
        return message
    return message._replace(partition=message.partition % partitions)
