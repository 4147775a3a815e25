"""Records as they are on other people's topics become rows of numbers, or say why not."""

import json
import math

import orjson
import pytest
from resonance.pipeline import exact_json
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.json_paths import ABSENT, find, parse_path, path_name
from resonance.pipeline.records import Record
from resonance.pipeline.repartition.router import RecordStreams
from resonance.pipeline.task.decode.dense import Layout, Shape, feature_shape
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.timestamps import TimeTexts

STAMP = 1_700_000_000_123
STAMP_TEXT = "2023-11-14T22:13:20.123Z"


def settings(**values):
    return Settings.of({"input.topics": ["features"], **{k.replace("__", "."): v for k, v in values.items()}})


def records(*values, timestamp=STAMP):
    """Records of values; bytes and None stand as they are."""
    return [
        Record("features", 0, i, timestamp, None, v if v is None or isinstance(v, bytes) else orjson.dumps(v))
        for i, v in enumerate(values)
    ]


def mapping(shape=None, **values):
    result = InputMapping(settings(**values))
    if shape:
        result.layout = Layout(result._settings, shape)
    return result


def decode(*values, shape=None, **given):
    return mapping(shape, **given).decode(records(*values))


def rows(decoded):
    return [[None if math.isnan(x) else x for x in row] for row in decoded.rows.tolist()]


# Where features stand
def test_a_list_of_paths_gives_the_columns_in_its_order():
    decoded = decode(
        {"geo": {"lat": 1.5, "lon": -2}, "amount": 7, "note": "x", "http.status": 200},
        {"amount": 8.25, "http.status": 500, "geo": {"lon": 3.0, "lat": 4}},
        input__features=["amount", "geo.lat", "http\\.status", "geo.lon"],
    )
    assert (rows(decoded), list(decoded.index)) == ([[7, 1.5, 200, -2], [8.25, 4, 500, 3]], [0, 1])
    assert (decoded.times, decoded.ids) == ([STAMP_TEXT, STAMP_TEXT], None)
    assert not decoded.faults


def test_one_path_leads_to_an_object_of_numbers():
    found = mapping(shape=Shape(0, ("a", "b")))
    decoded = found.decode(records({"features": {"b": 2, "a": 1, "new": 9}}, {"features": {"a": 3, "b": 4}}))
    assert rows(decoded) == [[1, 2], [3, 4]]
    assert found.layout is not None
    assert found.layout.features == ("a", "b")


def test_the_shape_of_a_record_is_what_its_path_leads_to():
    assert feature_shape({"features": [1, 2, 3]}, mapping()._settings) == Shape(3, ())
    assert feature_shape({"features": {"b": 1, "a": 2}}, mapping()._settings) == Shape(0, ("a", "b"))
    for bad in ({"features": []}, {"features": 3}, {"features": None}, {}):
        with pytest.raises(FaultError):
            feature_shape(bad, mapping()._settings)


# Null values, missing features, categories
@pytest.mark.parametrize("missing", ["mean", 0.5])
def test_a_missing_feature_is_nan_where_it_may_be_missing(missing):
    given = [{"a": 1, "g": {"b": None}}, {"g": {"b": 2}}, {"a": 3, "g": {}}, {"a": 4}]
    decoded = decode(*given, input__features=["a", "g.b"], prepare__missing=missing)
    assert rows(decoded) == [[1, None], [None, 2], [3, None], [4, None]]
    decoded = decode({"f": [1, None]}, input__features="f", input__dimension=2, prepare__missing=missing)
    assert rows(decoded) == [[1, None]]


