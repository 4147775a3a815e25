"""The tree of HCAEA: its bounds and its leaves."""

import numpy as np
import pytest
from resonance.engine import HCAEA

from tests.engine.nodes import leaves
from tests.engine.streams import nested, shifting


def leaves_below(tree, m):
    model = tree._model(m)
    return sum(
        leaves_below(tree, child) if child >= 0 and tree._model(child).nodes > 2 else 1
        for child in model.child[: model.nodes]
    )


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_leaves_of_each_root_node_are_counted_and_bounded(depth):
    engine = HCAEA(lambda_=20, max_depth=depth, max_leaves=25)
    X = shifting(4000)
    reached = 0
    for at in range(0, len(X), 250):
        engine.learn(X[at : at + 250])
        roots, found = np.unique(leaves(engine)["path"][:, 0], return_counts=True)
        # The model of a root node counts its leaves even while it is not valid and the node itself is the leaf.
        counted = sum(engine._model(m).leaves for m, path in engine._models() if len(path) == 1)
        assert len(roots) <= found.sum() <= counted + len(roots)
        assert found.max() <= 25
        reached = max(reached, int(found.max()))
    assert reached == 25


def test_a_root_node_never_loses_the_leaves_of_another_one():
    # Models come and go under many root nodes: their entries, and the times of their leaves, come again elsewhere.
    engine = HCAEA(lambda_=20, max_leaves=40)
    X = nested(4000)[:1500]
    for at in range(0, len(X), 250):
        engine.learn(X[at : at + 250])
        for m, path in engine._models():
            if len(path) == 1:
                assert engine._model(m).leaves == leaves_below(engine, m)


def test_the_leaf_that_won_longest_ago_goes_first():
    X = shifting(3000, d=2)
    bounded, free = HCAEA(lambda_=20, max_leaves=12, max_depth=2), HCAEA(lambda_=20, max_depth=2)
    assert not np.array_equal(bounded.learn(X).path, free.learn(X).path)
    # What was won last is still there: the path of the last record ends in a leaf.
    last = bounded.learn(X[-1:]).path[0]
    assert last.tolist() in leaves(bounded)["path"].tolist()


def test_labels_of_leaves_give_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 900)
    X = rng.normal(scale=0.05, size=(900, 2)) + np.stack([y, y % 2], axis=1)
    engine = HCAEA.make(HCAEA.presets["paper"])
    engine.learn(X[:800], y[:800])
    assert (engine.predict(X[800:]).label == y[800:]).mean() > 0.97


def test_what_is_one_blob_has_no_clusters_within_it():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=12_000)
    X = rng.random((3, 4))[y] + rng.normal(size=(12_000, 4)) * 0.04
    model = HCAEA()
    model.learn(X)
    levels = [len(cluster.path) for cluster in model.clusters()]
    assert levels.count(0) == 3
    assert len(levels) < 30
    assert len(HCAEA(reading="affinity").learn(X).events) > 5 * len(HCAEA().learn(X).events)


def test_predict_without_labels_describes_no_leaf(monkeypatch):
    model = HCAEA()
    model.learn(np.random.default_rng(0).random((2000, 2)))

    def described(*_):
        raise AssertionError("the leaves are for labels")

    monkeypatch.setattr(HCAEA, "_leaves", described)
    assert (model.predict(np.zeros((3, 2))).label == -1).all()
