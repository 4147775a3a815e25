"""Fuzzy ART and SA-ART: against their plain versions, on sparse batches, and at the edges of [0, 1]."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from resonance.engine import SAART, FuzzyART, ParameterError, RecordError, SparseBatch, StateError
from resonance.engine.state import pack, unpack
from sklearn.datasets import load_digits

from tests.engine.nodes import categories, joined
from tests.engine.plain_sa_art import PlainFuzzyART, PlainSAART

ARTLIB = json.loads((Path(__file__).parents[1] / "data" / "fuzzy_art_artlib.json").read_text())
"""What artlib says of digits: how many categories, and the hashes of labels and weights."""

VARIANTS = {
    "sa_art": SAART,
    "sa_art-paper": lambda: SAART.make(SAART.presets["paper"]),
    "sa_art-crowded": lambda: SAART(rho0=0.9, delta=0.0, max_clusters=12),
    "fuzzy_art": FuzzyART,
    "fuzzy_art-plain": lambda: FuzzyART(rho=0.5, beta=0.6, complement=False),
}


@pytest.fixture(params=VARIANTS)
def make(request):
    return VARIANTS[request.param]


def topics(n=400, d=40, seed=0, binary=False):
    """Records of 5 topics with 8 features each, of which half are there, and a few of other topics."""
    rng = np.random.default_rng(seed)
    own = np.repeat(np.eye(5), d // 5, axis=1)[rng.integers(5, size=n)]
    there = rng.random((n, d)) < np.where(own > 0, 0.6, 0.03)
    values = np.ones((n, d)) if binary else np.clip(0.4 + 0.2 * rng.normal(size=(n, d)), 0.01, 1.0)
    return np.where(there, values, 0.0)


def sparse(X, dimension=None):
    record, feature = np.nonzero(X)
    starts = np.concatenate([[0], np.cumsum((X != 0).sum(axis=1))])
    return SparseBatch(feature, starts, X[record, feature], dimension)


def untidy(X):
    """The same as `sparse`, features backwards, zeros among the entries, and in other types."""
    n, d = X.shape
    features = np.tile(np.arange(d - 1, -1, -1, dtype=np.int32), n)
    return SparseBatch(features, np.arange(0, n * d + 1, d, dtype=np.int32), X[:, ::-1].ravel(), d)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("given", [{}, {"delta": 0.1, "lambda_": 0.9}, {"complement": True, "rho0": 0.9}])
def test_sa_art_is_what_its_specification_prints(given, binary):
    X = topics(binary=binary)
    plain, model = PlainSAART(**given), SAART(**given)
    expected = [plain.learn(x) for x in X if x.any() or plain.complement]
    got = model.learn(X).path[:, 0]
    assert got[got >= 0].tolist() == expected
    found, d = categories(model), X.shape[1]
    np.testing.assert_allclose(found["weight"], plain.w, atol=1e-12)
    np.testing.assert_allclose(found["rho"], plain.rho, atol=1e-12)
    np.testing.assert_allclose(found["mean"], np.array(plain.mu)[:, :d], atol=1e-12)
    np.testing.assert_allclose(found["squares"], np.array(plain.z)[:, :d], atol=1e-12)
    np.testing.assert_array_equal(found["count"], np.array(plain.cnt)[:, :d])
    np.testing.assert_allclose(found["salience"], [plain.salience(j) for j in range(len(plain.w))], atol=1e-12)


@pytest.mark.parametrize("complement", [True, False])
def test_fuzzy_art_is_what_its_specification_prints(complement):
    X = topics()
    X = X[X.any(axis=1)]
    plain = PlainFuzzyART(0.8 if complement else 0.4, 0.5, complement)
    model = FuzzyART(rho=plain.rho, beta=plain.beta, complement=complement)
    assert model.learn(X).path[:, 0].tolist() == [plain.learn(x) for x in X]
    np.testing.assert_allclose(categories(model)["weight"], plain.w, atol=1e-12)


@pytest.mark.parametrize("case", ARTLIB["cases"], ids=str)
def test_fuzzy_art_has_the_labels_and_the_weights_of_artlib(case):
    X = load_digits(return_X_y=True)[0][:600] / 16
    model = FuzzyART(rho=case["rho"], beta=case["beta"], alpha=ARTLIB["alpha"], max_clusters=1000)
    labels = model.learn(X).path[:, 0].astype("<i8")
    weights = categories(model)["weight"].astype("<f8")
    assert (len(weights), hashlib.sha256(labels.tobytes()).hexdigest()) == (case["clusters"], case["labels"])
    assert hashlib.sha256(weights.tobytes()).hexdigest() == case["weights"]


def test_sparse_batches_give_the_bits_of_dense_ones(make):
    X, Y = topics(), topics(50, seed=1)
    dense, fixed, other = make(), make(), make()
    expected = joined([dense.learn(X)])
    assert joined([fixed.learn(sparse(X, X.shape[1]))]) == expected
    assert joined([other.learn(untidy(X))]) == expected
    assert dense.state() == fixed.state() == other.state()
    wanted = dense.predict(Y), fixed.predict(sparse(Y, Y.shape[1]))
    assert wanted[0].cluster.tobytes() == wanted[1].cluster.tobytes()
    assert wanted[0].score.tobytes() == wanted[1].score.tobytes()


def test_open_records_bring_new_features_at_any_time(make):
    X = topics(300)
    # Half of the features have never come before the middle of the stream.
    X[:150, 20:] = 0.0
    batch = sparse(X)
    whole, single = make(), make()
    expected = whole.learn(batch)
    for at in range(len(X)):
        step = single.learn(batch.part(at, at + 1))
        assert step.path[0] == expected.path[at]
        if at % 100 == 99:
            assert single.dimension == np.flatnonzero(X[: at + 1].any(axis=0)).max() + 1
            single = type(single).from_state(single.state())
    assert (single.state(), whole.dimension) == (whole.state(), 40)
    for cluster in whole.clusters():
        assert len(cluster.features) == len(cluster.centre) == len(cluster.spread)
        assert (np.diff(cluster.features) > 0).all()


@pytest.mark.parametrize("name", ["sa_art", "sa_art-crowded", "fuzzy_art-plain"])
def test_features_to_come_are_as_good_as_zeros(name):
    X = topics(300)
    X[:150, 20:] = 0.0
    whole, growing = VARIANTS[name](), VARIANTS[name]()
    expected, got = whole.learn(X), growing.learn(sparse(X))
    for attribute in ("cluster", "score", "novel", "path"):
        np.testing.assert_array_equal(getattr(got, attribute), getattr(expected, attribute))
    for cluster, dense in zip(growing.clusters(), whole.clusters(), strict=True):
        centre = np.zeros(40)
        centre[cluster.features] = cluster.centre
        np.testing.assert_array_equal(centre, dense.centre)


def test_a_prediction_knows_features_that_no_cluster_has_seen(make):
    X = topics(200)
    X[:, 20:] = 0.0
    wanted = topics(20, seed=2)
    model, same = make(), make()
    model.learn(sparse(X))
    same.learn(sparse(X))
    before = model.state()
    predicted = model.predict(sparse(wanted[:1]))
    assert model.state() == before
    step = same.learn(sparse(wanted[:1]))
    assert predicted.cluster.tobytes() == step.cluster.tobytes()
    assert predicted.score.tobytes() == step.score.tobytes()


def test_a_record_of_zeros_has_nothing_in_common_with_anything(make):
    model = make()
    model.learn(topics())
    before = model.state()
    step = model.learn(np.zeros((2, 40)))
    if model._given["complement"]:
        assert (step.path >= 0).all()
        return
    assert step.cluster.tolist() == step.path.tolist() == [[-1], [-1]]
    assert np.isnan(step.score).all()
    assert not step.novel.any()
    assert model.state() == before


@pytest.mark.parametrize("value", [-0.1, 1.000001, 7.0])
def test_values_outside_the_unit_interval_are_refused(make, value):
    model = make()
    model.learn(topics())
    before = model.state()
    X = topics(3)
    X[1, 5] = value
    for batch in (X, sparse(X, 40)):
        with pytest.raises(RecordError, match=rf"record 1 of the batch: feature 5 is {value}: outside \[0, 1\]"):
            model.learn(batch)
        with pytest.raises(RecordError, match="outside"):
            model.predict(batch)
    assert model.state() == before


def test_what_rounding_has_added_is_clipped(make):
    X = topics(binary=True)
    rounded = X + np.where(X > 0, 1e-12, -1e-12)
    exact, dense, entries = make(), make(), make()
    exact.learn(X)
    dense.learn(rounded)
    entries.learn(sparse(rounded, 40))
    assert exact.state() == dense.state() == entries.state()


@pytest.mark.parametrize(
    ("batch", "record", "problem"),
    [
        (SparseBatch([0, 1], [0, 1, 2], [0.5, np.nan], 4), 1, "feature 1 is nan: not finite"),
        (SparseBatch([0, 1], [0, 1, 2], [0.5, 1e200], 4), 1, "feature 1 is 1e[+]200: beyond 1e[+]150"),
        (SparseBatch([0, 4], [0, 1, 2], [0.5, 0.5], 4), 1, "there is no feature 4: they count from 0 to 3"),
        (SparseBatch([0, -1], [0, 1, 2], [0.5, 0.5]), 1, "there is no feature -1: they count from 0 to 9,999"),
        (SparseBatch([0, 10_000], [0, 1, 2], [0.5, 0.5]), 1, "there is no feature 10000: they count from 0 to 9,999"),
        (SparseBatch([0, 3, 1, 3], [0, 1, 4], [0.5, 0.5, 0.5, 0.5]), 1, "feature 3 comes twice"),
        (SparseBatch([0], [0, 1], [0.5], 20_000), 0, "a batch of 20000 features: there may be 1 to 10,000"),
        (SparseBatch([0, 1], [0, 2, 1], [0.5, 0.5]), 0, "indptr must rise from 0 to 2, the number of entries"),
        (SparseBatch([0, 1], [1, 2], [0.5, 0.5]), 0, "indptr must rise from 0 to 2"),
        (SparseBatch([0, 1], [], [0.5, 0.5]), 0, "are no CSR batch"),
        (SparseBatch([0, 1], [0, 2], [0.5]), 0, "are no CSR batch"),
        (SparseBatch([0.5], [0, 1], [0.5]), 0, "indices are integers, not float64"),
        (SparseBatch([0], [0, 1], ["much"]), 0, "not arrays of numbers"),
    ],
)
def test_a_sparse_batch_that_is_none_is_refused(batch, record, problem):
    with pytest.raises(RecordError, match=problem) as error:
        SAART().learn(batch)
    assert error.value.index == record


def test_the_length_of_the_first_batch_binds_those_after_it():
    model = SAART()
    model.learn(sparse(topics(50), 40))
    with pytest.raises(RecordError, match="41 features, the model has 40"):
        model.learn(SparseBatch([0], [0, 1], [0.5], 41))
    with pytest.raises(RecordError, match="there is no feature 40"):
        model.learn(SparseBatch([40], [0, 1], [0.5]))
    with pytest.raises(RecordError, match="11,000 features, more than max_features = 10,000"):
        SAART().learn(np.zeros((1, 11_000)))


def test_a_full_model_lets_the_cluster_go_that_won_longest_ago():
    model = SAART(max_clusters=2)
    step = model.learn(np.eye(3)[[0, 1, 0, 2]])
    assert [(e.index, e.kind, e.cluster) for e in step.events] == [
        (0, "emerged", 0),
        (1, "emerged", 1),
        (3, "vanished", 1),
        (3, "emerged", 2),
    ]
    assert [c.id for c in model.clusters()] == [0, 2]
    assert model.predict(np.eye(3)).cluster[:, 0].tolist() == [0, -1, 2]


def test_an_event_tells_what_decided():
    model = SAART(rho0=0.9)
    first, second = model.learn(np.array([[1.0, 0.0], [0.5, 0.0], [1.0, 0.8]])).events[0], model
    assert first.reason is None
    step = second.learn(np.array([[0.1, 1.0]]))
    for event in step.events:
        assert event.reason.criterion == "match"
        assert event.reason.value < event.reason.threshold


def test_clusters_name_their_most_salient_features():
    X = topics(n=1000)
    model = SAART()
    model.learn(X)
    largest = max(model.clusters(), key=lambda cluster: cluster.size)
    telling = [feature.feature for feature in largest.salient]
    assert len(telling) == len(set(telling)) == 10
    topic = telling[0] // 8
    assert {feature // 8 for feature in telling[:5]} == {topic}
    shares = [feature.salience * feature.weight for feature in largest.salient]
    assert shares == sorted(shares, reverse=True)
    row = categories(model)["id"].tolist().index(largest.id)
    for feature in largest.salient:
        assert feature.salience == categories(model)["salience"][row, feature.feature]
        assert feature.weight == categories(model)["weight"][row, feature.feature]
    assert FuzzyART().learn(X).events[0].after[0].salient == ()


def test_labels_are_those_of_the_best_choice_that_has_one():
    model = SAART()
    X = np.eye(3)
    model.learn(X[:2], labels=[7, -1])
    model.learn(np.array([[0.0, 1.0, 1.0]]), labels=[3])
    assert model.predict(X).label.tolist() == [7, 3, -1]


def test_means_and_deviations_are_those_of_the_records():
    X = topics()
    model = SAART()
    step = model.learn(X)
    for cluster in model.clusters():
        own = X[step.path[:, 0] == cluster.id]
        assert cluster.size == len(own)
        np.testing.assert_allclose(cluster.centre, own.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(cluster.spread, own.std(axis=0), atol=1e-9)


def test_a_box_contains_its_records_with_fast_learning():
    X = topics()
    model = FuzzyART(rho=0.8, beta=1.0)
    step = model.learn(X)
    for cluster in model.clusters():
        own = X[step.path[:, 0] == cluster.id]
        np.testing.assert_allclose(cluster.centre - cluster.spread, own.min(axis=0), atol=1e-12)
        np.testing.assert_allclose(cluster.centre + cluster.spread, own.max(axis=0), atol=1e-12)


def test_records_of_fixed_length_have_features():
    model = SAART()
    model.learn(np.zeros((1, 4)))
    header, arrays = unpack(model.state(), "sa_art", 1)
    with pytest.raises(StateError, match="0 features, fixed = True"):
        SAART.from_state(pack("sa_art", 1, {**header, "dimension": 0}, arrays))


def test_a_model_grows_no_further_than_to_matrices_that_a_machine_has_room_for(monkeypatch):
    monkeypatch.setattr("resonance.engine.sa_art.engine.MOST_CELLS", 40 * 24)
    # What may come is no reason to refuse what comes.
    engine = SAART(max_features=1_000_000, max_clusters=65_536)
    engine.learn(SparseBatch(np.arange(24), np.arange(25), np.ones(24)))
    assert len(engine.clusters()) == 24
    with pytest.raises(ParameterError, match="max_clusters = 65536: must be at most 24 with 40 features, or max_feat"):
        engine.learn(SparseBatch([39], [0, 1], [1.0]))
