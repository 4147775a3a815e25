"""Late labels are learned with the features that were kept: the state and the outputs follow from the routes alone."""

from collections import Counter, OrderedDict

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.engine import MLCA
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.pipeline.records import Outputs
from resonance.pipeline.task.model import label_memory
from resonance.pipeline.task.model.stream_model import KIND, STATE_REVISION, StreamModel
from resonance.pipeline.tasks import make_task
from resonance.schemas import Assignment, load_schema

from tests.pipeline.labels.feedback import (
    LABELS,
    feature,
    feedback,
    label,
    labelled,
    labels_of,
    late,
    learned,
    restarted,
    routed,
    rows,
)
from tests.pipeline.repartition.two_hops import ROUTES
from tests.pipeline.streams import TOPIC, errors, payloads, run, task

BUFFER, WAIT = 40, 12


def given(**changes):
    return late(labels__buffer_records=BUFFER, labels__wait_records=WAIT, **changes)


def plainly(log):
    """The engine labelled one by one by a literal reading of the rules, and id and class of each dead letter."""
    engine, dead_letters = MLCA(lambda_=10), []
    kept = OrderedDict()
    waiting = {}
    for number, record in enumerate(log):
        said = orjson.loads(record.value)
        own = said["id"]
        if record.topic == LABELS:
            texts = [str(text) for text in said["labels"]]
            if own in kept:
                if kept[own] is None:
                    dead_letters.append((own, "already_labelled"))
                else:
                    engine.learn(np.array([kept[own]]), [texts])
                    kept[own] = None
            elif own in waiting:
                dead_letters.append((own, "already_labelled"))
            else:
                waiting[own] = texts, number + WAIT
        else:
            found = waiting.pop(own, None)
            engine.learn(np.array([said["x"]]), [found and found[0]])
            kept[own] = None if found else said["x"]
            if len(kept) > BUFFER:
                kept.popitem(last=False)
        overdue = [name for name, (_, due) in waiting.items() if due <= number]
        dead_letters += [(name, "too_late") for name in overdue]
        for name in overdue:
            del waiting[name]
    return engine, dead_letters


def test_records_and_labels_are_learned_as_a_literal_reading_of_the_rules_learns_them():
    log = feedback(300)
    hops = routed(given(prepare__scale="none"), log)
    hops.learn()
    model = hops.task(ROUTES, 0).models.named(TOPIC)
    engine, dead_letters = plainly(log)
    assert model.engine.state() == engine.state()
    text = [(orjson.loads(message.value)["id"], errors(message)["class"]) for message in hops.second[0].dead_letters]
    assert text == dead_letters
    assert Counter(kind for _, kind in dead_letters).keys() == {"too_late", "already_labelled"}
    assert ("nobody", "too_late") in dead_letters
    counts = hops.task(ROUTES, 0).counts
    assert counts.totals.labelled == model.labels.learned > 100
    assert counts.totals.unlabelled == model.labels.unlabelled > 0
    assert len(hops.second[0].assignments) == 300


def test_state_and_outputs_are_the_same_however_the_routes_are_cut_and_restored():
    log = feedback(300, seed=1)
    whole = routed(given(), log)
    whole.learn()
    cut = routed(given(), log)
    done = Outputs()
    worker, read = cut.task(ROUTES, 0), cut.routes[0]
    for place, start in enumerate(range(0, len(read), 3)):
        if place % 5 == 4:
            before = worker.models.named(TOPIC).state()
            worker = restarted(given(), worker)
            assert worker.models.named(TOPIC).state() == before
        done.add(worker.process(read[start : start + 3]))
    assert (done, worker.models.named(TOPIC).state()) == (
        whole.second[0],
        whole.task(ROUTES, 0).models.named(TOPIC).state(),
    )
    assert whole.second[0].dead_letters


