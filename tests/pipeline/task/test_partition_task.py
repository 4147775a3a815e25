"""The partition task: answers, events and dead letters are a function of the input log alone."""

import itertools

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.engine import make_engine
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.records import Record
from resonance.pipeline.task.stream_task import TaskContext
from resonance.schemas import Assignment, load_schema

from tests.night import at_night, some_at_night
from tests.pipeline.streams import (
    STAMP,
    TOPIC,
    alike,
    errors,
    payloads,
    points,
    process,
    records,
    run,
    settings,
    task,
    uneven,
    value_of,
)

KEYS = (b"a", b"b", b"sh/op 7", b"\xff")
ENGINES = [
    *({"engine.name": "modal"}, {"engine.name": "caea"}, {"engine.name": "hcaea"}),
    {"engine.name": "ildn", "engine.k": 0.5},
]
ONE_AND_A_TREE = some_at_night(ENGINES, ENGINES[1::2])
"""For what the pipeline does alike with every engine: others have clusters of one level as well, and run at night."""

MERGING = {"engine.consolidate_every": 250, "engine.lambda": None, "engine.min_cluster_records": None}


def changed(engine, **values):
    return settings(**{name.replace(".", "__"): value for name, value in engine.items()}, **values)


# Batches
@pytest.mark.parametrize(
    "engine",
    [
        *ONE_AND_A_TREE,
        {"engine.name": "evq", "engine.mode": "evq-ams", **MERGING},
        at_night({"engine.name": "evq", "engine.mode": "evq-a", **MERGING}),
    ],
)
@pytest.mark.parametrize("stream", ["partition", "key"])
def test_however_the_log_is_cut_the_bytes_are_the_same(engine, stream):
    given = changed(engine, stream=stream, input__id_path="id")
    log = records(points(1500).tolist(), keys=KEYS)
    log[3] = log[3]._replace(value=b"{")
    log[700] = log[700]._replace(value=None)
    log[900] = log[900]._replace(value=value_of([1e200, 1.0, 1.0]))
    log[901] = log[901]._replace(value=value_of([1e300, 1.0, 1.0]))
    _, expected = alike(given, log)
    assert len(expected.cluster_events) > 3
    assert (len(expected.dead_letters), len(expected.assignments)) == (3, 1500 - 4)


def test_two_interleaved_streams_equal_two_separate_runs():
    given = settings(stream="key")
    log = records(points(1600).tolist(), keys=(b"a", b"b"))
    both = run(task(given), log)
    for key in (b"a", b"b"):
        alone = run(task(given), [record for record in log if record.key == key])
        assert [m for m in both.assignments if m.key == key] == alone.assignments
        assert [m for m in both.cluster_events if m.key == key] == alone.cluster_events
    assert len(both.cluster_events) > 3


# Answers
@pytest.mark.parametrize("engine", ENGINES)
def test_everything_fits_its_schema(engine):
    given = changed(engine, stream="key", input__id_path="id", output__include=["net", "cpu"])
    outputs = run(task(given), records(points(1500).tolist(), keys=KEYS))
    for name, messages in (("assignment", outputs.assignments), ("cluster_event", outputs.cluster_events)):
        validator = Draft202012Validator(load_schema(name))
        assert messages
        # Most assignments are alike, and a check takes a millisecond.
        for payload in payloads(messages[:: 20 if name == "assignment" else 1]):
            validator.validate(payload)


@pytest.mark.parametrize("engine", ONE_AND_A_TREE)
@pytest.mark.parametrize("extra", [{}, {"input__id_path": "id", "output__include": ["net.in", "absent"]}])
def test_an_assignment_has_the_bytes_that_orjson_gives_for_it(engine, extra):
    given = changed(engine, **extra)
    log = records(points(1500).tolist())
    for record, message in zip(log, run(task(given), log).assignments, strict=True):
        found, said = orjson.loads(message.value), orjson.loads(record.value)
        known = {
            "id": said["id"] if extra else None,
            "source": {"topic": TOPIC, "partition": 0, "offset": record.offset},
        }
        known |= {"stream": "p0", "version": 1} | ({"include": {"net.in": said["net"]["in"]}} if extra else {})
        # In the order of the schema.
        expected = {name: known.get(name, found.get(name)) for name in Assignment.__annotations__ if name in found}
        assert known.keys() <= expected.keys()
        assert orjson.dumps(expected) == message.value


@pytest.mark.parametrize("engine", ENGINES)
def test_answers_say_what_the_engine_said(engine):
    given = changed(engine, prepare__scale="none")
    rows = points(900)
    outputs = run(task(given), records(rows.tolist()))
    step = make_engine(given.engine.name, given.engine_parameters).learn(rows)
    for i, payload in enumerate(payloads(outputs.assignments)):
        path = [node for node in step.path[i].tolist() if node >= 0]
        ids = [
            "p0/1/" + "".join(f"{node}." for node in path[:level]) + str(cluster)
            for level, cluster in enumerate(step.cluster[i].tolist())
            if cluster >= 0
        ]
        assert (payload["path"], payload["clusters"]) == (path, ids)
        assert payload["cluster"] == (ids[0] if step.cluster[i, 0] >= 0 else None)
        assert payload["novel"] == step.novel[i]
        assert payload["score"] == (None if np.isnan(step.score[i]) else step.score[i])
        assert payload["status"] == "assigned"


