"""Publishes the incidents: their topic has what the outputs of a deployment show, by the key of each."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaException
from resonance.pipeline import exact_json
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, ConfigurationError, DeniedError, ResonanceError
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.incidents.signs import FOLLOWED
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.clients import librdkafka
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.producer import Batch, Outlet, producer_settings
from resonance.pipeline.records import Message, TopicPartition
from resonance.pipeline.topics.kinds import INCIDENTS
from resonance.pipeline.topics.single import ready
from resonance.pipeline.watch.named import partitions_there
from resonance.schemas import Incident
from resonance.schemas.files import has_shape

PATIENCE: Final = 30.0
"""Seconds without progress after which a broker is given up."""

MOST: Final = 100
"""Streams, and alerts, of a message: a fleet may have thousands."""

_AS_OF_THE_MOMENT: Final = ("known", "text", "since")
"""Members that outputs of other streams change a little: they are as of the last message."""


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
        self._begin()

    def run(self) -> None:
        """Publish what has changed since the last time; what fails is tried again by the next call."""
        try:
            if self._connection is None:
                outlet = Outlet(producer_settings(self._client), PATIENCE, reports=True)
                self._connection = LogReader(self._client, f"{self._settings.name}-incidents", PATIENCE), outlet
            reader, outlet = self._connection
            if self._read(reader):
                self._publish(outlet)
            self.trouble = ""
        except (ConfigurationError, DeniedError):
            raise
        except (ResonanceError, KafkaException) as error:
            self.trouble = str(error)
            self.close()
            # What was sent may be stored.
            self._begin()

    def close(self) -> None:
        """Leave the broker."""
        if self._connection is not None:
            self._connection[0].__exit__(None, None, None)
        self._connection = None

    def _begin(self) -> None:
        self._table = IncidentTable()
        self._shown: dict[str, Incident] = {}
        self._positions: dict[TopicPartition, int] = {}

    def _read(self, reader: LogReader) -> bool:
        """Take over what has come; return whether anything has."""
        own = (self.topic, 0)
        kinds = {at: kind for kind in FOLLOWED for at in partitions_there(reader, self._settings.topic(kind))}
        if "alerts" not in kinds.values():
            # Without it every incident would seem to be gone.
            raise BrokerError(f"there is no topic {self._settings.topic('alerts')}, or it may not be seen")
        bounds = reader.bounds([*kinds, own])
        if any(at not in bounds or before > bounds[at][1] for at, before in self._positions.items()):
            # A topic was deleted, or made again.
            self._begin()
        ranges = {at: (max(first, self._positions.get(at, 0)), end) for at, (first, end) in bounds.items()}
        came = False
        for at, records in reader.read(ranges):
            came = True
            if at == own:
                for record in records:
                    self._note(record.key, record.value)
            else:
                self._table.read(kinds[at], records)
        self._positions = {at: end for at, (_, end) in bounds.items()}
        return came

    def _note(self, key: bytes | None, value: bytes | None) -> None:
        """Take over a message of the topic."""
        with suppress(ValueError):
            incident = exact_json.loads(value or b"null")
            if value is None or has_shape("incident", incident):
                self._set((key or b"").decode(), incident)

    def _set(self, key: str, incident: Incident | None) -> None:
        if incident is None:
            self._shown.pop(key, None)
        else:
            self._shown[key] = incident

    def _publish(self, outlet: Outlet) -> None:
        """Send what differs: an incident keeps the key of its sign that was published first."""
        found = {each["key"]: each for each in self._table.incidents()}
        heads, claimed, changed = self._table.heads(), dict[str, str](), list[tuple[str, Incident | None]]()
        # A key that was joined to another one only claims what that one has no part in any more.
        for key, shown in sorted(self._shown.items(), key=lambda each: "within" in each[1]):
            head = heads.get(key)
            if head is None:
                # No output of it is left.
                changed.append((key, {**shown, "is_open": False} if shown["is_open"] else None))
            elif claimed.setdefault(head, key) != key and shown.get("within") != claimed[head]:
                changed.append((key, {**shown, "is_open": False, "within": claimed[head]}))
        for head, each in reversed(found.items()):
            key = claimed.get(head, head)
            one = _bounded({**each, "key": key})
            if _lasting(one) != _lasting(self._shown.get(key, {})):
                changed.append((key, one))
        if not changed:
            return
        outlet.send(Batch(self.topic, 0, [_message(*each) for each in changed]))
        outlet.flush()
        for key, shows in changed:
            self._set(key, shows)
        self.published += len(changed)


def _message(key: str, incident: Incident | None) -> Message:
    return Message(key.encode(), None if incident is None else exact_json.dumps(incident), [])


def _bounded(incident: Incident) -> Incident:
    """Return an incident with as many streams and alerts as a message has room for."""
    streams, alerts = incident["streams"], incident["alerts"]
    more = max(len(streams) - MOST, 0) + max(len(alerts) - MOST, 0)
    if not more:
        return incident
    return {**incident, "streams": streams[:MOST], "alerts": alerts[:MOST], "left_out": more}


def _lasting(incident: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in incident.items() if name not in _AS_OF_THE_MOMENT}
