"""Properties of clients among the settings: ``[broker.librdkafka]`` goes to every Kafka client as it is."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, SecretStr
from resonance.pipeline.errors import nearest

TABLES: Final[Mapping[str, str]] = {"broker": "librdkafka", "schema_registry": "client"}
"""Sections that have a table of properties, and its name."""

_OWNED: Final[Mapping[str, str]] = {
    "broker.bootstrap": "bootstrap.servers metadata.broker.list",
    "name": "group.id",
    "name and worker.id": "client.id group.instance.id transactional.id",
    "broker.session_timeout": "session.timeout.ms heartbeat.interval.ms max.poll.interval.ms",
    "delivery.transaction_timeout": "transaction.timeout.ms message.timeout.ms delivery.timeout.ms",
    "limits.memory": "fetch.max.bytes fetch.message.max.bytes max.partition.fetch.bytes message.max.bytes "
    "queue.buffering.max.kbytes queued.max.messages.kbytes receive.message.max.bytes",
    "": "acks request.required.acks enable.idempotence enable.gapless.guarantee auto.offset.reset enable.auto.commit "
    "enable.auto.offset.store enable.partition.eof batch.size linger.ms queue.buffering.max.ms group.protocol logger "
    "queue.buffering.max.messages delivery.report.only.error fetch.error.backoff.ms fetch.queue.backoff.ms "
    "fetch.wait.max.ms isolation.level log.connection.close reconnect.backoff.max.ms partition.assignment.strategy "
    "partitioner max.in.flight max.in.flight.requests.per.connection retries message.send.max.retries "
    "allow.auto.create.topics api.version.request offset.store.method queuing.strategy retry.backoff.ms "
    "retry.backoff.max.ms test.mock.num.brokers log.queue log_level",
}
OWNED: Final = {name: setting for setting, names in _OWNED.items() for name in names.split()}
"""Properties that a client has for what it does, with the settings that they follow from."""

REGISTRY_OWNED: Final = ("url", "timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms")
"""Those of the client of the Schema Registry: how long a worker waits for a registry is bounded."""

USUAL: Final = (
    *("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password", "sasl.oauthbearer.method"),
    *("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"),
    *("sasl.oauthbearer.scope", "https.ca.location", "ssl.ca.location", "ssl.certificate.location"),
    *("ssl.key.location", "ssl.key.password", "ssl.keystore.location", "ssl.keystore.password", "client.rack"),
)
"""Properties that are offered for a misspelt one: librdkafka gives no list of its own."""

UNKNOWN: Final = "librdkafka has no such property"
"""Begins the refusal of a property that does not exist."""

_SECRET: Final = re.compile(r".*(password|passphrase|secret|key\.?pem|oauthbearer\.config|user\.?info|token|^proxy$).*")
_BY_DOTS: Final = {name.replace("_", "."): setting for name, setting in OWNED.items()}
_NONE: Final = "there.is.no.such.property"


def is_secret(name: str) -> bool:
    """Return whether a property holds a secret."""
    return _SECRET.fullmatch(name) is not None


def spelt(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield properties by their own names.

    TOML takes dots for tables, and a variable has underscores in their place.
    """
    for key, value in table.items():
        name = re.sub("[_-]", ".", f"{before}{key}").lower()
        if isinstance(value, Mapping):
            yield from spelt(value, f"{name}.")
        else:
            yield name, value


def refusal(name: str, value: str) -> str:
    """Return why a property cannot be set to a value, and what to do; empty where it can."""
    # A topic's properties have a second name.
    if (setting := _BY_DOTS.get(name.removeprefix("topic."))) is not None:
        return f"must not be set: it {f'follows from {setting}' if setting else 'is what delivery needs'}; leave it out"
    # Only where there are properties: it takes a while.
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415

    try:
        # Properties are taken one by one, and the second ends it: no client is made.
        Producer({name: value, _NONE: ""})
    except (KafkaException, AttributeError, TypeError, ValueError) as error:
        reason = (error.args[0].str() if isinstance(error, KafkaException) else str(error)).strip()
        if _NONE in reason:
            return ""
        if f'"{name}"' in reason and "No such" in reason:
            return f"{UNKNOWN}{nearest(name, (*USUAL, *OWNED))}; correct it, or leave it out"
        return f"librdkafka refuses it ({reason}); see its CONFIGURATION.md"
    return ""


def gathered(section: Any, table: str) -> Any:
    """Return the values of a section with its properties, which stand there as ``table.name``, in one table."""
    if not isinstance(section, Mapping):
        return section
    own = {key.removeprefix(f"{table}."): value for key, value in section.items() if key.startswith(f"{table}.")}
    others = {key: value for key, value in section.items() if not key.startswith(f"{table}.")}
    return {table: own, **others} if own else others


def apart(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return one source's values with each property as a setting of its own, so that sources are joined one by one."""
    found = dict(values)
    for name, table in TABLES.items():
        if not isinstance(section := values.get(name), Mapping):
            continue
        own = found[name] = dict[str, Any]()
        for key, value in section.items():
            if key.partition(".")[0] != table:
                own[key] = value
                continue
            with suppress(TypeError, ValueError):
                value = json.loads(value) if key == table else value  # noqa: PLW2901 - a table of the environment
            own |= spelt({key: value})
    return found


def _properties(value: Any) -> Any:
    """Hide secrets; properties without a value are not set."""
    if not isinstance(value, Mapping):
        return value
    found: dict[str, str | SecretStr] = {}
    for name, given in spelt(value):
        plain = given.get_secret_value() if isinstance(given, SecretStr) else given
        text = str(plain).lower() if isinstance(plain, bool) else plain
        if not isinstance(text, str | int | float | None):
            raise ValueError(f"{name} must be text, a number, true or false")
        if text not in ("", None):
            found[name] = SecretStr(str(text)) if is_secret(name) else str(text)
    return found


Properties = Annotated[dict[str, str | SecretStr], BeforeValidator(_properties)]
