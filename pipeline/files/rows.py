"""What the formats of record files have in common: records, the columns that make them, and rows that cannot be one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from resonance.pipeline.errors import ConfigurationError, nearest

BATCH: Final = 2_000
"""Records of a batch."""


class FileRecord(NamedTuple):
    """A record as it would be produced.

    Attributes
    ----------
    key : bytes or None
        Its key; None without a key column, or where that is empty.
    value : bytes
        A JSON object on one line.
    timestamp : int or None
        Milliseconds since 1970; None without a time column, or where that is empty.
    """

    key: bytes | None
    value: bytes
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a file are used, and for what.

    Attributes
    ----------
    members : mapping of str to str
        Member of the value -> column; empty: all columns under their own names. Members are dotted paths.
    key, time : str or None
        Columns that give key and timestamp: RFC 3339 text, or milliseconds since 1970. In JSONL, paths.
    nulls : tuple of str
        Cells of CSV that mean that nothing is there, besides empty ones and NaN.
    """

    members: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    time: str | None = None
    nulls: tuple[str, ...] = ()


class BadRowError(Exception):
    """A row that cannot be a record, and why; never leaves this package of formats."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class Rows(Protocol):
    """The rows of one format."""

    names: list[str]

    def batches(self) -> Iterator[list[FileRecord | BadRowError]]:
        """Yield the rows in order."""


def missing_column(path: Path, name: str, known: Sequence[str]) -> ConfigurationError:
    """Return the error of a column that is not there."""
    listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    return ConfigurationError(f"{path} has no column {name}{nearest(name, known)}; it has {listed}")


def as_key(value: Any) -> bytes | None:
    """Return a value as a key: text as it is, numbers as JSON has them; None for null and for no text.

    Raises
    ------
    ValueError
        An object or an array.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int | float):
        return repr(value).encode()
    raise ValueError("the key is an object or an array; it must be text or a number")