def test_categories_are_places_in_their_list_and_unknown_ones_minus_one():
    given = [
        {"country": "FR", "x": 1.0, "vip": True},
        {"country": "XX", "x": 2.0, "vip": False},
        {"country": "DE", "x": 3.0, "vip": "true"},
    ]
    wanted = {
        "input__features": ["country", "x", "vip"],
        "prepare__categories": {"country": ["DE", "FR"], "vip": [True]},
    }
    assert rows(decode(*given, **wanted)) == [[1, 1, 0], [-1, 2, -1], [0, 3, 0]]
    decoded = decode({"country": 3.5, "x": 1, "vip": True}, **wanted)
    assert [(f.stage, f.kind) for f in decoded.faults] == [("validate", "wrong_type")]
    assert "country is a number; a category is text" in decoded.faults[0].message


def test_a_category_in_an_array():
    decoded = decode(
        {"features": [1.5, "DE", 2]},
        {"features": [2.5, "IT", 3]},
        input__dimension=3,
        prepare__categories={"f1": ["DE"]},
    )
    assert rows(decoded) == [[1.5, 0, 2], [2.5, -1, 3]]


# What is not usable

LISTED = {"input__features": ["a", "g.b"]}
ARRAY = {"input__dimension": 2}
NAMED = {"shape": Shape(0, ("a", "b"))}


def nested(depth):
    """A good record with an ignored member, `depth` objects and arrays deep in all."""
    return b'{"a": 1.0, "g": {"b": 2.0}, "deep": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


FAULTS = [
    (LISTED, b"{", "decode", "not_json", "not JSON"),
    (LISTED, b"", "decode", "not_json", "not JSON"),
    (LISTED, b"\xff\xfe", "decode", "not_json", "not JSON"),
    (LISTED, b'{"a": NaN, "g": {"b": 1}}', "decode", "not_json", "knows no NaN"),
    (LISTED, b'{"a": Infinity, "g": {"b": 1}}', "decode", "not_json", "no Infinity"),
    (LISTED, b'{"a": 1e999, "g": {"b": 1}}', "decode", "out_of_range", "beyond float64"),
    (LISTED, b'{"a": 1' + b"0" * 400 + b', "g": {"b": 1}}', "decode", "out_of_range", "beyond float64"),
    (LISTED, [1, 2], "decode", "not_an_object", "this one is an array"),
    (LISTED, b"null", "decode", "not_an_object", "this one is null"),
    (LISTED, b'"text"', "decode", "not_an_object", "this one is text"),
    (LISTED, nested(33), "decode", "too_deep", "33 objects and arrays inside one another, 32 are allowed"),
    (LISTED, b"[" * 2000 + b"]" * 2000, "decode", "too_deep", "32 are allowed"),
    (LISTED, {"a": True, "g": {"b": 1}}, "validate", "wrong_type", "a is a boolean, not a number"),
    (LISTED, {"a": 1, "g": {"b": "2"}}, "validate", "wrong_type", "g.b is text, not a number"),
    (LISTED, {"a": [1], "g": {"b": 1}}, "validate", "wrong_type", "a is an array, not a number"),
    (LISTED, {"a": {}, "g": {"b": 1}}, "validate", "wrong_type", "a is an object, not a number"),
    (LISTED, {"g": {"b": 1}}, "validate", "missing_feature", "a is missing; send it, or set prepare.missing"),
    (LISTED, {"a": None, "g": {"b": 1}}, "validate", "missing_feature", "a is null"),
    (LISTED, {"a": 1, "g": [1]}, "validate", "missing_feature", "g.b is missing"),
    (LISTED, {"a": 1, "g.b": 1}, "validate", "missing_feature", "g.b is missing"),
    (LISTED, {"a": 1, "g": {"b": 1}, "pad": "x" * 3000}, "limit", "record_too_large", "record_bytes allows 2,000"),
    (ARRAY, {"features": [1]}, "validate", "wrong_dimension", "features has 1 numbers, the first record has 2"),
    (ARRAY, {"features": [1, 2, 3]}, "validate", "wrong_dimension", "has 3 numbers"),
    (ARRAY, {"features": []}, "validate", "wrong_dimension", "features is empty"),
    (ARRAY, {"features": [1, True]}, "validate", "wrong_type", "features[1] is a boolean"),
    (ARRAY, {"features": ["1", 2]}, "validate", "wrong_type", "features[0] is text"),
    (ARRAY, {"features": [1, None]}, "validate", "missing_feature", "features[1] is null"),
    (ARRAY, {"features": "12"}, "validate", "wrong_type", "neither an array nor an object"),
    (ARRAY, {"features": {"a": 1, "b": 2}}, "validate", "wrong_type", "features must be an array of numbers"),
    (ARRAY, {"feature": [1, 2]}, "validate", "missing_feature", "features is missing; it is where input.features"),
    (NAMED, {"features": {"a": 1}}, "validate", "missing_feature", "features.b is missing"),
    (NAMED, {"features": {"a": 1, "b": False}}, "validate", "wrong_type", "features.b is a boolean"),
    (NAMED, {"features": [1, 2]}, "validate", "wrong_type", "features must be an object name -> number"),
]


