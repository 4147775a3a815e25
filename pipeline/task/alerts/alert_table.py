"""Which alerts of a deployment are open: the topic of the alerts, folded."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson
from resonance.pipeline.records import Record, routes_offset_header


class OpenedAlert(NamedTuple):
    """An alert that is open by its topic: the message with which it opened."""

    record: Record
    payload: Mapping[str, Any]

    @property
    def key(self) -> str:
        """What names the alert in both its messages."""
        return str(self.payload["key"])

    @property
    def numbered(self) -> str:
        """What its messages are numbered for: the stream, or the partition."""
        return _numbered(self.payload)

    @property
    def stream(self) -> str | None:
        """The stream; None of a whole partition."""
        stream: str | None = self.payload["stream"]
        return stream

    @property
    def offset(self) -> int:
        """Offset of the record with which it opened, in the log that its task reads."""
        header, _ = routes_offset_header(self.key.partition("/")[0], 0)
        return int(dict(self.record.headers).get(header) or self.payload["cause"]["source"]["offset"])


class OpenAlertTable:
    """The open alerts, from the messages of the topic of the alerts; each partition in its order."""

    def __init__(self) -> None:
        self.opened: dict[str, OpenedAlert] = {}
        """By the key of the alert without its version and number."""
        self.numbers: dict[str, int] = {}
        """Number of the newest message of each stream or partition."""
        self.foreign = 0
        """Records that are no alerts."""

    def apply(self, records: Iterable[Record]) -> None:
        """Take over messages."""
        for record in records:
            try:
                payload = orjson.loads(record.value or b"null")
                place, _, _ = payload["key"].rsplit("/", 2)
                self.numbers[_numbered(payload)] = payload["seq"]
                is_open = payload["kind"] == "opened"
            except (AttributeError, KeyError, TypeError, ValueError):
                self.foreign += 1
                continue
            # The newest message counts: after a reset an alert may have cleared with an abandoned history.
            self.opened.pop(place, None)
            if is_open:
                self.opened[place] = OpenedAlert(record, payload)

    def alerts(self) -> list[Mapping[str, Any]]:
        """Return the open alerts, the most urgent and then the oldest first."""
        order = {"critical": 0, "warning": 1, "info": 2}
        found = [each.payload for each in self.opened.values()]
        return sorted(found, key=lambda alert: (order.get(alert["severity"], 3), alert["since"]))


def _numbered(payload: Mapping[str, Any]) -> str:
    """Return the stream of an alert; for one of a partition its topic and number, as its key has them."""
    stream: str | None = payload["stream"]
    return payload["key"].split("/")[2] if stream is None else stream
