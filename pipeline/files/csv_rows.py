"""CSV: a header, or names for the columns, then one row per line; empty cells are null.

A number is copied into the JSON as the cell has it, so that no digit is lost or invented. Most rows are converted at
once: a single pattern checks that all cells of the numeric columns are numbers.
"""

import contextlib
import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice, pairwise, takewhile
from pathlib import Path
from typing import Final

import orjson
from resonance.pipeline.errors import InputFileError, counted
from resonance.pipeline.files.members import chosen, in_order, template
from resonance.pipeline.files.rows import (
    BATCH,
    NUMBER,
    NUMBER_PATTERN,
    BadRow,
    Columns,
    FileRecord,
    are_names,
    as_key,
    as_number,
    null_numbers,
    utf_16,
    without_unit,
)
from resonance.pipeline.timestamps import SECONDS, timestamp_of

DELIMITERS: Final = ",;\t|"
"""Delimiters that are recognised, besides spaces."""

SAMPLE: Final = 64 * 1024
_CACHED: Final = 20_000
_ZEEK: Final = "#separator"
"""How a log of Zeek begins."""
_ROWS: Final = 200
_SEPARATOR: Final = re.compile(r'"?sep=([^\w"\r\n])"?\r?\n', re.IGNORECASE)
_OF_TWO_BYTES: Final = re.compile("(?:[\udc81-\udcfe][\udca1-\udcfe]|[^\udc80-\udcff])*")
# Between thousands another mark may stand, as in 1.234,5, or a space.
_FRACTION: Final = re.compile(
    r"[+-]?(?:[0-9]{1,18}|[0-9]{1,3}(?:(?P<group>[.,' \u00a0\u202f])[0-9]{3})+)(?!(?P=group))(?P<mark>[.,])[0-9]+"
)


