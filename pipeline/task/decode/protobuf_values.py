"""Reads Protobuf values as JSON objects, by the descriptors that the registry has of their schema.

confluent-kafka's deserialiser wants a compiled class of the message. Here the class is made of the registry's own
`FileDescriptorProto`, by the same library. A member has its name in the schema.
"""

import importlib
import re
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from resonance.pipeline.errors import RegistryError
from resonance.pipeline.task.decode.avro_values import Decimal, decimal_digits, decimal_number, text_of_bytes
from resonance.pipeline.task.decode.faults import FaultError, unusable_schema
from resonance.pipeline.task.decode.json_objects import DEEPEST, depth_of

_INCLUDED: Final = re.compile(r"(google/(?:protobuf|type)|confluent(?:/type)?)/[a-z_]+\.proto")
"""Files that every registry knows, so that no schema refers to them by a subject."""

Get = Callable[[Any], Any]


class ProtobufFile:
    """The messages of one schema, as the registry gives it in its form ``serialized``.

    The `others` are the files that it imports, by name, each behind those that it needs itself. Raises `FaultError` for
    a schema that cannot be used.
    """

    def __init__(self, text: str, others: Mapping[str, str]) -> None:
        self._pool = DescriptorPool()
        try:
            for name, each in others.items():
                self._add(_file(each), name)
            # A name that no import can have.
            self._file = self._add(_file(text), "/")
        except (TypeError, KeyError, ImportError) as error:
            raise unusable_schema(f"its files do not go together ({error!s:.200})") from error

    def _add(self, file: FileDescriptorProto, name: str) -> FileDescriptorProto:
        file.name = name
        for other in file.dependency:
            self._include(other)
        self._pool.AddSerializedFile(file.SerializeToString())
        self._pool.FindFileByName(name)
        return file

    def _include(self, name: str) -> None:
        """Add one of the files that every registry knows, and those that it imports."""
        try:
            self._pool.FindFileByName(name)
        except KeyError:
            if not _INCLUDED.fullmatch(name):
                raise
            prefix = "confluent_kafka.schema_registry." if name.startswith("confluent") else ""
            module = importlib.import_module(f"{prefix}{name.removesuffix('.proto').replace('/', '.')}_pb2")
            self._add(FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb), name)

    def reader(self, indexes: Sequence[int]) -> "ProtobufReader":
        """Return the reader of a message; the indexes lead to it from the file over nested messages."""
        names = [self._file.package] if self._file.package else []
        within: Any = self._file.message_type
        for index in indexes or (0,):
            if not 0 <= index < len(within):
                place = ", ".join(map(str, indexes))
                raise FaultError("decode", "wrong_schema", f"its schema has no message at [{place}], which it names")
            names.append(within[index].name)
            within = within[index].nested_type
        return ProtobufReader(self._pool.FindMessageTypeByName(".".join(names)))


