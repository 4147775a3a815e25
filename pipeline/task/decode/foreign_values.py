"""What a value is that cannot be read as JSON, as other programs write it, and who has to change what."""

import base64
import json
from typing import Any, Final

import orjson
from resonance.pipeline.json_paths import json_or_none
from resonance.pipeline.task.decode.faults import FaultError

_PLAIN: Final = "; send the value as it is: a producer compresses whole batches (its compression.type)"
_AS_JSON: Final = "; send JSON, or values that a schema registry's serialiser writes (input.format)"
_AS_UTF8: Final = "; JSON is UTF-8, so encode it as that"

_BEGINNINGS: Final[dict[bytes, str]] = {
    b"\x1f\x8b": f"compressed with gzip{_PLAIN}",
    b"\x28\xb5\x2f\xfd": f"compressed with zstd{_PLAIN}",
    b"\x04\x22\x4d\x18": f"compressed with lz4{_PLAIN}",
    b"\xff\x06\0\0sNaPpY": f"compressed with snappy{_PLAIN}",
    b"\x82SNAPPY\0": f"compressed with snappy{_PLAIN}",
    b"BZh": f"compressed with bzip2{_PLAIN}",
    b"\xfd7zXZ\0": f"compressed with xz{_PLAIN}",
    b"\x78\x01": f"compressed with zlib{_PLAIN}",
    b"\x78\x9c": f"compressed with zlib{_PLAIN}",
    b"\x78\xda": f"compressed with zlib{_PLAIN}",
    b"PK\3\4": f"a zip file{_PLAIN}",
    b"\xff\xfe\0\0": f"text in UTF-32{_AS_UTF8}",
    b"\0\0\xfe\xff": f"text in UTF-32{_AS_UTF8}",
    b"{\0\0\0": f"text in UTF-32{_AS_UTF8}",
    b"\0\0\0{": f"text in UTF-32{_AS_UTF8}",
    b"\xff\xfe": f"text in UTF-16{_AS_UTF8}",
    b"\xfe\xff": f"text in UTF-16{_AS_UTF8}",
    b"{\0": f"text in UTF-16{_AS_UTF8}",
    b"\0{\0": f"text in UTF-16{_AS_UTF8}",
    b"\xef\xbb\xbf": "text behind a byte order mark; JSON has none, so write it as utf-8, not as utf-8-sig",
    b"Obj\1": f"an Avro file (object container){_AS_JSON}",
    b"\xc3\1": f"Avro in its single-object encoding{_AS_JSON}",
    b"PAR1": "a Parquet file; send its rows, as resonance produce does",
    b"ARROW1": f"an Arrow file{_AS_JSON}",
    b"\3\0": f"what the serialisers of AWS Glue write{_AS_JSON}",
    b"\3\5": f"what the serialisers of AWS Glue write{_AS_JSON}",
    b"\xac\xed\0\5": f"a serialised Java object{_AS_JSON}",
    b":)\n": f"Smile{_AS_JSON}",
    b"\xd9\xd9\xf7": f"CBOR{_AS_JSON}",
    b"<": f"XML or HTML{_AS_JSON}",
    b"{'": "an object in single quotes, as Python's str() writes it; write it with json.dumps",
}
"""By the first bytes; of two that fit the first counts."""

_MAPS: Final = {
    **dict.fromkeys((*range(0x80, 0x90), 0xDE, 0xDF), "MessagePack"),
    **dict.fromkeys(range(0xA0, 0xC0), "CBOR"),
}
"""Kinds of maps by a first byte with which no text begins."""


def not_json(value: bytes, error: orjson.JSONDecodeError) -> FaultError:
    """Return the fault of a value that is no JSON."""
    known = description(value)
    found = f"not JSON, but {known}" if known else f"not JSON (which knows no NaN and no Infinity): {error}"
    return FaultError("decode", "not_json", found)


def description(value: bytes) -> str:
    """Return what a value is that is no JSON, and what to do; empty where that does not show."""
    if not value:
        return "empty; a record without content has no value at all (null)"
    # Before all else: the first bytes are its size, and may be those of anything.
    if len(value) >= 5 and value[:4] == len(value).to_bytes(4, "little") and value[-1] == 0:
        return f"BSON{_AS_JSON}"
    if len(value) > 5 and value[0] == 0 and not value.startswith((b"\0{\0", b"\0\0\0{", b"\0\0\xfe\xff")):
        number, forms = int.from_bytes(value[1:5], "big"), "avro or protobuf"
        if value[5:].lstrip()[:1] in (b"{", b"["):
            forms = "json_schema"
        # Registries count from one, and far below 2^24; a body of zeros alone holds nothing.
        perhaps = "" if 0 < number < 1 << 24 and any(value[5:]) else "perhaps "
        return (
            f"{perhaps}a value with the id of its schema ({number:,}) before it, as Confluent's serialisers write; set "
            f"input.format = {forms}, and schema_registry.url"
        )
    if value[:1] == b"\x80" and value[-1:] == b"." and value[1] <= 5:
        return f"a Python pickle{_AS_JSON}"
    for first, what in _BEGINNINGS.items():
        if value.startswith(first):
            return what
    if value[0] in _MAPS:
        return f"binary, by its first byte {_MAPS[value[0]]}{_AS_JSON}"
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        if value.lstrip()[:1] not in (b"{", b"[", b'"'):
            return ""
        where = f"{value[error.start]:#04x} at byte {error.start:,}"
        return f"text that is not UTF-8 ({where}), as Latin-1 and Windows-1252 are{_AS_UTF8}"
    if _is_base64(text):
        return "JSON in base64; send the object itself"
    return "several JSON values in one message; send each alone, or set input.records = ." if _several(text) else ""


def no_object(parsed: Any) -> str:
    """Return what is to be done about JSON that is no object; empty where that does not show."""
    if isinstance(parsed, list) and parsed and all(isinstance(each, dict) for each in parsed):
        return f" of {len(parsed):,} objects; send each alone, or set input.records = ."
    if not isinstance(parsed, str):
        return ""
    inner = json_or_none(parsed)
    if isinstance(inner, dict):
        return " that holds an object: it was written as JSON twice (json.dumps of a text); send the object itself"
    return " that holds an object in base64; send the object itself" if _is_base64(parsed) else ""


def _is_base64(text: str) -> bool:
    """Return whether a text is an object of JSON in base64."""
    if not text.startswith(("eyJ", "eyAi", "ewo", "ew0K")):
        return False
    try:
        return isinstance(json_or_none(base64.b64decode(text)), dict)
    except ValueError:
        return False


def _several(text: str) -> bool:
    try:
        first, end = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict | list) and text.lstrip()[end:].lstrip(" \t\r\n,\x1e")[:1] in ("{", "[")