class CsvRows:
    """The rows of a CSV file in UTF-8, or in UTF-16 as Excel writes it; a first line ``sep=;`` gives the delimiter.

    Raises `InputFileError` where the header cannot be used, and `ConfigurationError` where a column is missing.
    """

    def __init__(self, stream: io.BufferedReader, file: Path, columns: Columns) -> None:
        # Bytes that are not UTF-8 become surrogates, which JSON cannot hold: so their row is known.
        encoding, errors = utf_16(stream.peek(2)[:2]), "replace"
        if encoding is None:
            encoding, errors = "utf-8-sig", "surrogateescape"
        self._stream = io.TextIOWrapper(stream, encoding=encoding, errors=errors, newline="")
        self._file = file
        sample = self._stream.read(SAMPLE)
        given = _SEPARATOR.match(sample)
        # Lines before the first that the reader counts.
        self._before = 1 if given else 0
        sample = sample[given.end() if given else 0 :]
        self._lines = _with(sample, self._stream)
        is_log = sample.startswith(_ZEEK)
        self._delimiter, before = ("\t", 0) if is_log else (given[1], 0) if given else _delimiter(sample)
        self._lines = islice(self._lines, before, None)
        self._before += before
        self.decimal = columns.decimal or _decimal(sample, self._delimiter)
        """Decimal separator: point or comma."""
        names = list(columns.names)
        if is_log:
            # Lines of Zeek's own begin with #; among the first is that of the names.
            comments = list(takewhile(lambda line: line.startswith("#"), sample.splitlines()))
            names = names or next((line.split("\t")[1:] for line in comments if line.startswith("#fields")), [])
            self._before += len(comments)
            self._lines = (line for line in self._lines if not line.startswith("#"))
        self._reader = csv.reader(
            self._lines,
            delimiter=self._delimiter,
            skipinitialspace=True,
            strict=True,
            quoting=csv.QUOTE_NONE if is_log else csv.QUOTE_MINIMAL,
        )
        if not names:
            names = _header(self._reader, file)
            if both := _two_lines(names, _first_rows(sample.split("\n")[before:], self._delimiter)):
                names, _ = both, next(filter(None, self._reader))
        self.names = _distinct(names)
        """The header; empty for columns without a name, which are left out."""
        used, where = chosen(file, self.names, columns)
        order = [used[number] for number in in_order(where)]
        positions = [self.names.index(name) for name in order]
        rows = [row for row in _first_rows(sample.split("\n")[before:], self._delimiter) if len(row) == len(self.names)]
        self._positions = positions
        self._naming = [at for at in dict.fromkeys(positions) if are_names([row[at] for row in rows])]
        self._whole = positions == list(range(len(self.names)))
        self._template = template(where)
        self._key = [self.names.index(column) for column in columns.key]
        self._time = [self.names.index(column) for column in columns.time]
        self._form = columns.time_form
        self._nulls = frozenset([*columns.nulls, *(("-", "(empty)") if is_log else ())])
        # With a null such as -999, no row of numbers can be converted at once.
        self._null_numbers = null_numbers(columns.nulls)
        self._careful = bool(self._null_numbers)
        self._marked, self._units = columns.numbers, columns.units
        self._texts: dict[str, str] = {}

    def batches(self) -> Iterator[list[FileRecord | BadRow]]:
        """Yield the rows in order; blank lines are skipped."""
        rows = self._rows()
        while batch := list(islice(rows, BATCH)):
            yield batch

    def _rows(self) -> Iterator[FileRecord | BadRow]:
        width = len(self.names)
        numeric: list[int] | None = None
        nulls = self._nulls
        others: list[int] = []
        pattern = re.compile("")
        while True:
            line = self._before + self._reader.line_num + 1
            try:
                row = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                last = self._before + self._reader.line_num
                hint = f"; is a quote not closed there? It is read up to line {last}" if last > line else ""
                yield BadRow(line, f"not CSV ({error}){hint}")
                continue
            # A row of separators alone is a blank one.
            if len(row) > width and not any(row[width:]):
                # Each line ends with a delimiter, but that of the header.
                del row[width:]
            if len(row) != width or (width > 1 and not any(row)):
                if any(row):
                    last = self._before + self._reader.line_num
                    lines = f" (lines {line} to {last})" if last > line else ""
                    yield BadRow(line, f"{counted(len(row), 'cell')} where the header has {width}{lines}")
                continue
            if numeric is None:
                numeric, others = self._kinds(row)
                # Exactly one number for each cell, so that a cell with a comma cannot pass for two.
                pattern = re.compile(",".join([NUMBER_PATTERN] * len(numeric)))
            try:
                key = as_key(["" if row[at] in nulls else row[at] for at in self._key]) if self._key else None
                # Without a time column the call would be a sixth of a row's time.
                time = timestamp_of([self._clock(row[at]) for at in self._time], self._form) if self._time else None
                if self._careful or not pattern.fullmatch(",".join([row[position] for position in numeric])):
                    for position in numeric:
                        row[position] = self._cell(row[position])
                for position in others:
                    row[position] = self._text(row[position])
                for position in self._naming:
                    text = self._text(row[position])
                    row[position] = text if text[0] in '"n' else orjson.dumps(row[position]).decode()
                cells = row if self._whole else [row[position] for position in self._positions]
                yield FileRecord(key, (self._template % tuple(cells)).encode(), time)
            except (ValueError, TypeError) as error:
                # A lone surrogate raises a TypeError in orjson and a ValueError in Python.
                is_text = isinstance(error, TypeError | UnicodeError)
                yield BadRow(line, _not_utf_8("".join(map(str, row)), self._file) if is_text else str(error))

    def _kinds(self, row: Sequence[str]) -> tuple[list[int], list[int]]:
        """Split the used columns into numeric and other ones, by one row; a wrong guess only costs time."""
        # A column that two members have is converted once.
        positions = [position for position in dict.fromkeys(self._positions) if position not in self._naming]
        numeric = [position for position in positions if NUMBER.fullmatch(row[position])]
        return numeric, [position for position in positions if position not in numeric]

    def _cell(self, cell: str) -> str:
        if cell in self._nulls:
            return "null"
        comma = self.decimal == ","
        bare = without_unit(cell, self._units) if self._units else cell
        number = as_number(bare, comma=comma, marked=True) if bare != cell else None
        text = number or cell_text(cell, comma=comma, marked=self._marked)
        is_null = self._null_numbers and NUMBER.fullmatch(text) and float(text) in self._null_numbers
        return "null" if is_null else text

    def _clock(self, cell: str) -> str | float:
        bare = "" if cell in self._nulls else cell.strip()
        is_whole = len(self._time) == 1 and self._form in (None, SECONDS)
        return float(bare) if is_whole and NUMBER.fullmatch(bare) else bare

    def _text(self, cell: str) -> str:
        found = self._texts.get(cell)
        if found is None:
            if len(self._texts) >= _CACHED:
                self._texts.clear()
            found = self._texts[cell] = self._cell(cell)
        return found


def cell_text(cell: str, *, comma: bool = False, marked: bool = False) -> str:
    """Return a cell as JSON: a number (`as_number`), null, or text; raises TypeError for one that was not UTF-8."""
    bare = cell.strip()
    if not bare or bare.lower() == "nan":
        return "null"
    return as_number(cell, comma=comma, marked=marked) or orjson.dumps(cell).decode()


