"""Export requests of OpenTelemetry, as its SDK's encoder writes them, and a shop whose services send spans."""

from base64 import b64decode
from dataclasses import dataclass

import numpy as np
import orjson
from google.protobuf import json_format
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode
from resonance.pipeline.records import Record

from tests.pipeline.streams import STAMP, TOPIC

SERVICES = ("ad", "cart", "catalog", "checkout", "currency", "email", "payment", "quote", "search", "shipping")
SECOND = 1_000_000_000
BEGIN = STAMP * 1_000_000
OF_SPANS = {
    "input.topics": [TOPIC],
    "input.format": "otlp_spans",
    "input.features": ["duration_ms", "error"],
    "input.time_path": "time",
    "input.id_path": "span_id",
    "stream": "field:service",
}
"""Settings that learn spans by their services."""


def span(service, number, start, duration_ms, *, name="GET /", failed=False, parent=None, attributes=None):
    """A span of a service, whose ids are of its number; times are in nanoseconds."""
    return ReadableSpan(
        name,
        SpanContext(number + 1, number + 1, is_remote=False),
        parent and SpanContext(number + 1, parent, is_remote=False),
        Resource({"service.name": service, "host.name": f"{service}-0"}),
        attributes,
        kind=SpanKind.SERVER,
        status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
        start_time=start,
        end_time=start + round(1e6 * duration_ms),
    )


def in_protobuf(*spans):
    return encode_spans(spans).SerializeToString()


def in_json(request):
    """A request in OTLP's JSON, whose ids are hexadecimal."""

    def hexadecimal(value):
        if isinstance(value, list):
            return list(map(hexadecimal, value))
        if not isinstance(value, dict):
            return value
        return {
            name: b64decode(each).hex() if name.endswith(("traceId", "panId")) else hexadecimal(each)
            for name, each in value.items()
        }

    found = json_format.MessageToDict(request, use_integers_for_enums=True)
    return orjson.dumps(hexadecimal(found))


@dataclass
class Shop:
    """Ten services that send spans, one of which becomes slow."""

    seed: int
    rate: float = 2.0
    """Spans of a service in a second."""
    seconds: int = 900
    slow: str = ""
    slow_from: int = 600
    factor: float = 3.0

    def messages(self):
        """The messages of a Collector that sends once a second."""
        rng = np.random.default_rng(self.seed)
        usual = {service: np.exp(rng.uniform(1.0, 5.0, 3)) for service in SERVICES}
        number = 0
        for second in range(self.seconds):
            spans = []
            for service in SERVICES:
                for at in np.sort(rng.random(rng.poisson(self.rate))):
                    kind = rng.choice(3, p=(0.6, 0.3, 0.1))
                    took = usual[service][kind] * np.exp(0.3 * rng.normal())
                    if service == self.slow and second >= self.slow_from:
                        took *= self.factor
                    begun = BEGIN + round((second + at) * SECOND)
                    spans.append(span(service, number, begun, took, name=f"GET /{kind}", failed=rng.random() < 0.01))
                    number += 1
            yield Record(TOPIC, 0, second, STAMP + 1_000 * second, None, in_protobuf(*spans))
