"""What a partition task answers for records that it does not learn."""

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.records import Record
from resonance.schemas import load_schema

from tests.night import at_night
from tests.pipeline.sparse_streams import by_index, by_name, entries, sparse_records, sparse_settings
from tests.pipeline.streams import STAMP, TOPIC, points, records, settings, states, task, value_of


def without_path(assignment):
    """An assignment as it were if no node had learned the record; all other bytes as they are."""
    head, _, rest = assignment.partition(b'"path":[')
    return head + b'"path":[' + rest[rest.index(b"]") :]


def compare_one_by_one(worker, log):
    """Score each record, and then learn it; return how many answers were compared with those that were learned."""
    compared = 0
    for record in log:
        before = states(worker)
        (scored,) = worker.score([record]).each()
        assert states(worker) == before
        # With a look at the scale the worker may go on in other units.
        looks = any(model.preparation.room == 0 for model in worker.models)
        found = worker.process([record]).assignments
        if not before:
            assert scored.refusal.kind == "no_model"
        elif found and not looks:
            assert scored.assignment == without_path(found[0].value)
            compared += 1
    return compared


def whole(count):
    """Records of whole numbers, which are moved within their steps."""
    return np.round(points(count) * [40.0, 1.0, 9.0]).tolist()


@pytest.mark.parametrize(
    ("given", "log"),
    [
        (settings(), records(points(250).tolist())),
        (settings(prepare__warmup_records=100), records(whole(250))),
        at_night(settings(engine__name="caea"), records(points(200).tolist())),
        (settings(engine__name="hcaea", output__include=["net"]), records(points(200).tolist())),
        (
            settings(engine__name="mlca", engine__min_cluster_records=None, engine__lambda=20),
            records(points(200).tolist()),
        ),
        (sparse_settings(input__id_path="id"), sparse_records(list(map(by_name, entries(200))))),
        at_night(sparse_settings(prepare__scale="none"), sparse_records(list(map(by_index, entries(200))))),
    ],
    ids=["modal", "modal-whole", "caea", "hcaea", "mlca", "names", "indices"],
)
def test_a_score_is_the_answer_that_the_next_record_gets(given, log):
    assert compare_one_by_one(task(given), log) > 0.9 * len(log)


def test_many_records_are_scored_as_one_by_one_with_the_faults_in_their_places():
    worker, log = task(settings(stream="key", input__id_path="id")), records(points(600).tolist(), keys=(b"a", b"b"))
    worker.process(log[:500])
    strange = [b"{", b'{"cpu":1}', b"[]", b'{"cpu":NaN,"latency_ms":1,"net":{"in":1}}', value_of([1e200, 0.0, 0.0])]
    some = [
        *log[500:550],
        *(log[500]._replace(value=value) for value in (*strange, None)),
        *(log[500]._replace(key=key) for key in (None, b"other", b"x" * 300)),
        *log[550:],
    ]
    counts, scores = worker.counts, worker.score(some)
    assert scores.each() == [worker.score([record]).each()[0] for record in some]
    kinds = [scored.refusal and scored.refusal.kind for scored in scores.each()[50:59]]
    assert kinds == [
        *("not_json", "missing_feature", "not_an_object", "not_json", "out_of_range", "no_value"),
        *("no_key", "no_model", "key_too_long"),
    ]
    assert worker.counts == counts
    # The reasons are those of the dead letters.
    worker.process(some[:55])
    assert worker.counts.dead_letters.total() == 5
    schema = Draft202012Validator(load_schema("assignment"))
    for scored in scores.each():
        shown = orjson.loads(scored.json())
        if scored.refusal is None:
            schema.validate(shown["assignment"])
            assert scored.assignment in scored.json()
        else:
            assert (shown["assignment"], shown["refusal"]["class"]) == (None, scored.refusal.kind)


def test_a_record_that_stands_nowhere_stands_behind_what_the_model_has_learned():
    worker = task()
    nowhere = Record(TOPIC, 0, -1, STAMP, None, value_of([0.5, 10.0, 1.0]))
    assert worker.score([nowhere]).each()[0].refusal.kind == "no_model"
    worker.process(records(points(30).tolist()))
    (scored,) = worker.score([nowhere]).each()
    assert orjson.loads(scored.assignment)["source"] == {"topic": TOPIC, "partition": 0, "offset": 30}
    assert orjson.loads(scored.assignment)["status"] == "assigned"
    assert scored.model[:3] == ("p0", 1, 30)


def test_a_record_is_answered_in_the_warm_up_as_the_worker_does():
    worker = task()
    worker.process(records(points(10).tolist()))
    (scored,) = worker.score([Record(TOPIC, 0, 10, STAMP, None, value_of([0.5, 10.0, 1.0]))]).each()
    assert orjson.loads(scored.assignment)["status"] == "warming_up"
