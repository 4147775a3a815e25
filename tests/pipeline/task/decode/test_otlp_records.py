"""Messages of the OpenTelemetry Collector, made by the encoder of its SDK."""

import sys
from math import inf, nan

import orjson
import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.evaluate.source import FileSource
from resonance.pipeline.files.arrays import encoder
from resonance.pipeline.files.notes import NOTHING
from resonance.pipeline.records import MOST_ELEMENTS
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.otlp_records import SIGNALS
from resonance.pipeline.task.decode.unpacking import Unpacker, of_single_records, wrapping

from tests.pipeline import streams
from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.otlp import BEGIN, OF_SPANS, SECOND, SERVICES, Shop, in_json, in_protobuf, span
from tests.pipeline.repartition.two_hops import Hops
from tests.pipeline.streams import STAMP, TOPIC, payloads

RESOURCE = Resource({"service.name": "cart", "host.name": "cart-0"})
DELTA, CUMULATIVE = export.AggregationTemporality.DELTA, export.AggregationTemporality.CUMULATIVE


def settings(form="otlp_spans", **changes):
    return streams.settings(**{"input__format": form, **changes})


def elements(value, form="otlp_spans", **changes):
    return Unpacker(settings(form, **changes)).elements(value)


def records(request, form):
    """The records of a request, which are the same in both forms."""
    found = elements(request.SerializeToString(), form)
    assert elements(in_json(request), form) == found
    return list(map(orjson.loads, found))


def metric(name, data):
    return export.Metric(name, "", "1", data)


def requested(*metrics):
    scope = export.ScopeMetrics(InstrumentationScope("t"), metrics, "")
    return encode_metrics(export.MetricsData([export.ResourceMetrics(RESOURCE, [scope], "")]))


def gauge(name, *points):
    found = [export.NumberDataPoint(attributes, None, time, value) for time, value, attributes in points]
    return metric(name, export.Gauge(found))


def total(name, value, temporality, *, is_monotonic=True):
    point = export.NumberDataPoint({}, BEGIN, BEGIN + 10 * SECOND, value)
    return metric(name, export.Sum([point], temporality, is_monotonic))


def test_a_span_is_a_record():
    attributes = {"http.response.status_code": 500, "http.route": "/a", "ok": True, "sizes": [1, 2.5], "raw": b"\xff"}
    first = span("cart", 0xABC, BEGIN, 12.5, name="GET /a", failed=True, parent=7, attributes=attributes)
    second = span("ad", 1, BEGIN, 0.001)
    cart, ad = records(encode_spans([first, second]), "otlp_spans")
    assert cart == {
        "service": "cart",
        "resource": {"service.name": "cart", "host.name": "cart-0"},
        "name": "GET /a",
        "kind": "SERVER",
        "status": "ERROR",
        "error": 1,
        "trace_id": f"{0xABD:032x}",
        "span_id": f"{0xABD:016x}",
        "parent_span_id": f"{7:016x}",
        "duration_ms": 12.5,
        "time": STAMP + 12,
        "attributes": attributes | {"raw": "/w=="},
    }
    assert (ad["service"], ad["status"], ad["error"], ad["duration_ms"]) == ("ad", "UNSET", 0, 0.001)
    assert "parent_span_id" not in ad


def test_the_points_of_a_collection_are_a_record():
    ends = BEGIN + 10 * SECOND
    histogram = export.HistogramDataPoint({}, BEGIN, ends, 4, 10.0, [3, 1], [3.0], 1.0, 5.5)
    (found,) = records(
        requested(
            gauge("memory", (ends, 5, {"state": "used", "n": 1}), (ends, 3, {"state": "free"})),
            # Another scraper took its time a little later.
            gauge("load", (ends + 1_000_000, 0.5, {})),
            total("requests", 30, DELTA),
            total("since_start", 30, CUMULATIVE),
            total("difference", 30, DELTA, is_monotonic=False),
            metric("took", export.Histogram([histogram], DELTA)),
        ),
        "otlp_metrics",
    )
    assert found == {
        "service": "cart",
        "resource": {"service.name": "cart", "host.name": "cart-0"},
        "time": STAMP + 10_001,
        "metrics": {
            "memory{n=1,state=used}": {"value": 5},
            "memory{state=free}": {"value": 3},
            "load": {"value": 0.5},
            "requests": {"value": 30, "rate": 3.0},
            "since_start": {"value": 30},
            "difference": {"value": 30},
            "took": {"count": 4, "sum": 10.0, "mean": 2.5, "min": 1.0, "max": 5.5, "rate": 0.4},
        },
    }


