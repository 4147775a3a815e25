"""The engines as scikit-learn's users know them."""

import pickle

import numpy as np
import pytest
from resonance.engine import ENGINES, LabelEngine, ParameterError
from resonance.engine.estimator import StreamClusterer
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_clustering, parametrize_with_checks

UNSUPERVISED = [name for name, engine in ENGINES.items() if not issubclass(engine, LabelEngine)]
FEW = {
    "caea": "its 50 records lead to one reading, and each blob has fewer than `min_cluster_records`",
}
"""Why `check_clustering` fails with the defaults of an engine; all other checks pass."""

SHORT = {
    "caea": {"lambda": 10, "min_cluster_records": 5},
    "hcaea": {"lambda": 10, "min_cluster_records": 5},
    "ildn": {"min_cluster_records": 5},
}
"""Parameters with which it passes; `modal` keeps at least 64 landmarks."""


def fails(estimator):
    """The checks that fail, with their reasons."""
    return {"check_clustering": FEW[estimator.engine]} if estimator.engine in FEW else {}


@parametrize_with_checks(
    [StreamClusterer(), StreamClusterer(engine="caea"), StreamClusterer(missing="mean")],
    expected_failed_checks=fails,
    xfail_strict=True,
)
def test_the_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", SHORT)
def test_few_records_are_clustered_with_parameters_for_few_records(name):
    check_clustering(name, StreamClusterer(engine=name, parameters=SHORT[name]))


def blobs(count=1200, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, count)
    return rng.normal(truth[:, None] * [8.0, 800.0, -0.8], [0.5, 50.0, 0.05]), truth


@pytest.mark.parametrize("name", UNSUPERVISED)
def test_every_engine_clusters_raw_records(name):
    X, truth = blobs()
    model = StreamClusterer(engine=name)
    labels = model.fit_predict(X)
    assert labels.shape == truth.shape
    assert adjusted_rand_score(truth, labels) > (0.9 if name == "modal" else 0.3)
    assert np.array_equal(labels, model.predict(X))
    assert model.levels_.shape == (len(X), model.model_.depth)


def test_predicting_changes_nothing():
    X, _ = blobs()
    model = StreamClusterer().fit(X)
    before = pickle.dumps(model)
    model.predict(X * 100.0)
    assert pickle.dumps(model) == before


def test_the_rows_of_many_calls_are_one_stream_also_behind_a_range_that_was_left():
    X, _ = blobs(6000)
    X[3000:, 0] *= 1000.0
    whole, parts = StreamClusterer().fit(X), StreamClusterer()
    for at in range(0, len(X), 70):
        parts.partial_fit(X[at : at + 70])
    assert whole.model_.state() == parts.model_.state()
    assert whole.preparation_.state() == parts.preparation_.state()
    assert np.array_equal(whole.predict(X), parts.predict(X))


@pytest.mark.parametrize("missing", ["mean", -3.0])
def test_missing_values_become_what_a_preparation_makes_of_them(missing):
    X, truth = blobs()
    X[np.random.default_rng(1).random(X.shape) < 0.01] = np.nan
    model, parts = StreamClusterer(missing=missing), StreamClusterer(missing=missing)
    assert adjusted_rand_score(truth, model.fit_predict(X)) > 0.8
    for part in np.array_split(X, 13):
        parts.partial_fit(part)
    assert model.model_.state() == parts.model_.state()
    filled = np.where(np.isnan(X), np.nanmean(X[:200], axis=0) if missing == "mean" else missing, X)
    assert np.array_equal(model.predict(X), model.predict(filled))
    assert get_tags(model).input_tags.allow_nan


@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict"])
def test_missing_values_are_rejected_with_the_parameter_that_takes_them(method):
    X, _ = blobs()
    model = StreamClusterer().fit(X)
    assert not get_tags(model).input_tags.allow_nan
    X[[7, 9], 1] = np.nan
    said = r'NaN in 2 of 1,200 rows, first in row 7, column 1: set missing to "mean" or to a number'
    with pytest.raises(ValueError, match=said):
        getattr(model, method)(X)
    with pytest.raises(ParameterError, match="missing"):
        StreamClusterer(missing="median").fit(X)


def test_clones_pipelines_and_pickles_work_and_centres_are_in_the_units_of_the_rows():
    X, _ = blobs()
    model = clone(StreamClusterer(parameters={"memory": 300})).set_params(scale="warmup")
    fitted = make_pipeline(FunctionTransformer(), model).fit(X)[-1]
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - our own
    assert np.array_equal(again.predict(X), fitted.predict(X))
    assert sorted(np.round(again.cluster_centers_[:, 1], -2)) == pytest.approx([0, 800, 1600], abs=100)
    assert set(again.cluster_ids_) == set(fitted.labels_) - {-1}
    assert again.get_params() == model.get_params()


def test_what_cannot_be_is_said_when_it_is_fitted():
    X, _ = blobs(10)
    with pytest.raises(ParameterError, match="learns without labels"):
        StreamClusterer(engine="mlca").fit(X)
    with pytest.raises(ParameterError, match="nothing"):
        StreamClusterer(engine="nothing").fit(X)
    with pytest.raises(ParameterError, match="memory"):
        StreamClusterer(parameters={"memory": -1}).fit(X)
