"""Numbers that are only passed through keep their digits."""

import json

import orjson
import pytest
from resonance.pipeline import exact_json
from resonance.pipeline.exact_json import Digits

LONG = ["18446744073709551616", "-9223372036854775809", "12345678901234567890123", "0.12345678901234567890", "1e-400"]


@pytest.mark.parametrize("text", [*LONG, "1.8446744073709551617e19", "9" * 300])
def test_a_number_that_64_bits_cannot_hold_leaves_as_it_came(text):
    found = exact_json.loads(b'{"a": [%b, 1]}' % text.encode())
    assert (found, type(found["a"][0])) == ({"a": [text, 1]}, Digits)
    assert exact_json.dumps(found).decode() == f'{{"a":[{text},1]}}'


@pytest.mark.parametrize(
    "text", ["18446744073709551615", "-9223372036854775808", "0.1", "1E5", "1.0", "0.1000000000000000055", "-0", "[]"]
)
def test_all_else_is_what_orjson_reads(text):
    wanted = orjson.loads(text)
    if text == "0.1000000000000000055":
        wanted = text
    found = exact_json.loads(text.encode())
    assert (found, type(found)) == (wanted, Digits if found == "0.1000000000000000055" else type(wanted))


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", "\t:\r\n")])
def test_numbers_that_a_float_holds_are_not_read_again(monkeypatch, separators):
    values = {"x": [0.8444218515250481, -1.2345678901234567e-16, 1234567890123456], "a b": "0.1 2"}
    text = json.dumps(values, separators=separators)
    monkeypatch.setattr(exact_json.json, "loads", None)
    assert exact_json.loads(text) == values
    # As another program writes numbers.
    assert exact_json.loads(text.replace("{", '{"price": 19.90, "big": 1E5, ')) == {"price": 19.9, "big": 1e5} | values


@pytest.mark.parametrize("text", ["0.1234567890123456789", "1e-400", "1234567890123456789012"])
def test_a_long_number_is_found_among_others_that_are_not(text):
    found = exact_json.loads(
        b'{"x": 0.8444218515250481, "price": 19.90, "t": "2026-01-01-00-00-00", "a": [%b]}' % text.encode()
    )
    assert found["a"] == [text]


def test_what_no_record_may_be_is_read_without_its_digits():
    assert exact_json.loads(b"[" * 1_020 + b"1234567890123456789012" + b"]" * 1_020)
    with pytest.raises(TypeError):
        exact_json.dumps({"a": 1j})
