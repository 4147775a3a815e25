"""Sparse records in a partition task: their forms, the feature dictionary, dead letters, and descriptions."""

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.engine import SAART, Cluster, SparseBatch
from resonance.pipeline.checkpoint.changelog_records import PartitionRecord
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.recovery.models import check_models
from resonance.pipeline.task.encode import cluster_description
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.pipeline.task.encode.message_sizes import CAUSE_BYTES, event_bytes_of
from resonance.schemas import load_schema

from tests.pipeline.sparse_streams import (
    by_index,
    by_name,
    dense,
    entries,
    sparse_record,
    sparse_records,
    sparse_settings,
)
from tests.pipeline.streams import TOPIC, alike, errors, payloads, restored, run, states, task

KEYS = (b"a", b"b", b"c")
STRANGE = [
    *({"w1": "text"}, {"w1": True}, {"w1": None}, {"w1": [1]}, {}, [1, 2], None),
    *({"indices": [1, 1], "values": [0.5, 0.5]}, {"indices": [-1], "values": [0.5]}),
    *({"indices": [1.0], "values": [0.5]}, {"indices": [1e30], "values": [0.5]}),
    *({"indices": [2**63], "values": [0.5]}, {"indices": [True], "values": [0.5]}),
    *({"indices": [1, 2], "values": [0.5]}, {"indices": [1], "values": ["0.5"]}, {"indices": [1], "values": [None]}),
    *({"indices": [10_000], "values": [1]}, {"indices": [], "values": []}, {"w1": 1e200}, {"x" * 1_200: 1.0}),
]


def names_of(worker, stream="p0"):
    return worker.models.named(stream).preparation.known_features


# The same, however the log is cut and whatever form it has
@pytest.mark.parametrize("form", [by_name, by_index])
@pytest.mark.parametrize("stream", ["partition", "key"])
def test_however_the_log_is_cut_the_bytes_are_the_same(form, stream):
    given = sparse_settings(stream=stream, input__id_path="id", engine__max_features=50)
    log = sparse_records([form(record) for record in entries(400)], KEYS)
    for place, words in zip(range(20, 400, 11), STRANGE, strict=False):
        log[place] = sparse_record(place, words, log[place].key)
    log[7] = log[7]._replace(value=b"{")
    log[9] = log[9]._replace(value=None)
    _, expected = alike(given, log)
    classes = {errors(each)["class"] for each in expected.dead_letters}
    assert classes >= {"not_json", "wrong_type", "missing_feature", "wrong_dimension", "too_many_features"}
    assert len(expected.assignments) + len(expected.dead_letters) == 399
    assert len(expected.cluster_events) > 3


def test_sparse_records_give_what_dense_ones_give():
    # With its first record each word gets the place that it has among all of them: sums are then taken alike.
    rows = [[(index, 0.3) for index in range(60)], *entries(400)]
    ranges = {"*": (0.0, 0.8), "w05": (0.0, 2.0), "w03": (0.0, 0.5)}
    given = {"prepare__scale": "given", "prepare__log1p": ["w03"], "prepare__ranges": ranges}
    named = run(task(sparse_settings(**given)), sparse_records(list(map(by_name, rows))))
    indexed = {"prepare__log1p": ["f3"], "prepare__ranges": {"*": (0.0, 0.8), "f5": (0.0, 2.0), "f3": (0.0, 0.5)}}
    numbered = run(task(sparse_settings(**given | indexed)), sparse_records(list(map(by_index, rows))))
    assert named.assignments == numbered.assignments
    every = {f"w{index:02}": ranges.get(f"w{index:02}", ranges["*"]) for index in range(60)}
    wide = sparse_settings(input__sparse=None, input__features="words", **given | {"prepare__ranges": every})
    whole = run(task(wide), sparse_records([dense(record) for record in rows]))
    # Twenty records are held back until the names of a dense record are known.
    assert named.assignments[20:] == whole.assignments[20:]
    for ours, theirs in zip(payloads(named.cluster_events), payloads(whole.cluster_events), strict=True):
        (one,), (other,) = ours["after"], theirs["after"]
        assert one["salient"] == other["salient"]
        assert one["centre"] == {name: value for name, value in other["centre"].items() if name in one["centre"]}
        assert not any(value for name, value in other["centre"].items() if name not in one["centre"])


