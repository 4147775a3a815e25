r"""JSON, and dotted paths into its objects, such as ``geo.lat``; a dot inside a name is written ``\.``."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

Path = tuple[str, ...]

WHOLE = "."
"""Stands for the path of the value itself, where that can be meant."""

_SEPARATOR = re.compile(r"(?<!\\)\.")


class _Absent:
    """Type of `ABSENT`, which marks a missing member because None is a JSON value."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def json_or_none(text: bytes | str | None) -> Any:
    """Return what a text holds as JSON, None where it is none."""
    try:
        return orjson.loads(text or b"null")
    except orjson.JSONDecodeError:
        return None


def is_json(text: bytes, kind: type = object) -> bool:
    """Return whether a text is JSON, and holds what is of a kind."""
    try:
        return isinstance(orjson.loads(text), kind)
    except orjson.JSONDecodeError:
        return False


def parse_path(text: str) -> Path:
    """Return the names that lead to a member; an empty text or name is a `ValueError`."""
    names = tuple(part.replace("\\.", ".") for part in _SEPARATOR.split(text))
    if not all(names):
        raise ValueError("a path is names joined by dots, such as geo.lat, none of them empty")
    return names


def escaped(name: str) -> str:
    """Return a name as a part of a path."""
    return name.replace(".", "\\.")


def path_name(text: str) -> str:
    """Return a path as outputs show it: without the backslashes."""
    return text.replace("\\.", ".")


def find(value: Any, path: Path) -> Any:
    """Return the member that a path leads to, or `ABSENT`."""
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return ABSENT
        value = value[name]
    return value
