"""Decimal numbers as float64, each rounded correctly.

D. Lemire, "Number Parsing at a Gigabyte per Second", Software: Practice and Experience 51(8), 2021: a decimal number is
w * 10**q with an integer w, and w times the first 128 bits of 5**q decides its float64, but for cases so rare that they
are left to others.
"""

from typing import Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from resonance.kernels.arithmetic import float_of, inline, jit

MOST_DIGITS: Final = 19
"""Digits of which every number is below 2**64."""

_LEAST, _MOST = -150, 150
"""Powers of ten that are read here."""
_EXACT = 22
"""Powers of ten up to this one are float64 numbers, and so are integers up to the next line's."""
_WHOLE = 2**53
_TENS = 10.0 ** np.arange(_EXACT + 1)


def _first_bits(q: int) -> int:
    """Return the first 128 bits of 5**q; of a fraction rounded up, as its digits do not end."""
    power: int = 5 ** abs(q)
    if q >= 0:
        return power << 128 >> power.bit_length()
    return (1 << (127 + power.bit_length())) // power + 1


_FIVES = np.array(
    [[part >> 64, part & (2**64 - 1)] for part in map(_first_bits, range(_LEAST, _MOST + 1))], dtype=np.uint64
)


@intrinsic
def _high_product(typingctx, a, b):
    """Return the upper 64 bits of the product of two uint64."""

    def codegen(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic
def _leading_zeros(typingctx, a):
    """Return the zero bits before the first one of a uint64."""

    def codegen(context, builder, signature, args):
        return builder.ctlz(args[0], ir.IntType(1)(0))

    return types.int64(types.uint64), codegen


@jit
def _nearest(w, q):
    """Return the float64 nearest to w * 10**q, w above 0; -1 where that is not decided here."""
    if q < _LEAST or q > _MOST:
        return -1.0
    zeros = _leading_zeros(w)
    w <<= np.uint64(zeros)
    five, rest = _FIVES[q - _LEAST, 0], _FIVES[q - _LEAST, 1]
    high, low = _high_product(w, five), w * five
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        carried = _high_product(w, rest)
        low += carried
        if low < carried:
            high += np.uint64(1)
        if low == np.uint64(0xFFFFFFFFFFFFFFFF):
            return -1.0
    first = high >> np.uint64(63)
    shift = first + np.uint64(9)
    # 53 bits and one to round by.
    mantissa = high >> shift
    if low <= np.uint64(1) and mantissa & np.uint64(3) == np.uint64(1) and mantissa << shift == high:
        # Perhaps exactly between two float64.
        return -1.0
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    # floor(q * log2(10)), of these powers of ten.
    exponent = ((217706 * q) >> 16) + 63 - zeros + np.int64(first)
    # A mantissa that was rounded up to 2**53 carries into the exponent.
    return float_of(((exponent + 1022) << 52) + np.int64(mantissa))


@inline
def _is_digit(c):
    return (c >= 48) & (c <= 57)


@jit
def _of_long(text, start, p, exponent):
    """Return the float64 of more digits than an integer can have, by the first of them; -1 where these do not decide.

    `text` has the digits from `start` to `p`, and perhaps a point; `exponent` is that of the last one.
    """
    w, digits = np.uint64(0), 0
    for at in range(start, p):
        if text[at] == 46:
            continue
        if digits == MOST_DIGITS:
            exponent += 1
            continue
        w = w * np.uint64(10) + np.uint64(text[at] - 48)
        digits += w > 0
    if w == 0:
        return 0.0
    if digits < MOST_DIGITS:
        return _nearest(w, exponent)
    found = _nearest(w, exponent)
    return found if found == _nearest(w + np.uint64(1), exponent) else -1.0


@jit
def read_number(text, p):
    """Read the JSON number at a position.

    Return its float64 and the position behind it; -1 instead of that where it is none, or is not read here. The text
    must not end with the number.
    """
    start = p
    if text[p] == 45:
        p += 1
    first, w = p, np.uint64(0)
    while _is_digit(text[p]):
        w = w * np.uint64(10) + np.uint64(text[p] - 48)
        p += 1
    digits = p - first
    if digits == 0 or (digits > 1 and text[first] == 48):
        return 0.0, np.int64(-1)
    exponent, stop = np.int64(0), p
    if text[p] == 46:
        p += 1
        point = p
        while _is_digit(text[p]):
            w = w * np.uint64(10) + np.uint64(text[p] - 48)
            p += 1
        if p == point:
            return 0.0, np.int64(-1)
        exponent, digits, stop = point - p, digits + p - point, p
    if text[p] == 101 or text[p] == 69:
        p += 1
        falls = text[p] == 45
        if falls or text[p] == 43:
            p += 1
        given, power = p, np.int64(0)
        while _is_digit(text[p]):
            power = min(10 * power + np.int64(text[p]) - 48, 9_999)
            p += 1
        if p == given:
            return 0.0, np.int64(-1)
        exponent += -power if falls else power
    elif w == 0 and first > start and exponent == 0:
        # A whole number has no sign without a value, a float64 has.
        return 0.0, np.int64(-1)
    if digits > MOST_DIGITS:
        found = _of_long(text, first, stop, exponent)
    elif w == 0:
        found = 0.0
    elif w <= np.uint64(_WHOLE) and -_EXACT <= exponent <= _EXACT:
        found = float(w) * _TENS[exponent] if exponent >= 0 else float(w) / _TENS[-exponent]
    elif exponent == 0:
        found = float(w)
    else:
        found = _nearest(w, exponent)
    if found < 0.0:
        return 0.0, np.int64(-1)
    return (-found if first > start else found), np.int64(p)
