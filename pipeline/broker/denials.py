"""When the cluster refuses a log-in, a certificate or a right: how it is noticed, and what is said of it.

Client libraries try again for ever when a connection is refused, because it might be a broker that starts; nothing of
that helps against a wrong password. `Refusals` tells the two apart.
"""

import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError
from resonance.pipeline.broker.acls import Acl, principal_of
from resonance.pipeline.errors import DeniedError

LOGIN: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
RIGHTS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
RECENT_SECONDS: Final = 30.0
"""How long a refusal counts: while it lasts librdkafka tries again every 10 s at least, and says so again."""

LOOK_SECONDS: Final = 3.0
"""How long a look at the broker's certificate may take."""


class Refusals:
    """Keeps why brokers refuse connections; `note` is an ``error_cb`` of confluent-kafka.

    Parameters
    ----------
    client : mapping
        librdkafka configuration of the connection.
    """

    def __init__(self, client: Mapping[str, Any]) -> None:
        self._client = client
        self._refusal: KafkaError | None = None
        self._when = 0.0
        self.last = ""

    def note(self, error: KafkaError) -> None:
        """Keep an error that librdkafka reports; it may be called in any thread."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self.last:
            self.last = error.str()
        if _refuses(error):
            self._refusal, self._when = error, time.monotonic()

    def error(self) -> DeniedError | None:
        """Return the error that says who refused what, None where nobody did of late."""
        if self._refusal is None or time.monotonic() - self._when > RECENT_SECONDS:
            return None
        if self._refusal.code() in LOGIN:
            return login_refused(self._client, self._refusal.str())
        return DeniedError(no_secure_connection(self._client, self._refusal.str()))

    def check(self) -> None:
        """Raise `error`, where there is one."""
        if (error := self.error()) is not None:
            raise error


def _refuses(error: KafkaError) -> bool:
    # A broker that wants a client's certificate ends the connection with an alert, later.
    return error.code() in LOGIN or error.code() == KafkaError._SSL or "SSL alert" in error.str()


def login_refused(client: Mapping[str, Any], reason: str) -> DeniedError:
    """Return the error for a log-in that the brokers do not accept."""
    user, mechanism = client.get("sasl.username"), client.get("sasl.mechanism")
    return DeniedError(
        f"{client['bootstrap.servers']} refuses the log-in of user {user} with {mechanism} ({_short(reason)}); check "
        "broker.sasl_username, broker.sasl_password and broker.sasl_mechanism, and that the cluster knows the user"
    )


def right_refused(client: Mapping[str, Any], problem: KafkaError, right: Acl | None = None) -> DeniedError | None:
    """Return the error for a right that the user lacks; None where the problem is another one.

    Parameters
    ----------
    client : mapping
        librdkafka configuration of the connection.
    problem : KafkaError
        What a request was answered with.
    right : Acl, optional
        What would have been needed.
    """
    if problem.code() not in RIGHTS:
        return None
    return DeniedError(lacks(client, right, problem.str()))


def lacks(client: Mapping[str, Any], right: Acl | None, reason: str = "") -> str:
    """Return the sentence about a right that the user lacks, with the command that gives it.

    Parameters
    ----------
    client : mapping
        librdkafka configuration of the connection.
    right : Acl or None
        The right; None where only the reason tells.
    reason : str
        What the broker said.
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
    """Return the sentence about a certificate that one side or the other does not accept."""
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
    """Return what is wrong with the brokers' certificate, of which librdkafka gives no details, and how to say it."""
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
    """Leave out librdkafka's address before a reason, and its state behind."""
    head, separator, rest = reason.partition(": ")
    text = rest if separator and "://" in head else reason
    return text.partition(" (after ")[0]
