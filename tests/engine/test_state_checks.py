"""A state that its checksum calls whole can still hold anything: it is refused, or it can be learned with."""

import functools

import numpy as np
import pytest
from resonance.engine import CAEA, EVQ, HCAEA, ILDN, MLCA, MLCAC, MLCAI, SAART, FuzzyART, Modal, StateError
from resonance.engine.state import pack, unpack

from tests.engine.plain_mlca import stream
from tests.engine.streams import nested, shifting, wandering_ring
from tests.engine.test_sa_art import topics


def thirds(n):
    """Classes of which one is not known."""
    return [at % 3 - 1 for at in range(n)]


MODELS = {
    "caea": (lambda: CAEA(lambda_=6, min_cluster_records=4, max_nodes=12), shifting(60, d=2), thirds(60)),
    "hcaea": (
        lambda: HCAEA(lambda_=6, min_cluster_records=4, max_nodes=8, max_leaves=8, min_child_records=3),
        nested(60, d=2),
        thirds(60),
    ),
    "modal": (
        lambda: Modal(landmarks=64, max_landmarks=64, memory=300, min_cluster_records=5, expire_records=500),
        shifting(1200, d=2),
        thirds(1200),
    ),
    "evq": (lambda: EVQ(max_clusters=20), shifting(400), np.arange(400) % 3),
    "ildn": (lambda: ILDN(sigma=1e-3, min_cluster_records=8), wandering_ring(600), np.arange(600) % 3),
    "mlca": (lambda: MLCA(vigilance=0.3, lambda_=12, k=4, warmup="growing"), *stream(40)),
    "mlca_i": (lambda: MLCAI(vigilance=0.3, lambda_=12, k=4, warmup="growing"), *stream(24)),
    "mlca_c": (lambda: MLCAC(vigilance=0.3, lambda_=12, k=4, warmup="growing"), *stream(24)),
    "mlca-buffer": (lambda: MLCA(vigilance=0.3, lambda_=12, k=4, warmup="buffer"), *stream(9)),
    "mlca_c-buffer": (lambda: MLCAC(vigilance=0.3, lambda_=12, k=4, warmup="buffer"), *stream(9)),
    "sa_art": (SAART, topics(60), np.arange(60) % 3),
    "sa_art-paper": (lambda: SAART.make(SAART.presets["paper"]), topics(12, d=10), thirds(12)),
    "fuzzy_art": (FuzzyART, topics(12, d=10), thirds(12)),
}
"""An engine, and records and labels that give it clusters, links, labels, kept records: whatever a state can hold."""
LATER = {
    "mlca": stream(30, seed=3),
    "sa_art": (topics(30, seed=3), [0] * 30),
    "sa_art-paper": (topics(30, d=10, seed=3), [0] * 30),
    "fuzzy_art": (topics(30, d=10, seed=3), [0] * 30),
}
"""What is learned with a state that is not refused, where it is not `shifting`."""
WHOLE = (0, -1, 1, 7, 2**20, 2**31, 2**62, -(2**62))
REAL = (-1.0, 0.0, 0.3, 2.0, 1e-300, 2e150, 1e300, np.nan, np.inf)


@functools.cache
def small(name):
    """A small model of an engine."""
    make, X, labels = MODELS[name]
    model = make()
    model.learn(X, labels)
    return model


@functools.cache
def parts(name):
    engine = small(name)
    return unpack(engine.state(), engine.name, engine.revision)


def load(name, header, arrays):
    engine = small(name)
    return type(engine).from_state(pack(engine.name, engine.revision, header, arrays))


def goes_on(name, arrays):
    """Return whether a state is refused; if it is not, the model learns, answers and keeps its state."""
    try:
        model = load(name, parts(name)[0], arrays)
    except StateError:
        return False
    d = MODELS[name][1].shape[1]
    X, labels = LATER.get("mlca" if "mlca" in name else name) or (shifting(100, d=d, seed=5), thirds(100))
    step = model.learn(X, labels)
    answer = model.predict(X[:5])
    for score in (step.score, answer.score):
        assert ((score[~np.isnan(score)] >= 0) & (score[~np.isnan(score)] <= 1)).all()
    for cluster in (*model.clusters(), *(c for e in step.events for c in (*e.before, *e.after))):
        assert np.isfinite(cluster.centre).all()
    assert type(model).from_state(model.state()).state() == model.state()
    return True


