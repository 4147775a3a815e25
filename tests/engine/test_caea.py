"""CAEA on streams that do not end, and against one that is written from its description in plain numpy."""

import numpy as np
import pytest
from resonance.engine import CAEA, HCAEA, ILDN, StateError
from resonance.engine.caea import faults
from resonance.engine.caea.model import NEXT_ID

from tests.engine.nodes import caea_nodes
from tests.engine.plain_caea import PlainCAEA
from tests.engine.streams import shifting
from tests.night import at_night


def blobs(n, clusters=3, d=4, seed=0, spread=0.04):
    """Return records around centres in the unit cube, and which."""
    rng = np.random.default_rng(seed)
    centres = rng.random((clusters, d))
    y = rng.integers(clusters, size=n)
    return centres[y] + rng.normal(size=(n, d)) * spread, y


def idle(n):
    X, _ = blobs(n)
    X[:60] = X[0]
    return X


def grown(n):
    X, _ = blobs(n)
    X[n // 2 :] *= 10
    return X


STREAMS = {
    "shifting": shifting(1500),
    "idle at first": idle(1500),
    "grown": grown(1200),
    "wide": np.random.default_rng(1).normal(size=(1500, 3)),
    "constants": np.hstack([blobs(900)[0], np.full((900, 5), 0.3), np.zeros((900, 1))]),
    "rounded": np.round(blobs(1500)[0], 1),
    "few values": np.random.default_rng(2).integers(3, size=(800, 2)).astype(float),
    "constant": np.full((300, 2), 0.3),
}


GIVEN = {
    "defaults": {},
    "expiring": {"expire_records": 300, "min_cluster_records": 5},
    "affinity": {"reading": "affinity", "bandwidth": "all"},
}
# Equal distances, which sums in another order tell apart, decide on rounded records by the paper's bandwidth.
CASES = [(name, given) for name in STREAMS for given in GIVEN if (name, given) != ("rounded", "affinity")]
# Each stream with the defaults, and all parameters with streams whose clusters come and go or lie at equal distances.
DAILY = ("shifting", "constants", "few values")
AT_NIGHT = [(name, given) for name, given in CASES if given != "defaults" and name not in DAILY]


@pytest.mark.parametrize(("name", "given"), [at_night(*each) if each in AT_NIGHT else each for each in CASES])
def test_answers_events_and_nodes_are_those_of_the_plain_program(name, given):
    X, given = STREAMS[name], GIVEN[given]
    plain = PlainCAEA(**given)
    answers = [plain.learn(x) for x in X]
    model = CAEA(**given)
    step = model.learn(X)
    np.testing.assert_array_equal(step.novel, [answer.novel for answer in answers])
    np.testing.assert_array_equal(step.path[:, 0], [answer.node for answer in answers])
    np.testing.assert_array_equal(step.cluster[:, 0], [answer.cluster for answer in answers])
    events = [(e.index + 1, e.kind, e.cluster, -1 if e.other is None else e.other) for e in step.events]
    assert events == plain.events
    nodes = caea_nodes(model)
    np.testing.assert_array_equal(nodes["id"], plain.ids)
    np.testing.assert_allclose(nodes["sigma"], plain.sigma, rtol=1e-9)
    np.testing.assert_allclose(nodes["threshold"], plain.V, rtol=1e-9, atol=1e-12)
    if given.get("reading", "valley") == "valley":
        np.testing.assert_array_equal(nodes["hits"], plain.hits)
    np.testing.assert_array_equal(nodes["since"], plain.since)


@pytest.mark.parametrize("d", [2, 4, 8])
def test_one_cloud_is_one_cluster(d):
    X = np.random.default_rng(d).normal(size=(12_000, d)) * 0.15 + 0.5
    model = CAEA()
    model.learn(X[:4000])
    step = model.learn(X[4000:])
    assert len(model.clusters()) == 1
    assert len(step.events) <= 20
    assert np.mean(step.cluster[:, 0] == model.clusters()[0].id) > 0.9


def test_a_cluster_that_gets_no_more_records_vanishes_and_says_so():
    X, y = blobs(16_000)
    for make in (CAEA, HCAEA, ILDN):
        model = make(expire_records=2000)
        model.learn(X[:3000])
        assert len([c for c in model.clusters() if c.path == ()]) == 3
        step = model.learn(X[3000:][y[3000:] < 2])
        (gone,) = (e for e in step.events if e.path == () and e.kind == "vanished")
        assert make is not ILDN or gone.reason.criterion == "expire_records"
        assert len([c for c in model.clusters() if c.path == ()]) == 2


def test_nodes_that_no_record_comes_to_go_and_their_number_settles():
    X = np.random.default_rng(0).normal(size=(30_000, 4))
    found = {}
    for expire in (0, 1000):
        model, nodes = CAEA(expire_records=expire), []
        for at in range(0, len(X), 5000):
            model.learn(X[at : at + 5000])
            nodes.append(model._model.nodes)
        found[expire] = nodes
    assert found[0][-1] > 1.3 * found[0][1]
    assert found[1000][-1] < 1.15 * found[1000][1]


@pytest.mark.parametrize("value", [0.0, 0.3, 1e9])
@pytest.mark.parametrize("count", [5, 40])
def test_features_that_never_change_change_nothing(count, value):
    X, y = blobs(3000)
    model = CAEA()
    step = model.learn(np.hstack([X, np.full((len(X), count), value)]))
    assert len(model.clusters()) == 3
    assert step.novel[1500:].mean() < 0.5
    pairs = set(zip(step.cluster[1500:, 0].tolist(), y[1500:].tolist(), strict=True))
    assert len(pairs) == 3


@pytest.mark.parametrize("first", [25, 60, 500])
def test_equal_records_at_first_do_not_set_the_threshold_for_ever(first):
    X, y = blobs(6000)
    X[:first] = X[0]
    model = CAEA()
    step = model.learn(X)
    late = slice(4000, None)
    assert step.novel[late].mean() < 0.2
    assert len(set(zip(step.cluster[late, 0].tolist(), y[late].tolist(), strict=True))) == 3


def test_values_of_another_size_are_learned_anew():
    X, y = blobs(9000)
    X[3000:] *= 10
    model = CAEA()
    step = model.learn(X)
    late = slice(6000, None)
    assert step.novel[late].mean() < 0.2
    assert len(set(zip(step.cluster[late, 0].tolist(), y[late].tolist(), strict=True))) == 3
    stuck = CAEA(renew=0).learn(X)
    assert stuck.novel[late].mean() > step.novel[late].mean()


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (NEXT_ID, "next_id of a model"),
        (faults.CUT, "the end of a model"),
        (faults.NUMBER, "a weight, bandwidth or record that is no finite number"),
        (faults.KEPT, "the records that a node keeps"),
        (faults.REST, "what is left behind the last model"),
    ],
)
def test_a_fault_is_named_with_its_place(code, what):
    text = f"the state of caea does not hold what it says it holds: {what} \\(integer 7\\)"
    with pytest.raises(StateError, match=text):
        faults.check_fault("caea", code, 7)
    faults.check_fault("caea", faults.FITS, 7)
