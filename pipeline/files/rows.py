"""What the file formats share: records, the columns that make them, and rows that cannot become one."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from resonance.pipeline import exact_json
from resonance.pipeline.errors import ConfigurationError, first_of, nearest
from resonance.pipeline.files.survey import FEW

BATCH: Final = 2_000
"""Records per batch."""

# Possessive quantifiers: without backtracking, a row of numbers matches in half the time.
NUMBER_PATTERN: Final = r"-?(?:0|[1-9][0-9]{0,17}+)(?:\.[0-9]++)?+(?:[eE](?:-[0-9]++|\+?[0-9]{1,2}+))?+"
"""A number as JSON has it, of which any is finite: a longer exponent is looked at one by one."""

NUMBER: Final = re.compile(NUMBER_PATTERN)
_LOOSE: Final = re.compile(
    r"[+-]?(?:[0-9]{1,18}\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?|\+[1-9][0-9]{0,17}|-?(?:0|[1-9][0-9]{0,17})[eE]\+?[0-9]{3,9}"
)
_NAME: Final = re.compile(r"\w*[^\W\d_]\w*[0-9]\w*")
_MARKS: Final = re.compile("°[CFK]?|[%‰$€£¥₹\u00a0\u202f]")
_SPACED: Final = re.compile(r"[+-]?[0-9]{1,3}(?:[ '’][0-9]{3})+(?:[.,][0-9]*)?")
_GROUPED: Final = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_COMMA: Final = re.compile(r"[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]{0,18}),[0-9]+(?:[eE][+-]?[0-9]+)?")


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

    members: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Member of the value, a dotted path -> column; empty for all columns under their own names."""
    key: tuple[str, ...] = ()
    """Column that gives the key, for JSONL a path; of several, such as a site and a device, the texts are joined."""
    time: tuple[str, ...] = ()
    """Column that gives the timestamp, ISO 8601 text or milliseconds since 1970; for JSONL a path.

    Of several, such as a date and a time of day, the texts are joined by spaces.
    """
    time_form: str | None = None
    """Another form of these timestamps, as `timestamps.milliseconds` takes it."""
    names: tuple[str, ...] = ()
    """Names of the columns, in order, of CSV without a header and of NumPy arrays."""
    nulls: tuple[str, ...] = ()
    """Texts that mean null; in CSV besides empty cells and NaN."""
    decimal: str | None = None
    """Decimal separator, point or comma; None: for CSV as its first rows have it, else the point."""
    numbers: bool = False
    """Whether texts that are numbers become numbers, with ``%``, a currency or thousands, too."""
    units: tuple[str, ...] = ()
    """Units, such as kN, behind numbers, which become numbers without them."""
    skip_bad: bool = False
    """Whether rows that cannot be used are left out and counted."""

    @property
    def changes_texts(self) -> bool:
        """Whether texts may become null or a number."""
        return bool(self.nulls or self.units) or self.numbers

    @property
    def besides(self) -> tuple[str, ...]:
        """The columns of the key and of the timestamp."""
        return (*self.key, *self.time)

    @property
    def options(self) -> list[str]:
        """The options of a command that choose these columns."""
        pairs = [("--map", f"{name}={column}") for name, column in self.members.items()]
        pairs += [("--names", ",".join(self.names))] if self.names else []
        pairs += [("--null", text) for text in self.nulls]
        pairs += [("--unit", text) for text in self.units]
        pairs += [("--time", column) for column in self.time]
        pairs += [("--key", column) for column in self.key]
        single = (("--time-form", self.time_form), ("--decimal", self.decimal))
        pairs += [(option, value) for option, value in single if value is not None]
        words = [word for pair in pairs for word in pair]
        return words + ["--numbers"] * self.numbers + ["--skip-bad"] * self.skip_bad

    def with_(self, other: "Columns") -> "Columns":
        """Return these columns with the key, the time and the reading of others, where these have none."""
        return replace(
            self,
            key=self.key or other.key,
            time=self.time or other.time,
            time_form=self.time_form or other.time_form,
            nulls=tuple(dict.fromkeys((*self.nulls, *other.nulls))),
            decimal=self.decimal or other.decimal,
            numbers=self.numbers or other.numbers,
            units=tuple(dict.fromkeys((*self.units, *other.units))),
            skip_bad=self.skip_bad or other.skip_bad,
        )


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
    return ConfigurationError(f"{path} has no column {name}{nearest(name, known)}; it has {first_of(known, 20)}")


