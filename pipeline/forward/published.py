"""What the topic of incidents has, beside what the outputs of a deployment show."""

from collections.abc import Mapping
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final

from resonance.pipeline import exact_json
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.incidents.sign_table import FOLLOWED
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.topics.kinds import INCIDENTS
from resonance.pipeline.watch.named import partitions_there
from resonance.schemas import Incident
from resonance.schemas.files import has_shape

PATIENCE: Final = 30.0
"""Seconds without progress after which a broker is given up."""

MOST: Final = 100
"""Streams, and alerts, of a message: a fleet may have thousands."""

BEHIND_SECONDS: Final = 10.0
"""How far what is published may be behind outputs that are being written."""

_AS_OF_THE_MOMENT: Final = ("known", "text", "since")
"""Members that outputs of other streams change a little: they are as of the last message."""

Change = tuple[str, Incident | None]
"""A key, and the incident that its last message has to have; None where it has to leave the topic."""


class PublishedIncidents:
    """The last message of each incident, and the outputs that these are to follow."""

    def __init__(self, settings: Settings) -> None:
        self.shown: dict[str, Incident] = {}
        """The incidents of the topic, by their keys."""
        self._settings, self._own = settings, (settings.topic(INCIDENTS.name), 0)
        self._positions: dict[TopicPartition, int] = {}
        self._table = IncidentTable()

    def _outputs(self, reader: LogReader) -> dict[TopicPartition, str]:
        return {at: kind for kind in FOLLOWED for at in partitions_there(reader, self._settings.topic(kind))}

    def is_whole(self, reader: LogReader) -> bool:
        """Return whether the topic and the alerts are there, and no output has expired."""
        outputs = self._outputs(reader)
        there = "alerts" in outputs.values() and reader.has(self._own)
        return there and not any(first for first, _ in reader.bounds(outputs).values())

    def read(self, reader: LogReader) -> bool:
        """Take over what has come to the outputs and the topic; return whether anything has."""
        kinds = self._outputs(reader)
        if "alerts" not in kinds.values():
            # Without it every incident would seem to be gone.
            raise BrokerError(f"there is no topic {self._settings.topic('alerts')}, or it may not be seen")
        bounds = reader.bounds([*kinds, self._own])
        if any(at not in bounds or before > bounds[at][1] for at, before in self._positions.items()):
            # A topic was deleted, or made again.
            self._table = IncidentTable()
            self.shown.clear()
            self._positions.clear()
        ranges = {at: (max(first, self._positions.get(at, 0)), end) for at, (first, end) in bounds.items()}
        came = False
        for at, records in reader.read(ranges):
            came = True
            if at == self._own:
                for record in records:
                    self._note(record.key, record.value)
            else:
                self._table.read(kinds[at], records)
        self._positions = {at: end for at, (_, end) in bounds.items()}
        return came

    def changes(self) -> list[Change]:
        """Return what has to be published: an incident keeps the key of its sign that was published first."""
        found = {each["key"]: each for each in self._table.incidents()}
        heads, claimed, changed = self._table.heads(), dict[str, str](), list[Change]()
        # A key that was joined to another one only claims what that one has no part in any more.
        for key, shown in sorted(self.shown.items(), key=lambda each: "within" in each[1]):
            head = heads.get(key)
            if head is None:
                # No output of it is left.
                changed.append((key, {**shown, "is_open": False} if shown["is_open"] else None))
            elif claimed.setdefault(head, key) != key and shown.get("within") != claimed[head]:
                changed.append((key, {**shown, "is_open": False, "within": claimed[head]}))
        for head, each in reversed(found.items()):
            key = claimed.get(head, head)
            one = _bounded({**each, "key": key})
            if _lasting(one) != _lasting(self.shown.get(key, {})):
                changed.append((key, one))
        return changed

    def set(self, key: str, incident: Incident | None) -> None:
        """Take over a message."""
        if incident is None:
            self.shown.pop(key, None)
        else:
            self.shown[key] = incident

    def _note(self, key: bytes | None, value: bytes | None) -> None:
        incident = None
        with suppress(ValueError):
            incident = exact_json.loads(value or b"null")
        self.set((key or b"").decode(errors="replace"), incident if has_shape("incident", incident) else None)


def check_published(settings: Settings, reader: LogReader) -> tuple[int | None, list[str]]:
    """Return how many incidents are published, and the keys of those that are not as the outputs show them.

    Outputs may be written meanwhile: what is published has `BEHIND_SECONDS` to follow. The number is None where nothing
    can be compared: without the topic of incidents, and where outputs have expired, which a publisher may have read.
    """
    published = PublishedIncidents(settings)
    if not published.is_whole(reader):
        return None, []
    published.read(reader)
    changes, until = published.changes(), monotonic() + BEHIND_SECONDS
    while changes and monotonic() < until:
        sleep(0.5)
        if published.read(reader):
            changes = published.changes()
    return len(published.shown), [key for key, _ in changes]


def _bounded(incident: Incident) -> Incident:
    """Return an incident with as many streams and alerts as a message has room for."""
    streams, alerts = incident["streams"], incident["alerts"]
    more = max(len(streams) - MOST, 0) + max(len(alerts) - MOST, 0)
    if not more:
        return incident
    return {**incident, "streams": streams[:MOST], "alerts": alerts[:MOST], "left_out": more}


def _lasting(incident: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in incident.items() if name not in _AS_OF_THE_MOMENT}
