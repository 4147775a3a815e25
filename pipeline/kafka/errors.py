"""Errors of confluent-kafka in the user's words, for log-ins, certificates and rights with what helps against them."""

import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from resonance.pipeline.errors import BrokerError, DeniedError, ResonanceError
from resonance.pipeline.kafka.acl import Acl, principal_of

RIGHTS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)

UNREACHED: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._ALL_BROKERS_DOWN,
        # The connection that a request waited for is closed while another replaces it.
        KafkaError._DESTROY,
        KafkaError._DESTROY_BROKER,
    }
)
"""Codes of requests that no broker has answered."""

_TIMES: Final = (
    "whose time is further from the broker's than its message.timestamp.before.max.ms and "
    "message.timestamp.after.max.ms say (correct the times or this machine's clock"
)
_NO_SUCH: Final = (
    f"takes no message {_TIMES}, or message.timestamp.type=LogAppendTime), and, compacted, none without a key",
    "cleanup.policy=delete",
)
REFUSED_MESSAGES: Final = {
    KafkaError.INVALID_TIMESTAMP: (
        f"takes no message {_TIMES}), or let it have the time of arrival",
        "message.timestamp.type=LogAppendTime",
    ),
    # Of several messages at once, without the reason of each.
    KafkaError.INVALID_RECORD: _NO_SUCH,
    KafkaError._INVALID_DIFFERENT_RECORD: _NO_SUCH,
}
"""Messages that a topic refuses because of its configuration: why, and a configuration that takes them."""

LOOK_SECONDS: Final = 3.0
"""Limit of the check of the broker's certificate."""


@contextmanager
def translated(
    client: Mapping[str, Any], text: str, right: Acl | None = None, kind: type[ResonanceError] = BrokerError
) -> Iterator[None]:
    """Raise errors of confluent-kafka's calls as `DeniedError` where a right is missing, and else as `kind`.

    In the `text` of the message ``{reason}`` stands for librdkafka's; `right` is what the call needs, where that is
    known.
    """
    try:
        yield
    except (KafkaException, TimeoutError) as error:
        raise right_refused(client, error, right) or kind(text.replace("{reason}", reason_of(error))) from error


def code_of(error: BaseException) -> int | None:
    """Return librdkafka's code of an error that one of its calls raised; None where the call got no answer."""
    return error.args[0].code() if isinstance(error, KafkaException) else None


def reason_of(error: BaseException) -> str:
    """Return the text of an error, that of `described` where one of librdkafka's calls raised it."""
    return described(error.args[0]) if isinstance(error, KafkaException) else str(error) or "no answer"


def described(problem: KafkaError, topic: str = "") -> str:
    """Return librdkafka's text, with what a topic's configuration has to do with it and the command that helps.

    Without a `topic` it is the one that the text names, as those of transactions do.
    """
    text: str = problem.str()
    if (known := REFUSED_MESSAGES.get(problem.code())) is None:
        return text
    why, remedy = known
    topic = topic or next(iter(re.findall(r"ProduceRequest for (\S+) \[", text)), "TOPIC")
    return f"{text}: topic {topic} {why}: {configured(topic, remedy)}"


def configured(topic: str, listed: str, servers: str = "") -> str:
    """Return the command that changes a topic's configuration; without `servers` their address is left out."""
    where = f" --bootstrap-server {servers}" if servers else ""
    return f"kafka-configs.sh{where} --alter --entity-type topics --entity-name {topic} --add-config {listed}"


def login_refused(client: Mapping[str, Any], reason: str) -> DeniedError:
    """Return the error for a log-in that the brokers do not accept."""
    user = client.get("sasl.username")
    mechanism = client.get("sasl.mechanism") or client.get("sasl.mechanisms")
    if mechanism == "OAUTHBEARER":
        return DeniedError(
            f"{client['bootstrap.servers']} or the provider of tokens refuses the log-in of client "
            f"{client.get('sasl.oauthbearer.client.id')} with OAUTHBEARER ({_short(reason)}); check "
            "sasl.oauthbearer.* of [broker.librdkafka], and that the cluster accepts tokens of "
            f"{client.get('sasl.oauthbearer.token.endpoint.url')}"
        )
    return DeniedError(
        f"{client['bootstrap.servers']} refuses the log-in of user {user} with {mechanism} ({_short(reason)}); check "
        "sasl.username, sasl.password and sasl.mechanism of [broker.librdkafka], and that the cluster knows the user"
    )


def right_refused(
    client: Mapping[str, Any], error: KafkaError | BaseException, right: Acl | None = None
) -> DeniedError | None:
    """Return the error for a right that the user lacks, `right` where that is known; None for another error."""
    problem = error.args[0] if isinstance(error, KafkaException) else error
    if not isinstance(problem, KafkaError) or problem.code() not in RIGHTS:
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
        "authority": f"broker.librdkafka.ssl.ca.location = {client.get('ssl.ca.location', 'the system')} does not hold "
        "the authority that signed the brokers' certificates",
        "host": "connect to a name that the certificate has (broker.bootstrap and the brokers' advertised.listeners), "
        "or give the brokers one for this name",
        "client": f"the brokers want {own}; check broker.librdkafka.ssl.certificate.location and ssl.key.location",
        "": "check security.protocol, ssl.ca.location and ssl.certificate.location of [broker.librdkafka]",
    }
    kind, found = _look_at_certificate(client)
    if not found and "alert" in reason:
        kind = "client"
    return f"no secure connection to {client['bootstrap.servers']} ({found or _short(reason)}); {remedies[kind]}"


def _look_at_certificate(client: Mapping[str, Any]) -> tuple[str, str]:
    """Return what is wrong with the brokers' certificate, and its text: librdkafka gives no details of it."""
    server = str(client["bootstrap.servers"]).split(",")[0]
    host, _, port = server.rpartition(":")
    try:
        context = ssl.create_default_context(cafile=client.get("ssl.ca.location"), cadata=client.get("ssl.ca.pem"))
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
