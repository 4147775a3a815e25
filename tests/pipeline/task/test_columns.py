"""What a task makes of columns, whatever their cuts, is what each record by itself says."""

import json
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task.decode.record_batch import TRACE_BYTES
from resonance.pipeline.timestamps import canonical

from tests import LONG
from tests.night import at_night
from tests.pipeline.streams import STAMP, TOPIC, settings, task, without_kernels

IDS = ("r1", 7, "é", "", None)
ODD = (b"", b"{", b"[]", b'{"a":1,"b":2}', b"\xff\0{}", b'{"a":1,"b":2,"c":"x","v":[1,2,"x"]}')
"""Values that become dead letters."""
KEYS = some.none() | some.sampled_from([b"", b"a", b"b", b"\0\xff", b"a\0"])
HEADERS = some.sampled_from(
    [(), (), (("traceparent", b"00-1"), ("x", None)), (("y", b"z"),), (("traceparent", b"t" * (TRACE_BYTES + 1)),)]
)


@some.composite
def logs(draw):
    """Records as a topic can have them: odd ones, nulls, gaps, and times of their own or none."""
    found, offset = [], draw(some.integers(0, 2**40))
    for number in range(draw(some.integers(1, 90))):
        offset += draw(some.sampled_from([1, 1, 1, 3]))
        value = draw(some.sampled_from(["plain"] * 12 + ["escaped", "spaced", "odd", "null"]))
        if value == "null":
            content = None
        elif value == "odd":
            content = draw(some.sampled_from(ODD))
        else:
            row = [number % 7, 30.5 - number, 1e-3 * number]
            members = {**dict(zip("abc", row, strict=True)), "v": row, "id": draw(some.sampled_from(IDS))}
            if draw(some.booleans()):
                del members["id"]
            if draw(some.booleans()):
                members["t"] = draw(some.sampled_from([STAMP + number, "2026-01-31T12:00:00+01:00", None]))
            indent = 1 if value == "spaced" else None
            content = json.dumps(members, ensure_ascii=value == "escaped", indent=indent).encode()
        stamp = draw(some.sampled_from([STAMP + number, STAMP, -1]))
        found.append(Record(TOPIC, 0, offset, stamp, draw(KEYS), content, draw(HEADERS)))
    return found


def answers(given, parts):
    """Return what a new task makes of some parts of a log."""
    own, outputs = task(given), Outputs()
    for part in parts:
        outputs.add(own.process(part))
    return outputs, own.counts, [own.models.snapshot(name) for name in own.models.names]


@pytest.mark.parametrize(
    ("stream", "envelope", "features"),
    [
        ("partition", "plain", ["a", "b", "c"]),
        at_night("partition", "cloudevents", "v"),
        at_night("key", "plain", ["a", "b", "c"]),
        ("key", "cloudevents", "v"),
    ],
)
@hypothesis_settings(max_examples=40 if LONG else 15, deadline=None)
@given(log=logs(), cuts=some.sets(some.integers(1, 89)))
def test_columns_give_what_their_records_give_one_by_one(stream, envelope, features, log, cuts):
    names = {"input__id_path": "id", "input__time_path": "t", "input__features": features}
    own = settings(stream=stream, output__envelope=envelope, prepare__warmup_records=20, **names)
    columns, places = RecordColumns.of(log), sorted({0, *(cut for cut in cuts if cut < len(log)), len(log)})
    found = answers(own, [columns[start:stop] for start, stop in pairwise(places)])
    with without_kernels():
        assert found == answers(own, [[record] for record in log])
    usable, refused = [], []
    for record in log:
        if record.value is not None:
            without_stream = stream == "key" and record.key is None
            (refused if record.value in ODD or without_stream else usable).append(record)
    for message, record in zip(found[0].dead_letters, refused, strict=True):
        own_headers = message.headers[: len(record.headers)]
        assert (message.key, message.value, own_headers) == (record.key, record.value, list(record.headers))
    for message, record in zip(found[0].assignments, usable, strict=True):
        payload, members = orjson.loads(message.value), json.loads(record.value)
        time = canonical(record.timestamp if members.get("t") is None else members["t"])
        assert (payload["source"]["offset"], payload["time"]) == (record.offset, time)
        assert (message.key, payload["id"]) == (record.key, members.get("id"))
        traces = [value for name, value in record.headers if name == "traceparent" and len(value) <= TRACE_BYTES]
        assert [value for name, value in message.headers if name == "traceparent"] == traces
