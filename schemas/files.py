"""The JSON Schema files, as installed."""

import json
from importlib.resources import files
from typing import Any, Literal, get_args

SchemaName = Literal["assignment", "cluster_event", "cluster", "drift_event", "alert", "dead_letter", "cluster_name"]

SCHEMA_NAMES: tuple[SchemaName, ...] = get_args(SchemaName)


def schema_id(name: SchemaName) -> str:
    """Return the ``$id`` of a schema, which is also the ``ce_dataschema`` of its messages."""
    return f"urn:resonance:schema:{name}:1"


def load_schema(name: SchemaName) -> dict[str, Any]:
    """Return a JSON Schema 2020-12 document."""
    text = files("resonance.schemas").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document
