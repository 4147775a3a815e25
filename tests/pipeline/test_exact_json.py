"""Numbers that are only passed through keep their digits."""

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


def test_what_no_record_may_be_is_read_without_its_digits():
    assert exact_json.loads(b"[" * 1_020 + b"1234567890123456789012" + b"]" * 1_020)
    with pytest.raises(TypeError):
        exact_json.dumps({"a": 1j})
