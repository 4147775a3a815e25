"""Receivers of alerts, and the form in which each takes them: Alertmanager's API v2, PagerDuty's events v2."""

import hashlib
import re
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from resonance.pipeline.config.messages import variable
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.forward.notices import Notice
from resonance.pipeline.timestamps import canonical, epoch_ms

OPEN_MS: Final = 86_400_000
"""How long an Alertmanager keeps an open alert that it no longer hears of; its own default, five minutes, would resolve
what is open while it cannot be reached."""

KEY_CHARACTERS: Final = 255
SUMMARY_CHARACTERS: Final = 1024
"""PagerDuty's limits."""


class Receiver:
    """An Alertmanager, which takes a list of alerts a request."""

    name = "alertmanager"
    most = 500
    """Alerts of one request."""
    forgets = True
    """It keeps open alerts in memory alone, and must hear of them again."""

    def __init__(self, url: str, token: str, deployment: str) -> None:
        self.url, self._token, self._deployment = url, token, deployment
        # What stands behind the question mark may be a secret.
        self.shown, _, self._query = url.partition("?")

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the requests beside the usual ones."""
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def body(self, notices: Sequence[Notice]) -> Any:
        """Return the content of one request."""
        now = time.time_ns() // 1_000_000
        found = []
        for notice in notices:
            found.append(self._alert(notice, now))
            if notice.was is not None:
                # Its severity is one of its labels: with another one it was another alert there.
                found.append(self._alert(notice._replace(severity=notice.was, is_open=False), now))
        return found

    def without_secrets(self, text: str) -> str:
        """Return a text about a request without the secrets that it may repeat."""
        for secret in filter(None, (self._token, self._query)):
            text = text.replace(secret, "(secret)")
        return text

    def _alert(self, notice: Notice, now: int) -> dict[str, Any]:
        # The clock of the records may be any: an end in the future is none, one before the start is refused.
        start = min(epoch_ms(notice.since), now)
        end = now + OPEN_MS if notice.is_open else max(start, min(epoch_ms(notice.time), now))
        # The labels are its identity: the same whenever the rule opens for this stream, so that a silence holds on.
        labels = {"alertname": notice.rule, "deployment": self._deployment, "severity": notice.severity}
        setting = {"setting": notice.details["setting"]} if "setting" in notice.details else {}
        return {
            "labels": {**labels, **notice.labels},
            "annotations": {"summary": notice.text, "key": notice.key, **setting},
            "startsAt": canonical(start),
            "endsAt": canonical(end),
        }


class PagerDuty(Receiver):
    """PagerDuty, which takes one event a request; the token is the integration key."""

    name = "pagerduty"
    most = 1
    forgets = False
    headers: dict[str, str] = {}  # noqa: RUF012 - the key is part of the event

    def body(self, notices: Sequence[Notice]) -> Any:
        """Return the event of an alert or an incident."""
        (notice,) = notices
        key = notice.key
        if len(key) > KEY_CHARACTERS:
            digest = hashlib.sha256(key.encode()).hexdigest()
            key = f"{key[: KEY_CHARACTERS - len(digest) - 1]}~{digest}"
        event = {"routing_key": self._token, "event_action": "resolve", "dedup_key": key}
        if not notice.is_open:
            return event
        payload = {
            "summary": notice.text[:SUMMARY_CHARACTERS],
            "source": notice.source,
            "severity": notice.severity,
            "timestamp": notice.since,
            "group": self._deployment,
            "class": notice.rule,
            "custom_details": notice.details,
        }
        return event | {"event_action": "trigger", "client": "Resonance", "payload": payload}


def receiver(url: str, token: str, deployment: str) -> Receiver:
    """Return what a URL takes: PagerDuty where it ends in ``/v2/enqueue``, else an Alertmanager.

    Raises `ConfigurationError` for a URL that is none or has a log-in, and for PagerDuty without an integration key.
    """
    needed = variable("alerts.token")
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        fits = False
    if not fits:
        raise ConfigurationError(
            "--to: write the URL as http://HOST:PORT of an Alertmanager, or https://events.pagerduty.com/v2/enqueue, "
            f"without a log-in: a token is {needed}"
        )
    path = parts.path.rstrip("/")
    if path.endswith("/v2/enqueue"):
        if not re.fullmatch("[A-Za-z0-9]{32}", token):
            raise ConfigurationError(
                f"--to: PagerDuty needs the integration key of a service, which has 32 characters: set {needed} to it"
            )
        return PagerDuty(url, token, deployment)
    path = path if path.endswith("/api/v2/alerts") else f"{path}/api/v2/alerts"
    return Receiver(parts._replace(path=path, fragment="").geturl(), token, deployment)