def new_kind(known=1_100, count=300):
    """Routes of one kind of records, then of another, each with its label twenty records later."""
    points = np.random.default_rng(3).normal(0.2, 0.02, (known + count, 2))
    points[known:] += 0.7
    log = []
    for i, row in enumerate(points.tolist()):
        log.append(feature(i, row))
        if i >= 20:
            log.append(label(i - 20, f"r{i - 20}", labels_of(points[i - 20])))
    return log


def test_a_cluster_that_a_label_alone_founds_is_new_however_the_routes_are_cut():
    settings, log = late(prepare__scale="none", engine__vigilance=0.5), new_kind()
    whole, cut = routed(settings, log), routed(settings, log)
    whole.learn()
    worker, read, done = cut.task(ROUTES, 0), cut.routes[0], Outputs()
    for start in range(0, len(read), 7):
        done.add(worker.process(read[start : start + 7]))
    assert ("opened", "new_cluster") in [(alert["kind"], alert["rule"]) for alert in payloads(done.alerts)]
    assert done.alerts == whole.second[0].alerts


def test_records_of_a_warm_up_keep_the_labels_that_come_meanwhile():
    points = rows(40)
    first = [feature(i, row) for i, row in enumerate(points[:20])]
    early = [*first[:19], *(label(i, f"r{i}", labels_of(points[i])) for i in range(0, 19, 2)), *first[19:]]
    beside = [feature(i, row, labels=labels_of(row)) if i % 2 == 0 and i < 19 else feature(i, row)
              for i, row in enumerate(points[:20])]  # fmt: skip
    one, other = routed(given(), early), routed(given(input__label_path="labels"), beside)
    for hops in (one, other):
        hops.learn()
    models = [hops.task(ROUTES, 0).models.named(TOPIC) for hops in (one, other)]
    assert models[0].engine.state() == models[1].engine.state()
    assert models[0].labels.learned == models[1].labels.learned == 10
    assert models[0].labels.unlabelled == 10
    again = learned(given(), [*early, label(20, "r0", ["x"]), label(21, "r1", ["x"])])
    assert [errors(message)["class"] for message in again.dead_letters] == ["already_labelled"]


def test_an_event_that_follows_from_a_label_names_record_and_message():
    log = [feature(i, row) for i, row in enumerate(rows(20))]
    outputs = learned(given(), [*log, label(3, "r5", ["a"], partition=2)])
    (event,) = payloads(outputs.cluster_events)
    assert event["cause"] == {"id": "r5", "source": {"topic": LABELS, "partition": 2, "offset": 3}}
    assert event["kind"] == "emerged"
    headers = dict(outputs.cluster_events[0].headers)
    assert (headers["ce_id"], headers["traceparent"]) == (b"labels-2-3/root/0", b"00-9")
    assert (outputs.cluster_events[0].key, len(outputs.assignments)) == (b"l", 20)


def test_a_dead_letter_about_labels_is_the_message_and_says_what_decided():
    log = [feature(i, row) for i, row in enumerate(rows(40))]
    (dead_letter,) = learned(given(), [*log[:20], label(7, "gone", ["a"], partition=4), *log[20:]]).dead_letters
    said = errors(dead_letter)
    assert (said["stage"], said["class"]) == ("label", "too_late")
    assert (said["topic"], said["partition"], said["offset"]) == (LABELS, "4", "7")
    assert said["decided_by"] == f"{TOPIC}-0-31"
    assert "labels.buffer_records" in said["message"]
    assert "before the present version of the model, or not at all, or it is a dead letter itself" in said["message"]
    assert (dead_letter.partition, dead_letter.key) == (4, b"l")
    assert orjson.loads(dead_letter.value) == {"id": "gone", "labels": ["a"]}
    assert ("traceparent", b"00-9") in dead_letter.headers


def test_labels_do_not_wait_where_the_settings_say_so():
    outputs = learned(late(labels__wait_records=0), [label(0, "r0", ["a"]), feature(0, [0.1, 0.2])])
    said = errors(outputs.dead_letters[0])
    assert said["class"] == "too_late"
    assert "decided_by" not in said
    assert "labels.wait_records" in said["message"]