class ProtobufReader:
    """Reads values of one message."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._parse = GetMessageClass(descriptor).FromString
        messages = _MessageTypes()
        self._convert = messages.of(descriptor)
        exact = _MessageTypes(decimal_digits)
        convert = exact.of(descriptor)
        self._convert_exactly = convert if exact.has_decimals else None
        self._bounded = messages.bounded

    def exact(self, value: bytes, start: int, found: Any) -> Any:
        """Return what `objects` has found behind the first bytes of a value, with the digits of its numbers."""
        return found if self._convert_exactly is None else self._convert_exactly(self._parse(value[start:]))

    def objects(self, values: Sequence[bytes], start: int) -> list[Any]:
        """Return what the values hold behind their first bytes; any exception means that one does not fit."""
        found = [self._convert(self._parse(value[start:])) for value in values]
        if not self._bounded and max(map(depth_of, found), default=0) > DEEPEST:
            raise FaultError("decode", "too_deep", f"messages inside one another, deeper than {DEEPEST}")
        return found


class _MessageTypes:
    """Makes what turns messages into objects, once for each type."""

    def __init__(self, decimal: Decimal = decimal_number) -> None:
        self._well_known = _WELL_KNOWN | {"confluent.type.Decimal": lambda found: decimal(found.value, found.scale)}
        self._known: dict[str, Get] = {}
        self._open: set[str] = set()
        self._contains_itself = False

    @property
    def bounded(self) -> bool:
        """Whether no value can be nested too deep; each type brings an object, and an array or a map around it."""
        return not self._contains_itself and 2 * len(self._known) <= DEEPEST

    @property
    def has_decimals(self) -> bool:
        """Whether a value can have more digits than a float64."""
        return "confluent.type.Decimal" in self._known

    def of(self, descriptor: Descriptor) -> Get:
        name = descriptor.full_name
        if name in self._open or name in _FREE:
            self._contains_itself = True
        if name not in self._known:
            # By the time that a message is read that contains itself, it is known.
            self._known[name] = partial(self._later, name)
            self._open.add(name)
            self._known[name] = self._well_known.get(name) or self._object(descriptor)
            self._open.remove(name)
        return self._known[name]

    def _later(self, name: str, message: Any) -> Any:
        return self._known[name](message)

    def _object(self, descriptor: Descriptor) -> Get:
        plain: list[str] = []
        others: list[tuple[str, Get]] = []
        for field in descriptor.fields:
            convert = self._value(field)
            if convert is None and not field.has_presence and not field.is_repeated:
                plain.append(field.name)
            else:
                others.append((field.name, self._get(field, convert)))
        if not plain:
            return lambda message: {name: get(message) for name, get in others}
        both: Get = attrgetter(*plain)
        (first, *_), several = plain, len(plain) > 1

        def convert_message(message: Any) -> dict[str, Any]:
            found = dict(zip(plain, both(message), strict=True)) if several else {first: both(message)}
            for name, get in others:
                found[name] = get(message)
            return found

        return convert_message

    def _value(self, field: FieldDescriptor) -> Get | None:
        """Return what converts a single value of a field; None where it is what JSON has already."""
        if field.message_type is not None:
            return self.of(field.message_type)
        if field.enum_type is not None:
            names = {value.number: value.name for value in reversed(field.enum_type.values)}
            return lambda number: names.get(number, number)
        return text_of_bytes if field.type == FieldDescriptor.TYPE_BYTES else None

    def _get(self, field: FieldDescriptor, convert: Get | None) -> Get:
        name, own = field.name, attrgetter(field.name)
        if field.is_repeated:
            kind = field.message_type
            if kind is not None and kind.GetOptions().map_entry:
                fix = self._value(kind.fields_by_name["value"]) or _same
                return lambda message: {_key(key): fix(own(message)[key]) for key in own(message)}
            if convert is None:
                return lambda message: list(own(message))
            return lambda message: list(map(convert, own(message)))
        if field.has_presence:
            found = convert or _same
            return lambda message: found(own(message)) if message.HasField(name) else None
        return lambda message: (convert or _same)(own(message))


def _same(value: Any) -> Any:
    return value


def _key(key: Any) -> str:
    return ("true" if key else "false") if isinstance(key, bool) else str(key)


_FREE: Final = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
"""Messages that hold any JSON."""

_WELL_KNOWN: Final[dict[str, Get]] = {
    "google.protobuf.Timestamp": lambda found: found.seconds * 1_000 + found.nanos // 1_000_000,
    "google.protobuf.Duration": lambda found: found.seconds + found.nanos / 1e9,
    **dict.fromkeys(_FREE, json_format.MessageToDict),
    **{
        f"google.protobuf.{name}Value": attrgetter("value")
        for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String")
    },
    "google.protobuf.BytesValue": lambda found: text_of_bytes(found.value),
}
"""Messages that stand for a value: times are milliseconds since 1970, durations seconds."""


def _file(text: str) -> FileDescriptorProto:
    """Return a file from what the registry gives.

    A registry that gives the source text instead does not know that form: then no value can be read.
    """
    try:
        return FileDescriptorProto.FromString(b64decode(text, validate=True))
    except (NoBase64, ValueError, DecodeError) as error:
        raise RegistryError(
            f"the schema registry gives no descriptors (format=serialized), which input.format = protobuf needs: "
            f"{text[:60]!r}; use a registry that has them, such as Confluent's from 5.5 on"
        ) from error
