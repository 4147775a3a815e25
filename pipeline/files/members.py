"""From columns to members: where each column of a row stands in a JSON object."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import orjson
from resonance.pipeline.errors import ConfigurationError, InputFileError
from resonance.pipeline.files.rows import Columns, missing_column
from resonance.pipeline.json_paths import ABSENT, Path, parse_path

Places = dict[str, Any]
"""Nested member names, with the number of the column at each leaf."""


def chosen(file: FilePath, names: Sequence[str], columns: Columns) -> tuple[list[str], Places]:
    """Return the columns that are used, in order, and their places; columns without a name are left out.

    Raises `InputFileError` where two columns have one name, and `ConfigurationError` where a column is missing, or two
    have the same place.
    """
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise InputFileError(f"{file}: two columns are called {twice[0]}; rename one of them")
    for wanted in (*columns.members.values(), *columns.besides):
        if wanted not in names:
            raise missing_column(file, wanted, [name for name in names if name])
    members = columns.members or {name: name for name in names if name}
    return list(members.values()), places(members, file)


def places(members: Mapping[str, str], file: FilePath) -> Places:
    """Return where members stand, as nested names with the number of each at the leaves."""
    root: Places = {}
    for number, member in enumerate(members):
        *containers, last = as_path(member)
        target = root
        for name in containers:
            target = target.setdefault(name, {})
            if not isinstance(target, dict):
                break
        if not isinstance(target, dict) or last in target:
            raise ConfigurationError(
                f"{file}: the member {member} would stand where another one stands; give it another name: "
                f"--map other={members[member]}"
            )
        target[last] = number
    return root


def as_path(member: str) -> Path:
    """Return the names that lead to where a column stands."""
    try:
        return parse_path(member)
    except ValueError:
        # A name that is no path, such as "no.", is one name.
        return (member,)


def template(where: Places) -> str:
    """Return the JSON text of a row as a format string, with ``%s`` for the JSON text of each column."""
    parts = []
    for name, place in where.items():
        inner = template(place) if isinstance(place, dict) else "%s"
        parts.append(f"{orjson.dumps(name).decode().replace('%', '%%')}:{inner}")
    return "{" + ",".join(parts) + "}"


def in_order(where: Places) -> list[int]:
    """Return the numbers of the columns in the order of the text."""
    found: list[int] = []
    for place in where.values():
        found += in_order(place) if isinstance(place, dict) else [place]
    return found


def builder(where: Places) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Return the function that builds an object from the values of a row; `ABSENT` ones are left out."""
    flat = [(name, place) for name, place in where.items() if not isinstance(place, dict)]
    nested = [(name, builder(place)) for name, place in where.items() if isinstance(place, dict)]

    def build(values: Sequence[Any]) -> dict[str, Any]:
        made = {name: value for name, place in flat if (value := values[place]) is not ABSENT}
        for name, inner in nested:
            if members := inner(values):
                made[name] = members
        return made

    return build
