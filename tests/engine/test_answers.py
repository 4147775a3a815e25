"""What score, cluster and novel say, whatever the engine: docs/consuming.md tells it to those who read assignments."""

import copy

import numpy as np
import pytest
from resonance.engine import ENGINES, LabelEngine, make_engine
from resonance.engine.prepare import Preparation

ANSWER_ALL = {
    "caea": "its golden vectors fix the nearest node's cluster as the answer, however far that is",
    "hcaea": "as caea, on every level",
    "fuzzy_art": "the answer is the cluster that has most in common with the record, and the vigilance decides later",
    "sa_art": "as fuzzy_art: this answer agrees better with classes than what was learned does",
}
"""Engines that answer an outlier with a cluster, and why."""

UNSETTLED = {
    "caea": "its threshold is that of the first nodes, so that a few percent of a cloud lie beyond it for ever",
    "hcaea": "as caea",
    "ildn": "its nodes hold the share q = 0.9 of a cloud, and the thin ones that the rest founds go again",
}
"""Engines that go on to find records novel in a stream that is always the same, and why."""

DIMENSION = 4
SPREAD = 0.05


def blobs(n, seed=0):
    """Return records of three blobs, a unit apart, and the blob of each."""
    rng = np.random.default_rng(seed)
    own = rng.integers(3, size=n)
    return np.eye(3, DIMENSION)[own] + SPREAD * rng.normal(size=(n, DIMENSION)), own


class Prepared:
    """An engine behind the preparation that a deployment gives it."""

    def __init__(self, name, first):
        kind = ENGINES[name]
        names = [f"f{number}" for number in range(DIMENSION)]
        self.preparation = Preparation(names, clip=kind.unit_interval, robust=kind.robust)
        self.preparation.hold(first[: self.preparation.wanted])
        self.preparation.freeze()
        self.engine = make_engine(name, {})

    def learn(self, X, own):
        by_labels = [{int(label)} for label in own] if isinstance(self.engine, LabelEngine) else None
        return self.engine.learn(self.preparation.apply(X), by_labels)


@pytest.fixture(scope="module", params=ENGINES)
def settled(request):
    """Return an engine's name, the engine after 2,000 records, and what it said of them."""
    X, own = blobs(2_000)
    model = Prepared(request.param, X)
    return request.param, model, model.learn(X, own)


def far(side):
    """Return a record a thousand spreads away from everything."""
    return np.full((1, DIMENSION), 0.5 + side * 1e3 * SPREAD), np.array([7])


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_an_outlier_is_novel_far_from_typical_and_in_no_cluster(settled, side):
    name, model, _ = settled
    engine = copy.copy(model.engine)
    predicted = engine.predict(model.preparation.apply(far(side)[0]))
    model = copy.copy(model)
    model.engine = engine
    step = model.learn(*far(side))
    np.testing.assert_array_equal(predicted.score, step.score)
    assert predicted.cluster[0, 0] == step.cluster[0, 0]
    if engine.unit_interval and side < 0.0:
        # Clipped it is all zeros: a box of fuzzy_art may reach there, and sa_art neither answers nor learns it.
        assert not step.novel[0]
        assert (step.cluster[0, 0] >= 0) == (name == "fuzzy_art")
        return
    assert step.novel[0]
    # On [0, 1] alone an outlier is clipped to a corner, which is less far.
    assert step.score[0] < (0.7 if engine.unit_interval else 1e-3)
    assert (step.cluster[0, 0] >= 0) == (name in ANSWER_ALL)


def test_a_record_in_the_middle_of_a_cluster_is_typical_of_it(settled):
    _, model, _ = settled
    engine = copy.copy(model.engine)
    middle = engine.predict(model.preparation.apply(np.eye(3, DIMENSION)))
    assert len(set(middle.cluster[:, 0].tolist())) == 3
    assert (middle.cluster[:, 0] >= 0).all()
    assert (middle.score > 0.5).all()


def test_a_novel_record_founds_the_node_that_its_path_names(settled):
    name, _, step = settled
    novel = np.flatnonzero(step.novel)
    if name == "evq":
        # Its first cluster takes all three blobs, and is split when they have shown that they are three.
        assert len(novel) == 0
        return
    assert novel[0] <= 50
    nodes = step.path[novel, 0]
    assert (nodes >= 0).all()
    assert len(set(nodes.tolist())) == len(nodes)


def test_what_no_labels_teach_founds_nothing():
    X, own = blobs(2_000)
    for name in ("mlca", "mlca_i", "mlca_c"):
        model = Prepared(name, X)
        model.learn(X, own)
        step = model.engine.learn(model.preparation.apply(far(1.0)[0]))
        assert not step.novel[0]
        assert step.cluster[0, 0] == -1
        assert step.score[0] < 1e-2


@pytest.mark.parametrize("name", ENGINES)
def test_a_steady_stream_has_nearly_nothing_novel(name):
    X, own = blobs(20_000, seed=1)
    model = Prepared(name, X)
    novel = [model.learn(X[at : at + 1000], own[at : at + 1000]).novel for at in range(0, len(X), 1000)]
    share = np.concatenate(novel[10:]).mean()
    assert share < (0.1 if name in UNSETTLED else 0.02)