@pytest.mark.parametrize(("given", "value", "stage", "kind", "text"), FAULTS)
def test_a_fault_is_named_and_its_neighbours_are_unharmed(given, value, stage, kind, text):
    good = {"a": 1.5, "g": {"b": 2}, "features": [1.5, 2]}
    if given is NAMED:
        good = {"features": {"a": 1.5, "b": 2}}
    decoded = decode(good, value, good, limits__record_bytes=2_000 if len(str(value)) < 4_000 else 10_000, **given)
    assert [(f.index, f.stage, f.kind) for f in decoded.faults] == [(1, stage, kind)]
    assert text in decoded.faults[0].message
    assert (decoded.index, rows(decoded)) == ([0, 2], [[1.5, 2], [1.5, 2]])


def test_exactly_as_deep_and_as_large_as_allowed_is_usable():
    assert rows(decode(nested(32), nested(32), **LISTED)) == [[1, 2], [1, 2]]
    brackets = {"a": 1, "g": {"b": 2}, "text": "[{" * 100}
    assert rows(decode(brackets, brackets, **LISTED)) == [[1, 2], [1, 2]]
    exact = orjson.dumps({"a": 1, "g": {"b": 2}})
    assert decode(exact, limits__record_bytes=len(exact), **LISTED).index == range(1)
    assert decode(exact, limits__record_bytes=len(exact) - 1, **LISTED).index == []


def test_faults_anywhere_in_a_large_batch_leave_the_rest_as_it_is():
    values = [{"a": float(i), "g": {"b": i}} for i in range(1000)]
    bad = {3: b"{", 64: {"a": True, "g": {"b": 1}}, 65: None, 999: {"a": 1}}
    values = [bad.get(i, value) for i, value in enumerate(values)]
    decoded = decode(*values, **LISTED)
    expected = [i for i in range(1000) if i not in bad]
    assert decoded.index == expected
    assert decoded.rows[:, 0].tolist() == [float(i) for i in expected]
    assert [f.index for f in decoded.faults] == [3, 64, 999]
    assert (decoded.skipped, len(decoded.times)) == (1, len(expected))


# Ids and times
@pytest.mark.parametrize("text", ['"a-1"', '"q\\"\\\\\\n"', '"ü"', "7", "1.5", "null", "9223372036854775808"])
def test_an_id_is_text_or_a_number_as_it_was_sent(text):
    value = {"x": 1, "meta": {"id": orjson.loads(text)}}
    assert decode(value, input__features=["x"], input__id_path="meta.id").ids == [text.encode()]


LONG = [
    "18446744073709551616",
    "18446744073709551617",
    "-9223372036854775809",
    "12345678901234567890123",
    "0." + "1" * 20,
]


