"""The first hop of labels: to the stream of the record, or a dead letter that says what a message must be."""

import re

import orjson
import pytest
from resonance.pipeline.kafka.partitioner import partition_of
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.repartition.envelope import read_route
from resonance.pipeline.repartition.router import RouterTask
from resonance.pipeline.task.decode.labels import LabelMessages
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import make_task
from resonance.schemas import load_schema

from tests.pipeline.labels.feedback import LABELS, feature, label, late, routed, rows
from tests.pipeline.repartition.two_hops import ROUTES
from tests.pipeline.streams import STAMP, TOPIC, errors, payloads


def test_a_message_goes_where_the_stream_of_its_record_is_learned():
    hops = routed(late("field:x.country"), [], routes=5)
    message = label(3, "r1", ["a"], partition=7, stream="D%2FE")
    assert isinstance(hops.task(LABELS, 7), RouterTask)
    (route,) = hops.send([message]).routes
    assert route.key == b"D/E"
    assert route.partition == partition_of(b"D/E", 5)
    found = read_route(Record("r", 0, 0, 0, route.key, route.value, route.headers))
    assert found is not None
    assert (found.topic, found.partition, found.source_offset) == (LABELS, 7, 3)
    assert (found.key, found.value) == (b"l", message.value)


def test_the_stream_may_be_left_out_where_there_is_one():
    hops = routed(late(), [label(0, "r1", ["a"]), label(1, "r2", ["a"], stream="features"), label(2, "r3", [])])
    assert [record.key for record in hops.routes[0]] == [b"features"] * 3


def test_the_id_of_a_message_keeps_its_digits():
    message = Record(LABELS, 0, 5, STAMP, None, b'{"id": 18446744073709551617, "labels": []}')
    assert LabelMessages(late()).read(message).id == b"18446744073709551617"


def value(**members):
    return orjson.dumps({"id": "r1", "labels": ["a"], **members})


@pytest.mark.parametrize(
    ("content", "stage", "kind", "text"),
    [
        (b"{", "decode", "not_json", "not JSON"),
        (b"[]", "decode", "not_an_object", "this one is an array"),
        (value(id=None), "label", "wrong_type", "id is null"),
        (b'{"labels":[]}', "label", "wrong_type", "id is missing"),
        (value(id=True), "label", "wrong_type", "id is "),
        (b'{"id":1}', "label", "wrong_type", "labels are missing"),
        (value(labels=None), "label", "wrong_type", "labels are missing"),
        (value(labels=1.5), "label", "wrong_type", "labels is a number"),
        (value(labels=["a", None]), "label", "wrong_type", "labels is an array with null"),
        (value(labels={"a": 1}), "label", "wrong_type", "labels is an object"),
        (value(labels=["a" * 101]), "label", "label_too_long", "101 bytes, 100 are allowed"),
        (value(labels=list(range(1001))), "label", "too_many_labels", "1,001 labels, and a stream can have 1,000"),
        (value(stream="other"), "label", "unknown_stream", "with stream = topic they are features"),
        (value(stream=1), "label", "no_key", "stream is "),
        (value(more="x" * 20_000), "limit", "record_too_large", "20,000 are allowed on the topic of labels"),
    ],
)
def test_what_is_no_message_of_labels_is_a_dead_letter(content, stage, kind, text):
    outputs = make_task(late(), LABELS, 2, TaskContext(routes=1)).process([Record(LABELS, 2, 5, STAMP, b"k", content)])
    assert not outputs.routes
    (dead_letter,) = outputs.dead_letters
    said = errors(dead_letter)
    assert (said["stage"], said["class"]) == (stage, kind)
    assert text in said["message"]
    assert (said["topic"], said["partition"], said["offset"]) == (LABELS, "2", "5")
    assert (dead_letter.value, dead_letter.partition) == (content, None)
    assert kind in load_schema("dead_letter")["properties"]["class"]["enum"]


def test_a_field_has_no_stream_of_its_own():
    outputs = make_task(late("field:country"), LABELS, 0, TaskContext(routes=1)).process([label(0, "r1", ["a"])])
    assert errors(outputs.dead_letters[0])["class"] == "no_key"


def test_labels_that_the_second_hop_cannot_use_any_more_are_dead_letters_there():
    given = late("field:country", labels__wait_records=0)
    hops = routed(given, [label(0, "r1", ["a"], stream="DE"), feature(0, [0.1, 0.2], country="DE")])
    (log,) = hops.routes.values()
    broken = log[0]._replace(value=b'{"id": "r1"}')
    outputs = hops.task(ROUTES, log[0].partition).process([broken, log[1]])
    assert errors(outputs.dead_letters[0])["message"].startswith("labels are missing")
    assert [answer["stream"] for answer in payloads(outputs.assignments)] == ["DE"]


