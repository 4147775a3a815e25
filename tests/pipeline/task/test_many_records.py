"""A message with many records gives what its records would give as messages of their own, but for their places."""

import orjson
import pytest
from resonance.pipeline.records import MOST_ELEMENTS, Record

from tests.night import at_night
from tests.pipeline.repartition.two_hops import Hops
from tests.pipeline.repartition.two_hops import settings as rekeyed
from tests.pipeline.streams import STAMP, TOPIC, alike, payloads, points, settings, task, value_of

KINDS = ("assignments", "cluster_events", "drift_events", "alerts", "dead_letters")
BAD = {250: b'{"cpu":"x"}', 251: b"5", 777: b'{"cpu":1e999,"latency_ms":2,"net":{"in":3}}'}


def singles(count=1_200, keys=(b"DE",)):
    """Records, each a message of its own; some cannot be used."""
    rows = points(count).tolist()
    values = [BAD.get(i, value_of(row, id=f"r{i}", time=STAMP + 1_000 * i)) for i, row in enumerate(rows)]
    return [Record(TOPIC, 0, i, STAMP, keys[i // 60 % len(keys)], value) for i, value in enumerate(values)]


def packed(log, size, path="."):
    """The same records, so many in a message; every seventh message is on an offset behind a gap."""
    messages = []
    for number, start in enumerate(range(0, len(log), size)):
        own = log[start : start + size]
        text = b"\n".join(each.value for each in own) if path == "." else b"[%b]" % b",".join(e.value for e in own)
        value = text if path == "." else b'{"meta": 1, "batch": {"items": %b}}' % text
        messages.append(own[0]._replace(offset=number + number // 7, value=value))
    return messages


def given(**changes):
    return settings(**{"input__id_path": "id", "input__time_path": "time", **changes})


def placed(outputs, sources):
    """The outputs without the offsets of sources, which become the numbers of records."""
    found = {}
    for kind in KINDS:
        found[kind] = messages = []
        for message in outputs.of(kind):
            headers = dict(message.headers)
            if kind == "dead_letters":
                place = headers.pop("resonance.error.offset"), headers.pop("resonance.error.index", b"0")
                number = sources[tuple(map(int, place))]
                messages.append((number, message.key, orjson.dumps(message.value.decode()), headers))
                continue
            payload = orjson.loads(message.value)
            about = payload if kind == "assignments" else payload["cause"]
            source = about.pop("source")
            if kind == "drift_events":
                # It has an offset, too.
                for described in (payload, *payload.get("units", ())):
                    described.pop("since", None)
            messages.append((sources[source["offset"], source.get("index", 0)], message.key, payload))
    return found


def places(messages, size, count):
    return {(message.offset, index): number * size + index for number, message in enumerate(messages)
            for index in range(size) if number * size + index < count}  # fmt: skip


@pytest.mark.parametrize("size", [1, 10, 500])
@pytest.mark.parametrize("path", [".", "batch.items"])
@pytest.mark.parametrize("stream", ["partition", "key"])
def test_outputs_are_those_of_single_records_but_for_their_places(size, path, stream):
    keys = (b"DE", b"FR", b"IT") if stream == "key" and size < 500 else (b"DE",)
    log = singles(keys=keys)
    expected = task(given(stream=stream)).process(log)
    messages = packed(log, size, path)
    outputs = task(given(stream=stream, input__records=path)).process(messages)
    assert len(outputs.dead_letters) == len(BAD)
    assert len(outputs.cluster_events) > 3
    plain = placed(expected, {(i, 0): i for i in range(len(log))})
    assert placed(outputs, places(messages, size, len(log))) == plain


@pytest.mark.parametrize(
    ("path", "stream"),
    [(".", "partition"), ("batch.items", "key"), at_night(".", "key"), at_night("batch.items", "partition")],
)
def test_outputs_and_states_do_not_depend_on_how_the_log_is_cut_nor_on_restarts(path, stream):
    log = packed(singles(keys=(b"DE", b"FR")), 30, path)
    alike(given(stream=stream, input__records=path), log, stops=(3, 17, 30))


def test_a_key_is_silent_for_as_long_as_with_single_records():
    log = [record for at, record in enumerate(singles(6_000, (b"DE", b"FR", b"IT"))) if at < 3_000 or at // 60 % 3 < 2]
    log = [record._replace(offset=at, timestamp=STAMP + 1_000_000 * 60) for at, record in enumerate(log)]
    own = {"stream": "key", "prepare__warmup_records": 60, "alerts__rarity": 1_000}
    expected = task(given(**own)).process(log)
    messages = packed(log, 20)
    outputs = task(given(**own, input__records=".")).process(messages)
    assert "silent" in {alert["rule"] for alert in payloads(outputs.alerts)}
    plain = placed(expected, {(i, 0): i for i in range(len(log))})
    assert placed(outputs, places(messages, 20, len(log))) == plain


def test_a_rekeyed_message_becomes_a_route_for_each_record():
    count, size = 900, 30
    log = singles(count)
    for number, record in enumerate(log):
        if number not in BAD:
            value = {**orjson.loads(record.value), "country": ("DE", "FR")[number % 2]}
            log[number] = record._replace(value=orjson.dumps(value))
    changes = {"input__id_path": "id", "input__time_path": "time"}
    single = Hops(rekeyed("field:country", **changes))
    single.send(log)
    single.learn()
    messages = packed(log, size)
    hops = Hops(rekeyed("field:country", **changes, input__records="."))
    hops.send(messages)
    hops.learn()
    where = places(messages, size, count)
    plain = {(i, 0): i for i in range(count)}
    assert placed(hops.first, where) == placed(single.first, plain)
    assert len(hops.first.dead_letters) == len([at for at in BAD if at < count])
    for partition, outputs in hops.second.items():
        assert placed(outputs, where) == placed(single.second[partition], plain)
        assert {message.partition for message in outputs.assignments} == {0}


def test_outputs_say_which_record_of_its_message_they_are_about():
    log = singles(300)
    outputs = task(given(input__records=".", output__envelope="cloudevents")).process(packed(log, 100))
    sources = [answer["source"] for answer in payloads(outputs.assignments)]
    assert sources[:2] == [{"topic": TOPIC, "partition": 0, "offset": 0, "index": index} for index in range(2)]
    ids = [dict(message.headers)["ce_id"] for message in outputs.assignments]
    assert ids[:2] == [b"features-0-0.0", b"features-0-0.1"]
    assert len(set(ids)) == len(ids) == 298
    first = outputs.dead_letters[0]
    headers = dict(first.headers)
    assert (headers["resonance.error.offset"], headers["resonance.error.index"]) == (b"2", b"50")
    assert first.value == BAD[250]
    event = outputs.cluster_events[0]
    cause = orjson.loads(event.value)["cause"]["source"]
    assert dict(event.headers)["ce_id"].startswith(b"features-0-%d.%d/" % (cause["offset"], cause["index"]))


WHOLE = [
    (b"{", "items", "decode", "not_json"),
    (b'{"other": []}', "items", "validate", "wrong_type"),
    (b'{"items": {"a": 1}}', "items", "validate", "wrong_type"),
    (b"[1, 2", ".", "decode", "not_json"),
    (b" \n", ".", "decode", "not_json"),
    (b'{"items": [' + b"0," * MOST_ELEMENTS + b"0]}", "items", "limit", "too_many_records"),
    (b"\n".join([b"{}"] * (MOST_ELEMENTS + 1)), ".", "limit", "too_many_records"),
    (b'{"items": ["' + b"x" * 1_000_000 + b'"]}', "items", "limit", "record_too_large"),
    (b'{"x": ' + b"[" * 2_000 + b"]" * 2_000 + b', "items": []}', "items", "decode", "too_deep"),
    (b'{"\\u0069tems": [' + b"[" * 300 + b"]" * 300 + b"]}", "items", "decode", "too_deep"),
    (b'{"items": [{"cpu": 1}', "items", "decode", "not_json"),
]


@pytest.mark.parametrize(("value", "path", "stage", "kind"), WHOLE)
def test_a_message_that_cannot_be_taken_apart_is_one_dead_letter_without_index(value, path, stage, kind):
    log = singles(100)
    good = packed(log, 100)[0].value if path == "." else b'{"items": [%b]}' % b",".join(r.value for r in log)
    messages = [Record(TOPIC, 0, at, STAMP, None, each) for at, each in enumerate((good, value, None, good))]
    worker = task(given(input__records=path))
    outputs = worker.process(messages)
    (letter,) = outputs.dead_letters
    headers = dict(letter.headers)
    assert letter.value == value[: len(letter.value)]
    assert headers["resonance.error.offset"] == b"1"
    assert (headers["resonance.error.stage"].decode(), headers["resonance.error.class"].decode()) == (stage, kind)
    assert not {"resonance.error.index", "resonance.error.decided_by"} & headers.keys()
    assert len(outputs.assignments) == 200
    counts = worker.counts
    assert (counts.records, counts.skipped) == (202, 1)


def test_key_time_and_headers_of_a_message_are_those_of_its_records():
    value = b"[%b]" % b",".join(value_of(row) for row in points(3).tolist())
    message = Record(TOPIC, 0, 5, STAMP, b"DE", value, (("traceparent", b"00-1"),))
    outputs = task(settings(input__records=".")).process([message])
    answers = payloads(outputs.assignments)
    assert {answer["time"] for answer in answers} == {"2023-11-14T22:13:20.000Z"}
    assert {message.key for message in outputs.assignments} == {b"DE"}
    assert all(("traceparent", b"00-1") in message.headers for message in outputs.assignments)
    assert [answer["source"]["index"] for answer in answers] == [0, 1, 2]
