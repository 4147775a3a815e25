"""Protobuf values become objects by the descriptors of the registry alone."""

import json

import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, text_format
from hypothesis import given
from hypothesis import strategies as some
from resonance.pipeline.errors import RegistryError
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.protobuf_values import ProtobufFile

from tests.schema_registry import BY_TOPIC, message_class, serialized

TYPES = descriptor_pb2.FieldDescriptorProto


def field(name, number, kind, label="OPTIONAL", **given):
    """A field; `kind` is a scalar type, or the full name of a message or an enum."""
    own = {"type_name": kind} if kind.startswith(".") else {"type": f"TYPE_{kind}"}
    return TYPES(name=name, number=number, label=f"LABEL_{label}", **own, **given)


def file(*messages, syntax="proto3", name="readings.proto", imports=(), enums=(), package="shop"):
    return descriptor_pb2.FileDescriptorProto(
        name=name, package=package, syntax=syntax, message_type=messages, dependency=imports, enum_type=enums
    )


def message(name, *fields, **given):
    return descriptor_pb2.DescriptorProto(name=name, field=fields, **given)


KIND = text_format.Parse(
    'name: "Kind" value {name: "NONE" number: 0} value {name: "SALE" number: 3}', descriptor_pb2.EnumDescriptorProto()
)
COUNTERS = message(
    "CountersEntry",
    *(field("key", 1, "INT32"), field("value", 2, "DOUBLE")),
    options=descriptor_pb2.MessageOptions(map_entry=True),
)
READING = message(
    "Reading",
    field("id", 1, "STRING"),
    field("x", 2, "DOUBLE"),
    field("count", 3, "INT64"),
    field("vector", 4, "FLOAT", "REPEATED"),
    field("geo", 5, ".shop.Geo"),
    field("kind", 6, ".shop.Kind"),
    field("maybe", 7, "DOUBLE", proto3_optional=True, oneof_index=0),
    field("t", 8, ".google.protobuf.Timestamp"),
    field("wrapped", 9, ".google.protobuf.DoubleValue"),
    field("blob", 10, "BYTES"),
    field("places", 11, ".shop.Geo", "REPEATED"),
    field("counters", 12, ".shop.Reading.CountersEntry", "REPEATED"),
    field("more", 13, ".google.protobuf.Struct"),
    nested_type=[COUNTERS],
    oneof_decl=[descriptor_pb2.OneofDescriptorProto(name="_maybe")],
)
GEO = message("Geo", field("lat", 1, "DOUBLE"), field("kinds", 2, ".shop.Kind", "REPEATED"))
IMPORTS = [f"google/protobuf/{name}.proto" for name in ("timestamp", "wrappers", "struct")]
READINGS = file(READING, GEO, imports=IMPORTS, enums=[KIND])
NOTHING = {
    **{"id": "", "x": 0.0, "count": 0, "vector": [], "geo": None, "kind": "NONE", "maybe": None, "t": None},
    **{"wrapped": None, "blob": "", "places": [], "counters": {}, "more": None},
}


def reader(own=READINGS, place=(0,), **others):
    return ProtobufFile(serialized(own), {name: serialized(each) for name, each in others.items()}).reader(place)


def test_members_are_the_objects_of_the_message():
    made = message_class(READINGS, "shop.Reading")
    full = made(id="k", x=0.1, count=-(2**60), vector=[1.5, 2.5], kind=3, maybe=0.0, blob=b"\xff\0")
    full.geo.lat, full.wrapped.value, full.counters[4] = 1.0, 2.0, 3.0
    full.t.FromMilliseconds(1_769_860_800_123)
    full.places.add(lat=2.0, kinds=[3, 7])
    full.more.update({"a": [1, {"b": None}]})
    found = reader().objects([b"123456" + made().SerializeToString(), b"123456" + full.SerializeToString()], 6)
    assert found == [
        NOTHING,
        {
            **{"id": "k", "x": 0.1, "count": -(2**60), "vector": [1.5, 2.5], "geo": {"lat": 1.0, "kinds": []}},
            **{"kind": "SALE", "maybe": 0.0, "t": 1_769_860_800_123, "wrapped": 2.0, "blob": "/wA="},
            **{"places": [{"lat": 2.0, "kinds": ["SALE", 7]}], "counters": {"4": 3.0}, "more": {"a": [1, {"b": None}]}},
        },
    ]


