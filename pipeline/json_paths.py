r"""Dotted paths into JSON objects: ``geo.lat``; a dot that belongs to a name is written ``\.``."""

import re
from collections.abc import Mapping
from typing import Any

Path = tuple[str, ...]

_SEPARATOR = re.compile(r"(?<!\\)\.")


class _Absent:
    """What `find` gives where there is nothing; None is a value of JSON."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def parse_path(text: str) -> Path:
    """Return the names that lead to a member.

    Raises
    ------
    ValueError
        The text, or one of its names, is empty.
    """
    names = tuple(part.replace("\\.", ".") for part in _SEPARATOR.split(text))
    if not all(names):
        raise ValueError("a path is names joined by dots, such as geo.lat, none of them empty")
    return names


def path_name(text: str) -> str:
    """Return how a path reads in outputs: without the backslashes."""
    return text.replace("\\.", ".")


def find(value: Any, path: Path) -> Any:
    """Return the member that a path leads to, or `ABSENT`."""
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return ABSENT
        value = value[name]
    return value
