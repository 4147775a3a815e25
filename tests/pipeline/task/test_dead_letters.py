"""A record that cannot be used becomes a dead letter; its neighbours do not notice."""

import hashlib

import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task.counts import DeadLetterExample
from resonance.pipeline.task.decode.dense import Layout, Shape
from resonance.pipeline.task.decode.mapping import make_mapping
from resonance.pipeline.task.encode import assignments
from resonance.schemas import load_schema

from tests.pipeline.streams import (
    STAMP,
    TOPIC,
    errors,
    payloads,
    points,
    records,
    run,
    settings,
    states,
    task,
    value_of,
)
from tests.pipeline.task.test_partition_task import array_records, array_settings

DEEP = b'{"cpu": 1, "latency_ms": 2, "net": {"in": 3}, "x": ' + b"[" * 40 + b"]" * 40 + b"}"

FINE = b'"latency_ms": 2, "net": {"in": 3}'
KINDS = [
    *((b"{", "decode", "not_json"), (b'[{"cpu": 1}]', "decode", "not_an_object"), (DEEP, "decode", "too_deep")),
    *(
        (b'{"cpu": 1e400, %b}' % FINE, "decode", "out_of_range"),
        (b'{"cpu": true, %b}' % FINE, "validate", "wrong_type"),
    ),
    (b'{"cpu": 1, "latency_ms": 2, "net": {}}', "validate", "missing_feature"),
    (b'{"cpu": 1, "id": [], %b}' % FINE, "validate", "wrong_type"),
    (b'{"cpu": 1, "t": "soon", %b}' % FINE, "validate", "bad_time"),
    (value_of([1e200, 2.0, 3.0]), "limit", "out_of_range"),
    *((value_of([1.0, 2.0, 3.0], pad="x" * size), "limit", "record_too_large") for size in (5_000, 10_000_000)),
]


def given(**changes):
    return settings(
        **{"input__id_path": "id", "input__time_path": "t", "limits__record_bytes": 4_000, "name": "shop", **changes}
    )


ARRAY_KINDS = [
    *((b"{", "decode", "not_json"), (b"[1, 2, 3]", "decode", "not_an_object")),
    *((b'{"features": [1, 1e400, 3]}', "decode", "out_of_range"), (DEEP, "decode", "too_deep")),
    *((b'{"features": [1, true, 3]}', "validate", "wrong_type"), (b'{"features": []}', "validate", "wrong_dimension")),
    *((b'{"features": [1, null, 3]}', "validate", "missing_feature"), (b"{}", "validate", "missing_feature")),
    (b'{"features": [1, 2, 3], "id": []}', "validate", "wrong_type"),
    (b'{"features": [1, 2, 3], "t": "soon"}', "validate", "bad_time"),
    *(
        (b'{"features": [1e200, 2, 3]}', "limit", "out_of_range"),
        (b'{"features": [1, -1, 3]}', "limit", "out_of_range"),
    ),
    (b'{"features": [1, 2, 3], "x": "' + b"x" * 5_000 + b'"}', "limit", "record_too_large"),
]


@pytest.mark.parametrize(("value", "stage", "kind"), KINDS)
@pytest.mark.parametrize("place", [30, 300], ids=["warming up", "learning"])
def test_every_kind_is_named_and_its_neighbours_are_unharmed(value, stage, kind, place):
    check_one_at_fault(given(), records(points(400).tolist(), keys=(b"k",)), place, value, stage, kind)


@pytest.mark.parametrize(("value", "stage", "kind"), ARRAY_KINDS)
@pytest.mark.parametrize("place", [3, 30, 150], ids=["deciding", "warming up", "learning"])
def test_every_kind_is_named_also_while_the_features_are_being_decided(value, stage, kind, place):
    log = array_records(abs(points(200)).tolist(), (b"k",))
    check_one_at_fault(given(input__features="features", prepare__log1p=["f1"]), log, place, value, stage, kind)


def check_one_at_fault(given, log, place, value, stage, kind):
    log[place] = log[place]._replace(value=value, headers=(("mine", b"\x00\x01"), ("none", None)))
    worker, clean = task(given), task(given)
    outputs = run(worker, log, 70)
    without = run(clean, log[:place] + log[place + 1 :], 70)
    assert outputs.assignments == without.assignments
    assert (outputs.cluster_events, states(worker)) == (without.cluster_events, states(clean))
    (dead_letter,) = outputs.dead_letters
    assert dead_letter.key == b"k"
    assert dead_letter.value == value or len(value) > 900_000
    assert dead_letter.headers[:2] == [("mine", b"\x00\x01"), ("none", None)]
    found = errors(dead_letter, "shop")
    assert (found["stage"], found["class"]) == (stage, kind)
    assert (found["topic"], found["partition"], found["offset"]) == (TOPIC, "0", str(log[place].offset))
    assert found["message"]
    Draft202012Validator(load_schema("dead_letter")).validate(found)
    assert worker.counts.dead_letters == {kind: 1}