def test_the_first_records_warm_up_and_are_then_learned_in_order():
    rows = points(300)
    worker = task()
    outputs = run(worker, records(rows.tolist()))
    assert [p["status"] for p in payloads(outputs.assignments)] == ["warming_up"] * 16 + ["assigned"] * 284
    first = payloads(outputs.assignments)[0]
    assert (first["cluster"], first["clusters"], first["score"], first["path"]) == (None, [], None, [])
    given = settings()
    preparation = given.preparation(["cpu", "latency_ms", "net.in"])
    preparation.hold(rows[:16])
    engine = make_engine(given.engine.name, given.engine_parameters)
    engine.learn(preparation.freeze())
    engine.learn(preparation.apply(rows[16:60]))
    engine.move(*preparation.rescale()[:2])
    engine.learn(preparation.apply(rows[60:]))
    assert worker.models.get(None).engine.state() == engine.state()


def test_headers_are_cloudevents_with_the_times_of_the_source():
    log = records(points(70).tolist(), keys=(b"k",))
    log[5] = log[5]._replace(headers=(("other", b"x"), ("traceparent", b"00-1-2-01")))
    messages = run(task(settings(output__envelope="cloudevents")), log).assignments
    assert dict(messages[5].headers) == {
        "ce_specversion": b"1.0",
        "ce_id": b"features-0-5",
        "ce_type": b"resonance.assignment.v1",
        "ce_source": b"/resonance/resonance/features/0",
        "ce_time": b"2023-11-14T22:13:20.065Z",
        "ce_dataschema": b"urn:resonance:schema:assignment:1",
        "traceparent": b"00-1-2-01",
    }
    assert (orjson.loads(messages[5].value)["time"], messages[5].key) == ("2023-11-14T22:13:20.065Z", b"k")
    assert "traceparent" not in dict(messages[6].headers)


@pytest.mark.parametrize("own", [{}, {"output__envelope": "plain"}])
def test_assignments_have_no_headers_but_the_trace_and_other_outputs_those_of_cloudevents_unless_plain(own):
    log = records(points(400).tolist())
    log[5] = log[5]._replace(headers=(("traceparent", b"00"),))
    outputs = run(task(settings(**own)), log)
    assert (outputs.assignments[5].headers, outputs.assignments[6].headers) == ([("traceparent", b"00")], [])
    others = outputs.cluster_events + outputs.clusters
    assert {dict(message.headers).get("ce_specversion") for message in others} == {None if own else b"1.0"}
    assert not own or all(message.headers == [] for message in others)


def test_only_changes_only_novel_ones_or_none():
    log = records(points(1500).tolist(), keys=KEYS[:2])
    every = run(task(settings(stream="key")), log)
    last = {}
    changes, novel = [], []
    for message, payload in zip(every.assignments, payloads(every.assignments), strict=True):
        status = (payload["status"], payload["cluster"])
        if last.get(payload["stream"]) != status:
            changes.append(message)
        last[payload["stream"]] = status
        if payload["novel"]:
            novel.append(message)
    assert 4 < len(changes) < 1500
    for choice, expected in (("changes", changes), ("novel", novel), ("none", [])):
        given = settings(stream="key", output__assignments=choice)
        for seed in range(2):
            outputs = process(task(given), uneven(log, seed))
            assert (outputs.assignments, outputs.cluster_events) == (expected, every.cluster_events)


@pytest.mark.parametrize("engine", ONE_AND_A_TREE)
def test_events_number_their_stream_without_gaps_and_name_their_cause(engine):
    log = records(points(2000).tolist(), keys=KEYS[:2])
    outputs = run(task(changed(engine, stream="key", input__id_path="id")), log)
    by_offset = {record.offset: record for record in log}
    seqs = {}
    names = set()
    for message, event in zip(outputs.cluster_events, payloads(outputs.cluster_events), strict=True):
        assert event["seq"] == next(seqs.setdefault(event["stream"], itertools.count()))
        cause = by_offset[event["cause"]["source"]["offset"]]
        assert (event["cause"]["id"], message.key) == (orjson.loads(cause.value)["id"], cause.key)
        headers = dict(message.headers)
        name = (headers["ce_id"] or b"").decode()
        source, path, number = name.split("/")
        assert source == f"features-0-{cause.offset}"
        assert path == "root" or all(node.isdigit() for node in path.split("."))
        assert event["level"] == (1 if path == "root" else 1 + len(path.split(".")))
        assert number.isdigit()
        assert (headers["ce_type"], headers["ce_time"]) == (b"resonance.cluster_event.v1", event["time"].encode())
        names.add(name)
    assert len(names) == len(outputs.cluster_events)


