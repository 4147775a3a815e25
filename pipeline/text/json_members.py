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
from resonance.pipeline.text.json_values import (
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COMMA,
    FAILED,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    read_id,
    read_text,
    read_timestamp,
    skip_name,
    skip_space,
    skip_value,
    skip_word,
)
from resonance.pipeline.text.times import FIRST, LAST

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
    p = skip_name(text, p)
    if p < 0:
        return np.int64(-1), FAILED
    stop = start
    while text[stop] != QUOTE:
        stop += 1
    member = _find(text, start, stop, wanted, guess, first, last)
    if member >= 0:
        if wanted.seen[member] == 1:
            return member, FAILED
        wanted.seen[member] = 1
    return member, p


@jit
def _read_cell(text, p, wanted, cells, column):
    """Read the number of a column, or null."""
    if text[p] == 110 and wanted.nulls:
        cells.numbers[column] = np.nan
        return skip_word(text, p)
    cells.numbers[column], p = read_number(text, p)
    return np.int64(p)


@jit
def _read_array(text, p, wanted, cells):
    """Read as many numbers as there are columns."""
    if text[p] != OPEN_ARRAY:
        return FAILED
    for column in range(cells.columns):
        if column > 0 and text[p] != COMMA:
            return FAILED
        p = skip_space(text, p + 1)
        p = _read_cell(text, p, wanted, cells, column)
        if p < 0:
            return FAILED
        p = skip_space(text, p)
    return np.int64(p + 1) if text[p] == CLOSE_ARRAY else FAILED


@jit
def _read_members(text, p, wanted, cells):
    """Read an object of the second level, all of whose wanted members are columns."""
    if text[p] != OPEN_OBJECT:
        return FAILED
    p = skip_space(text, p + 1)
    if text[p] == CLOSE_OBJECT:
        return np.int64(p + 1)
    last, guess = wanted.members, wanted.second
    while True:
        member, p = _read_name(text, p, wanted, guess, wanted.second, last)
        if p < 0:
            return FAILED
        if member < 0:
            p = skip_value(text, p)
        else:
            guess = member + 1
            p = _read_cell(text, p, wanted, cells, wanted.roles[member])
        if p < 0:
            return FAILED
        p = skip_space(text, p)
        if text[p] == CLOSE_OBJECT:
            return np.int64(p + 1)
        if text[p] != COMMA:
            return FAILED
        p = skip_space(text, p + 1)


@jit
def _read_wanted(text, p, wanted, cells, role):
    """Read the value at a position, of a member with a role."""
    if role == MEMBERS:
        return _read_members(text, p, wanted, cells)
    if role == ID:
        return read_id(text, p, cells.id)
    if role == TIME:
        return read_timestamp(text, p, cells.time)
    if role == TEXT:
        return read_text(text, p, cells.text)
    if role == NUMBERS:
        return _read_array(text, p, wanted, cells)
    return _read_cell(text, p, wanted, cells, role)


@jit
def _read_record(text, p, wanted, cells):
    """Read a record; return the position behind it."""
    p = skip_space(text, p)
    if text[p] != OPEN_OBJECT:
        return FAILED
    p, guess = skip_space(text, p + 1), 0
    while True:
        member, p = _read_name(text, p, wanted, guess, 0, wanted.second)
        if p < 0:
            return FAILED
        if member < 0:
            p = skip_value(text, p)
        else:
            guess = member + 1
            p = _read_wanted(text, p, wanted, cells, wanted.roles[member])
        if p < 0:
            return FAILED
        p = skip_space(text, p)
        if text[p] == CLOSE_OBJECT:
            return np.int64(skip_space(text, p + 1))
        if text[p] != COMMA:
            return FAILED
        p = skip_space(text, p + 1)


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