def test_a_range_that_was_just_frozen_counts_at_once():
    rows = [[0.001 * i, 1.0, 1.0] for i in range(60)]
    rows[10][0] = 5e149
    for size in (1, 100):
        worker = task(array_settings(prepare__warmup_records=5))
        outputs = run(worker, array_records(rows, (b"k",)), size)
        (dead_letter,) = outputs.dead_letters
        assert "once scaled" in errors(dead_letter)["message"]
        assert len(outputs.assignments) == 59


def test_without_a_key_or_with_a_long_one_there_is_no_stream():
    log = records(points(100).tolist(), keys=(b"a", b"b"))
    log[10] = log[10]._replace(key=None)
    log[20] = log[20]._replace(key=b"x" * 257)
    log[30] = log[30]._replace(key=b"x" * 256)
    log[40] = log[40]._replace(key=b"")
    for size in (1, 100):
        worker = task(settings(stream="key"))
        outputs = run(worker, log, size)
        assert [(errors(m)["stage"], errors(m)["class"]) for m in outputs.dead_letters] == [
            ("validate", "no_key"),
            ("limit", "key_too_long"),
        ]
        assert "the name of a stream has at most 256; send shorter keys" in errors(outputs.dead_letters[1])["message"]
        assert outputs.dead_letters[0].key is None
        assert worker.models.names == ["p0:a", "p0:b", f"p0:{'x' * 256}", "p0:"]
    assert not run(task(), log).dead_letters


def test_streams_beyond_the_limit_are_dead_letters_that_name_the_setting():
    log = records(points(100).tolist(), keys=(b"a", b"b", b"c"))
    expected = Outputs()
    for size in (1, 7, 100):
        worker = task(settings(stream="key", limits__streams=2))
        outputs = run(worker, log, size)
        assert {m.key for m in outputs.dead_letters} == {b"c"}
        found = errors(outputs.dead_letters[0])
        assert (found["stage"], found["class"]) == ("limit", "too_many_streams")
        assert "limits.streams = 2" in found["message"]
        assert worker.models.names == ["p0:a", "p0:b"]
        assert size == 1 or outputs == expected
        expected = outputs


def test_keys_and_streams_count_while_the_dimension_is_being_decided():
    log = array_records(points(60).tolist(), (b"a", b"b", b"c"))
    log[1] = log[1]._replace(key=None)
    outputs = run(task(array_settings(stream="key", limits__streams=2)), log)
    kinds = [errors(m)["class"] for m in outputs.dead_letters]
    assert kinds[0] == "no_key"
    assert set(kinds[1:]) == {"too_many_streams"}
    assert len(outputs.assignments) + len(kinds) == 60


# What the topic would not take
def dead_letter_of(record, **changes):
    (dead_letter,) = task(settings(name="shop", **changes)).process([record]).dead_letters
    return dead_letter


def size_of(dead_letter):
    return (
        len(dead_letter.key or b"")
        + len(dead_letter.value or b"")
        + sum(len(name.encode()) + len(text or b"") for name, text in dead_letter.headers)
    )


def test_a_value_that_the_topic_would_not_take_is_cut_and_says_so():
    value = b"[" + b"0123456789" * 1_000_000
    dead_letter = dead_letter_of(
        Record(TOPIC, 0, 5, STAMP, b"key", value, (("mine", b"1"),)), limits__record_bytes=20_000_000
    )
    found = errors(dead_letter, "shop")
    assert (found["truncated"], found["length"]) == ("value", str(len(value)))
    assert found["sha256"] == hashlib.sha256(value).hexdigest()
    assert value.startswith(dead_letter.value)
    assert dead_letter.key == b"key"
    assert ("mine", b"1") in dead_letter.headers
    assert 890_000 < size_of(dead_letter) <= 900_000
    Draft202012Validator(load_schema("dead_letter")).validate(found)


