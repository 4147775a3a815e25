"""Publishes the incidents: their topic has what the outputs of a deployment show, by the key of each."""

from collections.abc import Mapping
from typing import Any, Final

from resonance.pipeline import exact_json
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, DeniedError, ResonanceError
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

_AS_OF_THE_MOMENT: Final = ("known", "text", "since")
"""Members that outputs of other streams change a little: they are as of the last message."""


class IncidentPublisher:
    """Reads the outputs and what is published, and writes what differs.

    The topic is its only memory. It may be started anywhere, anew or twice: what an incident is follows from the
    outputs alone. Raises `BrokerError` and `DeniedError` where the topic cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self.topic = settings.topic(INCIDENTS.name)
        self.published = 0
        """Messages that were stored."""
        self.trouble = ""
        """Why nothing can be read or written; empty while it can."""
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
                reader = LogReader(self._client, f"{self._settings.name}-incidents", PATIENCE)
                self._connection = reader, Outlet(producer_settings(self._client), PATIENCE, reports=True)
            reader, outlet = self._connection
            if self._read(reader):
                self._publish(outlet)
            self.trouble = ""
        except (ConfigurationError, DeniedError):
            raise
        except ResonanceError as error:
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
        bounds = reader.bounds([*kinds, own])
        if any(self._positions.get(at, 0) > end for at, (_, end) in bounds.items()):
            # A topic was deleted and made again.
            self._begin()
        ranges = {at: (max(first, self._positions.get(at, 0)), end) for at, (first, end) in bounds.items()}
        came = False
        for at, records in reader.read(ranges):
            came = True
            if at == own:
                for record in records:
                    self._note(record.value)
            else:
                self._table.read(kinds[at], records)
        self._positions = {at: end for at, (_, end) in bounds.items()}
        return came

    def _note(self, value: bytes | None) -> None:
        try:
            incident = exact_json.loads(value or b"null")
        except ValueError:
            return
        if has_shape("incident", incident):
            self._shown[incident["key"]] = incident

    def _publish(self, outlet: Outlet) -> None:
        found = {each["key"]: each for each in self._table.incidents()}
        changed = [each for key, each in found.items() if _lasting(each) != _lasting(self._shown.get(key, {}))]
        for key, each in self._shown.items():
            # More signs have shown that it is a part of another one.
            if key not in found and "within" not in each and (signs := self._table.signs(key)):
                changed.append({**each, "is_open": False, "within": signs[0].key})
        messages = [Message(each["key"].encode(), exact_json.dumps(each), []) for each in reversed(changed)]
        if messages:
            outlet.send(Batch(self.topic, 0, messages))
            outlet.flush()
            self._shown |= {each["key"]: each for each in changed}
            self.published += len(messages)


def _lasting(incident: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in incident.items() if name not in _AS_OF_THE_MOMENT}
