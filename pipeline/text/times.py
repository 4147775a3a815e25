"""Times as text: RFC 3339 in UTC with milliseconds, those of a whole batch at once."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from resonance.engine.base import IntArray
from resonance.kernels.arithmetic import inline, jit

LENGTH: Final = 24
"""Characters of a time such as 2026-01-02T03:04:05.678Z."""

FIRST: Final = -62_135_596_800_000
"""The beginning of the year 1, in milliseconds since 1970."""
LAST: Final = 253_402_300_799_999
"""The end of the year 9999."""

_LINE: Final = LENGTH + 1
_EMPTY = np.frombuffer(b"0000-00-00T00:00:00.000Z\0", np.uint8)


@inline
def _pair(text, p):
    """Return the number that two digits write."""
    return (np.int64(text[p]) - 48) * 10 + np.int64(text[p + 1]) - 48


@inline
def _days(year, month, day):
    """Return the days from 1970-01-01 to a date."""
    # A year that begins in March ends with the leap day.
    shifted = year - (1 if month <= 2 else 0)
    months = month + 9 if month <= 2 else month - 3
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + (153 * months + 2) // 5 + day - 719469


@jit
def _milliseconds(text, p):
    """Return the milliseconds since 1970 of a date and a time to the second, 19 characters."""
    days = _days(100 * _pair(text, p) + _pair(text, p + 2), _pair(text, p + 5), _pair(text, p + 8))
    return ((days * 24 + _pair(text, p + 11)) * 60 + _pair(text, p + 14)) * 60_000 + _pair(text, p + 17) * 1000


@jit
def milliseconds(text, times):
    """Read times as milliseconds since 1970."""
    for i in range(len(times)):
        p = LENGTH * i
        times[i] = _milliseconds(text, p) + 10 * _pair(text, p + 20) + np.int64(text[p + 22]) - 48


@jit
def _is_moment(text, p):
    """Whether a date and a time to the second begin at a position, with digits where they must be."""
    for at in range(19):
        c, pattern = text[p + at], _EMPTY[at]
        if at == 10:
            # T, t or a space.
            if c | 32 != 116 and c != 32:
                return False
        elif pattern == 48:
            if c < 48 or c > 57:
                return False
        elif c != pattern:
            return False
    year, month, day = 100 * _pair(text, p) + _pair(text, p + 2), _pair(text, p + 5), _pair(text, p + 8)
    if year < 1 or month < 1 or month > 12 or day < 1 or day > 31:
        return False
    following = _days(year + month // 12, month % 12 + 1, 1)
    if _days(year, month, day) >= following:
        return False
    # A leap second is left to others.
    return _pair(text, p + 11) <= 23 and _pair(text, p + 14) <= 59 and _pair(text, p + 17) <= 59


@jit
def read_time(text, p):
    """Read the RFC 3339 time at a position.

    Return its milliseconds since 1970 and the position behind it; -1 instead of that where it is none, or is not read
    here. The text must not end with the time.
    """
    if not _is_moment(text, p):
        return np.int64(0), np.int64(-1)
    time = _milliseconds(text, p)
    p += 19
    if text[p] == 46:
        p += 1
        first = p
        for unit in (100, 10, 1):
            if 48 <= text[p] <= 57:
                time += unit * (np.int64(text[p]) - 48)
                p += 1
        while 48 <= text[p] <= 57:
            p += 1
        if p == first:
            return np.int64(0), np.int64(-1)
    if text[p] == 90 or text[p] == 122:
        p += 1
    elif text[p] == 43 or text[p] == 45:
        for at in (1, 2, 4, 5):
            if text[p + at] < 48 or text[p + at] > 57:
                return np.int64(0), np.int64(-1)
        hours, minutes = _pair(text, p + 1), _pair(text, p + 4)
        if text[p + 3] != 58 or hours > 23 or minutes > 59:
            return np.int64(0), np.int64(-1)
        time += (-1 if text[p] == 43 else 1) * (60 * hours + minutes) * 60_000
        p += 6
    else:
        return np.int64(0), np.int64(-1)
    return time, np.int64(p if FIRST <= time <= LAST else -1)


@inline
def _write_pair(text, p, number):
    text[p], text[p + 1] = 48 + number // 10, 48 + number % 10


@jit
def _write_second(text, p, second):
    """Write all but the milliseconds of a time."""
    days, rest = second // 86_400, second % 86_400
    for at in range(_LINE):
        text[p + at] = _EMPTY[at]
    # Of years that begin in March: 146,097 days are 400 years.
    day = days + 719468
    era = day // 146_097
    day -= 146_097 * era
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    months = (5 * day + 2) // 153
    month = months + 3 if months < 10 else months - 9
    year += 400 * era + (1 if month <= 2 else 0)
    _write_pair(text, p, year // 100)
    _write_pair(text, p + 2, year % 100)
    _write_pair(text, p + 5, month)
    _write_pair(text, p + 8, day - (153 * months + 2) // 5 + 1)
    _write_pair(text, p + 11, rest // 3600)
    _write_pair(text, p + 14, rest // 60 % 60)
    _write_pair(text, p + 17, rest % 60)


@jit
def write(times, text):
    """Write milliseconds since 1970, between the years 1 and 9999, as times, each with a zero byte behind it."""
    for i in range(len(times)):
        p, second = _LINE * i, times[i] // 1000
        if i > 0 and second == times[i - 1] // 1000:
            # As most do that follow one another.
            for at in range(_LINE):
                text[p + at] = text[p + at - _LINE]
        else:
            _write_second(text, p, second)
        rest = times[i] - 1000 * second
        text[p + 20] = 48 + rest // 100
        _write_pair(text, p + 21, rest % 100)


def times_of(texts: Sequence[str]) -> IntArray:
    """Return canonical times as milliseconds since 1970; `ValueError` where they have not the length of such."""
    times: IntArray = np.empty(len(texts), np.int64)
    # One look at all of them: each was checked where it was read, and the kernel goes by lengths alone.
    if len(joined := "".join(texts).encode()) != LENGTH * len(texts):
        raise ValueError(f"{len(texts)} times take {len(joined)} bytes, canonical ones {LENGTH} each")
    milliseconds(np.frombuffer(joined, np.uint8), times)
    return times


def pieces_of(times: IntArray) -> bytes:
    """Return milliseconds since 1970, between the years 1 and 9999, as canonical times, a zero byte behind each."""
    written = np.empty(_LINE * len(times), np.uint8)
    write(times, written)
    return written.tobytes()


def texts_of(times: IntArray) -> list[str]:
    """Return milliseconds since 1970, between the years 1 and 9999, as canonical times."""
    # Faster than slices.
    return pieces_of(times).decode().split("\0")[:-1]


def compile() -> None:
    """Compile the kernels, or load them from the cache."""
    times_of(texts_of(np.zeros(1, np.int64)))
