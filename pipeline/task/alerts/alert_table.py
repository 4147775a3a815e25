"""Which alerts of a deployment are open: the topic of the alerts, folded."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from resonance.pipeline import exact_json
from resonance.pipeline.records import Record, routes_offset_header

MOST_CLEARED: Final = 20_000
"""Cleared alerts that are kept."""


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
        return place_of(self.payload)

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


class ClearedAlert(NamedTuple):
    """An alert that has cleared: the message with which it did."""

    payload: Mapping[str, Any]
    learned: Sequence[str]
    """Of the rule `unlike`: new clusters of the stream while it was open. Their records count as normal since."""


class OpenAlertTable:
    """The open alerts, from the messages of the topic of the alerts; each partition in its order."""

    def __init__(self) -> None:
        self.opened: dict[str, OpenedAlert] = {}
        """By the key of the alert without its version and number."""
        self.cleared: dict[str, ClearedAlert] = {}
        """Those that are over, the last read, by their whole keys."""
        self._learned: dict[str, list[str]] = {}
        """New clusters of each stream while its alert `unlike` is open."""
        self.numbers: dict[str, int] = {}
        """Number of the newest message of each stream or partition."""
        self.foreign = 0
        """Records that are no alerts."""
        self.left_out = 0
        """Cleared alerts beyond `MOST_CLEARED`."""

    def apply(self, records: Iterable[Record]) -> None:
        """Take over messages."""
        for record in records:
            try:
                payload = exact_json.loads(record.value or b"null")
                place, _, _ = payload["key"].rsplit("/", 2)
                self.numbers[place_of(payload)] = payload["seq"]
                is_open = payload["kind"] == "opened"
            except (AttributeError, KeyError, TypeError, ValueError):
                self.foreign += 1
                continue
            # The newest message counts: after a reset an alert may have cleared with an abandoned history.
            self.opened.pop(place, None)
            self.cleared.pop(payload["key"], None)
            learned = self._follow(payload, is_open)
            if is_open:
                self.opened[place] = OpenedAlert(record, payload)
            else:
                self.cleared[payload["key"]] = ClearedAlert(payload, learned)
                if len(self.cleared) > MOST_CLEARED:
                    del self.cleared[next(iter(self.cleared))]
                    self.left_out += 1

    def alerts(self) -> list[Mapping[str, Any]]:
        """Return the open alerts, the most urgent and then the oldest first."""
        found = [each.payload for each in self.opened.values()]
        return sorted(found, key=lambda alert: (_urgency(alert), alert["since"]))

    def ended(self) -> list[ClearedAlert]:
        """Return the cleared alerts, the most urgent and then the latest first."""
        latest = sorted(self.cleared.values(), key=lambda each: str(each.payload["time"]), reverse=True)
        return sorted(latest, key=lambda each: _urgency(each.payload))

    def _follow(self, payload: Mapping[str, Any], is_open: bool) -> list[str]:
        """Collect the new clusters of unlike streams; return those of an alert that clears."""
        rule, stream = payload["rule"], payload["stream"]
        if rule == "unlike":
            before = self._learned.pop(stream, [])
            if not is_open:
                return before if "ended" not in payload["evidence"] else []
            self._learned[stream] = []
        elif rule == "new_cluster" and is_open and stream in self._learned:
            self._learned[stream].append(payload["cluster"])
        return []


def _urgency(alert: Mapping[str, Any]) -> int:
    return {"critical": 0, "warning": 1, "info": 2}.get(alert["severity"], 3)


def place_of(payload: Mapping[str, Any]) -> str:
    """Return the stream of an alert; for one of a partition its topic and number, as its key has them."""
    stream: str | None = payload["stream"]
    return payload["key"].split("/")[2] if stream is None else stream
