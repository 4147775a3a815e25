"""From columns to members: where in a JSON object each column of a row stands."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import orjson
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.files.rows import Columns, missing_column
from resonance.pipeline.json_paths import ABSENT, Path, parse_path

Places = dict[str, Any]
"""Nested member names; at the leaves the number of the column."""


def chosen(file: FilePath, names: Sequence[str], columns: Columns) -> tuple[list[str], Places]:
    """Return the columns that are used, in order, and where they go.

    Parameters
    ----------
    file : Path
        For messages.
    names : sequence of str
        Columns of the file; empty names are left out.
    columns : Columns
        What is asked for.

    Raises
    ------
    ConfigurationError
        A column that is not there, or two that go to the same place.
    """
    for asked in (*columns.members.values(), columns.key, columns.time):
        if asked is not None and asked not in names:
            raise missing_column(file, asked, [name for name in names if name])
    members = columns.members or {name: name for name in names if name}
    return list(members.values()), places(members, file)


def places(members: Mapping[str, str], file: FilePath) -> Places:
    """Return where members stand, as nested names with the number of each at the leaves."""
    root: Places = {}
    for number, member in enumerate(members):
        *containers, last = _path(member)
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


def _path(member: str) -> Path:
    try:
        return parse_path(member)
    except ValueError:
        # Such as "no.": a name that is no path is one name.
        return (member,)


def template(where: Places) -> str:
    """Return the JSON text of a row as a format string, with ``%s`` for the JSON text of each column."""
    parts = []
    for name, place in where.items():
        inner = template(place) if isinstance(place, dict) else "%s"
        parts.append(f"{orjson.dumps(name).decode().replace('%', '%%')}:{inner}")
    return "{" + ",".join(parts) + "}"


def in_order(where: Places) -> list[int]:
    """Return the numbers of the columns as they come in the text."""
    found: list[int] = []
    for place in where.values():
        found += in_order(place) if isinstance(place, dict) else [place]
    return found


def builder(where: Places) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Return what makes an object of the values of a row; `ABSENT` ones are left out."""
    flat = [(name, place) for name, place in where.items() if not isinstance(place, dict)]
    nested = [(name, builder(place)) for name, place in where.items() if isinstance(place, dict)]

    def build(values: Sequence[Any]) -> dict[str, Any]:
        made = {name: value for name, place in flat if (value := values[place]) is not ABSENT}
        for name, inner in nested:
            if members := inner(values):
                made[name] = members
        return made

    return build
