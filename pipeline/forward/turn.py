"""Whose turn it is to publish: of several processes that of the one to which the group gives the topic's partition."""

from collections.abc import Collection
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.forward.consumer import close, membership
from resonance.pipeline.kafka.acl import for_group
from resonance.pipeline.kafka.clients import librdkafka, new_client
from resonance.pipeline.kafka.errors import right_refused


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
