"""The JSON Schemas of the outputs are registered under the subjects of their topics, on request."""

import json

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, RegistryError
from resonance.pipeline.topics.kinds import INCIDENTS, KINDS, NAMES
from resonance.pipeline.topics.output_schemas import SCHEMAS, check_registry, register_outputs
from resonance.schemas import SCHEMA_NAMES, load_schema


def settings(registry, **given):
    return Settings.of({"input.topics": ["in"], "name": "shop", "schema_registry.url": registry.url, **given})


def test_each_output_has_its_schema_and_keeps_its_id(registry):
    found = register_outputs(settings(registry))
    assert {f"shop.{kind.replace('_', '-')}-value" for kind in SCHEMAS} == found.keys()
    number = found["shop.cluster-events-value"]
    assert json.loads(registry.schemas[number]["schema"]) == load_schema("cluster_event")
    assert registry.schemas[number]["schemaType"] == "JSON"
    assert register_outputs(settings(registry)) == found


def test_every_schema_of_a_value_is_of_a_topic():
    assert sorted(SCHEMAS.values()) == sorted(set(SCHEMA_NAMES) - {"dead_letter"})
    assert SCHEMAS.keys() <= {kind.name for kind in (*KINDS, NAMES, INCIDENTS)}


def test_what_the_registry_does_not_take_is_named(registry):
    registry.failing = 409
    with pytest.raises(RegistryError, match="does not take the schema"):
        register_outputs(settings(registry))
    with pytest.raises(ConfigurationError, match=r"--register-schemas: schema_registry.url is not set"):
        check_registry(Settings.of({"input.topics": ["in"]}))