def test_what_a_warm_up_causes_happens_with_the_record_that_ended_it():
    given = settings(prepare__warmup_records=200, prepare__rescale=False)
    log = records(points(200).tolist())
    outputs = run(task(given), log, 1)
    assert outputs.cluster_events
    for event in payloads(outputs.cluster_events):
        assert event["cause"]["source"]["offset"] == log[-1].offset


@pytest.mark.parametrize("dimension", [None, 20_000])
def test_features_whose_events_would_not_fit_stop_the_worker_with_the_size_that_is_needed(dimension):
    log = array_records(np.ones((20, 20_000)).tolist())
    worker = task(array_settings(input__dimension=dimension))
    text = r"features\[0\]: .* 20,000 features can have [0-9,]+ bytes, topics .* take 1,000,000; raise both"
    with pytest.raises(ConfigurationError, match=text) as e:
        run(worker, log)
    needed = int(str(e.value).partition("max.message.bytes=")[2].partition(")")[0])
    larger = task(array_settings(input__dimension=dimension), TaskContext(needed))
    run(larger, log)
    again = task(array_settings(input__dimension=dimension))
    again.restore_partition(larger.partition_state())
    with pytest.raises(ConfigurationError, match=f"max.message.bytes={needed}"):
        again.restore(larger.models.snapshot("p0"))


# Streams
def test_streams_are_named_by_partition_key_and_topic():
    log = records(points(8).tolist(), keys=KEYS)
    names = ["p0:a", "p0:b", "p0:sh%2Fop%207", "p0:%FF"]
    several = settings(input__topics=["features", "others"], stream="key")
    own = [f"features.{name}" for name in names]
    for given, expected in ((settings(), ["p0"]), (settings(stream="key"), names), (several, own)):
        worker = task(given)
        found = [payload["stream"] for payload in payloads(run(worker, log).assignments)]
        assert worker.models.names == list(dict.fromkeys(found)) == expected


# The first records decide


def array_records(rows, keys=(b"a", b"b")):
    return [
        Record(TOPIC, 0, 3 * i, STAMP + i, keys[i % len(keys)], orjson.dumps({"features": row, "id": i}))
        for i, row in enumerate(rows)
    ]


def array_settings(**changes):
    return settings(input__features="features", **changes)


def test_the_first_usable_record_decides_the_dimension(caplog):
    rows = points(600).tolist()
    for i in (4, 9):
        rows[i] = rows[i][:2]
    log = array_records(rows)
    log[0] = log[0]._replace(value=b"nothing")
    log[1] = log[1]._replace(value=None)
    log[2] = log[2]._replace(value=orjson.dumps({"features": [1e300, 2]}))
    worker = task(array_settings())
    with caplog.at_level("INFO"):
        outputs = run(worker, log)
    assert caplog.messages[0].endswith("@9: the first usable record decides that records have 3 features: f0, f1, f2")
    found = [errors(message)["class"] for message in outputs.dead_letters]
    assert found == ["not_json", "out_of_range", "wrong_dimension", "wrong_dimension"]
    assert (len(outputs.assignments), worker.counts.skipped) == (595, 1)
    clean = [record for i, record in enumerate(log) if i not in (0, 1, 2, 4, 9)]
    alone = task(array_settings(input__dimension=3))
    assert run(alone, clean).assignments == outputs.assignments
    assert alone.models.get(None).engine.state() == worker.models.get(None).engine.state()
    event = next(e for e in payloads(outputs.cluster_events) if e["after"])
    assert list(event["after"][0]["centre"]) == ["f0", "f1", "f2"]


def test_a_record_without_the_key_of_a_stream_decides_nothing():
    log = array_records(points(5).tolist(), (b"a",))
    log[0] = log[0]._replace(key=None, value=orjson.dumps({"features": [1, 2]}))
    outputs = run(task(array_settings(stream="key")), log)
    assert [errors(message)["class"] for message in outputs.dead_letters] == ["no_key"]
    assert len(outputs.assignments) == 4


def test_records_before_the_deciding_one_stay_refused_in_a_recovery():
    log = array_records([{"a": 1.0, "b": "text"}, {"a": 1.0, "b": None}, *({"a": float(i)} for i in range(30))])
    worker = task(array_settings())
    expected = run(worker, log)
    assert len(expected.dead_letters) == 2
    fresh = task(array_settings())
    fresh.restore_partition(worker.partition_state())
    assert run(fresh, log) == expected
    assert fresh.partition_state() == worker.partition_state()


def test_objects_name_to_number_decide_the_names():
    rows = [{"b": b, "a": a} | ({"new": 1} if i > 30 else {}) for i, (a, b, _) in enumerate(points(200).tolist())]
    worker = task(array_settings())
    assert not run(worker, array_records(rows)).dead_letters
    assert worker._features.layout.features == ("a", "b")


def test_settings_that_do_not_fit_the_features_of_the_data_stop_the_worker():
    given = array_settings(prepare__scale="given", prepare__ranges={"f0": [0, 1], "f1": [0, 500]})
    with pytest.raises(ConfigurationError, match=r"prepare\.ranges = .*f2 has none.*features f0, f1, f2"):
        run(task(given), array_records(points(20).tolist()))
