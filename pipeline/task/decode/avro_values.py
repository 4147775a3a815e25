"""Reads Avro values as JSON objects, by the schema that they were written with.

fastavro, which confluent-kafka's deserialiser calls as well, reads each value in one call. It knows no bound for what a
few bytes can stand for, so schemas without such a bound are refused before any value is read.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException, UnknownType
from resonance.pipeline.exact_json import Digits, number
from resonance.pipeline.task.decode.faults import FaultError, UnfitValueError
from resonance.pipeline.task.decode.json_records import DEEPEST, depth_of

SCHEMA_DEPTH: Final = 10 * DEEPEST
"""Deepest nesting of a schema's own JSON."""

EMPTIES: Final = 1_000
"""Most members without any byte (null, an empty record) that a value can have."""

_DAY_MS: Final = 86_400_000

_SIZELESS: Final = {"boolean": bool, "int": int, "long": int, "float": float, "double": float, "string": str}
"""Primitive types whose values are what JSON has already, with their Python types."""

Convert = Callable[[Any], Any]
Decimal = Callable[[bytes, int], float | Digits]


class _Node(NamedTuple):
    """What is known of the values of a part of a schema."""

    kind: type
    """Python type of what fastavro reads."""
    convert: Convert | None
    """Makes of it what JSON has; None where it is that already."""
    depth: int
    """How deep objects and arrays are nested in it."""
    empties: int
    """Members without any byte that come for no byte read."""


class AvroReader:
    """Reads values of one schema.

    Parameters
    ----------
    text : str
        The schema.
    others : iterable of str
        The schemas that it refers to, each behind those that it needs itself.

    Raises
    ------
    FaultError
        For a schema that cannot be used.
    """

    def __init__(self, text: str, others: Iterable[str] = ()) -> None:
        named: dict[str, Any] = {}
        plain: dict[str, Any] = {}
        parsed: Any = None
        try:
            for each in (*others, text):
                document = orjson.loads(each)
                if depth_of(document) > SCHEMA_DEPTH:
                    raise _unusable(f"it is nested deeper than {SCHEMA_DEPTH}")
                parsed = parse_schema(document, named_schemas=named)
                self._schema = parse_schema(_without_logical_types(document), named_schemas=plain)
            node = _Shapes(named).of(parsed)
            shapes = _Shapes(named, decimal_digits)
            exact = shapes.of(parsed).convert
            self._convert_exactly = exact if shapes.has_decimals else None
        except (orjson.JSONDecodeError, SchemaParseException, UnknownType, ValueError, TypeError, KeyError) as error:
            raise _unusable(f"it is no Avro schema ({error!s:.200})") from error
        if node.depth > DEEPEST:
            raise _unusable(f"it nests {node.depth} objects and arrays, {DEEPEST} are allowed")
        if node.empties > EMPTIES:
            raise _unusable(f"it has {node.empties:,} members without any byte, {EMPTIES:,} are allowed")
        self._convert = node.convert

    def exact(self, value: bytes, start: int, found: Any) -> Any:
        """Return what `objects` has found behind the first bytes of a value, with the digits of its numbers."""
        if self._convert_exactly is None:
            return found
        return self._convert_exactly(schemaless_reader(BytesIO(value[start:]), self._schema, None))

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
        return found if self._convert is None else list(map(self._convert, found))