def test_the_engine_sees_the_entries_and_nothing_else():
    rows = entries(300)
    worker = task(sparse_settings())
    answers = payloads(run(worker, sparse_records(list(map(by_index, rows)))).assignments)
    flat = [entry for record in rows for entry in record]
    indptr = np.concatenate([[0], np.cumsum([len(record) for record in rows])])
    batch = SparseBatch(np.array([index for index, _ in flat]), indptr, np.array([value for _, value in flat]))
    model = SAART()
    step = model.learn(batch)
    assert worker.models.named("p0").engine.state() == model.state()
    assert [answer["path"] for answer in answers] == step.path.tolist()


# The feature dictionary
def test_names_get_their_places_in_the_order_of_their_first_appearance():
    given = sparse_settings(stream="key", engine__max_features=4)
    log = [
        sparse_record(0, {"zinc": 0.5, "tin": 0.2}, b"a"),
        sparse_record(1, {"gold": 1}, b"b"),
        sparse_record(2, {"lead": "much"}, b"a"),
        sparse_record(3, {"tin": 0.1, "gold": 0.3, "zinc": 0.4}, b"a"),
        sparse_record(4, {"iron": 0.1, "lead": 0.3}, b"a"),
        sparse_record(5, {"lead": 0.3}, b"a"),
        sparse_record(6, {"tin": 0.3}, b"b"),
    ]
    for size in (1, 3, 7):
        worker = task(given)
        outputs = run(worker, log, size)
        assert names_of(worker, "p0:a") == ["zinc", "tin", "gold", "lead"]
        assert names_of(worker, "p0:b") == ["gold", "tin"]
        found = [errors(each) for each in outputs.dead_letters]
        assert [(each["stage"], each["class"]) for each in found] == [
            ("validate", "wrong_type"),
            ("limit", "too_many_features"),
        ]
        assert found[1]["message"] == (
            "2 more features, iron first, would make 5: engine.max_features is 4; raise it, or send fewer features"
        )


def test_a_stream_has_the_form_of_its_first_usable_record():
    log = [
        sparse_record(0, {"indices": [1], "values": ["x"]}),
        sparse_record(1, {"gold": 0.5}),
        sparse_record(2, {"indices": [1], "values": [0.5]}),
        sparse_record(3, {"indices": 3, "values": 0.5}),
    ]
    for size in (1, 4):
        worker = task(sparse_settings(prepare__scale="given", prepare__ranges={"*": [0, 5]}))
        outputs = run(worker, log, size)
        assert names_of(worker) == ["gold", "indices", "values"]
        assert [errors(each)["message"] for each in outputs.dead_letters] == [
            "words.values[0] is text, not a number",
            "the features are indices and values, those of the stream's first record are an object name -> number; "
            "send one form in a stream",
        ]


@pytest.mark.parametrize("form", [by_name, by_index])
def test_a_stream_goes_on_from_its_snapshot(form):
    given = sparse_settings(stream="key")
    log = sparse_records([form(record) for record in entries(300)], KEYS)
    whole = task(given)
    run(whole, log[:170])
    fresh = restored(given, whole.partition_state(), list(whole.models.states()))
    assert run(fresh, log[170:]) == run(whole, log[170:])
    assert states(fresh) == states(whole)
    newer = task(given)
    for snapshot in whole.models.states():
        newer.restore(snapshot, new_version=True)
    # A new model has a dictionary of its own.
    assert names_of(newer, "p0:a") == []
    more = run(newer, sparse_records([form(record) for record in entries(330)], KEYS)[300:])
    assert {answer["version"] for answer in payloads(more.assignments)} == {2}


