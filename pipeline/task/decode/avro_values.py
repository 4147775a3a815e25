"""Reads Avro values as JSON objects, by the schema that they were written with.

fastavro, which confluent-kafka's deserialiser calls as well, reads each value in one call, and makes of numbers and
bytes what JSON has. It knows no bound for what a few bytes can stand for, so schemas without such a bound are refused
before any value is read.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, Final
from uuid import UUID

import orjson
from fastavro import parse_schema, schemaless_reader
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException, UnknownType
from resonance.pipeline.exact_json import Digits, number
from resonance.pipeline.task.decode.faults import UnfitValueError, unusable_schema
from resonance.pipeline.task.decode.json_objects import DEEPEST, depth_of

SCHEMA_DEPTH: Final = 10 * DEEPEST
"""Deepest nesting of a schema's own JSON."""

EMPTIES: Final = 1_000
"""Most members without any byte (null, an empty record) that a value can have."""

_DAY_MS: Final = 86_400_000

_NAMED: Final = ("record", "error", "enum", "fixed")

Decimal = Callable[[bytes, int], float | Digits]


class AvroReader:
    """Reads values of one schema; the `others` that it refers to are each behind those that they need themselves.

    Raises `FaultError` for a schema that cannot be used.
    """

    def __init__(self, text: str, others: Iterable[str] = ()) -> None:
        named, own, exact = dict[str, Any](), dict[str, Any](), dict[str, Any]()
        parsed: Any = None
        self._has_decimals = False
        try:
            for each in (*others, text):
                document = orjson.loads(each)
                if depth_of(document) > SCHEMA_DEPTH:
                    raise unusable_schema(f"it is nested deeper than {SCHEMA_DEPTH}")
                parsed = parse_schema(document, named_schemas=named)
                self._schema = parse_schema(_read_as_json(document, "number"), named_schemas=own)
                self._exact = parse_schema(_read_as_json(document, "digits"), named_schemas=exact)
                self._has_decimals |= "decimal" in each
            depth, empties = _Bounds(named).of(parsed)
        except (orjson.JSONDecodeError, SchemaParseException, UnknownType, ValueError, TypeError, KeyError) as error:
            raise unusable_schema(f"it is no Avro schema ({error!s:.200})") from error
        if depth > DEEPEST:
            raise unusable_schema(f"it nests {depth} objects and arrays, {DEEPEST} are allowed")
        if empties > EMPTIES:
            raise unusable_schema(f"it has {empties:,} members without any byte, {EMPTIES:,} are allowed")

    def exact(self, value: bytes, start: int, found: Any) -> Any:
        """Return what `objects` has found behind the first bytes of a value, with the digits of its numbers."""
        return schemaless_reader(BytesIO(value[start:]), self._exact, None) if self._has_decimals else found

    def objects(self, values: Sequence[bytes], start: int) -> list[Any]:
        """Return what the values hold behind their first bytes; any exception means that one does not fit."""
        found = []
        schema, read = self._schema, schemaless_reader
        for value in values:
            stream = BytesIO(value)
            stream.seek(start)
            found.append(read(stream, schema, None))
            if stream.tell() != len(value):
                raise UnfitValueError(f"{len(value) - stream.tell():,} bytes are left behind its last member")
        return found


