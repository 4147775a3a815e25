"""The JSON Schemas of the outputs, from their types: ``python -m tests.json_schemas`` writes the files in schemas/."""

import ast
import inspect
import json
import types
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from resonance.schemas import (
    Alert,
    Assignment,
    Cluster,
    ClusterEvent,
    ClusterName,
    DeadLetter,
    DriftEvent,
    Incident,
    schema_id,
)

FOLDER = Path(__file__).resolve().parents[1] / "schemas"
PAYLOADS = {
    "assignment": Assignment,
    "cluster_event": ClusterEvent,
    "cluster": Cluster,
    "drift_event": DriftEvent,
    "alert": Alert,
    "dead_letter": DeadLetter,
    "cluster_name": ClusterName,
    "incident": Incident,
}
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}


def document(name: Any) -> dict[str, Any]:
    """Return the JSON Schema of a payload."""
    parts: dict[str, Any] = {}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": schema_id(name)}
    whole = head | {"title": PAYLOADS[name].__name__} | _object(PAYLOADS[name], parts)
    return whole | {"$defs": parts} if parts else whole


def text(name: Any) -> str:
    """Return the content of a payload's file."""
    return json.dumps(document(name), indent=2, ensure_ascii=False) + "\n"


def _object(payload: Any, parts: dict[str, Any]) -> dict[str, Any]:
    described = _descriptions(payload)
    members = {}
    for name, hint in get_type_hints(payload, include_extras=True).items():
        schema = _value(hint, parts)
        says = {"description": described.get(name) or schema["description"]}
        # It comes first, as people read it.
        members[name] = says | schema | says
    required = [name for name in members if name in payload.__required_keys__]
    return {"description": _plain(payload.__doc__), "type": "object", "properties": members, "required": required}


def _value(hint: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value; adds the payloads in it, by name, to `parts`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is NotRequired:
        return _value(arguments[0], parts)
    if origin is Annotated:
        return _value(arguments[0], parts) | dict(hint.__metadata__)
    if is_typeddict(hint):
        # Its own parts come before it.
        parts[hint.__name__] = parts.get(hint.__name__) or _object(hint, parts)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _value(arguments[0], parts)}
    if origin is dict:
        values = {} if arguments[1] is Any else {"additionalProperties": _value(arguments[1], parts)}
        return {"type": "object"} | values
    if origin in (Union, types.UnionType):
        either = [_value(each, parts) for each in arguments]
        kinds = dict.fromkeys(each["type"] for each in either)
        if "number" in kinds:
            kinds.pop("integer", None)
        return {key: value for each in either for key, value in each.items()} | {"type": list(kinds)}
    return {"type": _NAMES[hint]}


def _descriptions(payload: Any) -> dict[str, str]:
    """Return the text behind each member of a class."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(payload)))  # type: ignore[arg-type]
    found = {}
    for part in tree.body:
        if isinstance(part, ast.ClassDef) and part.name == payload.__name__:
            for member, says in pairwise(part.body):
                if isinstance(member, ast.AnnAssign) and isinstance(says, ast.Expr):
                    found[member.target.id] = _plain(says.value.value)
    return found


def _plain(words: str) -> str:
    return " ".join(words.replace("`", "").split())


if __name__ == "__main__":
    for name in PAYLOADS:
        (FOLDER / f"{name}.schema.json").write_text(text(name))