@pytest.mark.parametrize("odd", [(), (b"{",)])
@pytest.mark.parametrize("count", [1, 20])
def test_numbers_that_are_passed_through_keep_their_digits(odd, count):
    values = [b'{"x": 1, "id": %b, "more": {"a": [%b]}}' % (text.encode(), text.encode()) for text in LONG] * count
    own = {"input__features": ["x"], "input__id_path": "id", "output__include": ["more", "id"]}
    decoded = mapping(**own).decode(records(*values, *odd))
    assert decoded.ids == [text.encode() for text in LONG] * count
    assert decoded.included == [f'{{"more":{{"a":[{text}]}},"id":{text}}}' for text in LONG] * count
    assert mapping(input__features=["x"], input__id_path="id").decode(records(*values)).ids == decoded.ids


@pytest.mark.parametrize("separators", [(",", ":"), None])
def test_a_member_is_copied_with_its_own_digits_whatever_else_has_them(separators):
    text = json.dumps(
        {"x": 1, "a": 0.1, "b": {"c": [1.5, "a,b"], "a": 2.5}, "s": "0.10000000000000001"}, separators=separators
    )
    for value, a, b in (
        (text, "0.1", '{"c":[1.5,"a,b"],"a":2.5}'),
        (text.replace("0.1", "0.10000000000000001", 1), "0.10000000000000001", '{"c":[1.5,"a,b"],"a":2.5}'),
        (text.replace("1.5", "1.50000000000000001", 1), "0.1", '{"c":[1.50000000000000001,"a,b"],"a":2.5}'),
    ):
        own = mapping(input__features=["x"], output__include=["b", "a", "none"])
        assert own.decode(records(value.encode())).included == [f'{{"b":{b},"a":{a}}}']
    assert decode(text.encode(), input__features=["x"], input__id_path="a").ids == [b"0.1"]


@pytest.mark.parametrize("separators", [(",", ":"), None])
def test_a_record_is_read_again_only_for_numbers_that_changed_and_once(separators, monkeypatch):
    read = []
    exact = exact_json.exact
    monkeypatch.setattr(exact_json, "exact", lambda value, parsed: read.append(value) or exact(value, parsed))
    members = {"x": 0.8444218515250481, "id": 2.25, "price": 19.9, "tax": -1e-5, "c": "0.12345678901234567890"}
    text = json.dumps(members, separators=separators).replace("19.9", "19.90").replace("2.25", "2.250")
    own = {"input__features": ["x"], "input__id_path": "id", "output__include": ["price", "tax", "x"]}
    decoded = mapping(**own).decode(records(text.encode()))
    assert (decoded.ids, read) == ([b"2.25"], [])
    assert orjson.loads(decoded.included[0]) == {name: members[name] for name in ("price", "tax", "x")}
    long = text.replace("19.90", "19.900000000000000001").replace("-1e-05", "-1.0000000000000000001")
    (included,) = mapping(**own).decode(records(long.encode())).included
    assert included == '{"price":19.900000000000000001,"tax":-1.0000000000000000001,"x":0.8444218515250481}'
    assert read == [long.encode()]


def test_a_label_and_a_stream_of_many_digits_are_those_digits():
    own = mapping(stream="field:user", input__features=["x"], input__label_path="kind", engine__name="mlca")
    value = b'{"x": 1, "kind": [18446744073709551617, "a"], "user": 12345678901234567890123}'
    (labels,) = own.decode(records(value)).labels
    assert labels.labels == ("18446744073709551617", "a")
    stream_of = RecordStreams(own._settings, "features", own).stream_of
    assert [stream_of(record) for record in records(value)] == [b"12345678901234567890123"]
    with pytest.raises(FaultError, match="user is a number; a stream is text, an integer"):
        stream_of(records(b'{"x": 1, "user": 0.12345678901234567890}')[0])


def test_ids_of_a_batch_are_told_apart_whatever_is_in_them():
    ids = ['a",', '","', "b", "", ",", "\\", "line\nbreak", "a,b", '"', "ü", " "]
    for some in (ids, [text for text in ids if '"' not in text and text.isprintable() and text != "\\"], ids[::-1]):
        decoded = decode(*({"x": 1, "id": text} for text in some), input__features=["x"], input__id_path="id")
        assert [orjson.loads(text) for text in decoded.ids or ()] == some