def test_a_snapshot_may_know_more_features_than_it_has_bytes():
    given = sparse_settings()
    source = DeploymentContext.of(given, {}, Deployment(1, {TOPIC: "id"}))
    worker = task(given)
    run(worker, [sparse_record(0, {"indices": [9_999], "values": [1]})])
    snapshots = list(worker.models.states())
    assert len(snapshots[0].body) < 9_999
    record = PartitionRecord(source.identities[TOPIC], 0, 1, 1, 1, worker.partition_state())
    checkpoint = PartitionCheckpoint(record, snapshots)
    assert check_models(source, checkpoint).models.first_version == 1


# Dead letters
@pytest.mark.parametrize(
    ("at", "stage", "kind", "message"),
    [
        (0, "validate", "wrong_type", "words.w1 is text, not a number"),
        (1, "validate", "wrong_type", "words.w1 is a boolean, not a number"),
        (2, "validate", "missing_feature", "words.w1 is null; leave it out: a feature that is not there is 0"),
        (4, "validate", "wrong_dimension", "words is empty: a record has at least one feature"),
        (
            5,
            "validate",
            "wrong_type",
            'words is an array, neither {"indices": [...], "values": [...]} nor name -> number',
        ),
        (6, "validate", "missing_feature", "words is null; it is where input.sparse looks for the features"),
        (7, "validate", "wrong_dimension", "words has feature 1 twice; send each of them once"),
        (8, "validate", "wrong_dimension", "words.indices[0] is -1: features count from 0"),
        (9, "validate", "wrong_type", "words.indices[0] is a number, not an integer from 0 on"),
        (11, "validate", "wrong_dimension", "words.indices[0] is 9223372036854775808: features count from 0"),
        (13, "validate", "wrong_dimension", "words has 2 indices and 1 values; each value needs its index"),
        (14, "validate", "wrong_type", "words.values[0] is text, not a number"),
        (
            16,
            "limit",
            "too_many_features",
            "there is no feature 10,000, they count from 0 to 9,999: engine.max_features",
        ),
        (17, "validate", "wrong_dimension", "words is empty: a record has at least one feature"),
        (18, "limit", "out_of_range", "w1 is 1e+200: beyond 1e+150"),
        (19, "limit", "name_too_long", f"the name {'x' * 40}... has 1,200 bytes, 1,000 are allowed; shorten it"),
    ],
)
def test_what_cannot_be_used_is_a_dead_letter(at, stage, kind, message):
    outputs = run(task(sparse_settings()), [sparse_record(0, STRANGE[at])])
    error = errors(outputs.dead_letters[0])
    assert (error["stage"], error["class"], outputs.assignments) == (stage, kind, [])
    assert error["message"].startswith(message)
    Draft202012Validator(load_schema("dead_letter")).validate(error)


def test_a_logarithm_of_nothing_is_a_dead_letter():
    worker = task(sparse_settings(prepare__log1p=["*"]))
    (dead_letter,) = run(worker, [sparse_record(0, {"w1": -1.0, "w2": 1.0})]).dead_letters
    assert (errors(dead_letter)["message"], names_of(worker)) == ("w1 is -1.0: log1p needs a value above -1", [])


def test_a_record_without_features_is_learned_where_absences_count():
    outputs = run(task(sparse_settings(engine__complement=True)), sparse_records([{}, {"gold": 1.0}, {}]))
    assert not outputs.dead_letters
    assert [answer["path"] for answer in payloads(outputs.assignments)] == [[0], [1], [0]]


def test_zeros_alone_are_answered_as_in_a_dense_record():
    answer = payloads(run(task(sparse_settings()), sparse_records([{"gold": 0.5}, {"gold": 0.0}])).assignments)[1]
    assert (answer["cluster"], answer["score"], answer["path"]) == (None, None, [])


# Scales
def test_values_outside_the_range_are_clipped_and_counted():
    worker = task(sparse_settings(prepare__scale="given", prepare__ranges={"*": [0, 4], "gold": [0, 10]}))
    rows = [{"gold": 10, "tin": 4}, {"gold": 12, "tin": -1}, {"gold": 5, "tin": 5}]
    outputs = run(worker, sparse_records(rows))
    counts = worker.counts
    assert counts.totals[:2] == (6, 3)
    assert not outputs.dead_letters
    (cluster,) = worker.models.clusters("p0")
    assert cluster["centre"] == {"gold": pytest.approx(25 / 3), "tin": pytest.approx(8 / 3)}


