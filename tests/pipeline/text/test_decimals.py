"""Numbers as JSON writes them become the float64 that Python reads, to the last bit, or are left to others."""

import struct
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some
from resonance.pipeline.text.decimals import read_number


def read(text):
    """Return the number and how many characters it has; None for one that is not read."""
    found, stop = read_number(np.frombuffer(text.encode() + b"\0", np.uint8), 0)
    return None if stop < 0 else (found, stop)


def bits(number):
    return struct.pack("d", number)


written = some.builds(
    "{}{}{}{}".format,
    some.sampled_from(("", "-")),
    some.integers(0, 10**30),
    some.one_of(some.just(""), some.from_regex(r"\.[0-9]{1,30}", fullmatch=True)),
    some.one_of(some.just(""), some.from_regex(r"[eE][+-]?[0-9]{1,3}", fullmatch=True)),
)


@settings(deadline=None)
@given(some.one_of(some.floats(allow_nan=False, allow_infinity=False).map(repr), written))
@example("0.1")
@example("5e-324")
@example("1.7976931348623157e308")
@example("0.000000000000000000000000000001")
@example("100000000000000000000000")
@example("-0.0")
@example("0e7")
@example("18446744073709551615")
@example("18446744073709551616")
@example("0.30000000000000004440892098500626")
def test_a_number_that_is_read_has_the_bits_of_pythons(text):
    if (found := read(text)) is not None:
        assert (bits(found[0]), found[1]) == (bits(float(text)), len(text))


@settings(deadline=None)
@given(some.floats(1e-100, 1e100))
def test_shortest_forms_of_usual_numbers_are_read(number):
    for each in (number, -number):
        found = read(repr(each))
        assert found is not None
        assert bits(found[0]) == bits(each)


@settings(deadline=None)
@given(some.integers(2**52, 2**53 - 1), some.integers(0, 11))
def test_what_lies_exactly_between_two_is_rounded_to_even_or_not_read(mantissa, shift):
    with localcontext(prec=60):
        middle = (Decimal(mantissa) + Decimal("0.5")) / 2**shift
        for text in (format(middle, "f"), format(middle, "f") + "1", str(middle * 10**20)):
            if (found := read(text)) is not None:
                assert bits(found[0]) == bits(float(text))


@pytest.mark.parametrize(
    "text", ["", "-", "+1", "01", "-01", "1.", "1.e3", ".5", "1e", "1e+", "-0", "NaN", "1e400", "x"]
)
def test_what_is_no_number_or_no_float64_is_not_read(text):
    assert read(text) is None


@pytest.mark.parametrize(("text", "length"), [("1,", 1), ("0x10", 1), ("1.5.2", 3), ("2e3e4", 3), ("1_000", 1)])
def test_reading_ends_behind_the_number(text, length):
    found = read(text)
    assert found is not None
    assert found[1] == length
