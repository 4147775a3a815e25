"""What is sent out of an alert or an incident: what every receiver needs of either."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

from resonance.pipeline import exact_json
from resonance.pipeline.records import Record
from resonance.pipeline.task.alerts.alert_table import place_of
from resonance.pipeline.timestamps import epoch_ms
from resonance.schemas import AlertSeverity
from resonance.schemas.files import has_shape

SentKind = Literal["alerts", "incidents"]
"""Topics whose messages are sent."""

_ALERT: Final = ("stream", "cluster", "feature", "version", "evidence", "features", "setting", "cause", "key")
_INCIDENT: Final = ("kind", "certainty", "streams", "known", "features", "factor", "drifts", "within", "key")


class Notice(NamedTuple):
    """A message about something that opened, changed or ended."""

    key: str
    """The same in all messages about it."""
    place: str
    """What it is about: a later message about the same takes the place of this one."""
    is_open: bool
    severity: AlertSeverity
    rule: str
    source: str
    """The stream, partition or streams."""
    text: str
    since: str
    time: str
    labels: Mapping[str, str]
    """What names it at an Alertmanager, beside its rule."""
    details: Mapping[str, Any]
    was: AlertSeverity | None = None
    """Its severity in the message before, where that was another one."""


def notice_of(kind: SentKind, record: Record) -> Notice | None:
    """Return what a message of a topic says; None where Resonance did not write it."""
    with suppress(KeyError, TypeError, ValueError):
        notice = _READERS[kind](exact_json.loads(record.value or b"null"))
        epoch_ms(notice.since)
        epoch_ms(notice.time)
        return notice
    return None


def _of_alert(alert: Mapping[str, Any]) -> Notice:
    if not has_shape("alert", alert) or alert["kind"] not in ("opened", "cleared"):
        raise ValueError(alert)
    # After a reset an alert may have cleared with an abandoned history.
    place, _, _ = alert["key"].rsplit("/", 2)
    source = place_of(alert)
    labels = {"partition" if alert["stream"] is None else "stream": source}
    return Notice(
        alert["key"], place, alert["kind"] == "opened", alert["severity"], alert["rule"], source,
        alert["text"], alert["since"], alert["time"],
        labels | {name: alert[name] for name in ("cluster", "feature") if name in alert},
        {name: alert[name] for name in _ALERT if name in alert},
    )  # fmt: skip


def _of_incident(incident: Mapping[str, Any]) -> Notice:
    if not has_shape("incident", incident):
        raise ValueError(incident)
    named = [stream for stream in incident["streams"] if stream is not None]
    streams = ", ".join(named[:3]) + ", ..." * (len(named) > 3) or "a partition"
    return Notice(
        incident["key"], incident["key"], incident["is_open"], incident["severity"], "incident", streams,
        incident["text"], incident["since"], incident["time"], {"incident": incident["key"]},
        {name: incident[name] for name in _INCIDENT if name in incident},
    )  # fmt: skip


_READERS: Final[Mapping[SentKind, Callable[[Mapping[str, Any]], Notice]]] = {
    "alerts": _of_alert,
    "incidents": _of_incident,
}
