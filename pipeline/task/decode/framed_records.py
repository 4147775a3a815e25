"""Decodes records whose values begin with the id of their schema (``avro``, ``protobuf``, ``json_schema``).

The frame is a zero byte and the id in four bytes; in Protobuf the message's place in its file follows. A schema is
requested once. All values of a batch that have one schema are read together, and become the objects that JSON would
give: everything after that is the same as for JSON.
"""

import threading
from collections.abc import Callable, Sequence
from functools import cache
from io import BytesIO
from typing import Any, Final, Protocol

import numpy as np
from resonance.engine.prepare.sparse import SparseRows
from resonance.pipeline.config.sections import SchemaRegistrySection
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ResonanceError, missing_extra
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import SourceRecord
from resonance.pipeline.registry.client import EXTRA, SchemaRegistry, UnknownSchemaError, registry_of
from resonance.pipeline.task.decode.dense import kind_of
from resonance.pipeline.task.decode.faults import FaultError, UnfitValueError, not_a_number
from resonance.pipeline.task.decode.foreign_values import description
from resonance.pipeline.task.decode.json_records import AnyLayout, Decoded, InputMapping
from resonance.pipeline.task.decode.record_batch import RecordBatch

FRAME: Final = 5
"""Bytes of the zero and of the id."""

TYPES: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}
"""What the registry calls the formats."""


class ValueReader(Protocol):
    """Reads values of one schema."""

    def exact(self, value: bytes, start: int, found: Any) -> Any:
        """Return what `objects` has found behind the first bytes of a value, with the digits of its numbers."""

    def objects(self, values: Sequence[bytes], start: int) -> list[Any]:
        """Return what the values hold behind their first bytes; any exception means that one does not fit."""


class ValueReaders:
    """The readers of all schemas that have come, for all partitions of a process."""

    def __init__(self, form: str, registry: SchemaRegistry) -> None:
        self._form = form
        self._registry = registry
        self._make = _maker(form)
        self._lock = threading.Lock()
        # By schema id and place of the message; what is wrong with a schema is as lasting as the schema.
        self._known: dict[tuple[int, tuple[int, ...]], ValueReader | FaultError] = {}
        self._schemas: dict[int, Callable[[tuple[int, ...]], ValueReader] | FaultError] = {}

    def objects(self, values: Sequence[bytes]) -> list[Any]:
        """Return what the values of a batch hold; any exception but a `RegistryError` means that one has a fault."""
        reader, start = self._of(values[0])
        frame = values[0][:start]
        if all(value.startswith(frame) for value in values):
            return reader.objects(values, start)
        groups: dict[bytes, list[int]] = {}
        for place, value in enumerate(values):
            groups.setdefault(value[: self._of(value)[1]], []).append(place)
        found: list[Any] = [None] * len(values)
        for frame, places in groups.items():
            reader, start = self._of(frame)
            objects = reader.objects([values[place] for place in places], start)
            for place, each in zip(places, objects, strict=True):
                found[place] = each
        return found

    def exact(self, value: bytes, found: Any) -> Any:
        """Return what was found in a value, with the digits of its numbers."""
        reader, start = self._of(value)
        return reader.exact(value, start, found)

    def object(self, value: bytes) -> Any:
        """Return what one value holds, or raise the `FaultError` that says why it cannot be used."""
        reader, start = self._of(value)
        try:
            (found,) = reader.objects([value], start)
        except (FaultError, MemoryError):
            raise
        except Exception as error:  # the libraries have no error in common
            text = f"the value does not fit schema {self._number(value)}: {_reason(error)}"
            raise FaultError("decode", "schema_violation", text) from None
        return found

    def _of(self, value: bytes) -> tuple[ValueReader, int]:
        """Return what reads a value, and where it begins; a `FaultError` says why nothing does."""
        if len(value) < FRAME or value[0]:
            raise FaultError("decode", "not_framed", _no_frame(value, self._form))
        number = self._number(value)
        place, start = _place_of(value) if self._form == "protobuf" else ((), FRAME)
        known = self._known.get((number, place))
        if known is None:
            known = self._reader(number, place)
            # A place that no schema has is no place worth keeping: there are too many of them.
            if not isinstance(known, FaultError) or not place:
                self._known[number, place] = known
        if isinstance(known, FaultError):
            raise known
        return known, start

    @staticmethod
    def _number(value: bytes) -> int:
        return int.from_bytes(value[1:FRAME], "big")

    def _reader(self, number: int, place: tuple[int, ...]) -> ValueReader | FaultError:
        with self._lock:
            if number not in self._schemas:
                self._schemas[number] = self._made(number)
            made = self._schemas[number]
        if isinstance(made, FaultError):
            return made
        try:
            return made(place)
        except FaultError as error:
            return error

    def _made(self, number: int) -> Callable[[tuple[int, ...]], ValueReader] | FaultError:
        try:
            schema = self._registry.schema(number)
            # Avro, and not always named, in the answers of old registries.
            kind = schema.schema_type or "AVRO"
            if kind != TYPES[self._form]:
                text = f"schema {number} is of the type {kind}; input.format says {self._form}"
                return FaultError("decode", "wrong_schema", text)
            others = self._registry.references(schema)
        except UnknownSchemaError as error:
            text = f"schema {number}: {error}; name the registry that its producer used (schema_registry.url)"
            # Not kept: it may be registered yet.
            raise FaultError("decode", "unknown_schema", text) from None
        try:
            return self._make(schema.schema_str, {name: other.schema_str for name, other in others.items()})
        except FaultError as error:
            return FaultError(error.stage, error.kind, f"schema {number}: {error.message}")
        except (ResonanceError, MemoryError):
            raise
        except Exception:  # a schema that one of the libraries did not expect
            return FaultError("decode", "wrong_schema", f"schema {number} cannot be used: it is no {kind} schema")


