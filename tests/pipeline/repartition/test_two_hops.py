"""Records are learned where their stream lives, and everything that is said of them names where they were read."""

from collections import Counter

import orjson
import pytest
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.tasks import make_task

from tests.pipeline.repartition.two_hops import ROUTES, Hops, inputs, interleaved, settings
from tests.pipeline.streams import STAMP, TOPIC, errors, payloads, value_of


def run(stream="topic", count=900, **changes):
    hops = Hops(settings(stream, **{"input__id_path": "id", **changes}))
    for batch in interleaved(inputs(count)):
        hops.send(batch)
    hops.learn()
    return hops


def outputs(hops):
    return [part for _, part in sorted(hops.second.items())]


def test_all_records_of_a_topic_share_one_model_which_learns_in_the_order_of_the_routes():
    hops = run()
    (log,) = hops.routes.values()
    (said,) = outputs(hops)
    assert {answer["stream"] for answer in payloads(said.assignments)} == {TOPIC}
    one = PartitionTask(settings("partition"), TOPIC, 0)
    rows = [Record(TOPIC, 0, record.offset, STAMP, None, record.value) for record in log]
    alone = payloads(one.process(rows).assignments)
    parts = ("score", "novel", "path", "status")
    assert [[answer[part] for part in parts] for answer in payloads(said.assignments)] == [
        [answer[part] for part in parts] for answer in alone
    ]


@pytest.mark.parametrize("stream", ["topic", "field:country"])
def test_outputs_name_the_feature_record_and_keep_its_key_time_and_trace(stream):
    hops = run(stream, output__envelope="cloudevents")
    sent = {(r.topic, r.partition, r.offset): r for log in inputs(900).values() for r in log}
    seen = Counter()
    for said in outputs(hops):
        for message, answer in zip(said.assignments, payloads(said.assignments), strict=True):
            source = answer["source"]
            record = sent[source["topic"], source["partition"], source["offset"]]
            headers = dict(message.headers)
            assert (message.partition, message.key) == (source["partition"], record.key)
            assert answer["id"] == orjson.loads(record.value)["id"]
            assert headers["ce_id"].decode() == "{topic}-{partition}-{offset}".format(**source)
            assert headers["ce_source"].decode() == f"/resonance/resonance/{TOPIC}/{source['partition']}"
            assert headers.get("traceparent") == dict(record.headers).get("traceparent")
            seen[tuple(source.values())] += 1
        for message, event in zip(said.cluster_events, payloads(said.cluster_events), strict=True):
            source = event["cause"]["source"]
            assert dict(message.headers)["ce_id"].decode().startswith("{topic}-{partition}-{offset}/".format(**source))
            # Where its stream is learned, so that the events of a stream stand in their order.
            assert message.partition is None
        assert all(message.partition is None for message in said.clusters)
    assert seen == Counter(dict.fromkeys(sent, 1))
    assert sum(len(said.cluster_events) for said in outputs(hops)) > 3


def test_records_that_agree_in_a_field_share_one_model_whatever_their_partition_and_topic():
    hops = Hops(settings("field:country", input__topics=["a", "b"]), routes=2)
    for batch in interleaved(inputs(900, topics=("a", "b"))):
        hops.send(batch)
    hops.learn()
    names = {partition: set(hops.task(ROUTES, partition).models.names) for partition in hops.routes}
    assert sorted(name for each in names.values() for name in each) == ["DE", "FR", "IT"]
    answers = [answer for said in outputs(hops) for answer in payloads(said.assignments)]
    assert {(a["stream"], a["source"]["topic"]) for a in answers} == {(s, t) for s in ("DE", "FR", "IT") for t in "ab"}


@pytest.mark.parametrize(("value", "name"), [(True, "true"), (7, "7"), ("a/b c", "a%2Fb%20c"), ("é", "%C3%A9")])
def test_a_field_may_be_text_an_integer_or_a_boolean(value, name):
    hops = Hops(settings("field:geo.place"), routes=5)
    hops.send([Record(TOPIC, 0, 0, STAMP, None, value_of([1, 2, 3], geo={"place": value}))])
    hops.learn()
    assert [hops.task(ROUTES, partition).models.names for partition in hops.routes] == [[name]]


