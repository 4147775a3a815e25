"""JSON texts as objects: parsed, within a bound of their nesting, and what their members are as text."""

import re
import secrets
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np
import orjson
from resonance.pipeline import exact_json
from resonance.pipeline.json_paths import ABSENT, Path, find
from resonance.pipeline.task.decode.dense import kind_of
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.foreign_values import no_object, not_json

DEEPEST = 32
"""Deepest nesting of objects and arrays that a record may have."""
_BLOCK: Final = 1 << 16
"""Bytes whose brackets are counted at once: each partition keeps room for them."""

_OPENING_BRACE = ord("{")
_BRACKET_TO_BRACE = ord("{") ^ ord("[")

_NUMBER: Final = re.compile(rb"\s*:\s*(-?[0-9][-+.0-9eE]*)")

_BOUNDARY: Final = secrets.token_hex(16)
"""A text that stands between two records. No record can hold it: it is drawn by each process, and leaves none."""

_BETWEEN: Final = b',"%s",' % _BOUNDARY.encode()


class JsonParser:
    """Parses batches of values; that of each partition keeps room for counting their brackets."""

    def __init__(self) -> None:
        self._bytes, self._marks = np.empty(_BLOCK, np.uint8), np.empty(_BLOCK, np.bool_)

    def objects(self, values: list[bytes], openings: int) -> list[Any]:
        """Parse values; `ValueError` where one is no JSON, or nested too deep.

        Each value opens at least `openings` objects and arrays, so one that is too deep lifts the count of the batch
        above a bound. Only then are single values counted, and only one with many openings is walked through.
        """
        if not values:
            return []
        objects = parse_all(values)
        if self._openings(values) > len(values) * openings + DEEPEST - openings:
            for value, parsed in zip(values, objects, strict=True):
                if value.count(b"{") + value.count(b"[") > DEEPEST and depth_of(parsed) > DEEPEST:
                    raise ValueError("too deep")
        return objects

    def _openings(self, values: list[bytes]) -> int:
        """Return how many objects and arrays begin in values, at most: brackets in texts count, too."""
        joined, found = np.frombuffer(b"".join(values), np.uint8), 0
        for start in range(0, len(joined), _BLOCK):
            block = joined[start : start + _BLOCK]
            # Kept from block to block, because fresh memory costs more than the counting.
            raw, marks = self._bytes[: len(block)], self._marks[: len(block)]
            np.bitwise_or(block, _BRACKET_TO_BRACE, out=raw)
            np.equal(raw, _OPENING_BRACE, out=marks)
            found += int(np.count_nonzero(marks))
        return found


def parse_all(values: Sequence[bytes]) -> list[Any]:
    """Return what each of some values holds; ValueError unless every one is a JSON text of its own.

    Between two boundaries stands one value of the whole text. So a record that opens an array for another one to close,
    or that holds two values, leaves boundaries inside a value, or not at every second place.
    """
    parsed = orjson.loads(b"[%b]" % _BETWEEN.join(values))
    if parsed[1::2] != [_BOUNDARY] * (len(values) - 1) or len(parsed) != 2 * len(values) - 1:
        raise ValueError("not one JSON text each")
    return parsed[::2]  # type: ignore[no-any-return]


def parsed_json(value: bytes) -> dict[str, Any]:
    """Return a JSON text as an object, or raise `FaultError` if it is none, or nested too deep."""
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        text = str(error)
        if "depth limit" in text or "ecursion" in text:
            raise FaultError("decode", "too_deep", _too_deep("more than 1,000")) from None
        if "infinity" in text:
            raise FaultError("decode", "out_of_range", f"a number beyond float64: {text}") from None
        raise not_json(value, error) from None
    if not isinstance(parsed, dict):
        found = f"a record is a JSON object, this one is {kind_of(parsed)}{no_object(parsed)}"
        raise FaultError("decode", "not_an_object", found)
    if value.count(b"{") + value.count(b"[") > DEEPEST and (depth := depth_of(parsed)) > DEEPEST:
        raise FaultError("decode", "too_deep", _too_deep(f"{depth:,}"))
    return parsed


def members(objects: list[dict[str, Any]], path: Path) -> list[Any]:
    """Return the member that a path leads to in each record, `ABSENT` where there is none."""
    found: list[Any] = objects
    try:
        for name in path:
            found = list(map(itemgetter(name), found))
    except (KeyError, TypeError):
        return [find(parsed, path) for parsed in objects]
    return found


def is_as_written(value: bytes, path: Path, found: Any) -> bool:
    """Return whether a member stands in a record as it would be written: then no digit of it is lost."""
    name = b'"%b"' % path[-1].encode()
    if value.count(name) != 1:
        return False
    at = value.index(name) + len(name)
    if type(found) is float:
        literal = _NUMBER.match(value, at)
        # A number of another value is of a member whose name is written with escapes.
        return literal is not None and float(literal[1]) == found and not exact_json.is_rounded(literal[1])
    text = orjson.dumps(found)
    if value[at : at + 2] == b": ":
        # As Python writes it.
        at, text = at + 1, text.replace(b",", b", ").replace(b'":', b'": ')
    end = at + 1 + len(text)
    return value[at + 1 : end] == text and value[end : end + 1] in (b",", b"}")


def id_text(value: Any) -> bytes:
    """Return an id as JSON, null where it is absent."""
    return b"null" if value is ABSENT else exact_json.dumps(value)


def _too_deep(depth: str) -> str:
    return f"{depth} objects and arrays inside one another, {DEEPEST} are allowed"


def depth_of(value: Any) -> int:
    """Return how deep objects and arrays are nested in a value, itself included."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth
