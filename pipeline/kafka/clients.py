"""The broker settings in the terms of librdkafka."""

from typing import Any

from pydantic import SecretStr
from resonance.pipeline.config.settings import Settings


def librdkafka(settings: Settings) -> dict[str, Any]:
    """Return what every confluent-kafka client of the deployment needs."""
    given = settings.broker.librdkafka.items()
    return {
        "bootstrap.servers": settings.broker.bootstrap,
        "client.id": f"{settings.name}-{settings.worker_id}",
        **{name: value.get_secret_value() if isinstance(value, SecretStr) else value for name, value in given},
    }
