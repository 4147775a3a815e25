"""Records of many features through the partition task: projected for the engine, described in their own features."""

from functools import partial

import numpy as np
import orjson
import pytest
from resonance.engine import ENGINES, LabelEngine
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.records import Record
from resonance.pipeline.task.encode.message_sizes import event_bytes_of
from resonance.pipeline.task.stream_task import TaskContext
from sklearn.metrics import adjusted_rand_score

from tests.night import some_at_night
from tests.pipeline.streams import STAMP, TOPIC, alike, payloads, plain_settings, restore, run, states, stored, task

SMALL = {
    **{name: {"engine__lambda": 20, "engine__max_nodes": 12} for name in ("mlca", "mlca_i", "mlca_c")},
    **{name: {"engine__max_clusters": 30} for name in ("fuzzy_art", "sa_art")},
}
"""Settings with which engines that see all features are quick."""


given = partial(plain_settings, engine__name="evq")


def unit_vectors(n, d, k=5, seed=0):
    """Directions with a cosine of about .7 within a cluster, as embeddings have them."""
    rng = np.random.default_rng(seed)
    centres, around = rng.normal(size=(k, d)), rng.normal(size=(n, d))
    y = rng.integers(k, size=n)
    centres /= np.linalg.norm(centres, axis=1)[:, None]
    around /= np.linalg.norm(around, axis=1)[:, None]
    X = centres[y] * 0.84 + around * 0.54
    return X / np.linalg.norm(X, axis=1)[:, None], y


def log_of(rows, first=0):
    return [
        Record(TOPIC, 0, i, STAMP + 10 * i, None, orjson.dumps({"features": list(row), "kind": [i % 3]}))
        for i, row in enumerate(rows, first)
    ]


@pytest.mark.parametrize(("d", "k"), [(40, 5), (1536, 10)])
def test_embeddings_are_told_apart_and_their_clusters_described_in_the_features(d, k):
    X, y = unit_vectors(2000, d, k)
    worker = task(given())
    outputs = run(worker, log_of(X.tolist()), 500)
    answers = payloads(outputs.assignments)
    assert [answer["status"] for answer in answers[:501]] == ["warming_up"] * 500 + ["assigned"]
    assert adjusted_rand_score(y[1000:], [str(answer["cluster"]) for answer in answers[1000:]]) > 0.9
    model = worker.models.named("p0")
    assert model.engine.dimension == 16
    named = {answer["cluster"]: [] for answer in answers[1000:]}
    for row, answer in zip(X[1000:], answers[1000:], strict=True):
        named[answer["cluster"]].append(row)
    described = {cluster["id"]: cluster for event in payloads(outputs.cluster_events) for cluster in event["after"]}
    large = [name for name, rows in named.items() if name is not None and len(rows) > 60]
    assert len(large) >= k
    for name in large:
        rows, centre = np.array(named[name]), np.array([*described[name]["centre"].values()])
        spread = np.array([*described[name]["spread"].values()])
        assert [*described[name]["centre"]] == [f"f{number}" for number in range(d)]
        mean = rows.mean(axis=0)
        assert mean @ centre / np.linalg.norm(mean) / np.linalg.norm(centre) > 0.9
        assert 0.7 < spread.mean() / rows.std(axis=0).mean() < 1.6
    assert max(len(message.value or b"") for message in outputs.cluster_events) < event_bytes_of(model)


# Those at night have the kernels of another one.
@pytest.mark.parametrize("engine", some_at_night(ENGINES, ("sa_art", "mlca_i", "mlca_c")))
def test_every_engine_learns_4096_features(engine):
    X, _ = unit_vectors(100, 4096, k=3)
    own = {"input__label_path": "kind"} if issubclass(ENGINES[engine], LabelEngine) else {}
    settings = given(engine__name=engine, prepare__warmup_records=40, **SMALL.get(engine, {}), **own)
    context = TaskContext(1_048_588)  # what a topic takes by default
    worker = task(settings, context)
    outputs = run(worker, log_of(X.tolist()), 100)
    assert not outputs.dead_letters
    assert [answer["status"] for answer in payloads(outputs.assignments)].count("assigned") == 60
    model = worker.models.named("p0")
    assert model.engine.dimension == (16 if ENGINES[engine].projects else 4096)
    for event in payloads(outputs.cluster_events):
        assert all(len(cluster["centre"]) == 4096 for cluster in event["after"] if "centre" in cluster)
    fresh = task(settings, context)
    restore(fresh, worker.partition_state(), [worker.models.snapshot("p0")])
    assert states(fresh) == states(worker)


@pytest.mark.parametrize("engine", ["evq", "ildn"])
def test_features_that_the_first_record_shows_to_be_too_many_stop_the_worker(engine):
    worker = task(given(engine__name=engine, prepare__project=0, prepare__warmup_records=5))
    text = (
        rf"^prepare\.project = 0: must be from 1 to 64 principal axes, because a record has 300 features and {engine} "
        r"takes at most 256; or choose another engine\.name, or leave features out; the records of features\[0\] have "
        r"the features f0, f1, .*, f19, \.\.\.$"
    )
    with pytest.raises(ConfigurationError, match=text):
        run(worker, log_of(np.zeros((30, 300)).tolist()), 7)


def test_an_engine_that_takes_fewer_features_is_no_next_version():
    rows = unit_vectors(60, 300)[0].tolist()
    worker = task(given(engine__name="modal", prepare__project=0, prepare__warmup_records=5))
    run(worker, log_of(rows))
    state, snapshots = stored(worker)
    fresh = task(given(engine__name="evq", prepare__project=0, prepare__warmup_records=5))
    fresh.restore_partition(state)
    with pytest.raises(ConfigurationError, match=r"^prepare\.project = 0: .* a record has 300 features and evq takes"):
        fresh.restore(snapshots[0], new_version=True)


@pytest.mark.parametrize("engine", ["caea", "evq", "mlca"])
def test_however_the_log_is_cut_and_wherever_it_is_restored_the_bytes_are_the_same(engine):
    own = {"prepare__project": 4, "input__label_path": "kind"} if engine == "mlca" else {}
    settings = given(engine__name=engine, prepare__warmup_records=90, prepare__missing="mean", **own)
    rows = unit_vectors(400, 40, seed=2)[0].tolist()
    rows[20][3], rows[200][5] = None, None
    alike(settings, log_of(rows), (1, 40, 89, 90, 91, 250))