def test_one_label_is_written_in_several_ways():
    log = [feature(i, row) for i, row in enumerate(rows(20))]
    said = [label(0, "r0", 7), label(1, "r1", [True, "7", 7]), label(2, "r2", "true"), label(3, "r3", ["7", False])]
    hops = routed(late(prepare__scale="none"), [*log, *said])
    hops.learn()
    model = hops.task(ROUTES, 0).models.named(TOPIC)
    assert model.engine.labels == ("7", "true", "false")
    assert (model.engine.arrays()["records"].tolist(), model.labels.learned) == ([3, 2, 1], 4)


@pytest.mark.parametrize(("more", "dead_letters"), [(0, 0), (1, 1)])
def test_the_size_of_a_message_is_that_of_value_key_and_headers(more, dead_letters):
    headers = (("name", b"12345"), ("\u00e9", None))
    content = value(more="")
    content = value(more="x" * (20_000 - len(content) - len(b"key") - 9 - 2 + more))
    outputs = make_task(late(), LABELS, 0, TaskContext(routes=1)).process(
        [Record(LABELS, 0, 0, STAMP, b"key", content, headers)]
    )
    assert (len(outputs.routes), len(outputs.dead_letters)) == (1 - dead_letters, dead_letters)


def test_what_was_routed_while_the_topic_had_another_name_is_a_dead_letter():
    log = [feature(i, row) for i, row in enumerate(rows(30))]
    hops = routed(late(), [*log[:10], label(0, "r0", ["a"]), label(3, "r1", ["a"], partition=7), *log[10:]])
    read = hops.routes[0]
    whole, cut = (make_task(late(labels__topic="other"), ROUTES, 0, TaskContext(inputs=1, labels=2)) for _ in range(2))
    outputs = whole.process(read)
    assert (len(outputs.assignments), whole.counts.foreign) == (30, 0)
    assert [(errors(each)["partition"], each.partition) for each in outputs.dead_letters] == [("0", 0), ("7", 1)]
    assert {(errors(each)["topic"], errors(each)["class"]) for each in outputs.dead_letters} == {
        (LABELS, "missing_feature")
    }
    done = Outputs()
    for start in range(0, len(read), 5):
        done.add(cut.process(read[start : start + 5]))
    assert (done, cut.models.named(TOPIC).state()) == (outputs, whole.models.named(TOPIC).state())


def test_a_record_of_a_topic_that_is_no_input_any_more_is_answered_where_there_is_a_place():
    (record,) = routed(late(), [feature(0, [0.1, 0.2])._replace(topic="features", partition=5)]).routes[0]
    (name, source), *others = record.headers
    moved = record._replace(headers=[(name, (source or b"").replace(b'"features"', b'"old"')), *others])
    outputs = make_task(late(), ROUTES, 0, TaskContext(inputs=3, labels=8)).process([moved])
    assert [message.partition for message in outputs.assignments] == [2]


def test_labels_find_the_records_of_messages():
    points = rows(200)
    single = [feature(i, row) for i, row in enumerate(points)]
    said = [label(i, f"r{i}" if i % 3 else "none", ["a" if row[0] > 0.5 else "b"]) for i, row in enumerate(points)]
    found = []
    for size in (1, 20):
        given = late(input__records=".", labels__wait_records=30)
        messages = [
            part[0]._replace(offset=number, value=b"\n".join(record.value for record in part))
            for number, part in enumerate(single[start : start + size] for start in range(0, 200, size))
        ]
        order = []
        for number, message in enumerate(messages):
            order += [message, *said[number * size : (number + 1) * size]]
        if size == 1:
            order = [
                each
                for start in range(0, 400, 40)
                for each in order[start : start + 40 : 2] + order[start + 1 : start + 40 : 2]
            ]
        hops = routed(given, order)
        hops.learn()
        answers = payloads(hops.outputs.assignments)
        letters = [dict(message.headers) for message in hops.outputs.dead_letters]
        found.append(([[each["id"], each["cluster"], each.get("labels")] for each in answers],
                      [each["resonance.error.offset"] for each in letters]))  # fmt: skip
        assert {each["resonance.error.topic"] for each in letters} == {LABELS.encode()}
        deciders = [
            each["resonance.error.decided_by"].decode() for each in letters if "resonance.error.decided_by" in each
        ]
        assert any(re.fullmatch(rf"{TOPIC}-0-\d+\.\d+", each) for each in deciders)
        assert not any("resonance.error.index" in each for each in letters)
    assert found[0] == found[1]
    assert any(labels for *_, labels in found[0][0])
