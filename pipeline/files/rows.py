"""What the file formats share: records, the columns that make them, and rows that cannot become one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from resonance.pipeline.errors import ConfigurationError, nearest

BATCH: Final = 2_000
"""Records per batch."""


class FileRecord(NamedTuple):
    """A record as it would be produced."""

    key: bytes | None
    """None without a key column, or where that is empty."""
    value: bytes
    """A JSON object on one line."""
    timestamp: int | None
    """Milliseconds since 1970; None without a time column, or where that is empty."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a file are used, and for what."""

    members: Mapping[str, str] = field(default_factory=dict)
    """Member of the value, a dotted path -> column; empty for all columns under their own names."""
    key: str | None = None
    """Column that gives the key; for JSONL a path."""
    time: str | None = None
    """Column that gives the timestamp, RFC 3339 text or milliseconds since 1970; for JSONL a path."""
    nulls: tuple[str, ...] = ()
    """Cells of CSV that mean null, besides empty ones and NaN."""


class BadRow(NamedTuple):
    """A row that cannot become a record, and why; it never leaves this folder."""

    line: int
    reason: str


class Rows(Protocol):
    """The rows of one format."""

    names: list[str]

    def batches(self) -> Iterator[list[FileRecord | BadRow]]:
        """Yield the rows in order."""


def missing_column(path: Path, name: str, known: Sequence[str]) -> ConfigurationError:
    """Return the error for a column that is missing."""
    listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    return ConfigurationError(f"{path} has no column {name}{nearest(name, known)}; it has {listed}")


def as_key(value: Any) -> bytes | None:
    """Return a value as a key: text unchanged, numbers as JSON has them; None for null and for empty text.

    Raises ValueError for an object or an array.
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