def test_collections_of_one_message_are_records_in_the_order_of_time():
    late, early, again = BEGIN + 20 * SECOND, BEGIN + 10 * SECOND, BEGIN + 20 * SECOND + 1_000
    request = requested(gauge("load", (late, 2, {}), (early, 1, {}), (again, 3, {})), gauge("heat", (late, 5.0, {})))
    assert [(record["time"] - STAMP, record["metrics"]) for record in records(request, "otlp_metrics")] == [
        (10_000, {"load": {"value": 1}}),
        (20_000, {"load": {"value": 2}, "heat": {"value": 5.0}}),
        (20_000, {"load": {"value": 3}}),
    ]


def test_a_series_of_two_scopes_does_not_part_a_collection_and_slow_scrapes_do():
    second = requested(gauge("dup", (BEGIN, 9, {})), gauge("c", (BEGIN, 3, {})))
    request = requested(gauge("a", (BEGIN, 1, {})), gauge("dup", (BEGIN, 2, {})))
    request.resource_metrics[0].scope_metrics.extend(second.resource_metrics[0].scope_metrics)
    (found,) = records(request, "otlp_metrics")
    assert {name: each["value"] for name, each in found["metrics"].items()} == {"a": 1, "dup": 2, "c": 3}
    slow = requested(*(gauge(f"m{n}", (BEGIN + n * 9 * SECOND // 10, n, {})) for n in range(4)))
    assert [list(each["metrics"]) for each in records(slow, "otlp_metrics")] == [["m0", "m1"], ["m2", "m3"]]


def test_a_point_without_a_value_has_none_and_json_has_no_infinite_number():
    request = requested(gauge("a", (BEGIN, nan, {})), gauge("b", (BEGIN, -inf, {})), gauge("c", (BEGIN, 1, {})))
    request.resource_metrics[0].scope_metrics[0].metrics[2].gauge.data_points[0].flags = 1
    (found,) = elements(request.SerializeToString(), "otlp_metrics")
    assert found.endswith(b'"metrics":{"a":{"value":null},"b":{"value":1e999},"c":{}},"time":%d}' % STAMP)
    assert elements(in_json(request), "otlp_metrics") == [found]


def test_a_log_record_is_a_record():
    log = LogRecord(
        timestamp=BEGIN,
        observed_timestamp=BEGIN + SECOND,
        severity_number=SeverityNumber.WARN,
        body="disk 7 is full",
        attributes={"log.record.template": "disk <*> is full", "disk": 7},
        event_name="disk.full",
    )
    seen = LogRecord(observed_timestamp=BEGIN + SECOND, body={"text": "é", "n": [1]})
    first, second = records(encode_logs([ReadableLogRecord(each, RESOURCE) for each in (log, seen)]), "otlp_logs")
    assert first == {
        "service": "cart",
        "resource": {"service.name": "cart", "host.name": "cart-0"},
        "severity": 13,
        "event": "disk.full",
        "body": "disk 7 is full",
        "body_length": 14,
        "time": STAMP,
        "attributes": {"log.record.template": "disk <*> is full", "disk": 7},
        "template": "disk <*> is full",
    }
    assert (second["body"], second["body_length"], second["time"]) == ({"text": "é", "n": [1]}, 20, STAMP + 1_000)


ONE = in_protobuf(span("cart", 1, BEGIN, 5.0))


@pytest.mark.parametrize(
    ("value", "kind", "stage"),
    [
        (b"", "wrong_schema", "decode"),
        (b"{}", "wrong_schema", "decode"),
        (b'{"resourceLogs": [{}]}', "wrong_schema", "decode"),
        (ONE[:-3], "schema_violation", "decode"),
        (b"GET /", "schema_violation", "decode"),
        (b"[" * 5_000, "schema_violation", "decode"),
        (b'{"resourceSpans": [{"scopeSpans": 5}]}', "schema_violation", "decode"),
        (b'{"resourceSpans": [', "not_json", "decode"),
        (b'{"resourceSpans":' + b"[" * 5_000, "too_deep", "decode"),
        (in_protobuf(*[span("c", 0, BEGIN, 1.0)] * (MOST_ELEMENTS + 1)), "too_many_records", "limit"),
        (in_protobuf(*[span("c" * 100_000, 0, BEGIN, 1.0)] * 400), "record_too_large", "limit"),
    ],
)
def test_a_message_that_cannot_be_read_is_one_dead_letter(value, kind, stage):
    with pytest.raises(FaultError) as caught:
        elements(value)
    assert (caught.value.kind, caught.value.stage) == (kind, stage)


def test_a_metric_with_a_long_name_and_many_points_is_refused():
    request = requested(gauge("m" * 100_000, *((BEGIN, 1, {"n": n}) for n in range(400))))
    with pytest.raises(FaultError, match="repeat more than"):
        elements(request.SerializeToString(), "otlp_metrics")


def test_another_signal_is_refused():
    logs = encode_logs([ReadableLogRecord(LogRecord(timestamp=BEGIN, body="x"), RESOURCE)]).SerializeToString()
    for value, own in ((ONE, "otlp_spans"), (logs, "otlp_logs")):
        for other in SIGNALS.keys() - {own}:
            with pytest.raises(FaultError, match=r"input\.format"):
                elements(value, other)


def test_a_line_break_that_begins_a_message_is_that_of_protobuf():
    # Its length is that of an opening brace, and a line break follows, as in JSON.
    (value,) = (
        each for size in range(60) if (each := in_protobuf(span("c", 1, BEGIN, 5.0, name="n" * size)))[1] == 123
    )
    assert value.startswith(b"\n{\n")
    assert len(elements(value)) == 1


def test_spans_are_learned_by_service_and_a_broken_message_is_a_dead_letter():
    hops = Hops(Settings.of(OF_SPANS))
    messages = list(Shop(0, seconds=60).messages())
    broken = messages.pop(50)
    broken = broken._replace(value=broken.value[:-5])
    hops.send([*messages[:50], broken, *messages[50:]])
    hops.learn()
    found = payloads(hops.outputs.assignments)
    assert len(found) == sum(len(elements(message.value)) for message in messages)
    assert {each["stream"] for each in found} == set(SERVICES)
    ids = [each["id"] for each in found if each["source"]["offset"] == 7]
    assert sorted(ids) == sorted(orjson.loads(text)["span_id"] for text in elements(messages[7].value))
    (letter,) = hops.outputs.dead_letters
    headers = dict(letter.headers)
    assert letter.value == broken.value
    assert (headers["resonance.error.stage"], headers["resonance.error.offset"]) == (b"decode", b"50")


def test_a_replay_gives_the_same_outputs(monkeypatch):
    own = {name.replace(".", "__"): value for name, value in OF_SPANS.items()}
    made = MemoryDeployment(monkeypatch, 1, 0, **{**own, "stream": "partition"})
    made.logs[TOPIC, 0] = list(Shop(1, seconds=60).messages())
    made.work(60)
    assert made.verify().identical
    # A record of a request is none; it stays where it is.
    assert wrapping(made.given) is None
    assert Unpacker.of(of_single_records(made.given)) is None


def test_a_line_of_a_file_is_a_request(tmp_path):
    requests = [in_json(encode_spans([span("cart", n, BEGIN, 5.0), span("ad", n, BEGIN, 1.0)])) for n in range(3)]
    file = tmp_path / "spans.jsonl"
    file.write_bytes(b"\n".join(requests))
    source = FileSource(file, NOTHING, TOPIC, encode=encoder(settings(), file), unpacker=Unpacker(settings()))
    found = [record.value for batch in source.batches() for record in batch]
    assert found == [text for request in requests for text in elements(request)]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"input__records": "items"}, r"input\.records.*is not for input\.format = otlp_spans"),
        ({"hierarchy": "keyed", "engine__name": "hcaea"}, r"input\.format = 'otlp_spans': does not go together"),
        ({"input__features": "attributes"}, r"first message; list them \(input\.features\)$"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, text):
    with pytest.raises(ConfigurationError, match=text):
        settings(**changes)


def test_without_the_library_the_start_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.trace.v1.trace_pb2", None)
    with pytest.raises(ConfigurationError, match=r"input.format = otlp_spans needs opentelemetry-proto.*\[otlp\]"):
        Unpacker.of(settings())