class _Bounds:
    """How deep objects and arrays are nested in values, and how many members without any byte come for no byte read."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        # None while a type is being looked into.
        self._known: dict[str, tuple[int, int] | None] = {}

    def of(self, schema: Any) -> tuple[int, int]:
        if isinstance(schema, list):
            # The byte of the choice counts for one member without any.
            return self._deepest(schema), max([0, *(self.of(branch)[1] - 1 for branch in schema)])
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(kind, dict | list):
            return self.of(kind)
        if kind in ("array", "map"):
            depth, empties = self.of(schema["items" if kind == "array" else "values"])
            if empties:
                # An array of a million nulls has four bytes.
                raise unusable_schema("it has arrays or maps of members without any byte")
            return 1 + depth, 0
        name = schema["name"] if kind in _NAMED else kind
        if name not in self._named:
            return 0, int(name == "null")
        if name not in self._known:
            self._known[name] = None
            self._known[name] = self._definition(self._named[name])
        if (known := self._known[name]) is None:
            raise unusable_schema(f"{name} contains itself, so its values have no bound of their depth")
        return known

    def _definition(self, schema: Mapping[str, Any]) -> tuple[int, int]:
        if schema["type"] in ("enum", "fixed"):
            return 0, int(not schema.get("size", 1))
        types = [field["type"] for field in schema["fields"]]
        return 1 + self._deepest(types), sum(self.of(each)[1] for each in types) if types else 1

    def _deepest(self, schemas: Sequence[Any]) -> int:
        return max((self.of(each)[0] for each in schemas), default=0)


def _read_as_json(schema: Any, decimals: str) -> Any:
    """Return a schema under which fastavro calls `_CONVERSIONS`, and no conversions of its own.

    `decimals` is the name of that of decimals.
    """
    if isinstance(schema, list):
        return [_read_as_json(each, decimals) for each in schema]
    if not isinstance(schema, dict):
        return {"type": "bytes", "logicalType": "json-base64"} if schema == "bytes" else schema
    kind, logical, scale = schema["type"], schema.get("logicalType"), schema.get("scale", 0)
    if isinstance(kind, dict | list):
        return _read_as_json(kind, decimals)
    made = {name: value for name, value in schema.items() if name != "logicalType"}
    if kind in ("array", "map"):
        of = "items" if kind == "array" else "values"
        made[of] = _read_as_json(schema[of], decimals)
    elif kind in ("record", "error"):
        # What is read has every field, so that none needs its default.
        made["fields"] = [
            {"name": field["name"], "type": _read_as_json(field["type"], decimals)} for field in schema["fields"]
        ]
    elif logical == "decimal" and kind in ("bytes", "fixed") and type(scale) is int and 0 <= scale <= 1_000:
        made |= {"logicalType": f"json-{decimals}", "scale": scale}
    elif kind == "bytes" or (kind == "fixed" and (logical != "uuid" or schema["size"] != 16)):
        made["logicalType"] = "json-base64"
    elif f"{kind}-json-{logical}" in _CONVERSIONS:
        made["logicalType"] = f"json-{logical}"
    return made


def decimal_number(value: bytes, scale: int) -> float:
    """Return an unscaled big-endian integer as a number; one beyond float64 is an `OverflowError`."""
    unscaled = int.from_bytes(value, "big", signed=True)
    if scale == 0 and -(2**63) <= unscaled < 2**63:
        return unscaled
    return unscaled / int(10**scale)


def decimal_digits(value: bytes, scale: int) -> float | Digits:
    """Return an unscaled big-endian integer as a number, as it is written where no number has its value."""
    found = decimal_number(value, scale)
    if type(found) is int:
        return found
    sign, digits = ("-", -unscaled) if (unscaled := int.from_bytes(value, "big", signed=True)) < 0 else ("", unscaled)
    text = f"{digits:0{scale + 1}}"
    return number(f"{sign}{text[:-scale]}.{text[-scale:]}" if scale else f"{sign}{text}")


def text_of_bytes(value: bytes) -> str:
    """Return bytes as text: base64."""
    return b64encode(value).decode()


_CONVERSIONS: Final[dict[str, Callable[..., Any]]] = {
    "int-json-date": lambda days, *_: days * _DAY_MS,
    **{f"long-json-{local}timestamp-micros": lambda micros, *_: micros // 1_000 for local in ("", "local-")},
    **{f"long-json-{local}timestamp-nanos": lambda nanos, *_: nanos // 1_000_000 for local in ("", "local-")},
    "fixed-json-uuid": lambda value, *_: str(UUID(bytes=value)),
    **{f"{kind}-json-base64": lambda value, *_: text_of_bytes(value) for kind in ("bytes", "fixed")},
    **{f"{kind}-json-number": lambda value, own, _: decimal_number(value, own["scale"]) for kind in ("bytes", "fixed")},
    **{f"{kind}-json-digits": lambda value, own, _: decimal_digits(value, own["scale"]) for kind in ("bytes", "fixed")},
}
"""What makes of values what JSON has, times in milliseconds since 1970; by types and names that no schema has."""

LOGICAL_READERS.update(_CONVERSIONS)
