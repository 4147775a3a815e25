"""Publishes the incidents: their topic has what the outputs of a deployment show, by the key of each."""

from confluent_kafka import KafkaException
from resonance.pipeline import exact_json
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, DeniedError, ResonanceError
from resonance.pipeline.forward.published import PATIENCE, PublishedIncidents
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.clients import librdkafka
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.producer import Batch, Outlet, producer_settings
from resonance.pipeline.records import Message
from resonance.pipeline.topics.kinds import INCIDENTS
from resonance.pipeline.topics.single import ready
from resonance.schemas import Incident


class IncidentPublisher:
    """Reads the outputs and what is published, and writes what differs.

    The topic is its only memory, so that it may be started anew anywhere; two at once would repeat each other's
    messages (`PublishingTurn`).
    Raises `BrokerError` and `DeniedError` where the topic cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self.topic = settings.topic(INCIDENTS.name)
        self.published = 0
        """Messages that were stored."""
        self.trouble = "the outputs are not read yet"
        """Why nothing can be read or written; empty once all was."""
        self.is_standby = False
        """Whether it waits, because another process publishes."""
        self._settings, self._client = settings, librdkafka(settings)
        ready(
            settings,
            ClusterAdmin(self._client, settings.broker.answer_timeout, settings.topics.replication_factor),
            INCIDENTS,
        )
        self._connection: tuple[LogReader, Outlet] | None = None
        self._incidents = PublishedIncidents(self._settings)

    def run(self) -> None:
        """Publish what has changed since the last time; what fails is tried again by the next call."""
        try:
            if self._connection is None:
                outlet = Outlet(producer_settings(self._client), PATIENCE, reports=True)
                self._connection = LogReader(self._client, f"{self._settings.name}-incidents", PATIENCE), outlet
            reader, outlet = self._connection
            if self._incidents.read(reader):
                self._publish(outlet)
            self.trouble = ""
        except (ConfigurationError, DeniedError):
            raise
        except (ResonanceError, KafkaException) as error:
            self.trouble = str(error)
            self.close()
            # What was sent may be stored.
            self._incidents = PublishedIncidents(self._settings)

    def close(self) -> None:
        """Leave the broker."""
        if self._connection is not None:
            self._connection[0].__exit__(None, None, None)
        self._connection = None

    def _publish(self, outlet: Outlet) -> None:
        """Send what differs."""
        changed = self._incidents.changes()
        if not changed:
            return
        outlet.send(Batch(self.topic, 0, [_message(*each) for each in changed]))
        outlet.flush()
        for key, shows in changed:
            self._incidents.set(key, shows)
        self.published += len(changed)


def _message(key: str, incident: Incident | None) -> Message:
    return Message(key.encode(), None if incident is None else exact_json.dumps(incident), [])
