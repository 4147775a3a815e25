"""Values in JSON texts, by the position at which they begin: read as an id, a time or a text, or passed over.

What is no such value, or is left to others, ends at `FAILED`. A text has a zero byte behind it, which ends every loop.
"""

import numpy as np
from resonance.kernels.arithmetic import jit
from resonance.pipeline.text.decimals import read_number
from resonance.pipeline.text.times import FIRST, LAST, read_time

_DEEPEST = 16
"""Objects and arrays inside one another in a member that is not wanted."""

QUOTE, COMMA, _COLON, _BACKSLASH = 34, 44, 58, 92
OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT = 91, 93, 123, 125
_TO_OBJECT = 32  # the bit that makes an object's bracket of an array's
_WORDS = np.frombuffer(b"null\0true\0false", np.uint8)
_ESCAPES = (QUOTE, _BACKSLASH, 47, 98, 102, 110, 114, 116)

FAILED = np.int64(-1)
"""The position behind what cannot be read."""


@jit
def skip_space(text, p):
    """Return the first position from a position on that has no white space."""
    while text[p] == 32 or text[p] == 10 or text[p] == 13 or text[p] == 9:
        p += 1
    return p


@jit
def _end_of_text(text, p):
    """Return the position of the quote that ends the text at a position; -1 behind an escape or a control character."""
    while text[p] >= 32 and text[p] != QUOTE and text[p] != _BACKSLASH:
        p += 1
    return p if text[p] == QUOTE else FAILED


@jit
def _is_hexadecimal(c):
    return 48 <= c <= 57 or 97 <= c | 32 <= 102


@jit
def _skip_text(text, p):
    """Return the position behind the text whose quote stands at a position, whatever is in it."""
    while True:
        p = p + 1
        while text[p] >= 32 and text[p] != QUOTE and text[p] != _BACKSLASH:
            p += 1
        if text[p] == QUOTE:
            return np.int64(p + 1)
        if text[p] != _BACKSLASH:
            return FAILED
        p += 1
        if text[p] == 117:
            for at in range(1, 5):
                if not _is_hexadecimal(text[p + at]):
                    return FAILED
            # Halves of a pair are for a JSON library to judge.
            if text[p + 1] | 32 == 100 and not 48 <= text[p + 2] <= 55:
                return FAILED
            p += 4
        elif text[p] not in _ESCAPES:
            return FAILED


@jit
def skip_word(text, p):
    """Return the position behind null, true or false."""
    at = 0 if text[p] == 110 else (5 if text[p] == 116 else 10)
    stop = 15 if at == 10 else at + 4
    for each in range(at, stop):
        if text[p] != _WORDS[each]:
            return FAILED
        p += 1
    return np.int64(p)


@jit
def skip_name(text, p):
    """Return the position of the value whose name begins at a position."""
    if text[p] != QUOTE:
        return FAILED
    p = _end_of_text(text, p + 1)
    if p < 0:
        return FAILED
    p = skip_space(text, p + 1)
    return np.int64(skip_space(text, p + 1)) if text[p] == _COLON else FAILED


@jit
def skip_value(text, p):
    """Return the position behind the value at a position, whatever it is."""
    depth, kinds = 0, 0
    while True:
        c = text[p]
        if c | _TO_OBJECT == OPEN_OBJECT:
            p = skip_space(text, p + 1)
            # The closing brackets are two behind the opening ones.
            if text[p] != c + 2:
                depth, kinds = depth + 1, 2 * kinds + (c == OPEN_OBJECT)
                if depth > _DEEPEST:
                    return FAILED
                if c == OPEN_OBJECT:
                    p = skip_name(text, p)
                    if p < 0:
                        return FAILED
                continue
            p += 1
        elif c == QUOTE:
            p = _skip_text(text, p)
        elif c == 45 or 48 <= c <= 57:
            p = read_number(text, p)[1]
        else:
            p = skip_word(text, p)
        if p < 0:
            return FAILED
        p = skip_space(text, p)
        while depth > 0 and text[p] == (CLOSE_OBJECT if kinds & 1 else CLOSE_ARRAY):
            depth, kinds = depth - 1, kinds >> 1
            p = skip_space(text, p + 1)
        if depth == 0:
            return np.int64(p)
        if text[p] != COMMA:
            return FAILED
        p = skip_space(text, p + 1)
        if kinds & 1:
            p = skip_name(text, p)
            if p < 0:
                return FAILED


@jit
def read_id(text, p, place):
    """Note where an id begins and ends: a text with its quotes, or a whole number as it is written everywhere."""
    if text[p] == 110:
        return skip_word(text, p)
    place[0] = p
    if text[p] == QUOTE:
        p = _end_of_text(text, p + 1)
        place[1] = p + 1
        return np.int64(p + 1) if p >= 0 else FAILED
    p += text[p] == 45
    first = p
    while 48 <= text[p] <= 57:
        p += 1
    place[1] = p
    digits = p - first
    # A point or an exponent behind it is no end of a member; a number beyond float64 is for a JSON library to refuse.
    if digits == 0 or digits > 300 or (text[first] == 48 and p - place[0] > 1):
        return FAILED
    return np.int64(p)


@jit
def read_timestamp(text, p, place):
    """Read RFC 3339 text or milliseconds since 1970, as milliseconds."""
    if text[p] == 110:
        return skip_word(text, p)
    if text[p] == QUOTE:
        place[0], p = read_time(text, p + 1)
        return np.int64(p + 1) if p >= 0 and text[p] == QUOTE else FAILED
    time, p = read_number(text, p)
    if not FIRST <= time <= LAST:
        return FAILED
    place[0] = np.int64(np.floor(time))
    if place[0] == -1:
        # Kafka's way to say that there is no time; elsewhere, too, it becomes 1970.
        place[0] = 0
    return np.int64(p)


@jit
def read_text(text, p, place):
    """Note where a text begins and ends, with its quotes."""
    if text[p] == 110:
        return skip_word(text, p)
    place[0] = p
    p = _skip_text(text, p) if text[p] == QUOTE else FAILED
    place[1] = p
    return np.int64(p)
