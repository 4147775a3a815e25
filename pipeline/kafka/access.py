"""Connections that the cluster refuses, for a log-in or a certificate: how that is noticed.

Client libraries retry a refused connection for ever, because it might be a broker that starts; no retry helps against
a wrong password. `Refusals` separates the two cases.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError
from resonance.pipeline.errors import DeniedError
from resonance.pipeline.kafka.errors import login_refused, no_secure_connection

LOGIN: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
REFUSED_SECONDS: Final = 5.0
"""How long connections must be refused repeatedly before it is no passing trouble of a broker that starts."""

PAUSE_SECONDS: Final = 30.0
"""Distance above which two refusals are unrelated: a refused client retries more often, librdkafka every 10 s at
least."""

_TOO_EARLY: Final = KafkaError(KafkaError.ILLEGAL_SASL_STATE).str()


class Refusals:
    """Keeps why brokers refuse connections; `note` is an ``error_cb`` of confluent-kafka.

    `clock` must only go forward.
    """

    def __init__(self, client: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        # First and last refusal in a row, and the error of the last one; replaced as a whole.
        self._refused: tuple[float, float, KafkaError] | None = None
        self.last = ""

    def note(self, error: KafkaError) -> None:
        """Keep an error that librdkafka reports; any thread may call it."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self.last:
            self.last = error.str()
        if _refuses(error):
            now = self._clock()
            first, last, _ = self._refused or (now, now, error)
            self._refused = first if now - last <= PAUSE_SECONDS else now, now, error

    def error(self, *, at_once: bool = False) -> DeniedError | None:
        """Return the error for what was refused; None where nothing was of late, or where it may pass.

        A single refusal does not count, however long ago: the other brokers may be well, and no retry has followed.
        With `at_once` a single refusal counts: for a first contact, where a user may have mistyped a password and an
        end loses nothing, and where no time is left for another.
        """
        if self._refused is None:
            return None
        first, last, refusal = self._refused
        if last - first < (0.0 if at_once else REFUSED_SECONDS) or self._clock() - last > PAUSE_SECONDS:
            return None
        if refusal.code() in LOGIN:
            return login_refused(self._client, refusal.str())
        return DeniedError(no_secure_connection(self._client, refusal.str()))

    def check(self, *, at_once: bool = False) -> None:
        """Raise `error`, where there is one."""
        if (error := self.error(at_once=at_once)) is not None:
            raise error


def _refuses(error: KafkaError) -> bool:
    # The answer to a log-in of an open connection within a second of its last one (KIP-368), as after a pause.
    if _TOO_EARLY in error.str():
        return False
    # A broker that requires a client's certificate ends the connection with an alert, later.
    return error.code() in LOGIN or error.code() == KafkaError._SSL or "SSL alert" in error.str()
