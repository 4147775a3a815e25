"""What the cluster refuses to aiokafka, which does not report most of it.

aiokafka retries a refused connection for ever, with a line in its own log; `WATCH` notes why, so that a worker whose
password is no longer accepted ends and reports it. This depends on internals of aiokafka (`versions.PINNED`).
"""

import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiokafka import client as aiokafka_client
from aiokafka import errors as aiokafka_errors
from resonance.pipeline.errors import DeniedError
from resonance.pipeline.kafka.access import RefusalWindow
from resonance.pipeline.kafka.acl import for_group, for_topic
from resonance.pipeline.kafka.errors import login_refused, missing_right, no_secure_connection

LOGIN_ERRORS: Final = (
    aiokafka_errors.AuthenticationFailedError,
    aiokafka_errors.SaslAuthenticationFailed,
    aiokafka_errors.UnsupportedSaslMechanismError,
)


class ConnectionMonitor:
    """Makes aiokafka's connections with `connect`, and notes refusals; `clock` must only go forward."""

    def __init__(self, connect: Callable[..., Awaitable[Any]], clock: Callable[[], float] = time.monotonic) -> None:
        self._connect = connect
        self._streak = RefusalWindow[Exception](clock)

    async def __call__(self, *place: Any, **settings: Any) -> Any:
        """Make a connection."""
        try:
            made = await self._connect(*place, **settings)
        except (ssl.SSLError, *LOGIN_ERRORS) as error:
            self._streak.note(error)
            raise
        self._streak.end()
        return made

    def refusal(self) -> Exception | None:
        """Return why connections are refused; None as long as that may pass."""
        return self._streak.lasting()


WATCH: Final = ConnectionMonitor(aiokafka_client.create_conn)
"""The monitor of this process, which uses aiokafka for one consumer."""


def watch_connections() -> None:
    """Make aiokafka's clients of this process connect through `WATCH`."""
    aiokafka_client.create_conn = WATCH


def refused(client: Mapping[str, Any], error: BaseException) -> DeniedError | None:
    """Return an error of aiokafka in words for a user, where the cluster refuses something; None for any other.

    `client` is the librdkafka configuration of the same connection.
    """
    if isinstance(error, ssl.SSLError):
        return DeniedError(no_secure_connection(client, str(error)))
    if isinstance(error, LOGIN_ERRORS):
        return login_refused(client, str(error) or type(error).__name__)
    if isinstance(error, aiokafka_errors.TopicAuthorizationFailedError):
        topics = error.args[0] if error.args else ""
        name = topics if isinstance(topics, str) else ", ".join(sorted(topics))
        return DeniedError(missing_right(client, for_topic(name, ["Read"])))
    if isinstance(error, aiokafka_errors.GroupAuthorizationFailedError):
        return DeniedError(missing_right(client, for_group(str(error.args[0])) if error.args else None, str(error)))
    return None
