"""A batch of plain records is the same batch whether kernels read it or a JSON library does."""

import json
import random
from contextlib import nullcontext

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Record
from resonance.pipeline.task.decode.dense import Layout
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.task.decode.plain_json import PlainJson

from tests import LONG
from tests.pipeline.streams import STAMP, TOPIC, without_kernels
from tests.pipeline.streams import settings as stream_settings
from tests.pipeline.task.test_fuzz import broken

LAYOUTS = {
    "array": {"input.features": "v", "input.dimension": 3},
    "listed": {"input.features": ["a", "b", "c"]},
    "object": {"input.features": ["v.a", "v.b", "v.c"]},
    "missing": {"input.features": ["a", "b", "c"], "prepare.missing": "mean"},
    "missing in an array": {"input.features": "v", "input.dimension": 3, "prepare.missing": 0.0},
    "missing in an object": {"input.features": ["v.a", "v.b", "v.c"], "prepare.missing": "mean"},
}
PATHS = ({}, {"input.id_path": "id"}, {"input.time_path": "t"}, {"input.id_path": "id", "input.time_path": "t"})

numbers = some.one_of(some.floats(-1e9, 1e9), some.integers(-(10**20), 10**20), some.sampled_from((0, -0.0, 1e-200)))
cells = some.one_of(numbers, numbers, numbers, some.sampled_from((None, True, "1", [], {})))
ids = some.one_of(some.text(max_size=5), some.integers(-(10**20), 10**20), some.sampled_from((None, 0, 1.5, True, [])))
moments = some.one_of(
    some.integers(-(10**14), 10**15),
    some.floats(0, 2e12),
    some.datetimes().map(lambda each: each.isoformat() + "Z"),
    some.sampled_from((None, "yesterday", True, "2026-01-31T12:00:60Z", "1969-12-31T23:59:59.999Z", -1, -0.5)),
)
others = some.recursive(
    some.one_of(some.none(), some.booleans(), numbers, some.text(max_size=3)),
    lambda inner: some.one_of(some.lists(inner, max_size=3), some.dictionaries(some.text(max_size=3), inner)),
    max_leaves=6,
)


@some.composite
def values(draw):
    """A record of any of the layouts, most of them whole, some with a member that is odd."""
    odd = draw(some.booleans())
    kind = cells if odd else numbers
    members = {
        "v": draw(some.one_of(some.lists(kind, min_size=3, max_size=4 if odd else 3), _named(kind))),
        **draw(_named(kind)),
        "id": draw(ids if odd else some.text("ab é", max_size=5)),
        "t": draw(moments),
        "x": draw(others),
    }
    names = list(members)
    if odd and draw(some.booleans()):
        names.remove(draw(some.sampled_from(names)))
    order = draw(some.permutations(names))
    text = json.dumps({name: members[name] for name in order}, ensure_ascii=draw(some.booleans())).encode()
    if odd and draw(some.booleans()):
        # A name may come twice.
        text = text[:-1] + b',"%b":%b}' % (order[0].encode(), json.dumps(draw(kind)).encode())
    if odd and draw(some.integers(0, 9)) == 0:
        return draw(some.sampled_from((None, b"", b"\xff", text + b"\0", b" " * 2_000_000 + text)))
    return text.replace(b",", draw(some.sampled_from((b",", b" ,\n\t", b", "))))


def _named(kind):
    return some.fixed_dictionaries(dict.fromkeys("abc", kind))


def decoded(given, texts, *, kernels, stamp=STAMP):
    """Return all of a batch, read by kernels or by the JSON library."""
    log = [Record(TOPIC, 0, i, stamp + i, b"k", text) for i, text in enumerate(texts)]
    with nullcontext() if kernels else without_kernels():
        batch = InputMapping(stream_settings(**given)).decode(log)
    faults = [(fault.index, fault.stage, fault.kind, fault.message) for fault in batch.faults]
    shape = batch.rows.shape if len(batch) else None
    return shape, batch.rows.tobytes(), batch.times, batch.ids, batch.sizes, list(batch.index), faults, batch.offsets


@settings(max_examples=200 if LONG else 100, deadline=None)
@given(some.sampled_from(sorted(LAYOUTS)), some.sampled_from(PATHS), some.lists(values(), min_size=1, max_size=4))
def test_kernels_find_what_the_library_finds(layout, paths, texts):
    given = {**LAYOUTS[layout], **paths}
    assert decoded(given, texts, kernels=True) == decoded(given, texts, kernels=False)


IDS = ("-12500000000000000000", "18446744073709551616", "18446744073709551615", "-9223372036854775808", "-0", "-0.0")
IDS += ("-12500000000000000000.0", "1.25e19", "0.1000000000000000055", "1E5", "9" * 400, "1.50", "1e-7", "0e0")


