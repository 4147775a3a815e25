"""What a topic holds, and with which settings a worker reads it."""

import json
import tomllib

import numpy as np
import orjson
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from resonance.pipeline.kafka.embedded import EmbeddedBroker

from tests.pipeline.commands import run
from tests.pipeline.otlp import BEGIN, OF_SPANS, Shop, in_json, span

SPANS = [each.value for each in Shop(0, seconds=30).messages()]
IN_JSON = [in_json(encode_spans([span("a", n, BEGIN, n * 1.5)])) for n in range(20)]
READINGS = [orjson.dumps({"id": f"r{n}", "heat": n * 0.7 % 5, "kind": "ab"[n % 2]}) for n in range(100)]
VECTORS = [np.random.default_rng(n).normal(size=8).astype("<f4").tobytes() for n in range(50)]
OF_READINGS = {"stream": "key", "input.features": ["heat"], "input.id_path": "id"}


@pytest.mark.parametrize(
    ("values", "kind", "given"),
    [
        (SPANS, "otlp_spans of OpenTelemetry in Protobuf", OF_SPANS),
        (IN_JSON, "otlp_spans of OpenTelemetry in JSON", OF_SPANS),
        (READINGS, "a JSON object", OF_READINGS),
        (
            [b"\n".join(READINGS)],
            "a JSON object on each line",
            {**OF_READINGS, "stream": "topic", "input.records": "."},
        ),
        (VECTORS, "perhaps an array of 8 numbers; set input.format = float32", None),
        ([b"\0\0\0\0\7\2\4ab"], "a value with the id of its schema (7)", None),
    ],
)
def test_the_suggested_settings_are_those_of_the_format(monkeypatch, capsys, values, kind, given):
    with EmbeddedBroker() as broker:
        broker.create(["features"])
        for number, value in enumerate([*values, None]):
            broker.append("features", 0, value, b"k%d" % (number % 3), [])
        broker.flush()
        assert run(monkeypatch, "topics", "look", "features", "--json", "--broker", broker.bootstrap) == 0
    shown = json.loads(capsys.readouterr().out)
    assert next(iter(shown["kinds"])).startswith(kind)
    assert list(shown["kinds"].values()) == [len(values), 1]
    found = tomllib.loads(shown["settings"] or "stream = 0\ninput = {}")
    wanted = {"input.topics": ["features"], **given} if given else {"stream": 0}
    assert {"stream": found["stream"], **{f"input.{name}": each for name, each in found["input"].items()}} == wanted
