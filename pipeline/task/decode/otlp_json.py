"""OTLP's JSON as a message of the library: the usual forms by a table, all others by the library's `json_format`.

That looks everything up anew for each member, which costs a multiple of all the rest. It is left what is rare: names in
enumerations, integers in exponential notation, and what is no such message.
"""

from base64 import urlsafe_b64decode
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

MOST_NESTED: Final = 100
"""Messages within one another, at most, as Protobuf has it."""

Read = Callable[[Any, int], Any]
"""Returns a value as the class of a message takes it, which may have so many messages more within one another."""

_TYPES: Final[dict[int, type[Any]]] = {
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_BYTES: bytes,
    FieldDescriptor.TYPE_DOUBLE: float,
    FieldDescriptor.TYPE_STRING: str,
}
"""All others are integers."""

_UNUSUAL: Final = "a form that is not read here"


class OtlpFields:
    """The fields of a message; `known` has those of others, by their names."""

    __slots__ = ("_choices", "_fields")

    def __init__(self, descriptor: Descriptor, known: dict[str, "OtlpFields"]) -> None:
        known[descriptor.full_name] = self
        # By both names in JSON: the field's name, the type of what is taken as it is, and what reads the rest.
        self._fields: dict[str, tuple[str, type[Any] | None, Read]] = {}
        for field in descriptor.fields:
            kind: Any = _TYPES.get(field.type, int)
            read: Read = partial(_scalar, kind)
            if (inner := field.message_type) is not None:
                kind, read = None, (known.get(inner.full_name) or OtlpFields(inner, known)).read
            if field.is_repeated:
                kind, read = None, partial(_repeated, read)
            self._fields |= dict.fromkeys((field.json_name, field.name), (field.name, kind, read))
        self._choices = [{field.name for field in choice.fields} for choice in descriptor.oneofs]

    def message(self, request: type[Any], given: Any) -> Any:
        """Return the message that an object is, without unknown members; raise errors of several kinds for others."""
        try:
            return request(**self.read(given, MOST_NESTED))
        except (ValueError, TypeError, OverflowError):
            return json_format.ParseDict(given, request(), ignore_unknown_fields=True)

    def read(self, given: Any, left: int) -> dict[str, Any]:
        """Return the fields of an object by their names."""
        if type(given) is not dict or not left:
            raise ValueError(_UNUSUAL)
        found: dict[str, Any] = {}
        for name, value in given.items():
            field = self._fields.get(name)
            if field is None:
                if name[:1] == "[":
                    # An extension, of which there are none.
                    raise ValueError(_UNUSUAL)
            elif value is not None:
                own, as_it_is, read = field
                if own in found:
                    raise ValueError(_UNUSUAL)
                found[own] = value if type(value) is as_it_is else read(value, left - 1)
        if len(found) > 1 and any(len(found.keys() & choice) > 1 for choice in self._choices):
            raise ValueError(_UNUSUAL)
        return found


def _repeated(read: Read, given: Any, left: int) -> list[Any]:
    return [read(value, left) for value in _scalar(list, given, left)]


def _scalar(kind: type[Any], given: Any, _: int) -> Any:
    if type(given) is kind or (kind is float and type(given) is int):
        return given
    if kind is bytes and type(given) is str:
        text = given.encode()
        return urlsafe_b64decode(text + b"=" * (4 - len(text) % 4))
    if kind is int and type(given) is str and " " not in given:
        return int(given)
    raise ValueError(_UNUSUAL)
