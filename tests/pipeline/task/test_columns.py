"""What a task makes of columns, whatever their cuts, is what each record by itself says."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task.decode import json_records
from resonance.pipeline.timestamps import canonical

from tests.pipeline.streams import STAMP, TOPIC, settings, task

IDS = ("r1", 7, "é", "", None)
ODD = (b"", b"{", b"[]", b'{"cpu":1}', b"\xff\0{}", b'{"cpu":"x","latency_ms":1,"net":{"in":2}}')
"""Values that become dead letters."""
KEYS = some.none() | some.sampled_from([b"", b"a", b"b", b"\0\xff", b"a\0"])
HEADERS = some.sampled_from(
    [(), (), (("traceparent", b"00-1"), ("x", None)), (("y", b"z"),), (("traceparent", b"t" * 1_001),)]
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
            members = {"cpu": row[0], "latency_ms": row[1], "net": {"in": row[2]}, "id": draw(some.sampled_from(IDS))}
            if draw(some.booleans()):
                del members["id"]
            if draw(some.booleans()):
                members["t"] = draw(some.sampled_from([STAMP + number, "2026-01-31T12:00:00+01:00", None]))
            content = json.dumps(
                members, ensure_ascii=value == "escaped", indent=1 if value == "spaced" else None
            ).encode()
        stamp = draw(some.sampled_from([STAMP + number, STAMP, -1]))
        found.append(Record(TOPIC, 0, offset, stamp, draw(KEYS), content, draw(HEADERS)))
    return found


def answers(given, parts):
    """Return what a new task makes of some parts of a log."""
    own, outputs = task(given), Outputs()
    for part in parts:
        outputs.add(own.process(part))
    return outputs, own.counts, own.dead_letter_run, [own.models.snapshot(name) for name in own.models.names]


@pytest.mark.parametrize("stream", ["partition", "key"])
@pytest.mark.parametrize("envelope", ["plain", "cloudevents"])
@hypothesis_settings(max_examples=40, deadline=None)
@given(log=logs(), cuts=some.sets(some.integers(1, 89)))
def test_columns_give_what_their_records_give_one_by_one(stream, envelope, log, cuts):
    own = settings(
        stream=stream, output__envelope=envelope, input__id_path="id", input__time_path="t", prepare__warmup_records=20,
        input__features=["cpu", "latency_ms", "net.in"],
    )  # fmt: skip
    columns, places = RecordColumns.of(log), sorted({0, *(cut for cut in cuts if cut < len(log)), len(log)})
    found = answers(own, [columns[start:stop] for start, stop in zip(places, places[1:], strict=False)])
    before, json_records.FEWEST = json_records.FEWEST, 1_000_000
    try:
        assert found == answers(own, [[record] for record in log])
    finally:
        json_records.FEWEST = before
    is_said = [message for message in found[0].assignments]
    is_dead = [
        record for record in log if record.value in ODD or (stream == "key" and record.value and record.key is None)
    ]
    assert [
        (m.key, m.value, m.headers[: len(r.headers)]) for m, r in zip(found[0].dead_letters, is_dead, strict=True)
    ] == [(record.key, record.value, list(record.headers)) for record in is_dead]
    answered = [record for record in log if record.value is not None and record not in is_dead]
    for message, record in zip(is_said, answered, strict=True):
        payload, given_ = orjson.loads(message.value), json.loads(record.value)
        time = canonical(record.timestamp if given_.get("t") is None else given_["t"])
        expected = (record.key, record.offset, given_.get("id"), time)
        assert (message.key, payload["source"]["offset"], payload["id"], payload["time"]) == expected
        traces = [value for name, value in record.headers if name == "traceparent" and len(value) <= 1_000]
        assert [value for name, value in message.headers if name == "traceparent"] == traces
