"""Reads JSON values that must be valid under a JSON Schema.

jsonschema-rs checks a value in a microsecond; the library that confluent-kafka's deserialiser calls takes a hundred.
Neither looks anything up outside the registry.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonschema_rs
import orjson
from resonance.pipeline import exact_json
from resonance.pipeline.task.decode.faults import UnfitValueError, unusable_schema
from resonance.pipeline.task.decode.json_objects import DEEPEST, depth_of, parsed_json

_BASE: Final = "json-schema:///"
"""Address of a schema that gives itself none."""


class JsonSchemaReader:
    """Reads values of one schema, which may refer to `others` by name; `FaultError` for one that cannot be used."""

    def __init__(self, text: str, others: Mapping[str, str]) -> None:
        try:
            named = {name: orjson.loads(each) for name, each in others.items()}

            def retrieve(address: str) -> Any:
                return named[address] if address in named else named[address.removeprefix(_BASE)]

            schema = orjson.loads(text)
            if depth_of(schema) > 10 * DEEPEST:
                raise ValueError(f"nested deeper than {10 * DEEPEST}")
            self._validator = jsonschema_rs.validator_for(
                schema, offline=not named, retriever=retrieve if named else None, validate_formats=False
            )
        except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
            reason = " ".join(str(error).split())[:200]
            raise unusable_schema(f"it is no JSON Schema ({reason})") from error

    def exact(self, value: bytes, start: int, found: Any) -> Any:
        """Return what `objects` has found behind the first bytes of a value, with the digits of its numbers."""
        return exact_json.exact(value[start:], found)

    def objects(self, values: Sequence[bytes], start: int) -> list[Any]:
        """Return what the values hold behind their first bytes; any exception means that one does not fit."""
        found: list[Any] = [parsed_json(value[start:]) for value in values]
        if not all(map(self._validator.is_valid, found)):
            problems = (error for each in found for error in self._validator.iter_errors(each))
            raise UnfitValueError(min(map(_violation, problems)))
        return found


def _violation(error: jsonschema_rs.ValidationError) -> str:
    where = ".".join(map(str, error.instance_path)) or "the whole"
    return f"{where} is against {'/'.join(map(str, error.schema_path))} of it"
