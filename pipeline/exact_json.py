"""JSON whose numbers keep their digits: what is only passed through leaves as it came.

orjson reads an integer beyond 64 bits, and every fraction, as a float64. Here a number that this would change is kept
as its text, `Digits`.
"""

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import orjson


class Digits(str):
    """A number as it is written, which neither a float64 nor 64 bits can hold."""

    __slots__ = ()


# Digits that differ count for nothing here: sixteen in a row, or an exponent of three, may be too much for a float64.
_SHAPES: Final = bytes.maketrans(b"123456789.E", b"0000000000e")
_LONG, _SMALL = b"0" * 16, b"e-000"
_NUMBERS: Final = re.compile(rb"[-+.0-9eE]{16,}")
_SPACES: Final = b" \t\r\n"

_BASES: Final[tuple[Any, ...]] = (str, dict, list, int)


def loads(text: bytes | str) -> Any:
    """Return what orjson does, but `Digits` for each number that it would change."""
    return exact(text, orjson.loads(text))


def exact(text: bytes | str, found: Any) -> Any:
    """Return what `loads` does of a text that orjson has read as `found`."""
    raw = text if isinstance(text, bytes) else text.encode()
    if not has_long(raw) or _is_kept(raw, found):
        return found
    try:
        return json.loads(text, parse_int=_integer, parse_float=number)
    except RecursionError:
        # Nested deeper than any record may be.
        return found


def beyond(text: bytes) -> Any:
    """Return a text with numbers beyond float64, which `loads` does not read, these as `Digits`; None for no JSON."""
    try:
        return json.loads(text, parse_int=_integer, parse_float=number, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def has_long(text: bytes) -> bool:
    """Return whether a text may have a number that a float64 does not hold."""
    shapes = text.translate(_SHAPES)
    return _LONG in shapes or _SMALL in shapes


def _is_kept(text: bytes, found: Any) -> bool:
    """Return whether orjson writes `found` with all digits of its text: Python's json takes ten times as long."""
    try:
        # A number holds no space, so texts that differ in spaces alone have the same numbers.
        if orjson.dumps(found).translate(None, _SPACES) == text.translate(None, _SPACES):
            return True
        # Where short ones are written in another way, as 19.90, the long ones are compared.
        long = b"[%b]" % b",".join(_NUMBERS.findall(text))
        return _SMALL not in text.translate(_SHAPES) and orjson.dumps(orjson.loads(long)) == long
    except (TypeError, ValueError):
        # Nested too deep to be written, or a text that only looks like a number.
        return False


def is_rounded(text: bytes) -> bool:
    """Return whether a number, which orjson has read as a float, has `Digits` for it."""
    read = _integer if text.lstrip(b"-").isdigit() else number
    return has_long(text) and isinstance(read(text.decode()), Digits)


def dumps(value: Any, option: int = 0) -> bytes:
    """Return what orjson does, with `Digits` as numbers."""
    return orjson.dumps(value, default=_written, option=option | orjson.OPT_PASSTHROUGH_SUBCLASS)


def number(text: str) -> float | Digits:
    """Return a number of JSON as a float, or as it is written where no float has its value."""
    found = float(text)
    try:
        return found if repr(found) == text or Decimal(repr(found)) == Decimal(text) else Digits(text)
    except InvalidOperation:
        return Digits(text)


def _integer(text: str) -> int | Digits:
    # Longer ones than Python wants to read may come.
    return found if len(text) <= 20 and -(2**63) <= (found := int(text)) < 2**64 else Digits(text)


def _written(value: Any) -> Any:
    if isinstance(value, Digits):
        return orjson.Fragment(str(value))
    for kind in _BASES:
        # Other subclasses, which orjson would write itself.
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
