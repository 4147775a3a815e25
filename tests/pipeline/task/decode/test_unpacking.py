"""Messages that have many records."""

import json
import random

import orjson
import pytest
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Record
from resonance.pipeline.task.decode.unpacking import Unpacker, wrapped

from tests.pipeline.streams import STAMP, TOPIC, settings


def elements(value, path="."):
    return Unpacker(settings(input__records=path)).elements(value)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"[]", []),
        (b'{"a": 1}', [b'{"a": 1}']),
        (b'{"a":\n 1}', [b'{"a":\n 1}']),
        (b'{"a": 1}\n{"a": 2}\n', [b'{"a": 1}', b'{"a": 2}']),
        (b'{"a": 1}\r\n\r\n{"a": 2', [b'{"a": 1}\r', b'{"a": 2']),
        (b'x\n{"a": 2}', [b"x", b'{"a": 2}']),
        (b'x\ny\n{"a": 2}', [b"x", b"y", b'{"a": 2}']),
        (b'{\n"a": [\n  {"b": 1},\n  {"b": 2}\n],,\n}', [b'{\n"a": [\n  {"b": 1},\n  {"b": 2}\n],,\n}']),
        (b'{\n"a": 1e999,\n"b": 2\n}', [b'{\n"a": 1e999,\n"b": 2\n}']),
        (b' [{"a": 1}, {"a":2}, 3, null]', [b'{"a": 1}', b'{"a":2}', b"3", b"null"]),
        (b"[1,,2 , ]", [b"1", b"", b"2", b""]),
        (b'[{"a": "],[\\"", "b": [1, {"c": []}]} ]', [b'{"a": "],[\\"", "b": [1, {"c": []}]}']),
    ],
)
def test_a_value_is_an_array_or_has_an_object_on_each_line(value, found):
    assert elements(value) == found


def test_the_array_can_be_a_member():
    value = orjson.dumps({"a": {"b.c": [{"x": 1}, {"x": 2}]}})
    assert elements(value, r"a.b\.c") == [b'{"x":1}', b'{"x":2}']


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_elements_are_those_that_a_json_library_finds(first):
    rng = random.Random(first)

    def value(depth):
        kind = rng.randrange(8 if depth else 5)
        if kind < 2:
            return rng.choice((rng.randrange(1_000), -1.5e3, None, True))
        if kind < 5:
            return "".join(rng.choice('ab"\\[]{},: é') for _ in range(rng.randrange(5)))
        if kind < 7:
            return [value(depth - 1) for _ in range(rng.randrange(4))]
        return {rng.choice(("items", "a", "b\\", "ü")): value(depth - 1) for _ in range(rng.randrange(4))}

    for _ in range(100):
        array = [value(3) for _ in range(rng.randrange(5))]
        members = [("items", array), *((name, value(2)) for name in ("a", "z", "items "))]
        rng.shuffle(members)
        text = json.dumps(dict(members), ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 0, 2))).encode()
        assert list(map(orjson.loads, elements(text, "items"))) == array
        assert list(map(orjson.loads, elements(json.dumps(array).encode()))) == array


def test_numbers_keep_their_digits():
    texts = [b'{"id":12345678901234567890123}', b'{"x":0.12345678901234567890}', b'{"x":1e999}']
    assert elements(b"[%b]" % b",".join(texts)) == texts


@pytest.mark.parametrize("path", [".", "items", r"a.b\.c"])
def test_a_record_can_be_sent_alone_again(path):
    assert elements(wrapped(path, b'{"x":1}'), path) == [b'{"x":1}']
    assert elements(wrapped(path, b"[5]"), path) == [b"[5]"]


def test_columns_are_what_a_list_of_the_records_would_be():
    log = [
        Record(TOPIC, 3, 7, STAMP, b"k", b'[{"a":1},{"a":2}]', (("h", b"1"),)),
        Record(TOPIC, 3, 8, STAMP + 1, None, None),
        Record(TOPIC, 3, 12, STAMP + 2, b"", b"{}"),
        Record(TOPIC, 3, 13, STAMP + 3, None, b"[]"),
        Record(TOPIC, 3, 14, STAMP + 4, b"m", b'{"b":1}\n{"b":2}'),
    ]
    unpacker = Unpacker(settings(input__records="."))
    columns, faults = unpacker.columns(RecordColumns.of(log))
    assert not faults
    assert list(columns) == list(unpacker.records(log))
    assert [columns[at] for at in range(len(columns))] == list(columns)
    assert [(record.offset, record.element, record.value) for record in columns] == [
        (7, 0, b'{"a":1}'),
        (7, 1, b'{"a":2}'),
        (8, None, None),
        (12, 0, b"{}"),
        (14, 0, b'{"b":1}'),
        (14, 1, b'{"b":2}'),
    ]
    again, _ = unpacker.columns(columns)
    assert list(again) == list(columns)


def test_as_many_messages_are_taken_as_have_about_so_many_records():
    unpacker = Unpacker(settings(input__records="."))
    one, many = b'{"features":[1.0]}', b"[" + b",".join([b'{"features":[1.0]}'] * 500) + b"]"
    single = RecordColumns.of([Record(TOPIC, 0, n, STAMP, None, one) for n in range(1_000)])
    mixed = RecordColumns.of([Record(TOPIC, 0, n, STAMP, None, many) for n in range(100)])
    # The first ones may have a record in ten bytes.
    assert 100 <= unpacker.messages(single, 0, 1_000) <= 1_000
    unpacker.columns(single)
    assert 950 <= unpacker.messages(single, 0, 950) <= 1_000
    # Where the next ones are longer, fewer are taken.
    assert 2 <= unpacker.messages(mixed, 0, 1_000) <= 3
    assert unpacker.messages(mixed, 0, 1) == 1
