"""Register the JSON Schemas of the outputs, so that catalogues and consumers find them under the topics' subjects."""

from typing import Final

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.registry.client import registry_of
from resonance.pipeline.topics.kinds import Topics
from resonance.schemas import SchemaName, load_schema

SCHEMAS: Final[dict[str, SchemaName]] = {
    "assignments": "assignment",
    "cluster_events": "cluster_event",
    "drift_events": "drift_event",
    "alerts": "alert",
    "clusters": "cluster",
    "names": "cluster_name",
    "incidents": "incident",
}
"""Schemas of the values of the outputs, by kind; a dead letter has the value of its record."""


def check_registry(settings: Settings) -> None:
    """Raise `ConfigurationError` where no registry is named."""
    if not settings.schema_registry.urls:
        raise ConfigurationError("--register-schemas: schema_registry.url is not set; name the registry")


def register_outputs(settings: Settings) -> dict[str, int]:
    """Register the schemas of the topics that the deployment has; return the ids by subject.

    The subject of a topic is the one that serialisers take by default, ``<topic>-value``. A schema that is there keeps
    its id. Values stay plain JSON.
    """
    registry = registry_of(settings.schema_registry)
    subjects: dict[str, int] = {}
    topics = {topic.kind.name: topic.name for topic in Topics.of(settings).all}
    # No worker makes these.
    topics |= {kind: settings.topic(kind) for kind in ("names", "incidents")}
    for kind, name in SCHEMAS.items():
        if kind in topics:
            subject = f"{topics[kind]}-value"
            subjects[subject] = registry.register(subject, orjson.dumps(load_schema(name)).decode())
    return subjects
