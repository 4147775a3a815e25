"""Avro values become the objects that JSON would give, as confluent-kafka's own deserialiser reads them."""

import datetime
import io
import json
from decimal import Decimal

import fastavro
import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer
from hypothesis import given
from hypothesis import strategies as some
from resonance.pipeline import exact_json
from resonance.pipeline.task.decode.avro_values import AvroReader
from resonance.pipeline.task.decode.faults import FaultError

MOMENT = datetime.datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=datetime.UTC)
MILLISECONDS = 1_769_860_800_123


def record(*fields, name="Reading"):
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields]}


def written(schema, *values):
    """Values as fastavro writes them, each behind five bytes."""
    parsed = fastavro.parse_schema(schema)
    texts = []
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        texts.append(b"\0\0\0\0\1" + stream.getvalue())
    return texts


def read(schema, *values):
    return AvroReader(json.dumps(schema)).objects(written(schema, *values), 5)


EVERYTHING = record(
    ("id", "string"),
    ("number", "double"),
    ("small", "float"),
    ("count", "long"),
    ("flag", "boolean"),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}),
    ("vector", {"type": "array", "items": "float"}),
    ("counters", {"type": "map", "values": "int"}),
    ("geo", record(("lat", "double"), ("lon", ["null", "double"]), name="Geo")),
    ("earlier", ["null", "Geo"]),
    ("maybe", ["null", "double", "string"]),
)
VALUE = {
    **{"id": "k", "number": 0.1, "small": 0.5, "count": -(2**60), "flag": True, "kind": "B"},
    **{"vector": [1.0, 2.5], "counters": {"a": 1}, "geo": {"lat": 1.0, "lon": None}},
    **{"earlier": {"lat": 2.0, "lon": 3.0}, "maybe": None},
}


def test_members_are_those_that_confluents_deserialiser_gives(registry):
    (value,) = registry.avro(EVERYTHING, VALUE)
    found = AvroReader(json.dumps(EVERYTHING)).objects([value, value], 5)
    assert found == [AvroDeserializer(registry.client)(value)] * 2 == [VALUE] * 2


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        *(("timestamp-millis", MOMENT, MILLISECONDS), ("timestamp-micros", MOMENT, MILLISECONDS)),
        ("local-timestamp-micros", MOMENT.replace(tzinfo=None), MILLISECONDS),
        *(("timestamp-nanos", MILLISECONDS * 1_000_000 + 999_999, MILLISECONDS), ("unheard-of", 7, 7)),
    ],
)
def test_times_are_milliseconds(kind, value, found):
    schema = record(("t", {"type": "long", "logicalType": kind}))
    assert read(schema, {"t": value}) == [{"t": found}]


def test_dates_decimals_and_uuids_are_what_json_has():
    decimal = {"logicalType": "decimal", "precision": 22}
    schema = record(
        ("day", ["null", {"type": "int", "logicalType": "date"}]),
        ("price", {"type": "bytes", "scale": 2, **decimal}),
        ("units", ["null", {"type": "fixed", "name": "Units", "size": 10, **decimal}]),
        ("list", {"type": "array", "items": {"type": "bytes", "scale": 1, **decimal}}),
        ("by_name", {"type": "map", "values": {"type": "bytes", "scale": 1, **decimal}}),
        ("uuid", {"type": "fixed", "name": "Uuid", "size": 16, "logicalType": "uuid"}),
        ("blob", "bytes"),
    )
    value = {
        **{"day": datetime.date(2026, 1, 31), "price": Decimal("-12.34"), "units": Decimal(2**40)},
        **{"list": [Decimal("0.1")], "by_name": {"a": Decimal("2.5")}, "uuid": bytes(15) + b"\5", "blob": b"\xff\0"},
    }
    assert read(schema, value, {**value, "day": None, "units": None})[1]["day"] is None
    (found,) = read(schema, value)
    assert found == {
        **{"day": 1_769_817_600_000, "price": -12.34, "units": 2**40, "list": [0.1], "by_name": {"a": 2.5}},
        **{"uuid": "00000000-0000-0000-0000-000000000005", "blob": "/wA="},
    }
    assert type(found["units"]) is int
    long = {**value, "price": Decimal("-123456789012345678.90"), "units": Decimal(2**70), "list": [Decimal("-0.1")]}
    (bytes_,) = written(schema, long)
    exact = AvroReader(json.dumps(schema)).exact(bytes_, 5, None)
    assert exact_json.dumps([exact["price"], exact["units"], exact["list"], exact["uuid"]]).decode() == (
        '[-123456789012345678.90,1180591620717411303424,[-0.1],"00000000-0000-0000-0000-000000000005"]'
    )


def test_of_a_union_each_type_has_its_own_way():
    schema = record(("x", [{"type": "int", "logicalType": "date"}, "long", "bytes"]))
    choices = [(b"\0\2", 86_400_000), (b"\2\2", 1), (b"\4\2a", "YQ==")]
    found = AvroReader(json.dumps(schema)).objects([text for text, _ in choices], 0)
    assert [each["x"] for each in found] == [value for _, value in choices]


def test_a_schema_may_refer_to_others():
    geo = record(("lat", "double"), name="Geo") | {"namespace": "places"}
    schema = record(("at", "places.Geo"))
    reader = AvroReader(json.dumps(schema), [json.dumps(geo)])
    assert reader.objects([bytes(8)], 0) == [{"at": {"lat": 0.0}}]


NESTED = [record(("x", "int"), name="R0")]
for _level in range(1, 40):
    NESTED.append(record(("x", NESTED[-1]), name=f"R{_level}"))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        *(("{", "no Avro schema"), ('"strin"', "no Avro schema"), ("5", "no Avro schema"), ("null", "no Avro schema")),
        ("[" * 2_000, "no Avro schema"),
        (json.dumps({"type": "record", "name": "R", "fields": [{"name": "x"}]}), "no Avro schema"),
        (json.dumps(record(("at", "nowhere.Geo"))), "no Avro schema"),
        # Three bytes of a producer would end the process, or take all its memory.
        (json.dumps(record(("next", ["null", "Reading"]))), "contains itself"),
        (json.dumps({"type": "array", "items": "null"}), "without any byte"),
        (json.dumps({"type": "map", "values": record(("x", "null"))}), "without any byte"),
        (json.dumps(NESTED[-1]), "nests 40 objects"),
        (json.dumps(record(*((f"x{i}", "null") for i in range(1_001)))), "1,001 members without"),
    ],
)
def test_a_schema_without_a_use_or_a_bound_is_refused(schema, reason):
    with pytest.raises(FaultError, match=reason) as refused:
        AvroReader(schema)
    assert (refused.value.stage, refused.value.kind) == ("decode", "wrong_schema")


@given(some.binary(max_size=80))
def test_garbage_is_an_exception_or_an_object_of_json(value):
    reader = AvroReader(json.dumps(EVERYTHING))
    try:
        (found,) = reader.objects([b"12345" + value], 5)
    except Exception:
        return
    # NaN is the only number that is not equal to itself.
    assert json.loads(json.dumps(found)).keys() == found.keys()


def test_what_is_cut_off_or_too_long_does_not_fit():
    (value,) = written(EVERYTHING, VALUE)
    reader = AvroReader(json.dumps(EVERYTHING))
    for cut in range(5, len(value)):
        with pytest.raises((EOFError, IndexError, ValueError)):
            reader.objects([value[:cut]], 5)
    with pytest.raises(ValueError, match="2 bytes are left"):
        reader.objects([value + b"\0\0"], 5)