def test_a_record_that_comes_with_labels_needs_none_that_waited():
    log = [feature(i, row) for i, row in enumerate(rows(20))]
    both = [*log, label(0, "r20", ["late"]), feature(20, [0.5, 0.5], labels="own")]
    (dead_letter,) = learned(given(input__label_path="labels"), both).dead_letters
    assert errors(dead_letter)["class"] == "already_labelled"
    assert errors(dead_letter)["decided_by"] == f"{TOPIC}-0-20"


def test_a_stream_has_no_more_labels_than_its_engine_takes():
    log = [feature(i, row) for i, row in enumerate(rows(22))]
    more = [label(0, "r1", ["a", "b"]), label(1, "r2", ["b", "c"]), label(2, "r20", ["d"]), label(3, "r3", ["b"])]
    strict = {"engine__max_labels": 2, "input__label_path": "labels"}
    outputs = learned(given(**strict), [*log[:20], *more, *log[20:], feature(22, [0, 0], labels=["e"])])
    assert [(errors(m)["class"], errors(m)["topic"], errors(m)["offset"]) for m in outputs.dead_letters] == [
        ("too_many_labels", LABELS, "1"),
        ("too_many_labels", LABELS, "2"),
        ("too_many_labels", TOPIC, "22"),
    ]


def test_labels_beside_the_features_need_no_routes():
    log = [feature(i, row, labels=labels_of(row) if i % 3 else None) for i, row in enumerate(rows(100))]
    worker = task(labelled(input__label_path="labels", input__dimension=None))
    outputs = run(worker, log)
    answers = payloads(outputs.assignments)
    assert all("labels" not in answer for answer in answers[:20])
    assert [list(answer["labels"]) for answer in answers[20:]] == [["7", "right"]] * 80
    assert worker.models.named("p0").engine.labels == ("7", "right")
    assert run(task(labelled(input__label_path="labels", input__dimension=None)), log, 3) == outputs
    assert worker.counts.totals.labelled == 66


def test_a_label_that_came_later_is_missing_in_the_answers_before():
    log = [feature(i, row, labels="b" if i < 25 else "a") for i, row in enumerate(rows(40))]
    found = payloads(run(task(labelled(input__label_path="labels", prepare__scale="none")), log).assignments)
    assert "labels" not in found[0]
    assert (list(found[1]["labels"]), list(found[26]["labels"])) == (["b"], ["b", "a"])


def test_answers_with_labels_are_those_of_the_schema():
    log = [feature(i, row, labels=labels_of(row), more=[1, {"a": 2}]) for i, row in enumerate(rows(60))]
    outputs = run(task(labelled(input__label_path="labels", output__include=["more"])), log)
    validator = Draft202012Validator(load_schema("assignment"))
    for message in outputs.assignments:
        payload = orjson.loads(message.value)
        assert orjson.dumps(payload) == message.value
        validator.validate(payload)
    assert list(payload) == [name for name in Assignment.__annotations__ if name in payload]
    assert {"labels", "include"} <= payload.keys()


def test_changes_of_the_groups_of_features_are_emitted_without_gaps():
    points = np.random.default_rng(0).random((200, 5)).tolist()
    log = [feature(i, row, labels=["a"] * (i % 2)) for i, row in enumerate(points)]
    given = labelled(engine__name="mlca_c", input__label_path="labels", prepare__scale="none", input__dimension=5)
    whole, cut = task(given), task(given)
    outputs = run(whole, log)
    drifts = payloads(outputs.drift_events)
    assert [drift["seq"] for drift in drifts] == list(range(len(drifts)))
    assert len(drifts) > 2
    assert [drift["threshold"] for drift in drifts[1:]] == [drift["value"] for drift in drifts[:-1]]
    assert dict(outputs.drift_events[0].headers)["ce_type"] == b"resonance.drift_event.v1"
    Draft202012Validator(load_schema("drift_event")).validate(drifts[0])
    # The number goes on where nothing was emitted.
    cut.catch_up(log[:100])
    rest = run(cut, log[100:]).drift_events
    assert rest == outputs.drift_events[-len(rest) :]
    assert 0 < len(rest) < len(drifts)