def test_a_record_without_an_id_has_none():
    assert decode({"x": 1, "id": "a"}, {"x": 1}, input__features=["x"], input__id_path="id").ids == [b'"a"', b"null"]


def times(*values, stamp=STAMP):
    given = mapping(input__features=["x"], input__time_path="t")
    decoded = given.decode(records(*({"x": 1, "t": value} for value in values), timestamp=stamp))
    assert not decoded.faults, decoded.faults
    return decoded.times


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02T03:04:05.6789Z", "2026-01-02T03:04:05.678Z"),
        ("2026-01-02t03:04:05.6z", "2026-01-02T03:04:05.600Z"),
        ("2026-01-01T00:30:00.25+01:00", "2025-12-31T23:30:00.250Z"),
        ("2026-01-01 00:30:00-01:30", "2026-01-01T02:00:00.000Z"),
        *(("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"), (0, "1970-01-01T00:00:00.000Z")),
        *((1_700_000_000_123, "2023-11-14T22:13:20.123Z"), (1_700_000_000_123.75, "2023-11-14T22:13:20.123Z")),
        *((-1500, "1969-12-31T23:59:58.500Z"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z"), (None, STAMP_TEXT)),
    ],
)
def test_times_come_out_in_utc_with_milliseconds(value, text):
    assert times(value) == [text]


def test_without_a_time_of_its_own_a_record_has_that_of_kafka():
    given = mapping(input__features=["x"], input__time_path="t")
    assert given.decode(records({"x": 1}, {"x": 1, "t": 0})).times == [STAMP_TEXT, "1970-01-01T00:00:00.000Z"]
    assert given.decode(records({"x": 1}, timestamp=-1)).times == ["1970-01-01T00:00:00.000Z"]
    fault = given.decode(records({"x": 1}, timestamp=1_700_000_000_000_000)).faults[0]
    assert (fault.kind, "Kafka's timestamp" in fault.message) == ("bad_time", True)


@pytest.mark.parametrize(
    "value",
    [
        *("yesterday", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-02", "2026-01-02T03:04:05"),
        *("2026-01-02T03:04:05+25:00", "0001-01-01T00:00:00+01:00", 1e18, True, []),
    ],
)
def test_what_is_no_time_is_a_fault(value):
    decoded = decode({"x": 1, "t": 5}, {"x": 1, "t": value}, input__features=["x"], input__time_path="t")
    assert [(f.index, f.stage, f.kind) for f in decoded.faults] == [(1, "validate", "bad_time")]


def test_remembered_times_are_bounded(monkeypatch):
    monkeypatch.setattr("resonance.pipeline.timestamps.CACHED", 10)
    texts = TimeTexts()
    for i in range(100):
        assert texts[i * 1000].endswith(f"{i % 60:02d}.000Z")
    assert len(texts) <= 10


# Copied members and paths
def test_copied_members_stand_under_their_paths():
    decoded = decode(
        {"x": 1, "user": {"id": 3, "tags": ["a"]}},
        {"x": 2},
        input__features=["x"],
        output__include=["user.id", "user.tags", "a\\.b"],
    )
    assert decoded.included == ['{"user.id":3,"user.tags":["a"]}', "{}"]


def test_paths_are_names_joined_by_dots():
    assert parse_path("a.b\\.c.d") == ("a", "b.c", "d")
    assert path_name("a.b\\.c") == "a.b.c"
    assert find({"a": {"b": None}}, ("a", "b")) is None
    assert find({"a": 1}, ("a", "b")) is ABSENT
    for text in ("", ".", "a.", "a..b"):
        with pytest.raises(ValueError, match="names joined by dots"):
            parse_path(text)