# Descriptions
def test_clusters_are_described_by_their_own_features_and_explain_themselves():
    worker = task(sparse_settings())
    outputs = run(worker, sparse_records(list(map(by_name, entries(400)))))
    for name, messages in (("cluster_event", outputs.cluster_events), ("cluster", outputs.clusters)):
        validator = Draft202012Validator(load_schema(name))
        for payload in payloads(messages):
            validator.validate(payload)
    named = names_of(worker)
    model = worker.models.named("p0").engine
    for found, cluster in zip(worker.models.clusters("p0"), model.clusters(), strict=True):
        assert list(found["centre"]) == list(found["spread"]) == [named[index] for index in cluster.features]
        assert "omitted" not in found
        assert found["salient"] == [
            {"feature": named[each.feature], "salience": each.salience, "weight": each.weight}
            for each in cluster.salient
        ]
        assert found["salient"]
    present = {payload["id"]: payload for payload in payloads(outputs.clusters)}
    assert all(payload["salient"] for payload in present.values())


def test_more_features_than_a_message_holds_leave_out_those_with_the_smallest_means(monkeypatch):
    monkeypatch.setattr(cluster_description, "CENTRE_BYTES", 405)
    worker = task(sparse_settings())
    words = {f"word{index}": (index % 10 + 1) / 16 for index in range(30)}
    (event,) = payloads(run(worker, sparse_records([words])).cluster_events)
    (cluster,) = event["after"]
    assert cluster["centre"] == {name: value for name, value in words.items() if value > 8 / 16}
    assert cluster["omitted"] == 24
    assert len(orjson.dumps([cluster["centre"], cluster["spread"]])) <= 405


def test_those_that_are_left_out_have_the_smallest_shares_of_their_ranges(monkeypatch):
    monkeypatch.setattr(cluster_description, "CENTRE_BYTES", 410)
    # Counts up to 1,000 that are hardly there beside shares.
    counts = {f"word{index}": [0, 1_000] for index in range(10)}
    worker = task(sparse_settings(prepare__scale="given", prepare__ranges={"*": [0, 1], **counts}))
    words = {f"word{index}": 20.0 if index < 10 else (index % 10 + 1) / 16 for index in range(30)}
    run(worker, sparse_records([words]))
    (cluster,) = worker.models.clusters("p0")
    assert cluster["centre"] == {name: value for name, value in words.items() if 8 / 16 <= value < 1}
    assert (len(cluster["centre"]), cluster["omitted"]) == (6, 24)


def test_no_event_is_longer_than_is_known_before():
    worker = task(sparse_settings(limits__record_bytes=10_000_000, engine__max_features=50_000))
    long = {"\x01" * 150 + str(index): 0.12345678901234567 for index in range(9_000)}
    outputs = run(worker, sparse_records([long, {"gold": 1.0}]))
    assert not outputs.dead_letters
    most = event_bytes_of(worker.models.named("p0"))
    sizes = [len(message.value or b"") for message in outputs.cluster_events]
    assert 100_000 < max(sizes) < (most - CAUSE_BYTES) / 2
    assert most < 1_000_000
    assert payloads(outputs.cluster_events)[0]["after"][0]["omitted"] > 8_000


def test_a_cluster_without_features_is_described():
    worker = task(sparse_settings(engine__complement=True))
    run(worker, sparse_records([{}]))
    (cluster,) = worker.models.clusters("p0")
    assert (cluster["centre"], cluster["spread"]) == ({}, {})
    empty = Cluster(0, (), 1, 1, np.empty(0), np.empty(0))
    model = worker.models.named("p0")
    texts = StreamTexts(model.stream, model.version, model.engine.depth)
    assert cluster_description.describe(model, texts, empty)["centre"] == {}
