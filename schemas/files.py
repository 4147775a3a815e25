"""The JSON Schema files, as installed."""

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

SchemaName = Literal[
    "assignment", "cluster_event", "cluster", "drift_event", "alert", "dead_letter", "cluster_name", "incident"
]

SCHEMA_NAMES: tuple[SchemaName, ...] = get_args(SchemaName)

_TYPES: dict[str, tuple[type, ...]] = {
    **{"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)},
    **{"array": (list,), "object": (dict,), "null": (type(None),)},
}


def schema_id(name: SchemaName) -> str:
    """Return the ``$id`` of a schema, which is also the ``ce_dataschema`` of its messages."""
    return f"urn:resonance:schema:{name}:1"


def load_schema(name: SchemaName) -> dict[str, Any]:
    """Return a JSON Schema 2020-12 document."""
    text = files("resonance.schemas").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def has_shape(name: SchemaName, value: Any) -> bool:
    """Return whether a parsed value has all members that every message of a schema has, each of its type."""
    return isinstance(value, dict) and all(isinstance(value.get(member, ...), types) for member, types in _shape(name))


@cache
def _shape(name: SchemaName) -> list[tuple[str, tuple[type, ...]]]:
    document = load_schema(name)
    shape = []
    for member in document["required"]:
        # What a member refers to is an object.
        given = document["properties"][member].get("type", "object")
        names = given if isinstance(given, list) else [given]
        shape.append((member, tuple(kind for each in names for kind in _TYPES[each])))
    return shape
