"""Values as other programs write them: a dead letter names what they are, and who has to change what."""

import base64
import bz2
import gzip
import io
import json
import lzma
import pickle
import zlib

import fastavro
import orjson
import pyarrow
import pytest
from pyarrow import parquet
from resonance.pipeline.records import Record
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.foreign_values import description
from resonance.pipeline.task.decode.json_objects import parsed_json
from resonance.pipeline.task.decode.labels import LabelMessages
from resonance.pipeline.task.decode.mapping import make_mapping

from tests.pipeline.labels.feedback import LABELS, late
from tests.pipeline.task.decode.test_json_records import settings

TEXT = '{"id": "Zürich", "a": 1.5}'
GOOD = TEXT.encode()


def avro_file():
    file = io.BytesIO()
    fastavro.writer(file, {"type": "record", "name": "R", "fields": [{"name": "a", "type": "double"}]}, [{"a": 1.5}])
    return file.getvalue()


def parquet_file():
    file = io.BytesIO()
    parquet.write_table(pyarrow.table({"a": [1.5]}), file)
    return file.getvalue()


CASES = {
    "compressed with gzip": gzip.compress(GOOD),
    "compressed with zstd": bytes(pyarrow.compress(GOOD, "zstd", asbytes=True)),
    "compressed with lz4": pyarrow.Codec("lz4").compress(GOOD, asbytes=True),
    "compressed with bzip2": bz2.compress(GOOD),
    "compressed with xz": lzma.compress(GOOD),
    "compressed with zlib": zlib.compress(GOOD),
    "UTF-16; JSON is UTF-8": TEXT.encode("utf-16"),
    "text in UTF-16": TEXT.encode("utf-16-le"),
    "in UTF-16": TEXT.encode("utf-16-be"),
    "text in UTF-32": TEXT.encode("utf-32"),
    "in UTF-32": TEXT.encode("utf-32-be"),
    "not UTF-8 (0xfc at byte 9), as Latin-1": TEXT.encode("latin-1"),
    "byte order mark": TEXT.encode("utf-8-sig"),
    "id of its schema (7) before it, as Confluent's serialisers write; set input.format = json_schema": b"\0\0\0\0\7"
    + GOOD,
    "input.format = avro or protobuf, and schema_registry.url": b"\0\0\0\1\0\2\4ab",
    "an Avro file": avro_file(),
    "single-object encoding": b"\xc3\1" + bytes(9),
    "a Parquet file": parquet_file(),
    "AWS Glue": b"\3\0" + bytes(16) + b"x",
    "by its first byte MessagePack": b"\x82\xa2id\xa2ab\xa1a\xcb?\xf8\0\0\0\0\0\0",
    "by its first byte CBOR": b"\xa1\x61a\x01",
    "BSON": b"\x10\0\0\0\1a\0\0\0\0\0\0\0\xf8?\0",
    "a Python pickle": pickle.dumps({"a": 1}),
    "single quotes": b"{'a': 1.5}",
    "XML": b"<?xml version='1.0'?><a/>",
    "JSON in base64": base64.b64encode(GOOD),
    "several JSON values in one message": GOOD + b"\n" + GOOD + b"\n",
    "several JSON values": GOOD + GOOD,
    "empty; a record without content": b"",
    "no NaN": b'{"a": NaN}',
    "not JSON (which knows": b"hello",
}


@pytest.mark.parametrize("said", CASES)
def test_the_message_of_a_dead_letter_names_what_the_value_is(said):
    with pytest.raises(FaultError) as found:
        parsed_json(CASES[said])
    assert (found.value.stage, found.value.kind) == ("decode", "not_json")
    assert found.value.message.startswith("not JSON")
    assert said in found.value.message
    assert len(found.value.message) < 300


@pytest.mark.parametrize("size", [0x3C, 0x7B, 0x82, 0xA1, 0xDE, 0x100, 0x1FF, 0x8B1F, 0x10000])
def test_bson_is_told_by_its_size_whatever_else_begins_like_that(size):
    text = b"x" * (size - 13) + b"\0"
    value = size.to_bytes(4, "little") + b"\2a\0" + len(text).to_bytes(4, "little") + text + b"\0"
    assert len(value) == size
    assert description(value).startswith("BSON")


@pytest.mark.parametrize("value", [b"\0\0\0\0\0\2ab", b"\0\xff\xff\xff\xff\2ab", b"\0\0\0\0\7\0\0\0"])
def test_what_may_be_no_frame_is_perhaps_one(value):
    assert description(value).startswith("perhaps a value with the id of its schema")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (json.dumps(TEXT).encode(), "this one is text that holds an object: it was written as JSON twice"),
        (json.dumps(base64.b64encode(GOOD).decode()).encode(), "text that holds an object in base64"),
        (b'"a text"', "this one is text"),
        (b'[{"a": 1}, {"a": 2}]', "an array of 2 objects; send each alone, or set input.records = ."),
        (b"[1]", "this one is an array"),
    ],
)
def test_json_that_is_no_object_is_explained(value, said):
    with pytest.raises(FaultError, match="a record is a JSON object, ") as found:
        parsed_json(value)
    assert said in found.value.message
    with pytest.raises(FaultError) as found:
        LabelMessages(late()).read(Record(LABELS, 0, 0, 0, None, value))
    assert said in found.value.message


def test_values_of_another_format_are_named_where_one_is_set():
    with pytest.raises(FaultError, match=r"5 bytes are no array .*; it looks like JSON \(input.format = json\)"):
        make_mapping(settings(input__format="float32")).shape_of(b'{"a"}')
    framed = {"input__format": "avro", "schema_registry__url": "http://127.0.0.1:9"}
    with pytest.raises(FaultError, match=r"begins with the byte 31; it is compressed with gzip"):
        make_mapping(settings(**framed)).parsed(gzip.compress(GOOD))


@pytest.mark.parametrize("value", [b"x", b"\x80", b"\0", b"\0\0", b"{", b"[" * 100_000, b'{"a":1}' + b"[" * 100_000])
def test_a_value_of_any_kind_has_a_description_or_none(value):
    assert isinstance(description(value), str)
    with pytest.raises((FaultError, orjson.JSONDecodeError)):
        parsed_json(value)
