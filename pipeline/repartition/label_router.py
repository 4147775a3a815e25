"""The first hop of labels: sends each message to where the stream of its record is learned."""

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import SourceRecord
from resonance.pipeline.repartition.router import RouterTask
from resonance.pipeline.task.decode.labels import LabelMessages


class LabelRouterTask(RouterTask):
    """The task of a partition of the topic of labels; parameters as of `RouterTask`.

    What is no message of labels is a dead letter here. Whether its record is known is seen where that is learned: only
    the routes say what came first.
    """

    def __init__(self, settings: Settings, topic: str, partition: int, routes: int) -> None:
        super().__init__(settings, topic, partition, routes)
        self._messages = LabelMessages(settings)

    def _stream(self, record: SourceRecord, value: bytes) -> bytes:
        """Return the key of the stream of a message's record, or raise `FaultError`."""
        return self._messages.read(record).stream