def test_a_value_of_confluents_serialiser_leads_to_its_message(registry):
    geo = message_class(READINGS, "shop.Geo")
    write = ProtobufSerializer(geo, registry.client, {"use.deprecated.format": False, **BY_TOPIC})
    value = write(geo(lat=5.0), SerializationContext("features", MessageField.VALUE))
    number = int.from_bytes(value[1:5], "big")
    # The place [1]: one index, 1, both in zigzag.
    assert value[5:7] == b"\x02\x02"
    schema = registry.client.get_schema(number, fmt="serialized")
    read = ProtobufFile(schema.schema_str, {}).reader((1,))
    assert read.objects([value], 7) == [{"lat": 5.0, "kinds": []}]


def test_optional_fields_of_proto2_are_missing_where_they_are_not_set():
    own = file(message("M", field("x", 1, "DOUBLE", default_value="5"), field("y", 2, "INT32")), syntax="proto2")
    value = message_class(own, "shop.M")(y=0).SerializeToString()
    assert reader(own).objects([value], 0) == [{"x": None, "y": 0}]


def test_files_may_import_others_and_messages_may_be_nested():
    geo = file(GEO, name="x", enums=[KIND])
    own = file(message("Outer", nested_type=[message("Inner", field("at", 1, ".shop.Geo"))]), imports=["geo.proto"])
    own.message_type[0].field.append(field("inner", 1, ".shop.Outer.Inner"))
    # Geo with lat = 0, then kinds = [3].
    assert reader(own, (0, 0), **{"geo.proto": geo}).objects([b"\x0a\x03\x12\x01\x03"], 0) == [
        {"at": {"lat": 0.0, "kinds": ["SALE"]}}
    ]
    with pytest.raises(FaultError, match="do not go together"):
        reader(own)


def test_a_message_may_contain_itself_up_to_a_depth():
    own = file(message("Node", field("x", 1, "DOUBLE"), field("next", 2, ".shop.Node")))
    value = b""
    for _ in range(31):
        value = b"\x12" + bytes([len(value)]) + value
    (found,) = reader(own).objects([value], 0)
    assert found["next"]["next"]["x"] == 0.0
    with pytest.raises(FaultError, match="deeper than 32"):
        reader(own).objects([b"\x12" + bytes([len(value)]) + value], 0)


@pytest.mark.parametrize("place", [(2,), (0, 5), (-1,), (0, 0, 0)])
def test_a_place_that_the_file_does_not_have_is_refused(place):
    with pytest.raises(FaultError, match="has no message at"):
        reader(place=place)


def test_files_beside_the_registry_are_none_of_its_own():
    for name in ("os.proto", "google/protobuf/../x.proto", "google/nowhere/x.proto", "google/type/nothing.proto"):
        with pytest.raises(FaultError, match="do not go together"):
            reader(file(GEO, imports=[name], enums=[KIND]))
    assert reader(file(GEO, imports=["google/type/latlng.proto", "confluent/meta.proto"], enums=[KIND]))


def test_a_registry_without_descriptors_is_no_fault_of_a_record():
    with pytest.raises(RegistryError, match="gives no descriptors"):
        ProtobufFile('syntax = "proto3"; message M {}', {})


@given(some.binary(max_size=80))
def test_garbage_is_an_exception_or_an_object_of_json(value):
    try:
        (found,) = reader().objects([value], 0)
    except Exception:
        return
    assert json.loads(json.dumps(found)).keys() == found.keys()