def as_number(text: str, *, comma: bool = False, marked: bool = False) -> str | None:
    """Return a text as a number of JSON, with all its digits; None where it is none.

    ``.5``, ``5.`` and ``+5`` are numbers, with `comma` ``1.234,5``, too, and if `marked` ``$1,234.50``, ``1 234`` and
    ``12 %``.
    ``007``, ``80E3167``, which no float64 holds, and numbers with more than 18 digits before the point are names.
    """
    if NUMBER.fullmatch(text):
        return text
    bare = (_MARKS.sub("", text) if marked else text).strip()
    if marked and _SPACED.fullmatch(bare):
        bare = re.sub("[ '’]", "", bare)
    if marked and not comma and _GROUPED.fullmatch(bare):
        bare = bare.replace(",", "")
    if comma and _COMMA.fullmatch(bare):
        bare = bare.replace(".", "").replace(",", ".")
    if NUMBER.fullmatch(bare):
        return bare
    if _LOOSE.fullmatch(bare) and math.isfinite(float(bare)):
        return str(Decimal(bare)) if isinstance(value := exact_json.number(bare), exact_json.Digits) else repr(value)
    return None


def are_names(texts: Sequence[Any]) -> bool:
    """Return whether most texts of a column are names such as 80B18, so that 80118 and 80E18 beside them are, too."""
    words = [text for text in texts if type(text) is str and re.fullmatch(r"\w+", text) and not as_number(text)]
    return 2 * len(words) > sum(map(bool, texts)) and len({*filter(_NAME.fullmatch, words)}) > FEW


def without_unit(text: str, units: Sequence[str]) -> str:
    """Return a text without the unit at its end; as it is where it ends with none of them."""
    for unit in units:
        bare = text.strip().removesuffix(unit)
        if bare != text.strip() and not bare[-1:].isalpha():
            return bare.rstrip()
    return text


@cache
def null_numbers(nulls: tuple[str, ...]) -> frozenset[float]:
    """Return the numbers among the texts that mean null, each of which has several spellings."""
    return frozenset(float(found) for text in nulls if (found := as_number(text)) is not None)


def utf_16(head: bytes) -> str | None:
    """Return the encoding of a text in UTF-16 by its first two bytes; None for any other."""
    if head in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    return {b"\0": "utf-16-be"}.get(head[:1], "utf-16-le" if head[1:] == b"\0" else None)


def cleaned(value: Any, columns: Columns) -> Any:
    """Return a value of a record with the texts in it that mean null, or a number, as such."""
    if type(value) is str:
        if value in columns.nulls:
            return None
        bare = without_unit(value, columns.units)
        is_number = columns.numbers or bare != value
        found = as_number(bare, comma=columns.decimal == ",", marked=True) if is_number else None
        return value if found is None else exact_json.loads(found)
    if type(value) in (int, float):
        return None if value in null_numbers(columns.nulls) else value
    if type(value) is dict:
        return {name: cleaned(each, columns) for name, each in value.items()}
    return [cleaned(each, columns) for each in value] if type(value) is list else value


def as_key(values: Sequence[Any]) -> bytes | None:
    r"""Return values as a key: text unchanged, numbers as JSON has them; None for none, or where one is null or empty.

    Several are joined by dots, where a dot within one is written ``\.``. Raises ValueError for an object or an array.
    """
    if len(values) == 1:
        return _key_text(values[0]).encode() or None
    texts = [re.sub(r"([\\.])", r"\\\1", _key_text(value)) for value in values]
    return ".".join(texts).encode() if texts and all(texts) else None


def _key_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    raise ValueError("the key is an object or an array; it must be text or a number")