def test_headers_and_keys_that_are_too_long_themselves_are_cut_too(monkeypatch):
    monkeypatch.setattr(assignments, "DEAD_LETTER_BYTES", 4_000)
    large = b"x" * 5_000
    record = Record(TOPIC, 0, 5, STAMP, b"key", b"[]", (("mine", large),))
    dead_letter = dead_letter_of(record)
    assert errors(dead_letter, "shop")["truncated"] == "headers"
    assert (dead_letter.key, dead_letter.value) == (b"key", b"[]")
    assert "mine" not in dict(dead_letter.headers)
    dead_letter = dead_letter_of(record._replace(key=large, value=large))
    found = errors(dead_letter, "shop")
    assert (found["truncated"], found["length"]) == ("value, headers, key", "5000")
    assert size_of(dead_letter) <= 4_000
    assert large.startswith(dead_letter.key)


def test_a_value_that_just_fits_is_whole(monkeypatch):
    record = Record(TOPIC, 0, 5, STAMP, None, b"[" * 3_000)
    dead_letter = dead_letter_of(record)
    assert dead_letter.value == record.value
    exact = size_of(dead_letter)
    monkeypatch.setattr(assignments, "DEAD_LETTER_BYTES", exact)
    assert dead_letter_of(record) == dead_letter
    monkeypatch.setattr(assignments, "DEAD_LETTER_BYTES", exact - 1)
    assert errors(dead_letter_of(record), "shop")["truncated"] == "value"


# What an answer or an event would not have room for
@pytest.mark.parametrize("place", [3, 30, 150], ids=["deciding", "warming up", "learning"])
@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"id": "i" * 200_000}, "its key and its id bring 200,003 bytes into each output, 200,000 are allowed"),
        ({"a": "\u00fc" * 300_000, "id": "i" * 150_000, "b": "b" * 150_000}, "900,000 are allowed; copy less"),
    ],
)
def test_a_record_that_brings_too_much_into_its_outputs(place, members, text):
    log = array_records(points(200).tolist(), (b"k",))
    value = orjson.dumps({"features": [1, 2, 3], **members})
    own = given(input__features="features", output__include=["a", "b"], limits__record_bytes=2_000_000)
    check_one_at_fault(own, log, place, value, "limit", "answer_too_large")
    (dead_letter,) = task(own).process([log[0]._replace(value=value)]).dead_letters
    assert text in errors(dead_letter, "shop")["message"]


def test_what_a_record_may_bring_into_its_outputs_is_answered_and_fits():
    members = {"id": "i" * 199_990, "a": "a" * 699_990}
    record = records(points(1).tolist(), keys=(b"k",))[0]
    row = points(1).tolist()[0]
    own = given(output__include=["a"], limits__record_bytes=2_000_000, prepare__scale="none")
    outputs = run(task(own), [record._replace(value=value_of(row, **members), headers=(("traceparent", b"t"),))])
    assert not outputs.dead_letters
    assert size_of(outputs.assignments[0]) < 1_000_000
    assert payloads(outputs.assignments)[0]["id"] == members["id"]


@pytest.mark.parametrize(("stream", "length"), [("partition", 4_990), ("key", 256)])
def test_a_key_counts_for_all_the_names_that_it_gives(stream, length):
    log = records(points(400).tolist(), keys=(b"\xff" * length,))
    outputs = run(task(settings(stream=stream)), log)
    assert outputs.cluster_events
    assert not outputs.dead_letters
    assert max(map(size_of, outputs.cluster_events)) < 200_000


LONG = ", ".join(f'"f{n}": {n}' for n in range(40))


@pytest.mark.parametrize(
    ("value", "settings", "shown"),
    [
        (f'{{{LONG}, "geo": {{"kg": "0.48 kg"}}, "last": 1}}', {"input.features": ["geo.kg"]}, '"kg": "0.48 kg"'),
        (f'{{"m": "1.5 m", {LONG}}}', {"input.features": ["m"]}, '{"m": "1.5 m", '),
        (f'{{"x": {[*range(90), "bad", *range(90)]}}}'.replace("'", '"'), {"input.dimension": 181}, ', "bad", 0'),
        (f'{{{LONG}, "a": 1 "b": 2, {LONG}}}', {}, '"a": 1 "b": 2'),
        (f"{{{LONG}}}", {}, '{"f0": 0, '),
    ],
)
def test_an_example_shows_what_its_message_is_about(value, settings, shown):
    given = Settings.of({"input.topics": ["t"], "input.features": "x", **settings})
    mapping = make_mapping(given)
    mapping.layout = mapping.layout or Layout(given, Shape(2, ()))
    (fault,) = mapping.decode([Record("t", 0, 0, 0, None, value.encode())]).faults
    found = DeadLetterExample(fault.kind, 0, ("t", 0, 0, None), fault.message, value.encode()).as_json()["value"]
    assert shown in found
    assert len(found) <= 80
