"""What stands before an engine of sparse records: the form of a stream, names, and the states that are taken."""

import numpy as np
import pytest
from resonance.engine import CAEA, SAART
from resonance.engine.drift import watch as drift
from resonance.engine.errors import StateError
from resonance.engine.prepare.sparse import KIND, SparsePreparation, _occurring
from resonance.engine.prepare.sparse_scale import REVISION
from resonance.engine.state import pack, unpack
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config import fields
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.task.decode import json_records as decoding
from resonance.pipeline.task.model.stream_model import StreamModel

from tests.pipeline.sparse_streams import sparse_record, sparse_records, sparse_settings
from tests.pipeline.streams import TOPIC, alike, errors, records, restored, run, settings, task

BY_NAME = {"gold": 0.5}
BY_INDEX = {"indices": [1], "values": [0.5]}
EMPTY = [{}, {"indices": [], "values": []}]


# The form of a stream
@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("words", [BY_NAME, BY_INDEX])
@pytest.mark.parametrize("place", [0, 20])
def test_a_record_without_entries_fits_either_form_and_decides_none(empty, words, place):
    given = sparse_settings(engine__complement=True)
    log = sparse_records([empty if i == place else words for i in range(50)])
    # What cannot be prepared has its batch looked at record by record.
    log[30] = sparse_record(30, {"gold": 1e200} if words is BY_NAME else {"indices": [1], "values": [1e200]})
    _, expected = alike(given, log)
    assert [errors(each)["class"] for each in expected.dead_letters] == ["out_of_range"]
    assert len(expected.assignments) == 49


@pytest.mark.parametrize("words", [BY_NAME, BY_INDEX])
def test_a_stream_of_empty_records_can_go_on_in_either_form(words):
    given = sparse_settings(engine__complement=True)
    log = sparse_records([*EMPTY, *EMPTY, words, words])
    whole = task(given)
    run(whole, log[:4])
    outputs = run(restored(given, whole.partition_state(), list(whole.models.states())), log[4:])
    assert (len(outputs.assignments), outputs.dead_letters) == (2, [])


# Names
@pytest.mark.parametrize(("name", "size"), [("x" * 1_000, 1_000), ("\n" * 500, 1_000), ("é" * 500, 1_000)])
def test_a_name_has_as_many_bytes_as_the_page_says(name, size):
    worker = task(sparse_settings())
    outputs = run(worker, sparse_records([{name: 1.0}, {name + "x": 1.0}]))
    assert len(outputs.assignments) == 1
    (dead_letter,) = outputs.dead_letters
    assert f"has {size + 1:,} bytes, 1,000 are allowed" in errors(dead_letter)["message"]


def test_a_stream_with_a_few_names_needs_no_room_for_those_of_all_others():
    codes = np.array([7, 3, 2**50, 7])
    for size in (2**60, 40):
        codes = codes[codes < size]
        used, places = _occurring(codes, size)
        assert (used.tolist(), used[places].tolist()) == (sorted(set(codes.tolist())), codes.tolist())


# States
@pytest.fixture
def model():
    """The model of a stream with two names."""
    worker = task(sparse_settings(engine__max_features=3))
    run(worker, [sparse_record(0, {"gold": 1.0, "tin": 0.5})])
    return worker.models.named("p0")


def changed(model, names=None, **members):
    """The preparation of a model with other names, or other members in the header of its state."""
    header, arrays = unpack(model.preparation.state(), KIND, REVISION)
    arrays = arrays if names is None else {"names": np.frombuffer(names, np.uint8)}
    return SparsePreparation.from_state(pack(KIND, REVISION, {**header, **members}, arrays))


@pytest.mark.parametrize(
    "members",
    [
        *({"by_index": "x"}, {"by_index": 0}, {"by_index": True}, {"by_index": None}, {"compared": -5}),
        *({"outside": 3}, {"compared": 2, "outside": -1}),
        *({"names": names} for names in (b'["gold","gold"]', b"{}", b'["a","b","c","d"]', b"[1]", b"[")),
    ],
)
def test_a_preparation_that_cannot_be_is_refused(model, members):
    assert changed(model).state() == model.preparation.state()
    with pytest.raises(StateError, match=f"the state of {KIND} cannot be read"):
        changed(model, **members)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"names": b'["gold"]'}, "an engine of dimension 2 behind a preparation of 1 columns"),
        ({"most": 10**6}, "sa_art with max_features = 3 behind a preparation of 1,000,000"),
        ({"clip": False}, "sa_art behind a preparation with clip = False"),
    ],
)
def test_a_preparation_of_another_engine_is_refused(model, members, problem):
    assert StreamModel.from_state("sa_art", "p0", model.state()).state() == model.state()
    model.preparation = changed(model, **members)
    with pytest.raises(StateError, match=problem):
        StreamModel.from_state("sa_art", "p0", model.state())


def test_an_engine_of_dense_records_is_refused(model):
    model.engine = CAEA.make({})
    with pytest.raises(StateError, match="caea behind a preparation of sparse records, which it does not take"):
        StreamModel.from_state("caea", "p0", model.state())
    model.engine = SAART.make({"max_features": 3})
    model.engine.learn(np.array([[0.5, 0.25]]))
    with pytest.raises(StateError, match="sa_art with records of fixed length behind a preparation of sparse ones"):
        StreamModel.from_state("sa_art", "p0", model.state())


def test_the_revision_is_that_of_the_preparation_and_the_watch_in_use(monkeypatch):
    monkeypatch.setattr(fields, "SPARSE_REVISION", 7)
    dense = fields.REVISION
    sparse_log = sparse_records([BY_NAME])
    for given, log, revision in ((sparse_settings(), sparse_log, 7), (settings(), records([(1, 2, 3)] * 60), dense)):
        engine = given.engine_class.revision
        identity = DeploymentContext.of(given, {}, Deployment(1, {TOPIC: "id"})).identities[TOPIC]
        watch = f".drift{drift.REVISION}" if given.input.sparse is None else ""
        assert identity.revision == f"{engine}.{revision}.{decoding.REVISION}{watch}"
        worker = task(given)
        run(worker, log)
        (snapshot,) = worker.models.states()
        assert snapshot.header["revision"] == [engine, revision]
