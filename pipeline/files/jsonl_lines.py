"""JSONL: one JSON object per line, unchanged where no members are chosen; or an array of objects, or their columns."""

import io
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import Any, Final

import orjson
from resonance.pipeline import exact_json
from resonance.pipeline.exact_json import Digits
from resonance.pipeline.files.members import builder, places
from resonance.pipeline.files.rows import (
    BATCH,
    BadRow,
    Columns,
    FileRecord,
    are_names,
    as_key,
    cleaned,
    missing_column,
    utf_16,
)
from resonance.pipeline.json_paths import ABSENT, Path, escaped, find, parse_path
from resonance.pipeline.timestamps import timestamp_of

_INEXACT = frozenset((float, dict, list))
"""Types of members in which orjson may have lost digits."""

# A text ends on its line, so that braces within it are none.
_BRACES: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]')

_NOT_FINITE: Final = re.compile(rb'("(?:[^"\\]|\\.)*")|-?(?:NaN|Infinity)')

_BOM = b"\xef\xbb\xbf"

# Takes a third of the time of calling the class.
_record: Callable[[Iterable[Any]], FileRecord] = partial(tuple.__new__, FileRecord)


class JsonlRows:
    """The lines of a JSONL file; its columns are paths.

    Raises `ConfigurationError` for a path that no record of the first batch has.
    """

    def __init__(self, stream: io.BufferedReader, file: FilePath, columns: Columns) -> None:
        self._stream: Any = stream  # Else its file would be closed.
        self._lines: Iterator[bytes] = stream
        if encoding := utf_16(stream.peek(2)[:2]):
            self._stream = io.TextIOWrapper(stream, encoding=encoding, errors="replace")
            self._lines = (line.encode() for line in self._stream)
        self._key = [parse_path(column) for column in columns.key]
        self._time = [parse_path(column) for column in columns.time]
        self._members = [parse_path(column) for column in columns.members.values()]
        self._columns = columns
        self._build = builder(places(columns.members, file))
        self._head = list(islice(self._lines, BATCH))
        if self._head:
            self._head[0] = self._head[0].removeprefix(_BOM)
            if any(map(bytes.strip, self._head)) and _is_spread(self._head):
                self._lines = _joined(chain(self._head, self._lines))
                self._head = list(islice(self._lines, BATCH))
            if ".json" in map(str.lower, file.suffixes):
                self._head = _rows_of_columns(self._head, self._lines)
        found = [value for line in self._head if isinstance(value := _parsed(line), dict)]
        self.names: list[str] = leaf_paths(found[0]) if found else []
        """Paths in the first record."""
        paths = map(parse_path, self.names if columns.numbers else ())
        self._naming = [path for path in paths if are_names([find(value, path) for value in found])]
        for column in (*columns.members.values(), *columns.besides):
            if found and all(find(value, parse_path(column)) is ABSENT for value in found):
                raise missing_column(file, column, self.names)

    def batches(self) -> Iterator[list[FileRecord | BadRow]]:
        """Yield the lines in order; blank ones are skipped."""
        changed = self._time or self._members or self._columns.changes_texts
        rows = self._with_key if len(self._key) == 1 == len(self._key[0]) and not changed else self._rows
        number = 0
        waiting, self._head = self._head, []
        while waiting:
            found = rows(waiting, number + 1)
            if BadRow in map(type, found):
                # Python writes NaN and Infinity, and JSON has none.
                found = rows([_NOT_FINITE.sub(lambda each: each[1] or b"null", line) for line in waiting], number + 1)
            yield found
            number += len(waiting)
            waiting = list(islice(self._lines, BATCH))

    def _rows(self, lines: list[bytes], first: int) -> list[FileRecord | BadRow]:
        changed = self._key or self._time or self._members or self._columns.changes_texts
        row = self._row if changed else _whole
        return [row(text, number) for number, line in enumerate(lines, first) if (text := line.strip())]

    def _with_key(self, lines: list[bytes], first: int) -> list[FileRecord | BadRow]:
        """Do what `_rows` does, in two thirds of its time, where most keys are texts of the record itself."""
        ((name,),) = self._key
        rows: list[FileRecord | BadRow] = []
        for number, line in enumerate(lines, first):
            text = line.strip()
            try:
                key = orjson.loads(text)[name]
            except (ValueError, KeyError, TypeError):
                key = None
            if type(key) is str and key:
                rows.append(_record((key.encode(), text, None)))
            elif text:
                rows.append(self._row(text, number))
        return rows

    def _row(self, text: bytes, number: int) -> FileRecord | BadRow:
        try:
            value = _object(text)
            if self._columns.changes_texts:
                whole = exact_json.exact(text, value)
                value = cleaned(whole, self._columns)
                for path in self._naming:
                    if type(own := find(whole, path)) is str and own not in self._columns.nulls:
                        find(value, path[:-1])[path[-1]] = own
                text = exact_json.dumps(value)
            members, key = self._written(value)
            if not self._columns.changes_texts and not _INEXACT.isdisjoint(map(type, (*members, *key))):
                members, key = self._written(exact_json.exact(text, value))
            stream = as_key(key)
            time = timestamp_of([_clock(value, path) for path in self._time], self._columns.time_form)
        except ValueError as error:
            return BadRow(number, str(error))
        if self._members:
            text = exact_json.dumps(self._build(members))
        return FileRecord(stream, text, time)

    def _written(self, value: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """Return what is written anew of a record: its chosen members, and the parts of its key."""
        return [find(value, member) for member in self._members], [_member(value, path) for path in self._key]


def _is_spread(lines: Iterable[bytes]) -> bool:
    """Return whether a file begins with an array of objects, or with an object that goes on behind its first line."""
    first, *second = islice((text for line in lines if (text := line.strip())), 2)
    if first.startswith(b"["):
        return first[1:].lstrip()[:1] in (b"", b"{")
    goes_on = first.endswith(b",") or not second[0].startswith(b"{") if second else False
    return goes_on and first.startswith(b"{") and _parsed(first) is None


def _joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield objects that stand in an array, or on several lines, on one line each; a line without an end is blank."""
    depth = 0
    parts: list[bytes] = []
    for line in lines:
        begin, ended = 0, False
        for token in _BRACES.finditer(line):
            if token[0] == b"{":
                begin = begin if depth else token.start()
                depth += 1
            elif token[0] == b"}" and depth:
                depth -= 1
                if not depth:
                    yield b"".join((*parts, line[begin : token.end()]))
                    parts, ended = [], True
        if depth:
            parts.append(line[begin:].strip())
        if not ended:
            yield b""
    if depth:
        yield b"".join(parts)


def _rows_of_columns(head: list[bytes], lines: Iterator[bytes]) -> list[bytes]:
    """Return the rows of a file that is one object of columns, as lines; of any other what was read of it."""
    # An object that is spread ends on its last line.
    while not any(map(bytes.strip, head)) and (more := list(islice(lines, BATCH))):
        head += more
    head += islice(lines, 1)
    texts = [*islice(filter(bytes.strip, head), 2)]
    value = _parsed(texts[0]) if len(texts) == 1 else None
    if type(value) is not dict or len(value) < 2:
        return head
    columns = list(exact_json.exact(texts[0], value).values())
    if all(type(each) is dict and [*each] == [*map(str, range(len(each)))] for each in columns):
        # So pandas writes them, with the numbers of the rows.
        columns = [[*each.values()] for each in columns]
    if not all(type(each) is list and len(each) == len(columns[0]) > 1 for each in columns):
        return head
    return [exact_json.dumps(dict(zip(value, row, strict=True))) for row in zip(*columns, strict=True)]


def _whole(text: bytes, number: int) -> FileRecord | BadRow:
    try:
        _object(text)
    except ValueError as error:
        return BadRow(number, str(error))
    return FileRecord(None, text, None)


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos + 1})") from None
    if type(value) is dict:
        return value
    raise ValueError("not a JSON object, but " + text[:40].decode(errors="replace"))


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _member(value: dict[str, Any], path: Path) -> Any:
    found = find(value, path)
    return None if found is ABSENT else found


def _clock(value: dict[str, Any], path: Path) -> Any:
    found = _member(value, path)
    return float(found) if isinstance(found, Digits) else found


def leaf_paths(value: dict[str, Any], before: str = "") -> list[str]:
    """Return the paths to all members of an object that are no objects themselves."""
    paths = []
    for name, member in value.items():
        path = before + escaped(name)
        paths += leaf_paths(member, f"{path}.") if isinstance(member, dict) and member else [path]
    return paths
