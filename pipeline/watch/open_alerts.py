"""Which alerts of a deployment are open: the topic of the alerts, folded."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from resonance.pipeline.records import Record


class OpenAlertTable:
    """The open alerts, from the messages of the topic of the alerts; each partition in its order."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.foreign = 0
        """Records that are no alerts."""

    def apply(self, records: Iterable[Record]) -> None:
        """Take over messages."""
        for record in records:
            try:
                payload = orjson.loads(record.value or b"null")
                source = payload["cause"]["source"]
                about = payload["stream"] or f"{source['topic']}[{source['partition']}]"
                place = str(payload["rule"]), str(about), str(payload.get("cluster", ""))
                opened = payload["kind"] == "opened"
            except (KeyError, TypeError, orjson.JSONDecodeError):
                self.foreign += 1
                continue
            # The newest message counts: after a reset an alert may have cleared with an abandoned history.
            self._open.pop(place, None)
            if opened:
                self._open[place] = payload

    def alerts(self) -> list[Mapping[str, Any]]:
        """Return the open alerts, the most urgent and then the oldest first."""
        order = {"critical": 0, "warning": 1, "info": 2}
        return sorted(self._open.values(), key=lambda alert: (order.get(alert["severity"], 3), alert["since"]))
