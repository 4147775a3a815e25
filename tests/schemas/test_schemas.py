"""The JSON Schema files are those of the types, and good payloads pass."""

import orjson
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from resonance.schemas import SCHEMA_NAMES, load_schema

from tests.json_schemas import FOLDER, PAYLOADS, text


def test_every_schema_has_a_payload():
    assert set(SCHEMA_NAMES) == set(PAYLOADS)


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_the_file_is_that_of_its_type(name):
    Draft202012Validator.check_schema(load_schema(name))
    assert (FOLDER / f"{name}.schema.json").read_text() == text(name), "python -m tests.json_schemas writes it"


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_every_member_is_described(name):
    document = load_schema(name)
    for part in [document, *document.get("$defs", {}).values()]:
        assert part["description"]
        for member in part["properties"].values():
            assert member["description"]


SOURCE = {"topic": "features", "partition": 3, "offset": 17}
CLUSTER = {"id": "p3/1/2", "size": 40, "centre": {"cpu": 0.5}, "spread": {"cpu": 0.1}, "nodes": 2}
TIME = "2026-01-02T03:04:05.678Z"


GOOD = {
    "assignment": {
        **{"id": None, "source": SOURCE, "stream": "p3", "version": 1, "status": "assigned", "cluster": "p3/1/2"},
        **{"clusters": ["p3/1/2", "p3/1/7.0"], "score": 0.75, "novel": False, "path": [7, 1], "time": TIME},
    },
    "cluster_event": {
        **{"kind": "split", "stream": "p3", "version": 1, "level": 1, "seq": 4, "cluster": "p3/1/3"},
        **{"other": "p3/1/2", "before": [CLUSTER], "after": [CLUSTER, CLUSTER]},
        "reason": {"criterion": "overlap", "value": 0.05, "threshold": 0.0, "further": {"volume_ratio": 0.9}},
        **{"cause": {"id": "a", "source": SOURCE}, "time": TIME},
    },
    "cluster": {
        **{**CLUSTER, "id": "p3/1/7.0", "stream": "p3", "version": 1, "level": 2, "parent": [7]},
        **{"since": TIME, "seq": 4, "time": TIME, "ended": "absorbed", "successors": ["p3/1/7.1"]},
    },
    "drift_event": {
        **{"kind": "drift", "stream": "p3", "version": 1, "seq": 0, "detector": "score", "criterion": "mean"},
        **{"value": 1.5, "threshold": 1.0, "cause": {"id": 3, "source": SOURCE}, "time": TIME},
    },
    "alert": {
        **{"kind": "opened", "rule": "new_cluster", "key": "checkout/new_cluster/p3/p3/1/2/1/0", "severity": "info"},
        **{"stream": "p3", "version": 1, "seq": 0, "cluster": "p3/1/2", "text": "p3/1/2 holds 12 % of the records"},
        **{"evidence": {"records": 70.0, "share": 0.12}, "setting": "engine.valley", "since": TIME},
        **{"cause": {"id": None, "source": SOURCE}, "time": TIME},
    },
    "incident": {
        **{"key": "checkout/unlike/p3/1/0", "kind": "broke", "text": "p3: broke", "severity": "critical"},
        **{"certainty": "sure", "streams": ["p3"], "known": 4, "alerts": ["checkout/unlike/p3/1/0"], "drifts": 1},
        **{"features": [{"feature": "cpu", "value": 38.0, "usual": None}], "signs": 2, "is_open": True},
        **{"since": TIME, "time": TIME},
    },
    "cluster_name": {"cluster": "p3/1/2", "name": "night batch", "time": TIME},
    "dead_letter": {
        **{"topic": "features", "partition": "3", "offset": "17", "stage": "decode", "class": "not_json"},
        **{"message": "no", "topic_id": "b3pN9hJxQ9S0", "version": "2"},
    },
}


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_a_good_payload_passes(name):
    Draft202012Validator(load_schema(name)).validate(orjson.loads(orjson.dumps(GOOD[name])))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *(("assignment", {"status": "unknown"}), ("assignment", {"cluster": -1}), ("assignment", {"score": 1.5})),
        *(("assignment", {"path": [-1]}), ("assignment", {"time": "2026-01-02 03:04:05"})),
        *(("assignment", {"id": True}), ("cluster_event", {"kind": "born"}), ("cluster_event", {"seq": -1})),
        *(("cluster_event", {"before": [{"id": "p3/1/2"}]}), ("cluster", {"ended": "split"})),
        *(("cluster", {"since": "yesterday"}), ("dead_letter", {"stage": "somewhere"})),
        *(("dead_letter", {"offset": 17}), ("dead_letter", {"topic_id": ""}), ("dead_letter", {"version": "second"})),
        ("drift_event", {"value": None}),
        ("alert", {"rule": "loud"}),
    ],
)
def test_a_bad_payload_does_not(name, change):
    with pytest.raises(ValidationError):
        Draft202012Validator(load_schema(name)).validate({**GOOD[name], **change})


def test_unknown_members_pass_because_later_versions_add_some():
    Draft202012Validator(load_schema("assignment")).validate({**GOOD["assignment"], "added_later": 1})
