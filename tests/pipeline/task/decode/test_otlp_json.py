"""OTLP's JSON, which is read as the library reads it."""

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as Request
from resonance.pipeline.task.decode.otlp_json import OtlpFields

FIELDS = OtlpFields(Request.DESCRIPTOR, {})
IDS = {"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174"}


def attribute(**value):
    return {**IDS, "attributes": [{"key": "a", "value": value}]}


def nested(depth):
    value = {"intValue": "1"}
    for _ in range(depth):
        value = {"arrayValue": {"values": [value]}}
    return attribute(**value)


def outcome(read):
    try:
        return read().SerializeToString(deterministic=True)
    except (ValueError, TypeError, json_format.ParseError):
        return "refused"


@pytest.mark.parametrize("is_read_fast", [True, False])
def test_json_is_read_as_the_library_reads_it(is_read_fast):
    usual = [
        {**IDS, "kind": 2, "startTimeUnixNano": "1", "end_time_unix_nano": 2, "status": {"code": 2}, "events": []},
        {"name": None, "status": {}, "unknown": [1], "flags": "256", "kind": "3"},
        *(attribute(**each) for each in ({}, {"intValue": "-7"}, {"doubleValue": 1}, {"boolValue": False})),
        *(attribute(**each) for each in ({"bytesValue": "_-8"}, {"kvlistValue": {}}, {"string_value": "é"})),
        nested(40),
    ]
    unusual = [
        *({"kind": each} for each in ("SPAN_KIND_SERVER", "NONE", 2.0, True, [])),
        *({"startTimeUnixNano": each} for each in (-1, 1.5, 5.0, "1e3", " 1", "1" * 20, 2**63, True, {})),
        *({"traceId": each} for each in (5, "1.0", "a")),
        *({"attributes": each} for each in ({}, [None], ["x"], [{"key": 1}])),
        *({"name": 5}, {"status": "x"}, {"flags": -1}, {"[a.b]": 1}, {"flags": 1, "spanId": []}),
        {"startTimeUnixNano": 1, "start_time_unix_nano": 2},
        attribute(stringValue="a", intValue=1),
        attribute(doubleValue="NaN"),
        nested(60),
    ]
    for span in usual if is_read_fast else unusual:
        given = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        expected = outcome(lambda: json_format.ParseDict(given, Request(), ignore_unknown_fields=True))  # noqa: B023
        assert outcome(lambda: FIELDS.message(Request, given)) == expected, span  # noqa: B023
        if is_read_fast:
            assert Request(**FIELDS.read(given, 100)).SerializeToString(deterministic=True) == expected
