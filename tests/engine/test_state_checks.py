"""A state that its checksum calls whole can still hold anything: it is refused, or it can be learned with."""

import numpy as np
import pytest
from resonance.engine import CAEA, HCAEA, StateError
from resonance.engine.state import pack, unpack

from tests.engine.streams import nested, shifting

SMALL = {
    "caea": lambda: CAEA(lambda_=6, min_cluster_records=4, max_nodes=12),
    "hcaea": lambda: HCAEA(lambda_=6, min_cluster_records=4, max_nodes=8, max_leaves=8, min_child_records=3),
}


def small(name):
    """A model with clusters, links, labels and, in a tree, kept records."""
    model = SMALL[name]()
    X = nested(60, d=2) if name == "hcaea" else shifting(60, d=2)
    model.learn(X, labels=[at % 3 - 1 for at in range(60)])
    assert model.clusters()
    return model


def changed(engine, header, arrays):
    return pack(engine.name, engine.revision, header, arrays)


def goes_on(engine, state, X, labels):
    """Return whether a state is refused; if it is not, the model learns, answers and keeps its state."""
    try:
        model = type(engine).from_state(state)
    except StateError:
        return False
    model.learn(X, labels=labels)
    model.predict(X[:5])
    model.clusters()
    assert type(engine).from_state(model.state()).state() == model.state()
    return True


@pytest.mark.parametrize("name", SMALL)
def test_any_integer_may_be_any_other(name):
    engine = small(name)
    header, arrays = unpack(engine.state(), engine.name, engine.revision)
    X, labels = shifting(200, d=2, seed=5), [at % 3 - 1 for at in range(200)]
    refused = 0
    for at in range(len(arrays["integers"])):
        for value in (0, -1, 1, 7, 2**20, 2**31, 2**62, -(2**62)):
            integers = arrays["integers"].copy()
            integers[at] = value
            refused += not goes_on(engine, changed(engine, header, {**arrays, "integers": integers}), X, labels)
    assert refused > 3 * len(arrays["integers"])


@pytest.mark.parametrize("name", SMALL)
def test_several_integers_may_be_others(name):
    engine = small(name)
    header, arrays = unpack(engine.state(), engine.name, engine.revision)
    X, labels = shifting(200, d=2, seed=5), [at % 3 - 1 for at in range(200)]
    rng = np.random.default_rng(1)
    for _ in range(300):
        integers = arrays["integers"].copy()
        where = rng.integers(len(integers), size=rng.integers(2, 5))
        integers[where] = np.maximum(integers[where] + rng.integers(-2, 3, size=len(where)), -1)
        goes_on(engine, changed(engine, header, {**arrays, "integers": integers}), X, labels)


@pytest.mark.parametrize("name", SMALL)
def test_arrays_of_other_lengths_are_refused(name):
    engine = small(name)
    header, arrays = unpack(engine.state(), engine.name, engine.revision)
    for array in ("floats", "integers"):
        for length in range(len(arrays[array])):
            with pytest.raises(StateError):
                type(engine).from_state(changed(engine, header, {**arrays, array: arrays[array][:length]}))
        longer = np.append(arrays[array], arrays[array][-1:])
        with pytest.raises(StateError, match="does not hold what it says"):
            type(engine).from_state(changed(engine, header, {**arrays, array: longer}))
        with pytest.raises(StateError, match="has no model"):
            type(engine).from_state(changed(engine, header, {**arrays, array: arrays[array][None]}))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    "wrong",
    [
        {"dimension": -1},
        {"dimension": 10**12},
        {"dimension": True},
        {"dimension": "2"},
        {"classes": -1},
        {"classes": 1},
        {"classes": 10**9},
        {"parameters": {"lambda": 0}},
        {"parameters": None},
        {"parameters": {"none": 1}},
    ],
    ids=str,
)
def test_a_header_that_no_engine_writes_is_refused(name, wrong):
    engine = small(name)
    header, arrays = unpack(engine.state(), engine.name, engine.revision)
    with pytest.raises(StateError):
        type(engine).from_state(changed(engine, {**header, **wrong}, arrays))


@pytest.mark.parametrize("name", SMALL)
def test_what_does_not_fit_is_named(name):
    engine = small(name)
    header, arrays = unpack(engine.state(), engine.name, engine.revision)
    integers, floats = arrays["integers"].copy(), arrays["floats"].copy()
    integers[1] = 10**6
    with pytest.raises(StateError, match=rf"{name} does not hold .* a number of nodes, .* \(integer 1\)"):
        type(engine).from_state(changed(engine, header, {**arrays, "integers": integers}))
    floats[0] = np.nan
    with pytest.raises(StateError, match="no finite number"):
        type(engine).from_state(changed(engine, header, {**arrays, "floats": floats}))


def test_a_tree_says_how_many_leaves_it_has():
    engine = small("hcaea")
    header, arrays = unpack(engine.state(), engine.name, engine.revision)
    refused = 0
    for at in range(len(arrays["integers"])):
        integers = arrays["integers"].copy()
        integers[at] += 1
        try:
            HCAEA.from_state(changed(engine, header, {**arrays, "integers": integers}))
        except StateError as error:
            refused += "does not have the leaves" in str(error)
    assert refused


def test_clusters_that_lost_their_nodes_since_keep_what_they_are():
    # Bounds on leaves take nodes between two readings: then there may be more clusters than half the nodes.
    engine = CAEA(lambda_=6, max_nodes=40)
    engine.learn(shifting(4, d=1))
    header, arrays = unpack(engine.state(), engine.name, engine.revision)
    count, (start, fields) = 12, (13, 8)
    integers = arrays["integers"]
    nodes = start + fields * int(integers[1])
    integers[0], integers[3], integers[4] = 100, count, count
    clusters = np.stack([np.arange(count), np.full(count, 7), np.full(count, 2), np.full(count, 6)])
    integers = np.concatenate([integers[:nodes], clusters.ravel(), integers[nodes:]])
    ring = np.zeros(3)  # the last three records, of which four may have been kept
    floats = np.concatenate([arrays["floats"][: 3 * int(integers[1])], ring, np.arange(2.0 * count)])
    state = changed(engine, header, {"floats": floats, "integers": integers})
    loaded = CAEA.from_state(state)
    assert loaded.state() == state
    assert [cluster.id for cluster in loaded.clusters()] == list(range(count))
    assert [float(cluster.centre[0]) for cluster in loaded.clusters()] == [2.0 * at for at in range(count)]
