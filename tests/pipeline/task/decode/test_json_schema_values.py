"""JSON values are checked by their schema, as confluent-kafka's own deserialiser checks them."""

import json

import orjson
import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from hypothesis import given, settings
from hypothesis import strategies as some
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.json_schema_values import JsonSchemaReader

from tests import LONG
from tests.schema_registry import BY_TOPIC, running

SCHEMA = {
    "type": "object",
    "title": "Reading",
    "properties": {
        "id": {"type": "string", "pattern": "^k"},
        "x": {"type": "number", "minimum": 0, "maximum": 10},
        "kind": {"enum": ["a", "b"]},
        "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def reader(schema=SCHEMA, **others):
    return JsonSchemaReader(json.dumps(schema), {name: json.dumps(own) for name, own in others.items()})


def test_a_valid_value_is_its_object():
    value = {"id": "k1", "x": 1.5, "kind": "a", "list": [1, 2]}
    assert reader().objects([b"12345" + orjson.dumps(value)] * 2, 5) == [value] * 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"x": 1}, "the whole is against required of it"),
        ({"id": "k", "x": -1}, "x is against properties/x/minimum of it"),
        ({"id": "k", "list": [1, "2"]}, "list.1 is against properties/list/items/type of it"),
        ({"id": "k", "x": 11, "other": 1}, "the whole is against additionalProperties of it"),
    ],
)
def test_another_value_says_where_and_which_rule_it_breaks(value, reason):
    with pytest.raises(ValueError, match=f"^{reason}$"):
        reader().objects([orjson.dumps({"id": "k"}), orjson.dumps(value)], 0)


JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-20, 20) | some.floats(-20, 20) | some.sampled_from(["a", "k", "x"]),
    lambda inner: some.lists(inner, max_size=4),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def confluents():
    """Return the frame of a value, and confluent-kafka's deserialiser of it."""
    with running() as registry:
        frame = b"\0" + registry.add(SCHEMA, "JSON").to_bytes(4, "big")
        read = JSONDeserializer(None, schema_registry_client=registry.client, conf=BY_TOPIC)
        yield frame, lambda value: read(value, SerializationContext("features", MessageField.VALUE))


@settings(max_examples=300 if LONG else 150, deadline=None)
@given(some.dictionaries(some.sampled_from(["id", "x", "kind", "list", "other"]), JSON, max_size=4))
def test_valid_is_what_confluents_deserialiser_calls_valid(confluents, value):
    frame, read = confluents
    framed = frame + orjson.dumps(value)
    try:
        wanted = read(framed)
    except SerializationError:
        wanted = None
    try:
        (found,) = reader().objects([framed], 5)
    except ValueError:
        found = None
    assert found == wanted


def test_a_schema_may_refer_to_others_and_to_nothing_else():
    schema = {"properties": {"at": {"$ref": "geo.json"}}}
    own = reader(schema, **{"geo.json": {"required": ["lat"]}})
    assert own.objects([b'{"at": {"lat": 1}}'], 0)
    with pytest.raises(ValueError, match=r"at is against .*required of it"):
        own.objects([b'{"at": {}}'], 0)
    for address in ("geo.json", "file:///etc/hostname", "http://127.0.0.1:1/geo.json"):
        for others in ({}, {"other.json": {}}):
            with pytest.raises(FaultError, match="schema cannot be used"):
                reader({"$ref": address}, **others)


@pytest.mark.parametrize("schema", ["{", "5", '{"type": "foo"}', '{"$schema": "urn:x"}', "[" * 2_000])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(FaultError, match="no JSON Schema") as refused:
        JsonSchemaReader(schema, {})
    assert (refused.value.stage, refused.value.kind) == ("decode", "wrong_schema")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *((b"", "not_json"), (b"{", "not_json"), (b"[1]", "not_an_object"), (b'{"id": NaN}', "not_json")),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "too_deep"),
    ],
)
def test_what_is_no_object_is_what_it_is_without_a_schema(value, kind):
    with pytest.raises(FaultError) as refused:
        reader(True).objects([value], 0)
    assert refused.value.kind == kind
