"""First stage of labels: sends each message to the partition where the stream of its record is learned."""

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import SourceRecord
from resonance.pipeline.repartition.router import RouterTask
from resonance.pipeline.task.decode.labels import LabelMessages
from resonance.pipeline.task.stream_task import NO_CONTEXT, TaskContext


class LabelRouterTask(RouterTask):
    """Task of a partition of the labels topic; the parameters are those of `RouterTask`.

    A record that is no label message becomes a dead letter here. Whether its record is known is decided where that is
    learned, because only the routes show which came first.
    """

    def __init__(
        self, settings: Settings, topic: str, partition: int, routes: int, context: TaskContext = NO_CONTEXT
    ) -> None:
        super().__init__(settings, topic, partition, routes, context)
        self._messages = LabelMessages(settings)

    def _stream(self, record: SourceRecord, value: bytes) -> bytes:
        """Return the key of the stream of a message's record, or raise `FaultError`."""
        return self._messages.read(record).stream