def _with(sample: str, text: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a sample and of the text behind it."""
    # With the rest of its last line, and split as the text itself is read: at no other separator of Unicode.
    yield from io.StringIO(sample + text.readline(), newline="")
    yield from text


def _delimiter(sample: str) -> tuple[str, int]:
    """Return the delimiter that gives the most cells, the same number in every row, and how many lines come before.

    Lines of one cell before the header say what the file is of.
    """
    best, width, before = DELIMITERS[0], 1, 0
    lines = sample.split("\n")[:20][:-1] or [sample]
    # Columns may be aligned by any number of spaces, and lines before the header only help where nothing else does.
    for candidate, begins in (*((each, 1) for each in (*DELIMITERS, " ")), *((each, 2) for each in DELIMITERS)):
        if width > 1 and (candidate == " " or begins > 1):
            break
        text = map(str.strip, lines) if candidate == " " else lines
        reader, rows, start = csv.reader(text, delimiter=candidate, skipinitialspace=True), list[list[str]](), 0
        try:
            for row in reader:
                if row and (rows or len(row) >= begins):
                    rows.append(row)
                elif not rows:
                    start = reader.line_num
        except csv.Error:
            continue
        # Malformed rows do not hide the delimiter: the header alone decides then, below.
        found = len(rows[0]) if rows and len(set(map(len, rows))) == 1 else 0
        if found > width:
            best, width, before = candidate, found, start
    if width == 1:
        best = max(DELIMITERS, key=lines[0].count)
    return best, before


def _decimal(sample: str, delimiter: str) -> str:
    """Return the decimal separator of a sample: the comma where it divides cells that no comma delimits."""
    found: Counter[str] = Counter()
    for row in _first_rows(sample.split("\n"), delimiter) if delimiter != "," else ():
        found.update(match["mark"] for cell in row if (match := _FRACTION.fullmatch(cell.strip())))
    return "," if found[","] > found["."] else "."


def _first_rows(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the first rows of some lines; none behind one that is malformed."""
    with contextlib.suppress(csv.Error):
        yield from islice(csv.reader(lines, delimiter=delimiter, skipinitialspace=True), _ROWS)


def _two_lines(names: Sequence[str], rows: Iterator[list[str]]) -> list[str]:
    """Return the names of a header of two lines, where the first names groups of columns; empty for any other."""
    _, second, third = [*islice(filter(None, rows), 3), [], [], []][:3]
    number = partial(as_number, comma=True, marked=True)
    unnamed = {at for at, name in enumerate(names) if at and not name}
    is_second = len(second) == len(names) and any(second[at].strip() for at in unnamed)
    if not is_second or any(map(number, second)) or not any(number(third[at]) for at in unnamed if at < len(third)):
        return []
    groups: Iterator[str] = accumulate(names, lambda group, name: name or group)
    return [f"{group} {name.strip()}".strip() for group, name in zip(groups, second, strict=True)]


def _header(reader: Iterator[list[str]], file: Path) -> list[str]:
    try:
        names = [name.strip() for name in next(row for row in reader if row)]
    except StopIteration:
        raise InputFileError(f"{file} has no header: its first line must name the columns") from None
    except csv.Error as error:
        raise InputFileError(f"{file}: its first line is no header ({error})") from error
    if _are_values(names):
        last = max((number for number, name in enumerate(names, 1) if name), default=1)
        raise InputFileError(
            f"{file}, line 1: {', '.join(names[: min(last, 5)])} stand where the names of the columns should; add a "
            f"header line, or name them, such as --names c1..c{last}"
        )
    if any("\udc80" <= character <= "\udcff" for name in names for character in name):
        raise InputFileError(f"{file}: its header is {_not_utf_8(''.join(names), file)}")
    return names


def _are_values(names: Sequence[str]) -> bool:
    """Return whether a first line has numbers, but none that could name columns: 0, 1, 2 ... or years."""
    numbers = [name for name in names if NUMBER.fullmatch(name)]
    if not all(map(str.isdigit, numbers)):
        return True
    if any(int(after) != int(before) + 1 for before, after in pairwise(numbers)):
        return 2 * len(numbers) >= len(names)
    # Where all are numbered, the index before them has no name.
    return len(numbers) == sum(map(bool, names)) and not (numbers and not names[0])


def _distinct(names: Iterable[str]) -> list[str]:
    """Return names of which none comes twice: a second ``v`` becomes ``v_2``."""
    found: list[str] = []
    for name in names:
        count, own = 1, name
        while own and own in found:
            count += 1
            own = f"{name}_{count}"
        found.append(own)
    return found


def _not_utf_8(text: str, file: Path) -> str:
    """Return what helps with a text whose bytes that are not UTF-8 are surrogates."""
    encoding = "gbk" if _OF_TWO_BYTES.fullmatch(text) else "windows-1252"
    command = f"iconv -f {encoding} -t utf-8 {shlex.quote(str(file))} > NEW"
    return (
        f"not UTF-8, but probably {encoding}; convert it: {command}; or from another encoding, if that gives odd text"
    )
