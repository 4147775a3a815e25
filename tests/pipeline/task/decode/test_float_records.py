"""Records that are arrays of float32 become the rows that the same numbers in JSON become, or say why not."""

import numpy as np
import orjson
import pytest
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext, settings_then
from resonance.pipeline.errors import ConfigurationError, InputFileError
from resonance.pipeline.files.arrays import encoder
from resonance.pipeline.files.rows import FileRecord
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.task.decode.float_records import as_float32
from resonance.pipeline.task.decode.mapping import make_mapping

from tests.pipeline.streams import TOPIC, alike, payloads, points, settings
from tests.pipeline.task.decode.test_json_records import records

ROWS = [[1.5, -2.25, 3e-5], [0.1, 7.0, 1e30], [-0.0, 5.0, 6.0]]


def given(**changes):
    return settings(**{"input__features": None, "input__format": "float32", **changes})


def sent(rows):
    """Records of arrays, with keys."""
    log = records(*as_float32(np.array(rows)))
    return [record._replace(key=b"k%d" % i) for i, record in enumerate(log)]


def faults(*values, **changes):
    """What becomes of values, with what is usable among them."""
    mapping = make_mapping(given(**{"input__dimension": 2, **changes}))
    decoded = mapping.decode(records(*values))
    return decoded, [(fault.index, fault.stage, fault.kind) for fault in decoded.faults]


def test_rows_are_those_of_the_same_numbers_in_json():
    rows = np.float32(ROWS).astype(float).tolist()
    in_json = make_mapping(settings(input__features="x", input__dimension=3))
    decoded = make_mapping(given(input__dimension=3)).decode(sent(ROWS))
    assert np.array_equal(decoded.rows, in_json.decode(records(*({"x": row} for row in rows))).rows)
    assert (decoded.rows.dtype, decoded.sizes, list(decoded.index)) == (np.float64, [12, 12, 12], [0, 1, 2])
    assert decoded.ids == [b'"k0"', b'"k1"', b'"k2"']
    assert set(decoded.times) == {"2023-11-14T22:13:20.123Z"}


def test_one_record_that_is_no_use_costs_no_other():
    good = as_float32(np.ones((200, 2)))
    decoded, found = faults(*good[:90], b"", good[0][:7], *good[:90], None, np.float32([1, np.inf]).tobytes())
    assert found == [
        (90, "validate", "wrong_dimension"),
        (91, "validate", "wrong_dimension"),
        (183, "decode", "out_of_range"),
    ]
    assert (len(decoded), decoded.skipped, decoded.rows.shape) == (180, 1, (180, 2))


def test_not_a_number_is_a_missing_feature():
    value = np.float32([1, np.nan]).tobytes()
    decoded, found = faults(value, as_float32(np.ones((1, 2)))[0])
    assert (found, decoded.rows.tolist()) == ([(0, "validate", "missing_feature")], [[1.0, 1.0]])
    decoded, found = faults(value, prepare__missing="mean")
    assert not found
    assert np.isnan(decoded.rows[0]).tolist() == [False, True]
    infinite = np.float32([np.nan, -np.inf]).tobytes()
    assert faults(infinite, value, prepare__missing="mean")[1] == [(0, "decode", "out_of_range")]


def test_a_key_that_is_no_text_is_no_id_and_keys_that_name_streams_are_none():
    log = [record._replace(key=key) for record, key in zip(sent(ROWS), (b"\xff", None, b'"'), strict=True)]
    assert make_mapping(given(input__dimension=3)).decode(log).ids == [b"null", b"null", b'"\\""']
    assert make_mapping(given(input__dimension=3, stream="key")).decode(log).ids is None


def test_a_long_array_is_a_dead_letter():
    decoded, found = faults(b"x" * 4_000, limits__record_bytes=1_000)
    assert (len(decoded), found) == (0, [(0, "limit", "record_too_large")])


@pytest.mark.parametrize(
    ("features", "names"),
    [(None, ["f0", "f1", "f2"]), (["cpu", "latency_ms", "net.in"], ["cpu", "latency_ms", "net.in"])],
)
def test_batches_and_restarts_change_nothing_and_the_first_record_decides_the_dimension(features, names):
    log = [record._replace(offset=record.offset + 1) for record in sent(points(400).tolist())]
    log.insert(0, log[0]._replace(offset=0, value=b"123"))
    whole, outputs = alike(given(input__features=features), log, stops=(1, 230))
    assert (len(outputs.assignments), len(outputs.dead_letters)) == (400, 1)
    assert list(payloads(outputs.cluster_events)[0]["after"][0]["centre"]) == names
    assert payloads(outputs.assignments)[7]["id"] == "k7"
    assert whole.counts.dead_letters == {"wrong_dimension": 1}


def limits(own):
    return DeploymentContext.of(own, {}, Deployment(1, {TOPIC: "id"})).identities[TOPIC]


def test_the_format_is_part_of_what_models_follow_from():
    arrays, objects = limits(given()), limits(settings())
    assert arrays.limits["input.format"] == "float32"
    assert "input.format" not in objects.limits
    assert settings_then(settings(), arrays).input.format == "float32"
    assert settings_then(given(input__features=["cpu"]), objects).input.format == "json"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("input__id_path", "id"), ("input__time_path", "t"), ("input__label_path", "y"), ("input__sparse", "words")),
        *(("output__include", ["a"]), ("stream", "field:country")),
        ("prepare__categories", {"f0": ["a", "b"]}),
    ],
)
def test_what_needs_a_json_object_is_refused(name, value):
    with pytest.raises(ConfigurationError, match=name.replace("__", ".")):
        given(**{name: value})


def test_rows_of_a_file_become_arrays(tmp_path):
    rows = [FileRecord(b"k", orjson.dumps({"a": {"x": i, "y": -i}}), 5) for i in range(3)]
    encode = encoder(given(input__features=["a.y", "a.x"]), tmp_path)
    assert encode(rows) == [FileRecord(b"k", np.float32([-i, i]).tobytes(), 5) for i in range(3)]
    arrays = [FileRecord(None, orjson.dumps({"v": row}), None) for row in ROWS]
    encode = encoder(given(input__features="v"), tmp_path)
    assert [each.value for each in encode(arrays)] == as_float32(np.array(ROWS))
    with pytest.raises(InputFileError, match=r"record 5 has no array .*v\[1\] is text"):
        encode([arrays[0], FileRecord(None, b'{"v": [1, "2", 3]}', None)])
    assert encoder(settings(), tmp_path)(rows) == rows


def test_whether_messages_have_many_records_is_part_of_it():
    many = settings(input__records="items")
    assert settings_then(many, limits(settings())).input.records is None
    assert settings_then(settings(), limits(many)).input.records == "items"
