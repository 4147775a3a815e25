"""Log-ins, certificates and rights that the cluster refuses: how that is noticed, and the messages for it.

Client libraries retry a refused connection for ever, because it might be a broker that starts; no retry helps against
a wrong password. `Refusals` separates the two cases.
"""

import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from confluent_kafka import KafkaError
from resonance.pipeline.errors import DeniedError
from resonance.pipeline.kafka.acl import Acl, principal_of

Error = TypeVar("Error")

LOGIN: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
RIGHTS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
REFUSED_SECONDS: Final = 5.0
"""How long connections must be refused repeatedly before it is no passing trouble of a broker that starts."""

PAUSE_SECONDS: Final = 30.0
"""Distance above which two refusals are unrelated: a refused client retries more often, aiokafka and librdkafka every
10 s at least."""

LOOK_SECONDS: Final = 3.0
"""Limit of the check of the broker's certificate."""


class RefusalWindow(Generic[Error]):
    """Separates lasting refusals from passing ones, by one rule for both client libraries.

    `clock` must only go forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # First and last refusal since a connection was made, and the error of the last one; replaced as a whole.
        self._refused: tuple[float, float, Error] | None = None

    def note(self, error: Error) -> None:
        """Note that a connection was refused."""
        now = self._clock()
        first, last, _ = self._refused or (now, now, error)
        self._refused = first if now - last <= PAUSE_SECONDS else now, now, error

    def end(self) -> None:
        """Note that a connection was made."""
        self._refused = None

    def lasting(self, seconds: float = REFUSED_SECONDS) -> Error | None:
        """Return why connections have been refused for some seconds or longer; None as long as that may pass.

        A single refusal does not count, however long ago: the other brokers may be well, and no retry has followed.
        """
        if self._refused is None:
            return None
        first, last, error = self._refused
        return error if last - first >= seconds and self._clock() - last <= PAUSE_SECONDS else None


class Refusals:
    """Keeps why brokers refuse connections; `note` is an ``error_cb`` of confluent-kafka."""

    def __init__(self, client: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._streak = RefusalWindow[KafkaError](clock)
        self.last = ""

    def note(self, error: KafkaError) -> None:
        """Keep an error that librdkafka reports; any thread may call it."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self.last:
            self.last = error.str()
        if _refuses(error):
            self._streak.note(error)

    def error(self, *, at_once: bool = False) -> DeniedError | None:
        """Return the error for what was refused; None where nothing was of late, or where it may pass.

        With `at_once` a single refusal counts: for a first contact, where a user may have mistyped a password and an
        end loses nothing, and where no time is left for another.
        """
        refusal = self._streak.lasting(0.0 if at_once else REFUSED_SECONDS)
        if refusal is None:
            return None
        if refusal.code() in LOGIN:
            return login_refused(self._client, refusal.str())
        return DeniedError(no_secure_connection(self._client, refusal.str()))

    def check(self, *, at_once: bool = False) -> None:
        """Raise `error`, where there is one."""
        if (error := self.error(at_once=at_once)) is not None:
            raise error


def _refuses(error: KafkaError) -> bool:
    # A broker that requires a client's certificate ends the connection with an alert, later.
    return error.code() in LOGIN or error.code() == KafkaError._SSL or "SSL alert" in error.str()


def login_refused(client: Mapping[str, Any], reason: str) -> DeniedError:
    """Return the error for a log-in that the brokers do not accept."""
    user, mechanism = client.get("sasl.username"), client.get("sasl.mechanism")
    return DeniedError(
        f"{client['bootstrap.servers']} refuses the log-in of user {user} with {mechanism} ({_short(reason)}); check "
        "broker.sasl_username, broker.sasl_password and broker.sasl_mechanism, and that the cluster knows the user"
    )


def right_refused(client: Mapping[str, Any], problem: KafkaError, right: Acl | None = None) -> DeniedError | None:
    """Return the error for a right that the user lacks, `right` where that is known; None for another problem."""
    if problem.code() not in RIGHTS:
        return None
    return DeniedError(missing_right(client, right, problem.str()))


def missing_right(client: Mapping[str, Any], right: Acl | None, reason: str = "") -> str:
    """Return the sentence about a right that the user lacks, with the command that gives it.

    Without a `right`, the broker's `reason` is all that is known.
    """
    servers, principal = str(client["bootstrap.servers"]), principal_of(client)
    if right is None:
        return (
            f"{servers} refuses {principal} a right ({_short(reason)}); `resonance topics plan --acls` lists what is "
            "needed"
        )
    listed = " and ".join(right.operations)
    name = f"{right.resource.replace('-', ' ')} {right.name}{'*' if right.prefixed else ''}"
    return (
        f"{servers} gives {principal} no right to {listed} {name}; an administrator gives it: "
        f"{right.command(servers, principal)} (`resonance topics plan --acls` lists all that are needed)"
    )


def no_secure_connection(client: Mapping[str, Any], reason: str) -> str:
    """Return the sentence about a certificate that one of the two sides does not accept."""
    certificate = client.get("ssl.certificate.location")
    own = f"the client's certificate {certificate}" if certificate else "a client's certificate, which is not set"
    remedies = {
        "authority": f"broker.ssl_ca_location = {client.get('ssl.ca.location', 'the system')} does not hold the "
        "authority that signed the brokers' certificates",
        "host": "connect to a name that the certificate has (broker.bootstrap and the brokers' advertised.listeners), "
        "or give the brokers one for this name",
        "client": f"the brokers want {own}; check broker.ssl_certificate_location and broker.ssl_key_location",
        "": "check broker.security_protocol, broker.ssl_ca_location and broker.ssl_certificate_location",
    }
    kind, found = _look_at_certificate(client)
    if not found and "alert" in reason:
        kind = "client"
    return f"no secure connection to {client['bootstrap.servers']} ({found or _short(reason)}); {remedies[kind]}"


def _look_at_certificate(client: Mapping[str, Any]) -> tuple[str, str]:
    """Return what is wrong with the brokers' certificate, and its text: librdkafka gives no details of it."""
    server = str(client["bootstrap.servers"]).split(",")[0].strip()
    host, _, port = server.rpartition(":")
    try:
        context = ssl.create_default_context(cafile=client.get("ssl.ca.location"))
        with (
            socket.create_connection((host.strip("[]"), int(port)), LOOK_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host.strip("[]")),
        ):
            return "", ""
    except ssl.SSLCertVerificationError as error:
        kind = "host" if "mismatch" in error.verify_message else "authority"
        return kind, error.verify_message.rstrip(".")
    except (OSError, ValueError):
        return "", ""


def _short(reason: str) -> str:
    """Return a reason without librdkafka's address before it and its state behind it."""
    head, separator, rest = reason.partition(": ")
    text = rest if separator and "://" in head else reason
    return text.partition(" (after ")[0]