class _Shapes:
    """Walks through a schema once, whose named types are known."""

    def __init__(self, named: dict[str, Any], decimal: Decimal | None = None) -> None:
        self._named = named
        self._decimal = decimal or decimal_number
        self.has_decimals = False
        self._known: dict[str, _Node | None] = {}

    def of(self, schema: Any) -> _Node:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in self._named:
                return self._by_name(schema)
            return self._primitive(schema, {})
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.of(kind)
        if kind in ("record", "error", "enum", "fixed"):
            return self._by_name(schema["name"])
        if kind == "array":
            return self._many(self.of(schema["items"]), list)
        if kind == "map":
            return self._many(self.of(schema["values"]), dict)
        return self._by_name(kind) if kind in self._named else self._primitive(kind, schema)

    def _by_name(self, name: str) -> _Node:
        if name in self._known:
            known = self._known[name]
            if known is None:
                raise _unusable(f"{name} contains itself, so its values have no bound of their depth")
            return known
        self._known[name] = None
        self._known[name] = node = self._definition(self._named[name])
        return node

    def _definition(self, schema: dict[str, Any]) -> _Node:
        if schema["type"] == "enum":
            return _Node(str, None, 0, 0)
        if schema["type"] == "fixed":
            return _Node(bytes, self._bytes_convert(schema), 0, int(not schema["size"]))
        fields = [(field["name"], self.of(field["type"])) for field in schema["fields"]]
        fixes = [(name, node.convert) for name, node in fields if node.convert is not None]

        def convert(value: dict[str, Any]) -> dict[str, Any]:
            for name, fix in fixes:
                value[name] = fix(value[name])
            return value

        depth = 1 + max((node.depth for _, node in fields), default=0)
        empties = sum(node.empties for _, node in fields) if fields else 1
        return _Node(dict, convert if fixes else None, depth, empties)

    def _many(self, item: _Node, kind: type) -> _Node:
        if item.empties:
            # An array of a million nulls has four bytes.
            raise _unusable("it has arrays or maps of members without any byte")
        fix, convert = item.convert, None
        if fix is not None and kind is list:

            def convert(value: Any) -> Any:
                return list(map(fix, value))

        elif fix is not None:

            def convert(value: Any) -> Any:
                return {name: fix(each) for name, each in value.items()}

        return _Node(kind, convert, 1 + item.depth, 0)

    def _union(self, branches: list[Any]) -> _Node:
        nodes = [self.of(branch) for branch in branches]
        fixes = {node.kind: node.convert for node in nodes if node.convert is not None}
        for kind in fixes:
            if [node.kind for node in nodes].count(kind) > 1:
                raise _unusable("it has a union in which two types cannot be distinguished once they are read")

        def convert(value: Any) -> Any:
            fix = fixes.get(type(value))
            return value if fix is None else fix(value)

        # The byte of the choice counts for one member without any.
        empties = max((max(node.empties - 1, 0) for node in nodes), default=0)
        return _Node(object, convert if fixes else None, max((node.depth for node in nodes), default=0), empties)

    def _primitive(self, kind: str, schema: dict[str, Any]) -> _Node:
        if kind == "null":
            return _Node(type(None), None, 0, 1)
        if kind == "bytes":
            return _Node(bytes, self._bytes_convert(schema), 0, 0)
        return _Node(_SIZELESS[kind], _LOGICAL.get((kind, schema.get("logicalType", ""))), 0, 0)

    def _bytes_convert(self, schema: dict[str, Any]) -> Convert:
        """Return what makes a number or text of bytes."""
        logical, scale = schema.get("logicalType"), schema.get("scale", 0)
        if logical == "uuid" and schema.get("size") == 16:
            return lambda value: str(UUID(bytes=value))
        if logical == "decimal" and type(scale) is int and 0 <= scale <= 1_000:
            self.has_decimals = True
            return lambda value: self._decimal(value, scale)
        return text_of_bytes


_LOGICAL: Final[dict[tuple[str, str], Convert]] = {
    ("int", "date"): lambda days: days * _DAY_MS,
    **{("long", f"{local}timestamp-micros"): lambda micros: micros // 1_000 for local in ("", "local-")},
    **{("long", f"{local}timestamp-nanos"): lambda nanos: nanos // 1_000_000 for local in ("", "local-")},
}
"""What makes milliseconds since 1970 of the times that are not milliseconds already."""


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


def _without_logical_types(schema: Any) -> Any:
    """Return a schema under which fastavro gives numbers and bytes as they are written."""
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value if name in ("default", "symbols") else _without_logical_types(value)
        for name, value in schema.items()
        if name != "logicalType"
    }


def _unusable(reason: str) -> FaultError:
    return FaultError("decode", "wrong_schema", f"its schema cannot be used: {reason}")
