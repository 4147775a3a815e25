"""Classes that come one after the other: room for them grows by doubling, and only where their records went."""

import numpy as np
import pytest
from resonance.engine import CAEA, EVQ, HCAEA, ILDN, SAART, Modal
from resonance.engine.labels import MAX_CLASSES, room_for_classes

from tests.engine.nodes import leaves

ROOMS = {
    Modal: lambda model: model._model.votes.shape[1],
    EVQ: lambda model: model._model.votes.shape[1],
    ILDN: lambda model: model._model.labels.shape[1],
    SAART: lambda model: model._categories.labels.shape[1],
    CAEA: lambda model: model._model.labels.shape[1],
}
X = np.random.default_rng(0).random((MAX_CLASSES, 3))


def test_room_is_doubled_up_to_the_most():
    rooms = [room_for_classes(0, 1)]
    while rooms[-1] < MAX_CLASSES:
        rooms.append(room_for_classes(rooms[-1], rooms[-1] + 1))
    assert rooms == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, MAX_CLASSES]
    assert room_for_classes(16, 300) == 300


@pytest.mark.parametrize("engine", ROOMS)
def test_a_thousand_classes_cost_a_dozen_copies_of_the_model(engine):
    model, whole, rooms = engine(), engine(), set()
    for number in range(MAX_CLASSES):
        model.learn(X[number : number + 1], [number])
        rooms.add(ROOMS[engine](model))
    whole.learn(X, np.arange(MAX_CLASSES))
    assert len(rooms) <= 12
    # Room is no part of a state.
    assert model.state() == whole.state()
    again = engine.from_state(model.state())
    assert again.state() == model.state()
    assert (again.predict(X).label == model.predict(X).label).all()


def test_a_tree_has_room_for_the_classes_of_a_model_only_where_they_came():
    centres = np.random.default_rng(1).random((40, 2))
    kind = np.random.default_rng(2).integers(0, 40, 6_000)
    rows = centres[kind] + 0.01 * np.random.default_rng(3).normal(size=(6_000, 2))
    tree, half = HCAEA(), HCAEA()
    tree.learn(rows, 20 * kind)
    rooms = [tree._model(m).labels.shape[1] for m, _ in tree._models()]
    assert len(rooms) > 20
    assert sum(rooms) < 0.7 * max(rooms) * len(rooms)
    half.learn(rows[:3_000], 20 * kind[:3_000])
    half = HCAEA.from_state(half.state())
    half.learn(rows[3_000:], 20 * kind[3_000:])
    assert half.state() == tree.state()
    assert leaves(tree)["labels"].shape == (len(leaves(tree)["label"]), 20 * 39 + 1)
    assert set(tree.predict(rows[:500]).label.tolist()) <= {-1, *(20 * kind).tolist()}