@pytest.mark.parametrize("others", [(), ("12500000000000000000",)])
@pytest.mark.parametrize("id_", IDS)
def test_an_id_of_any_digits_is_one_id_however_it_is_read(id_, others):
    given = {**LAYOUTS["array"], "input.id_path": "id"}
    texts = [b'{"v": [1, 2, 3], "id": %b}' % each.encode() for each in (id_, *others)]
    found = decoded(given, texts, kernels=True)
    assert found == decoded(given, texts, kernels=False)
    escaped = [each.replace(b'"id"', b'"\\u0069d"') for each in texts]
    assert found[3] == decoded(given, escaped, kernels=False)[3]


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_kernels_find_what_the_library_finds_in_broken_values(layout):
    rng = random.Random(layout)
    given = {**LAYOUTS[layout], **PATHS[3]}
    for number in range(1_000 if LONG else 120):
        row = [rng.choice((rng.random(), rng.randrange(1_000), rng.random() * 1e-5)) for _ in range(3)]
        members = {"id": f"r{number}", "t": STAMP + number, "v": row, "more": [1, {"deep": [None, "é"]}, True]}
        if "array" not in layout:
            members["v"] = dict(zip("abc", row, strict=True))
        text = broken(orjson.dumps({**members, **dict(zip("abc", row, strict=True))}), rng)
        assert decoded(given, [text], kernels=True) == decoded(given, [text], kernels=False), text


@pytest.mark.parametrize("stamp", [-1, 0, STAMP, 2**62])
def test_times_come_from_kafka_where_records_have_none(stamp):
    given, text = {**LAYOUTS["array"], "input.time_path": "t"}, [b'{"v":[1,2,3]}', b'{"v":[1,2,3],"t":null}']
    assert decoded(given, text, kernels=True, stamp=stamp) == decoded(given, text, kernels=False, stamp=stamp)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("paths", PATHS)
def test_plain_records_are_read_by_kernels(layout, paths):
    mapping = InputMapping(stream_settings(**LAYOUTS[layout], **paths))
    members = {"v": [1, 2.5, -3e-7], "id": "é", "t": "2026-01-31T12:00:00+01:00", "x": [{"y": 1}, "z"]}
    if "array" not in layout:
        members = {**members, "v": {"a": 1, "b": 2.5, "c": -3e-7}, "a": 1, "b": 2.5, "c": -3e-7}
    made = mapping._plain_json(mapping.layout)
    value = orjson.dumps(members)
    found, unread = made.read(RecordColumns.of([Record(TOPIC, 0, at, STAMP, None, value) for at in range(2)]), 1_000)
    assert unread == []
    assert found.rows.tolist() == [[1, 2.5, -3e-7]] * 2
    assert found.ids == ([b'"\xc3\xa9"'] * 2 if "input.id_path" in paths else None)
    assert found.times == ["2026-01-31T11:00:00.000Z" if "input.time_path" in paths else "2023-11-14T22:13:20.000Z"] * 2


@pytest.mark.parametrize(
    ("given", "id_path", "time_path"),
    [
        ({"input.features": ["a", "v.b"]}, (), ()),
        ({"input.features": ["v.w.a"]}, (), ()),
        ({"input.features": ["a"]}, ("a",), ()),
        ({"input.features": ["a"]}, ("deep", "id"), ()),
        ({"input.features": ["a"]}, ("b",), ("b",)),
        ({"input.features": ["a", "b"], "prepare.categories": {"b": ["on", "off"]}}, (), ()),
    ],
)
def test_other_layouts_are_left_to_the_library(given, id_path, time_path):
    assert PlainJson.of(Layout(stream_settings(**given)), id_path, time_path, nulls=False) is None


ESCAPED = (
    r'"say \"hi\"\n"', r'"C:\\logs\/x"', r'"\b\f\r\t"', r'"caf\u00e9 \uD7FF\uE000"', r'["\\", {"y": "\\\""}]'
)  # fmt: skip
BROKEN = (r'"\x"', r'"\u12g4"', r'"\ud83d"', r'"\ud83d\ude00"', '"\t"', r'"\"', r'"\u12"')


@pytest.mark.parametrize("text", ESCAPED)
def test_escapes_in_what_is_not_wanted_are_read_by_kernels(text):
    mapping = InputMapping(stream_settings(**LAYOUTS["array"]))
    made = mapping._plain_json(mapping.layout)
    value = b'{"message":%b,"v":[1,2,3]}' % text.encode()
    assert orjson.loads(value)
    assert made.read(RecordColumns.of([Record(TOPIC, 0, 0, STAMP, None, value)]), 1_000)[1] == []


@pytest.mark.parametrize("text", [*ESCAPED, *BROKEN])
def test_a_text_that_is_not_wanted_is_what_the_library_says(text):
    texts = [b'{"message":%b,"v":[1,2,3]}' % each.encode() for each in (text, ESCAPED[0])]
    given = LAYOUTS["array"]
    assert decoded(given, texts, kernels=True) == decoded(given, texts, kernels=False)


ODD = (
    None,
    b'{"v":[1,2,3],"id":"\\u0041"}',
    b"{",
    b'{"v":[1,2]}',
    b'{"v":[1,2,3],"id":"\xff"}',
    b" " * 2_000_000 + b"{}",
)


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_record_costs_no_other_one_its_kernels(odd, monkeypatch):
    given = {**LAYOUTS["array"], "input.id_path": "id"}
    texts = [b'{"v":[%d,2,3],"id":%d}' % (number, number) for number in range(200)]
    texts[70] = texts[150] = odd
    expected = decoded(given, texts, kernels=False)
    by_library, by_kernels = [], InputMapping._decoded

    def counted(self, records, layout):
        by_library.extend(records.offsets.tolist())
        return by_kernels(self, records, layout)

    monkeypatch.setattr(InputMapping, "_decoded", counted)
    assert decoded(given, texts, kernels=True) == expected
    assert by_library == [70, 150]
