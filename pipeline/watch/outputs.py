"""The outputs of a deployment as its own programs read them: with its settings, and the errors of the product."""

from collections.abc import Callable, Mapping
from typing import Any, get_args

from confluent_kafka import KafkaError
from resonance.pipeline import exact_json
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.access import Refusals
from resonance.pipeline.kafka.acl import for_topic
from resonance.pipeline.kafka.clients import librdkafka
from resonance.pipeline.kafka.errors import right_refused, translated
from resonance.pipeline.records import Record, TopicPartition
from resonance.schemas.output_reader import Output, OutputKind, OutputReader

_PROBLEM = "the outputs cannot be read: {reason}"


class DeploymentOutputs(OutputReader):
    """Reads output topics of a deployment as `OutputReader` does; `client` goes before what the settings say.

    Raises `BrokerError` where a topic can no longer be read, and `DeniedError` where the cluster refuses the log-in or
    the right to read; `trouble` says why the broker cannot be reached at the moment, and is empty while it can.
    """

    def __init__(
        self,
        settings: Settings,
        starts: Mapping[TopicPartition, int],
        client: Mapping[str, Any] | None = None,
        *,
        loads: Callable[[Any], Any] | None = exact_json.loads,
    ) -> None:
        self.trouble = ""
        self.deployment = settings.name
        topics = {kind: settings.topic(kind.replace("-", "_")) for kind in get_args(OutputKind)}
        read = {topic for topic, _ in starts}
        self._client = {"group.id": f"{settings.name}-watch", **librdkafka(settings), **(client or {})}
        self._refusals = Refusals(self._client)
        given = {"log_level": 0, **self._client, "error_cb": self._note}
        kinds = [kind for kind in get_args(OutputKind) if topics[kind] in read]
        super().__init__(given, settings.name, kinds, starts, topics=topics, loads=loads)

    def topics(self, without: OutputKind) -> list[str]:
        """Return the topics that are read, without those of a kind."""
        return [topic for topic, kind in self._kinds.items() if kind != without]

    def _fetch(self, timeout: float) -> list[Output]:
        with translated(self._client, _PROBLEM):
            found = super()._fetch(timeout)
        if not found:
            self._refusals.check()
        return found

    def _advance(self, topic: str, partition: int, offset: int) -> None:
        self.trouble = ""
        super()._advance(topic, partition, offset)

    def _failed(self, topic: str, partition: int, error: KafkaError) -> Exception | None:
        if error.retriable() or error.code() in self._passing:
            return None
        where = f"{topic}[{partition}]" if topic else "the outputs"
        denied = right_refused(self._client, error, for_topic(topic, ["Read"]))
        return denied or BrokerError(f"{where} cannot be read: {error.str()}")

    def _note(self, error: KafkaError) -> None:
        self._refusals.note(error)
        if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            self.trouble = error.str()


def record_of(output: Output) -> Record:
    """Return an output as the record that it was."""
    return Record(
        *(output.topic, output.partition, output.offset, output.timestamp), output.key, output.value, output.headers
    )