@pytest.mark.parametrize("name", MODELS)
def test_any_number_may_be_any_other(name):
    """Every one of the integers of CAEA, which keeps them in one array, and some all over every other array."""
    _, arrays = parts(name)
    refused = tried = 0
    for array in arrays:
        places = list(np.ndindex(arrays[array].shape))
        for at in places[:: 1 if (name, array) == ("caea", "integers") else len(places) // 8 + 1]:
            for value in REAL if arrays[array].dtype == np.float64 else WHOLE:
                other = arrays[array].copy()
                other[at] = value
                refused += not goes_on(name, {**arrays, array: other})
                tried += 1
    assert tried / 4 < refused < tried


@pytest.mark.parametrize("name", MODELS)
def test_several_numbers_may_be_others(name):
    _, arrays = parts(name)
    rng = np.random.default_rng(1)
    for _ in range(60):
        others = {array: values.copy() for array, values in arrays.items()}
        for _ in range(rng.integers(1, 5)):
            array = others[str(rng.choice([array for array in others if others[array].size]))]
            at = tuple(int(rng.integers(size)) for size in array.shape)
            array[at] += rng.integers(-2, 3)
        goes_on(name, others)


FREE = ("labels", "votes", "held", "held_labels")
"""Arrays of which there may be fewer or more: labels that are known, records that wait."""
NEW = ("spare",)
"""Arrays that states of older revisions have not got."""


@pytest.mark.parametrize("name", MODELS)
def test_arrays_of_other_shapes_are_refused(name):
    header, arrays = parts(name)
    for array, values in arrays.items():
        wrong = [values[None]]
        for axis in range(values.ndim if values.size else 0):
            shorter = [np.delete(values, slice(size, None), axis) for size in range(min(values.shape[axis], 300))]
            for other in (*shorter, np.concatenate([values, np.take(values, [-1], axis)], axis)):
                if array in FREE:
                    goes_on(name, {**arrays, array: other})
                else:
                    wrong.append(other)
        for other in wrong:
            with pytest.raises(StateError):
                load(name, header, {**arrays, array: other})
        without = {key: each for key, each in arrays.items() if key != array}
        if array in NEW:
            goes_on(name, without)
        else:
            with pytest.raises(StateError):
                load(name, header, without)
        goes_on(name, {**arrays, array: values.astype(np.int64 if values.dtype == np.float64 else np.float64)})


HEADERS = {
    "dimension": (-1, 10**12, True, "2", None),
    "classes": (-1, 10**9, None),
    "parameters": (None, "none", {"none": 1}),
}
OWN_HEADERS = {
    "caea": {"classes": (1,), "parameters": ({"lambda": 0},)},
    "hcaea": {"classes": (1,), "parameters": ({"lambda": 0},)},
    "modal": {"dimension": (0, 1, 3, 2.0), "parameters": ({"landmarks": 63},)},
    "evq": {
        "dimension": (3,),
        "parameters": (
            *({"max_clusters": 20, "n_sub": 10, "min_sub": 5}, {"max_clusters": 20, "mode": "evq-a"}),
            *({"max_clusters": 20, "warmup": 1000}, {"max_clusters": 2}, {"max_clusters": 20, "kmax": 99}),
        ),
    },
    "ildn": {
        "dimension": (3, 0, 2.0, 10**9),
        "parameters": (
            *({"sigma": -1}, {"sigma": 1e-3, "min_cluster_records": 8, "max_nodes": 4}),
            {"sigma": 1e-3, "min_cluster_records": 10**6},
        ),
    },
    "mlca": {
        "dimension": (7,),
        "labels": (None, ["a", "a", 1], [0, 1, True], [0, 1, 0.5], [0, 1, "x" * 1001], [0, 1], "abc"),
        "parameters": (
            *({"vigilance": 7.0}, {"lambda": 12, "k": 4, "max_nodes": 1}),
            {"lambda": 12, "k": 4, "max_labels": 1},
        ),
    },
    "mlca-buffer": {"parameters": ({"lambda": 12, "k": 4},)},
    "sa_art": {"dimension": (10**9,), "fixed": (1,), "parameters": ({"rho0": 7.0}, {"alpha": 0.5, "max_clusters": 1})},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_header_that_no_engine_writes_is_refused(name):
    header, arrays = parts(name)
    for members in (HEADERS, OWN_HEADERS.get(name, {})):
        for member in members.keys() & header.keys():
            for value in members[member]:
                with pytest.raises(StateError):
                    load(name, {**header, member: value}, arrays)
    fresh = MODELS[name][0]()
    header, arrays = unpack(fresh.state(), fresh.name, fresh.revision)
    for value in (*HEADERS["dimension"][:4], 2):
        with pytest.raises(StateError):
            load(name, {**header, "dimension": value}, arrays)


nan, inf = np.nan, np.inf
REFUSED = {
    "modal": {
        "head": {0: (0, 2**60), 1: (63,), 2: (3,), 3: (2**40,), 4: (0,), 5: (0,), 6: (1201,), 7: (1200,), 8: (0,)}
        | {9: (64, -1), 10: (63, 128), 11: (1201, -1), 12: (2, -1)},
        "dimension": {0: (nan, 3.0, 1e-300)},
        "previous": {0: (inf,)},
        "at": {(0, 0): (nan,), (5, 1): (1e151,)},
        "number": {(0, 0): (2**40,), (1, 0): (10, -2), (2, 0): (1201, -1), (3, 0): (0, 2**62), (4, 0): (2000,)},
        "real": {(0, 0): (-1.0, 1e308), (1, 0): (-0.5, nan), (2, 0): (-0.5, inf), (3, 0): (-1.0, 1e300), 3: (0.0,)}
        | {(4, 0): (-1.0, 1e300), (5, 0): (-1.0, nan), 5: (0.0,)},
        "cluster": {(0, 0): (-1,), (0, -1): (2**40,), (1, 0): (1201,), (-1, 0): (-1,)},
        "votes": {(0, 0): (-1, 1201)},
    },
    "evq": {
        "head": {0: (0, 2**54), 1: (19, 2**40), 2: (0,), 3: (-1,)},
        "number": {(0, 0): (-1, 2**40), (-1, 0): (0,), (0, 1): (0, 401), (0, 2): (400,), (0, 3): (-1,)}
        | {(0, 4): (2**40, -1), (0, 5): (0,), (..., 1): (400,)},
        "centre": {(0, 0): (nan, 1e200)},
        "cov": {(0, 0, 0): (inf, 1e305), (0, 1, 1): (-1.0,), (0, 0, 1): (1e300, -2.0)},
        "inv": {(0, 0, 0): (nan,)},
        "buffer": {(0, 0): (nan,)},
        "buffer_label": {0: (3, -2)},
        "votes": {(0, 0): (-5, 400)},
        "ranges": {(0, 0): (nan,)},
    },
    "ildn": {
        "head": {0: (0, -5, 2**53), 1: (3,), 2: (0,), 3: (-1,)},
        "nodes": {(0, 1): (0,), (0, 0): (-1,), (1, 0): (0, 2**62), (2, 0): (10**6,), 2: (1,), (3, 0): (2**40,)}
        | {3: (0, -1)},
        "centre": {(0, 0): (nan, 1e300)},
        "widest": {0: (0.0, inf, 1e305)},
        "covariance": {(0, 0): (-1.0, 1e305), (0, 1): (nan, 1e300)},
        "whitening": {(0, 0, 0): (inf,)},
        "edges": {(0, 1): (10**6,), (0, 0): (-1,), 0: (0,)},
        "labels": {(0, 0): (10**6,), (0, 1): (3,), (0, 2): (0, 600)},
    },
    "mlca": {
        "head": {0: (3,), 1: (10**9,)},
        "id": {0: (10**9,)},
        "count": {0: (0, 2**60)},
        "won": {0: (10**9,)},
        "sigma": {(0, 0): (0.0, nan, 1e300)},
        "weight": {(0, 0): (inf, 1e151)},
        "window": {(0, 0): (nan,)},
        "labels": {(0, 0): (10**6,), (0, 1): (3,), (0, 2): (0,)},
        "records": {0: (41,)},
        "having": {(0, 0): (-1, 10**9)},
        "lacking": {(0, 0): (41,)},
    },
    "mlca-buffer": {"held": {(0, 0): (nan,)}, "held_labels": {(0, 1): (3,), (0, 0): (9,)}},
    "mlca_c": {"group": {0: (6, -1, 1)}},
    "sa_art": {
        "features": {3: (40, -1), 1: (2**62,)},
        "used": {0: (2**62, -1)},
        "id": {0: (10**9, -1)},
        "size": {0: (0, 2**60)},
        "won": {0: (10**9,)},
        "head": {0: (-1,)},
        "fields": {(0, 0): (nan, 1.5), (1, 0): (-0.5,), (2, 0): (inf,), (3, 0): (0.5, 1e9)},
        "rho": {0: (2.0, nan)},
        "labels": {(0, 0): (10**6,), (0, 1): (3,), (0, 2): (0,)},
    },
}
"""What may stand in an array at a place: nothing of this."""
MOVED = [
    *(("mlca", "labels", 0), ("mlca-buffer", "held_labels", 0), ("sa_art", "id", 0), ("sa_art", "labels", 0)),
    *(("ildn", "edges", 0), ("modal", "cluster", 1)),
]
REPEATED = [("mlca", "id"), ("mlca", "won"), ("sa_art", "features"), ("sa_art", "won"), ("modal", "number")]


@pytest.mark.parametrize("name", REFUSED)
def test_numbers_that_no_model_has_are_refused(name):
    header, arrays = parts(name)
    for array, places in REFUSED[name].items():
        for at, values in places.items():
            for value in values:
                other = arrays[array].copy()
                other[at] = value
                with pytest.raises(StateError, match=r"does not hold|holds no model"):
                    load(name, header, {**arrays, array: other})


def test_what_has_an_order_is_refused_in_another_and_twice():
    for name, array, axis in MOVED:
        header, arrays = parts(name)
        with pytest.raises(StateError):
            load(name, header, {**arrays, array: np.flip(arrays[array], axis).copy()})
    for name, array in REPEATED:
        header, arrays = parts(name)
        other = arrays[array].copy()
        other.flat[1] = other.flat[0]
        with pytest.raises(StateError):
            load(name, header, {**arrays, array: other})


@pytest.mark.parametrize("name", ["caea", "hcaea"])
def test_what_does_not_fit_is_named(name):
    header, arrays = parts(name)
    integers, floats = arrays["integers"].copy(), arrays["floats"].copy()
    integers[1] = 10**6
    with pytest.raises(StateError, match=rf"{name} does not hold .* nodes of a model \(integer 1\)"):
        load(name, header, {**arrays, "integers": integers})
    floats[0] = nan
    with pytest.raises(StateError, match="no finite number"):
        load(name, header, {**arrays, "floats": floats})
    with pytest.raises(StateError, match="holds no model"):
        load(name, header, {**arrays, "floats": arrays["floats"][None]})


def test_a_tree_says_how_many_leaves_it_has():
    header, arrays = parts("hcaea")
    refused = 0
    for at in range(len(arrays["integers"])):
        integers = arrays["integers"].copy()
        integers[at] += 1
        try:
            load("hcaea", header, {**arrays, "integers": integers})
        except StateError as error:
            refused += "does not hold the tree" in str(error)
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
    state = pack("caea", engine.revision, header, {"floats": floats, "integers": integers})
    loaded = CAEA.from_state(state)
    assert loaded.state() == state
    assert [cluster.id for cluster in loaded.clusters()] == list(range(count))
    assert [float(cluster.centre[0]) for cluster in loaded.clusters()] == [2.0 * at for at in range(count)]