def _maker(form: str) -> Callable[[str, dict[str, str]], Callable[[tuple[int, ...]], ValueReader]]:
    """Return what makes readers of a schema and of those that it refers to."""
    try:
        if form == "avro":
            from resonance.pipeline.task.decode.avro_values import AvroReader  # noqa: PLC0415

            return lambda text, others: _always(AvroReader(text, others.values()))
        if form == "protobuf":
            from resonance.pipeline.task.decode.protobuf_values import ProtobufFile  # noqa: PLC0415

            return lambda text, others: ProtobufFile(text, others).reader
        from resonance.pipeline.task.decode.json_schema_values import JsonSchemaReader  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra(f"input.format = {form}", error.name or form, EXTRA) from error
    return lambda text, others: _always(JsonSchemaReader(text, others))


def _always(reader: ValueReader) -> Callable[[tuple[int, ...]], ValueReader]:
    return lambda _: reader


@cache
def _readers(form: str, section: SchemaRegistrySection) -> ValueReaders:
    """Return the readers of a format, one object for the whole process."""
    return ValueReaders(form, registry_of(section, "serialized" if form == "protobuf" else None))


class FramedMapping(InputMapping):
    """Decodes the records of one partition, whose values have a schema."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._readers = _readers(settings.input.format, settings.schema_registry)

    def parsed(self, value: bytes) -> dict[str, Any]:
        """Return a record as an object; a `FaultError` says why it is none."""
        self.check_size(value)
        found = self._readers.object(value)
        if not isinstance(found, dict):
            text = f"a record is an object (record, message), this one is {kind_of(found)}"
            raise FaultError("decode", "not_an_object", text)
        return found

    def document(self, value: bytes) -> tuple[Any, bool]:
        """Return what a message holds, and whether it can be written without loss by orjson alone."""
        found = self._readers.object(value)
        exact = self._exact(value, found)
        return exact, exact is found

    def _members(self, value: bytes) -> dict[str, Any]:
        return self.parsed(value)

    def _exact(self, value: bytes, parsed: Any) -> Any:
        return self._readers.exact(value, parsed)

    def _objects(self, values: list[bytes], openings: int) -> list[Any]:
        """Read a batch of values; the readers have a bound of their nesting."""
        try:
            return self._readers.objects(values) if values else []
        except (ResonanceError, MemoryError):
            raise
        except Exception as error:  # a fault, or an error of one of the libraries, which have none in common
            raise ValueError("a value that cannot be read") from error

    def _whole(self, records: RecordColumns, layout: AnyLayout) -> RecordBatch:
        batch = super()._whole(records, layout)
        numbers = batch.rows.data if isinstance(batch.rows, SparseRows) else batch.rows
        if self._has_unusable(numbers, sparse=isinstance(batch.rows, SparseRows)):
            raise ValueError("not finite")
        return batch

    def _one(self, record: SourceRecord, value: bytes, layout: AnyLayout) -> Decoded:
        decoded = super()._one(record, value, layout)
        sparse = isinstance(decoded.row, SparseRows)
        numbers = np.asarray(decoded.row.data if sparse else decoded.row, np.float64)
        if self._has_unusable(numbers, sparse=sparse):
            infinite = np.isinf(numbers)
            place = int((infinite if infinite.any() else np.isnan(numbers)).argmax())
            name = str(self._settings.input.sparse) if sparse else layout.features[place]
            if infinite.any() or sparse:
                text = f"{name} has a value that is not finite; send finite numbers"
                raise FaultError("decode", "out_of_range", text)
            raise not_a_number(name)
        return decoded


def _place_of(value: bytes) -> tuple[tuple[int, ...], int]:
    """Return the place of a Protobuf message in its file, as indexes, and where the message begins."""
    if value[FRAME : FRAME + 1] == b"\0":
        return (0,), FRAME + 1
    from confluent_kafka.schema_registry.serde import SchemaId  # noqa: PLC0415

    try:
        schema = SchemaId("PROTOBUF")
        rest = schema.from_bytes(BytesIO(value))
    except Exception:  # the library has errors of several kinds for it
        text = "the place of the message, behind the schema's id, is cut off"
        raise FaultError("decode", "not_framed", text) from None
    return tuple(schema.message_indexes or (0,)), rest.tell()


def _no_frame(value: bytes, form: str) -> str:
    found = f"begins with the byte {value[0]}" if value else "is empty"
    if value and len(value) < FRAME:
        found = f"has {len(value)} bytes"
    known = "looks like JSON (input.format = json)" if value[:1] == b"{" else f"is {description(value)}"
    hint = f"; it {known}" if value and known != "is " else ""
    return f"with input.format = {form} a value begins with a zero byte and its schema's id, this one {found}{hint}"


def _reason(error: Exception) -> str:
    """Return what is wrong in words that are the same in every run: those of the libraries have addresses in them."""
    if isinstance(error, UnfitValueError):
        return str(error)
    return "it ends too early" if isinstance(error, EOFError) else "its bytes are no such value"
