"""Members of JSON objects as columns: the records of a batch are read without a Python object for each of their parts.

What is read here is what a JSON library reads; the reverse is not so. A record that is unusual in any way is left to
others: one with an escape in a name or an id, with a member twice, with a number that `decimals` does not decide, or
that is no JSON.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import FloatArray, IntArray
from resonance.kernels.arithmetic import jit
from resonance.kernels.borrowed import row
from resonance.pipeline.text.decimals import read_number
from resonance.pipeline.text.times import FIRST, LAST, read_time

Bytes = NDArray[np.uint8]

# What a member is, where it is not the number of a column.
NUMBERS = -1  # an array of the numbers of all columns
MEMBERS = -2  # an object, whose members are those of the second level
ID = -3  # text, or a whole number
TIME = -4  # RFC 3339 text, or milliseconds since 1970
TEXT = -5  # text, with escapes or without

# What a reading says: what is in a record, or more.
WITHOUT_ID = 1
BEYOND_ASCII = 2  # bytes that may be no UTF-8
UNREAD = 4  # what is left to others

NOT_READ = -1
"""Where the id of a record begins that was not read."""

_DEEPEST = 16
"""Objects and arrays inside one another in a member that is not wanted."""

_QUOTE, _COMMA, _COLON, _BACKSLASH = 34, 44, 58, 92
_OPEN_ARRAY, _CLOSE_ARRAY, _OPEN_OBJECT, _CLOSE_OBJECT = 91, 93, 123, 125
_TO_OBJECT = 32  # the bit that makes an object's bracket of an array's
_WORDS = np.frombuffer(b"null\0true\0false", np.uint8)
_ESCAPES = (_QUOTE, _BACKSLASH, 47, 98, 102, 110, 114, 116)
_FAILED = np.int64(-1)


class Wanted(NamedTuple):
    """The members that are wanted: those of a record itself come first, then those of an object in it.

    Arrays have one row.
    """

    names: Bytes
    """All names, one behind the other."""
    ends: IntArray
    """Of each name."""
    roles: IntArray
    """A column, or one of the roles above."""
    second: int
    """Number of the members of a record itself."""
    nulls: bool
    """A number may be null or missing."""


class MemberColumns(NamedTuple):
    """What a reading fills."""

    numbers: FloatArray
    """One row for each record; NaN for what is null or missing."""
    found: IntArray
    """Of shape (5, records): where each id begins and ends, both 0 where there is none, the time in milliseconds since
    1970, and where each text begins and ends; `NOT_READ` first where the record is left to others."""


class _Members(NamedTuple):
    """The members that are wanted, for functions that must not count references."""

    names: Any
    ends: Any
    roles: Any
    seen: Any
    """1 where a member of the present record has come."""
    second: int
    members: int
    nulls: bool


class _Cells(NamedTuple):
    """The row of a record."""

    numbers: Any
    columns: int
    id: Any
    time: Any
    text: Any


@jit
def _skip_space(text, p):
    while text[p] == 32 or text[p] == 10 or text[p] == 13 or text[p] == 9:
        p += 1
    return p


@jit
def _end_of_text(text, p):
    """Return the position of the quote that ends the text at a position; -1 behind an escape or a control character."""
    while text[p] >= 32 and text[p] != _QUOTE and text[p] != _BACKSLASH:
        p += 1
    return p if text[p] == _QUOTE else _FAILED


@jit
def _is_hexadecimal(c):
    return 48 <= c <= 57 or 97 <= c | 32 <= 102


@jit
def _skip_text(text, p):
    """Return the position behind the text whose quote stands at a position, whatever is in it."""
    while True:
        p = p + 1
        while text[p] >= 32 and text[p] != _QUOTE and text[p] != _BACKSLASH:
            p += 1
        if text[p] == _QUOTE:
            return np.int64(p + 1)
        if text[p] != _BACKSLASH:
            return _FAILED
        p += 1
        if text[p] == 117:
            for at in range(1, 5):
                if not _is_hexadecimal(text[p + at]):
                    return _FAILED
            # Halves of a pair are for a JSON library to judge.
            if text[p + 1] | 32 == 100 and not 48 <= text[p + 2] <= 55:
                return _FAILED
            p += 4
        elif text[p] not in _ESCAPES:
            return _FAILED


@jit
def _skip_word(text, p):
    """Return the position behind null, true or false."""
    at = 0 if text[p] == 110 else (5 if text[p] == 116 else 10)
    stop = 15 if at == 10 else at + 4
    for each in range(at, stop):
        if text[p] != _WORDS[each]:
            return _FAILED
        p += 1
    return np.int64(p)


@jit
def _skip_name(text, p):
    """Return the position of the value whose name begins at a position."""
    if text[p] != _QUOTE:
        return _FAILED
    p = _end_of_text(text, p + 1)
    if p < 0:
        return _FAILED
    p = _skip_space(text, p + 1)
    return np.int64(_skip_space(text, p + 1)) if text[p] == _COLON else _FAILED


@jit
def _skip_value(text, p):
    """Return the position behind the value at a position, whatever it is."""
    depth, kinds = 0, 0
    while True:
        c = text[p]
        if c | _TO_OBJECT == _OPEN_OBJECT:
            p = _skip_space(text, p + 1)
            # The closing brackets are two behind the opening ones.
            if text[p] != c + 2:
                depth, kinds = depth + 1, 2 * kinds + (c == _OPEN_OBJECT)
                if depth > _DEEPEST:
                    return _FAILED
                if c == _OPEN_OBJECT:
                    p = _skip_name(text, p)
                    if p < 0:
                        return _FAILED
                continue
            p += 1
        elif c == _QUOTE:
            p = _skip_text(text, p)
        elif c == 45 or 48 <= c <= 57:
            p = read_number(text, p)[1]
        else:
            p = _skip_word(text, p)
        if p < 0:
            return _FAILED
        p = _skip_space(text, p)
        while depth > 0 and text[p] == (_CLOSE_OBJECT if kinds & 1 else _CLOSE_ARRAY):
            depth, kinds = depth - 1, kinds >> 1
            p = _skip_space(text, p + 1)
        if depth == 0:
            return np.int64(p)
        if text[p] != _COMMA:
            return _FAILED
        p = _skip_space(text, p + 1)
        if kinds & 1:
            p = _skip_name(text, p)
            if p < 0:
                return _FAILED


@jit
def _is_name(text, start, stop, wanted, member):
    first = wanted.ends[member - 1] if member > 0 else np.int64(0)
    if wanted.ends[member] - first != stop - start:
        return False
    while start < stop and text[start] == wanted.names[first]:
        start, first = start + 1, first + 1
    return start == stop


@jit
def _find(text, start, stop, wanted, guess, first, last):
    """Return the wanted member, one from `first` to `last`, that has a name; -1 where none has.

    The search begins with a `guess`: members of records have an order, even where some are missing.
    """
    member = guess
    for _ in range(first, last):
        member = np.int64(member if member < last else first)
        if _is_name(text, start, stop, wanted, member):
            return member
        member += 1
    return np.int64(-1)


@jit
def _read_name(text, p, wanted, guess, first, last):
    """Return the wanted member, from `first` to `last`, whose name begins at a position, and where its value begins.

    The member is -1 where it is not wanted; the position is -1 behind what is no name, or comes twice.
    """
    start = p + 1
    p = _skip_name(text, p)
    if p < 0:
        return np.int64(-1), _FAILED
    stop = start
    while text[stop] != _QUOTE:
        stop += 1
    member = _find(text, start, stop, wanted, guess, first, last)
    if member >= 0:
        if wanted.seen[member] == 1:
            return member, _FAILED
        wanted.seen[member] = 1
    return member, p


@jit
def _read_cell(text, p, wanted, cells, column):
    """Read the number of a column, or null."""
    if text[p] == 110 and wanted.nulls:
        cells.numbers[column] = np.nan
        return _skip_word(text, p)
    cells.numbers[column], p = read_number(text, p)
    return np.int64(p)


@jit
def _read_array(text, p, wanted, cells):
    """Read as many numbers as there are columns."""
    if text[p] != _OPEN_ARRAY:
        return _FAILED
    for column in range(cells.columns):
        if column > 0 and text[p] != _COMMA:
            return _FAILED
        p = _skip_space(text, p + 1)
        p = _read_cell(text, p, wanted, cells, column)
        if p < 0:
            return _FAILED
        p = _skip_space(text, p)
    return np.int64(p + 1) if text[p] == _CLOSE_ARRAY else _FAILED


@jit
def _read_id(text, p, place):
    """Note where an id begins and ends: a text with its quotes, or a whole number as it is written everywhere."""
    if text[p] == 110:
        return _skip_word(text, p)
    place[0] = p
    if text[p] == _QUOTE:
        p = _end_of_text(text, p + 1)
        place[1] = p + 1
        return np.int64(p + 1) if p >= 0 else _FAILED
    p += text[p] == 45
    first = p
    while 48 <= text[p] <= 57:
        p += 1
    place[1] = p
    digits = p - first
    # A point or an exponent behind it is no end of a member; a number beyond float64 is for a JSON library to refuse.
    if digits == 0 or digits > 300 or (text[first] == 48 and p - place[0] > 1):
        return _FAILED
    return np.int64(p)


@jit
def _read_time(text, p, place):
    if text[p] == 110:
        return _skip_word(text, p)
    if text[p] == _QUOTE:
        place[0], p = read_time(text, p + 1)
        return np.int64(p + 1) if p >= 0 and text[p] == _QUOTE else _FAILED
    time, p = read_number(text, p)
    if not FIRST <= time <= LAST:
        return _FAILED
    place[0] = np.int64(np.floor(time))
    if place[0] == -1:
        # Kafka's way to say that there is no time; elsewhere, too, it becomes 1970.
        place[0] = 0
    return np.int64(p)


@jit
def _read_text(text, p, place):
    """Note where a text begins and ends, with its quotes."""
    if text[p] == 110:
        return _skip_word(text, p)
    place[0] = p
    p = _skip_text(text, p) if text[p] == _QUOTE else _FAILED
    place[1] = p
    return np.int64(p)


@jit
def _read_members(text, p, wanted, cells):
    """Read an object of the second level, all of whose wanted members are columns."""
    if text[p] != _OPEN_OBJECT:
        return _FAILED
    p = _skip_space(text, p + 1)
    if text[p] == _CLOSE_OBJECT:
        return np.int64(p + 1)
    last, guess = wanted.members, wanted.second
    while True:
        member, p = _read_name(text, p, wanted, guess, wanted.second, last)
        if p < 0:
            return _FAILED
        if member < 0:
            p = _skip_value(text, p)
        else:
            guess = member + 1
            p = _read_cell(text, p, wanted, cells, wanted.roles[member])
        if p < 0:
            return _FAILED
        p = _skip_space(text, p)
        if text[p] == _CLOSE_OBJECT:
            return np.int64(p + 1)
        if text[p] != _COMMA:
            return _FAILED
        p = _skip_space(text, p + 1)


@jit
def _read_wanted(text, p, wanted, cells, role):
    """Read the value at a position, of a member with a role."""
    if role == MEMBERS:
        return _read_members(text, p, wanted, cells)
    if role == ID:
        return _read_id(text, p, cells.id)
    if role == TIME:
        return _read_time(text, p, cells.time)
    if role == TEXT:
        return _read_text(text, p, cells.text)
    if role == NUMBERS:
        return _read_array(text, p, wanted, cells)
    return _read_cell(text, p, wanted, cells, role)


@jit
def _read_record(text, p, wanted, cells):
    """Read a record; return the position behind it."""
    p = _skip_space(text, p)
    if text[p] != _OPEN_OBJECT:
        return _FAILED
    p, guess = _skip_space(text, p + 1), 0
    while True:
        member, p = _read_name(text, p, wanted, guess, 0, wanted.second)
        if p < 0:
            return _FAILED
        if member < 0:
            p = _skip_value(text, p)
        else:
            guess = member + 1
            p = _read_wanted(text, p, wanted, cells, wanted.roles[member])
        if p < 0:
            return _FAILED
        p = _skip_space(text, p)
        if text[p] == _CLOSE_OBJECT:
            return np.int64(_skip_space(text, p + 1))
        if text[p] != _COMMA:
            return _FAILED
        p = _skip_space(text, p + 1)


@jit
def _has_all(wanted):
    """Whether a record had all members that it must have."""
    for member in range(wanted.members):
        role = wanted.roles[member]
        if wanted.seen[member] == 0 and role >= MEMBERS and (role < 0 or not wanted.nulls):
            return False
    return True


@jit
def read_records(text, ends, stamps, wanted, columns):
    """Read records into columns; return flags of what is in them.

    `text` has one row; `ends` has the position behind each record, where the text has a zero byte. A record without a
    time of its own has that of Kafka, from `stamps`; -1 there means no time and becomes 1970.
    """
    source, p, count = row(text, 0), np.int64(0), wanted.roles.shape[1]
    seen, own, flags, high = np.empty((1, count), dtype=np.int64), np.empty((3, 2), dtype=np.int64), 0, np.uint8(0)
    members = _Members(
        row(wanted.names, 0),
        row(wanted.ends, 0),
        row(wanted.roles, 0),
        row(seen, 0),
        wanted.second,
        count,
        wanted.nulls,
    )
    for t in range(len(ends)):
        for member in range(count):
            seen[0, member] = 0
        cells = _Cells(row(columns.numbers, t), columns.numbers.shape[1], row(own, 0), row(own, 1), row(own, 2))
        for column in range(cells.columns):
            cells.numbers[column] = np.nan
        own[0, 0] = own[0, 1] = own[2, 0] = own[2, 1] = 0
        own[1, 0] = 0 if stamps[t] == -1 else stamps[t]
        p = _read_record(source, p, members, cells)
        if p != ends[t] or not _has_all(members) or not FIRST <= own[1, 0] <= LAST:
            columns.found[0, t], p = NOT_READ, ends[t]
            own[2, 0] = own[2, 1] = 0
            flags |= UNREAD
        else:
            columns.found[0, t], columns.found[1, t], columns.found[2, t] = own[0, 0], own[0, 1], own[1, 0]
            if own[0, 0] == own[0, 1]:
                flags |= WITHOUT_ID
        columns.found[3, t], columns.found[4, t] = own[2, 0], own[2, 1]
        p += 1
    for at in range(p):
        high |= source[at]
    return np.int64(flags | BEYOND_ASCII if high > 127 else flags)


def compile() -> None:
    """Compile the kernels, or load them from the cache."""
    text: Bytes = np.frombuffer(b"{}\0", np.uint8).reshape(1, -1)
    none: IntArray = np.zeros((1, 0), np.int64)
    wanted = Wanted(text, none, none, 0, nulls=False)
    columns = MemberColumns(np.zeros((1, 1)), np.zeros((5, 1), np.int64))
    read_records(text, np.array([2]), np.array([0]), wanted, columns)