def test_records_that_are_only_predicted_do_not_churn():
    log = [feature(i, row, labels=labels_of(row) if i < 60 else None) for i, row in enumerate(rows(120))]
    worker = task(labelled(input__label_path="labels"))
    run(worker, log)
    figures = worker.health.figures()
    assert figures.records == 100
    assert figures.churn is None or figures.churn < 0.5


def with_waiting(**changes):
    """A second hop where three labels wait, and the routes of the records that come next."""
    log = [feature(i, row) for i, row in enumerate(rows(40))]
    waiting = [label(8, "gone", ["a"], 2), label(5, "r30", ["b"], 1), label(6, "lost", ["a"], 1)]
    hops = routed(late(**changes), [*log[:22], *waiting, *log[22:]])
    old = hops.task(ROUTES, 0)
    assert not old.process(hops.routes[0][:25]).dead_letters
    assert old.counts.totals.waiting == 3
    return old, hops.routes[0][25:]


def next_version(settings, old):
    """What `--new-version` makes of a task."""
    fresh = make_task(settings, ROUTES, 0)
    for snapshot in list(old.models.states()):
        fresh.restore(snapshot, new_version=True)
    return fresh


PLAIN = {"engine__name": "caea", "labels__topic": None, "prepare__warmup_records": 5}


@pytest.mark.parametrize("restart", [False, True])
def test_labels_that_wait_are_given_up_where_the_next_engine_is_not_taught(restart):
    old, rest = with_waiting()
    plain = late(**PLAIN)
    fresh = next_version(plain, old)
    if restart:
        before = fresh.models.named(TOPIC).state()
        fresh = restarted(plain, fresh)
        assert fresh.models.named(TOPIC).state() == before
    assert fresh.counts.totals.waiting == 3
    outputs = fresh.process(rest)
    said = [errors(each) for each in outputs.dead_letters]
    assert [(each["partition"], each["offset"], each["class"]) for each in said] == [
        ("1", "5", "too_late"),
        ("1", "6", "too_late"),
        ("2", "8", "too_late"),
    ]
    assert {each["decided_by"] for each in said} == {f"{TOPIC}-0-22"}
    assert "no labels teach" in said[0]["message"]
    assert (len(outputs.assignments), fresh.counts.totals.waiting) == (18, 0)
    assert not restarted(plain, fresh).counts.totals.learn_labels


def test_labels_that_wait_for_records_wait_on_in_the_next_version():
    old, rest = with_waiting()
    fresh = next_version(late(engine__name="mlca_c", engine__lambda=11, labels__wait_records=12), old)
    outputs = fresh.process(rest)
    assert [(errors(each)["offset"], errors(each)["decided_by"]) for each in outputs.dead_letters] == [
        ("6", f"{TOPIC}-0-33"),
        ("8", f"{TOPIC}-0-33"),
    ]
    assert fresh.counts.totals.waiting == 0
    # The one that came is held back with its record.
    assert [labels for own, labels in fresh.models.named(TOPIC).labels.held if own == b'"r30"'] == [("b",)]


def test_a_state_whose_labels_are_not_those_of_its_engine_is_refused():
    log = [feature(i, row, labels=["a", "b"]) for i, row in enumerate(rows(30))]
    worker = task(labelled(input__label_path="labels", engine__max_labels=2))
    run(worker, log)
    (snapshot,) = worker.models.states()
    header, arrays = unpack(snapshot.body, KIND, STATE_REVISION)
    own, parts = unpack(arrays["labels"].tobytes(), label_memory.KIND, label_memory.REVISION)
    assert own["known"] == ["a", "b"]
    wrong = pack(label_memory.KIND, label_memory.REVISION, {**own, "known": []}, parts)
    arrays["labels"] = np.frombuffer(wrong, np.uint8)
    with pytest.raises(StateError, match="the labels of a stream cannot be read"):
        StreamModel.from_state("mlca", "p0", pack(KIND, STATE_REVISION, header, arrays))