@pytest.mark.parametrize(
    ("value", "stage", "kind", "text"),
    [
        (b"nonsense", "decode", "not_json", "not JSON"),
        (b"[1]", "decode", "not_an_object", "an array"),
        (b'{"cpu": 1}', "validate", "no_key", "country is missing"),
        (b'{"country": null}', "validate", "no_key", "country is null"),
        (b'{"country": ""}', "validate", "no_key", "country is empty"),
        (b'{"country": 1.5}', "validate", "wrong_type", "country is a number"),
        (b'{"country": {}}', "validate", "wrong_type", "country is an object"),
        (b'{"country": "%s"}' % (b"x" * 300), "limit", "key_too_long", "the name of a stream has at most 256"),
        (b'{"country": "%s"}' % (b"x" * 3000), "limit", "record_too_large", "limits.record_bytes"),
    ],
)
def test_what_has_no_stream_is_a_dead_letter_of_the_first_hop(value, stage, kind, text):
    hops = Hops(settings("field:country", limits__record_bytes=2_000))
    said = hops.send(
        [Record(TOPIC, 2, 40, STAMP, b"k", value, (("h", b"1"),)), Record(TOPIC, 2, 41, STAMP, b"k", None)]
    )
    (dead_letter,) = said.dead_letters
    found = errors(dead_letter)
    assert (found["stage"], found["class"]) == (stage, kind)
    assert text in found["message"]
    assert (found["topic"], found["partition"], found["offset"]) == (TOPIC, "2", "40")
    assert (dead_letter.key, dead_letter.headers[0], hops.task(TOPIC, 2).counts.skipped) == (b"k", ("h", b"1"), 1)
    assert not said.routes


def test_a_record_whose_headers_are_too_long_to_be_routed_is_a_dead_letter():
    said = Hops(settings()).send([Record(TOPIC, 0, 0, STAMP, None, b"{}", (("h", b"x" * 50_000),))])
    assert "headers" in errors(said.dead_letters[0])["message"]


def test_a_dead_letter_of_the_second_hop_is_the_record_as_it_was_and_names_its_place():
    hops = Hops(settings())
    hops.send([Record(TOPIC, 2, 41, STAMP, b"k", b'{"cpu": "x"}', (("h", b"1"),))])
    hops.learn()
    (dead_letter,) = outputs(hops)[0].dead_letters
    found = errors(dead_letter)
    assert (found["topic"], found["partition"], found["offset"]) == (TOPIC, "2", "41")
    assert (dead_letter.key, dead_letter.value, dead_letter.headers[0], dead_letter.partition) == (
        b"k",
        b'{"cpu": "x"}',
        ("h", b"1"),
        2,
    )
    assert len([name for name, _ in dead_letter.headers if not name.startswith("resonance.error.")]) == 1


def test_time_is_the_records_own():
    hops = Hops(settings())
    hops.send([Record(TOPIC, 0, 0, 1_600_000_000_000, None, value_of([1, 2, 3]))])
    hops.learn()
    (answer,) = payloads(outputs(hops)[0].assignments)
    assert answer["time"].startswith("2020-09-13")


def test_batches_of_either_hop_change_nothing():
    given = settings("field:country", input__features="features", input__id_path="id")
    logs = {at: [r._replace(value=_with_array(r.value)) for r in log] for at, log in inputs(500).items()}
    whole, cut = Hops(given), Hops(given)
    for batch in interleaved(logs):
        whole.send(batch)
        for record in batch:
            cut.send([record])
            cut.learn()
    whole.learn()
    assert (whole.routes, whole.second) == (cut.routes, cut.second)


def _with_array(value):
    content = orjson.loads(value or b"")
    return orjson.dumps({**content, "features": [content["cpu"], content["latency_ms"]]})


def test_foreign_messages_among_the_routes_are_left_aside(caplog):
    task = make_task(settings(), ROUTES, 0)
    headers = [(), (("resonance.source", b"[]"),) * 2]
    foreign = [Record(ROUTES, 0, i, STAMP, b"k", b"{}", own) for i, own in enumerate(headers)]
    assert task.process(foreign) == Outputs()
    assert len([r for r in caplog.records if "something else than routes" in r.getMessage()]) == 1


def test_plain_outputs_have_no_cloudevents_headers():
    for message in outputs(run(count=50, output__envelope="plain"))[0].assignments:
        assert [name for name, _ in message.headers if name != "traceparent"] == ["resonance.routes_offset"]


def test_outputs_say_where_their_route_stands():
    hops = run()
    for partition, said in hops.second.items():
        routed = {}
        for record in hops.routes[partition]:
            topic, number, offset, *_ = orjson.loads(dict(record.headers)["resonance.source"])
            routed[topic, number, offset] = b"%d" % record.offset
        for message, answer in zip(said.assignments, payloads(said.assignments), strict=True):
            assert dict(message.headers)["resonance.routes_offset"] == routed[tuple(answer["source"].values())]
        for message, event in zip(said.cluster_events, payloads(said.cluster_events), strict=True):
            cause = tuple(event["cause"]["source"].values())
            assert dict(message.headers)["resonance.routes_offset"] == routed[cause]
        for message in said.clusters:
            assert dict(message.headers)["resonance.routes_offset"] in routed.values()
