"""Publishes the incidents: their topic has what the outputs of a deployment show, by the key of each.

Of several processes that one publishes to which the group gives the partition of the topic.
"""

from collections.abc import Collection
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Place
from resonance.pipeline import exact_json
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, DeniedError, ResonanceError
from resonance.pipeline.forward.consumer import close, membership
from resonance.pipeline.forward.published import PATIENCE, PublishedIncidents
from resonance.pipeline.kafka.acl import for_group
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.clients import librdkafka, new_client
from resonance.pipeline.kafka.errors import right_refused
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.producer import Batch, Outlet, producer_settings
from resonance.pipeline.records import Message
from resonance.pipeline.topics.kinds import INCIDENTS
from resonance.pipeline.topics.topics import ready
from resonance.schemas import Incident


class PublishingTurn:
    """A member of the group of all publishers of a topic, of which it reads nothing."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self.joined = False
        """Whether the group has said whose turn it is."""
        self.mine = False
        """Whether it is that of this one."""
        self._client, self._group = librdkafka(settings), f"{settings.name}-incidents-publish"
        own = {**membership(settings, self._group), "error_cb": lambda _: None, "log_level": 0}
        self._consumer = new_client(Consumer, {**self._client, **own})
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def poll(self) -> None:
        """Stay a member; raise `DeniedError` for one that may not be in the group."""
        message = self._consumer.poll(0)
        error = None if message is None else message.error()
        if error is not None and (denied := right_refused(self._client, error, for_group(self._group))):
            raise denied

    def close(self) -> None:
        """Leave the group, so that another one has its turn."""
        close(self._consumer)

    def _assigned(self, consumer: Any, places: Collection[Place]) -> None:
        consumer.assign(places)
        consumer.pause(places)
        self.joined, self.mine = True, bool(places)

    def _revoked(self, *_: Any) -> None:
        self.joined = self.mine = False


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
