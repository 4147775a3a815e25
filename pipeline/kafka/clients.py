"""Kafka clients: the broker settings in the terms of librdkafka, and how a client is made of them."""

import re
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from pydantic import SecretStr
from resonance.pipeline.config.properties import OWNED, is_secret
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.errors import code_of

_PROPERTY: Final = re.compile(r"[a-z]+(?:\.[a-z]+)+")


def librdkafka(settings: Settings) -> dict[str, Any]:
    """Return what every confluent-kafka client of the deployment needs."""
    given = settings.broker.librdkafka.items()
    return {
        "bootstrap.servers": settings.broker.bootstrap,
        "client.id": f"{settings.name}-{settings.worker_id}",
        **{name: value.get_secret_value() if isinstance(value, SecretStr) else value for name, value in given},
    }


def new_client(kind: Any, settings: Mapping[str, Any], **more: Any) -> Any:
    """Return a client of a kind (`Producer`, `Consumer`, `AdminClient`) with librdkafka's settings.

    Properties are checked one by one when the settings are read, but their combinations only here: raises
    `ConfigurationError` where librdkafka refuses one.
    """
    try:
        return kind(dict(settings), **more)
    except KafkaException as error:
        if code_of(error) != KafkaError._INVALID_ARG:
            raise
        raise ConfigurationError(_refusal(settings, error.args[0].str())) from error


def _refusal(settings: Mapping[str, Any], text: str) -> str:
    reason = re.sub(r"^Failed to create [a-z ]+: ", "", text)
    names = list(dict.fromkeys(_PROPERTY.findall(reason)))
    given = [name for name in names if name in settings and name not in OWNED]
    values = [f"{name} = {'(secret)' if is_secret(name) else settings[name]}" for name in given]
    follows = [f"{name} follows from {OWNED[name]}" for name in names if OWNED.get(name)]
    remedy = (
        f"correct {' and '.join(given)}, or leave {'it' if len(given) == 1 else 'them'} out"
        if given
        else "correct what is set there; look at security.protocol, sasl.* and ssl.*"
    )
    what = " and ".join(values) or "these settings"
    return "; ".join([f"[broker.librdkafka]: no connection can be made with {what} ({reason})", *follows, remedy])
