"""A batch parsed as one text gives what its records give one by one, and nothing where one is broken."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from resonance.pipeline.task.decode.json_objects import parse_all

VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
PIECES = [b'{"a":', b"1", b"}", b"[", b"]", b",", b'"', b"\\", b" ", b"{", b'"b"', b"null", b"\xc3", b"\n", b""]


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_the_objects_are_those_of_single_records(values):
    texts = [orjson.dumps(value) for value in values]
    assert parse_all(texts) == [orjson.loads(text) for text in texts]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map(b"".join), min_size=1, max_size=4))
def test_pieces_of_json_are_taken_only_where_each_is_a_text_of_its_own(texts):
    try:
        expected = [orjson.loads(text) for text in texts]
    except orjson.JSONDecodeError:
        with pytest.raises(ValueError):
            parse_all(texts)
    else:
        assert parse_all(texts) == expected


@pytest.mark.parametrize(
    "texts",
    [
        [b'{"a":1},{"b":2}', b'{"a":[1', b"2]}"],
        [b'{"a":1},"x",{"b":2}', b'{"a":[{}', b"{}]}"],
        [b"1,2", b""],
        [b"", b""],
        [b'"a', b'b"'],
        [b"[", b"]"],
    ],
)
def test_records_that_complete_each_other_are_refused(texts):
    with pytest.raises(ValueError):
        parse_all(texts)
