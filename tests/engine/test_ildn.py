"""What ILDN does that no golden vector reaches: its formulas against slow ones, pruning, removals, states, numerics."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from resonance.engine import ILDN, ParameterError
from resonance.engine.ildn.ellipsoid import (
    add_record,
    chi_square_quantile,
    squared_distance,
    squared_distances,
    squared_radii,
)
from resonance.engine.ildn.layout import Rules, append_node, new_model, room_for
from resonance.engine.matrices import eigenvalues, set_whitening
from scipy.stats import chi2

from tests.engine.nodes import ildn_nodes
from tests.engine.plain_ildn import PlainILDN, eps
from tests.engine.streams import shifting, wandering_ring

NAMES = {"lambda": "lam"}


def both(X, **given):
    """Learn a stream with the plain program and with the engine, record by record; return both."""
    plain = PlainILDN(**{NAMES.get(name, name): value for name, value in given.items()})
    engine = ILDN.make({**given, "min_cluster_records": 1})
    for x in X:
        winner = plain.learn(x)
        step = engine.learn(x[None])
        arrays = engine.arrays()
        ids = arrays["nodes"][0]
        assert ids.tolist() == sorted(plain.nodes)
        assert {tuple(edge) for edge in ids[arrays["edges"]].tolist()} == plain.edges
        assert step.path[0, 0] == winner or (winner == -1 and step.path[0, 0] not in ids)
    return engine, plain


@pytest.mark.parametrize(
    ("X", "given"),
    [
        (shifting(600), {"sigma": 1e-3, "lambda": 100, "k": 0.5}),
        (shifting(600, d=2), {"sigma": 1e-3, "lambda": 200, "k": 0.3, "max_nodes": 15}),
        (shifting(600, d=3), {"sigma": 3e-4, "radius": "sqrt", "q": 0.95, "rho": 0.8}),
        (shifting(400, d=1), {"sigma": 1e-4, "lambda": 50, "k": 0.2}),
        (shifting(400, d=9), {"sigma": 1e-2, "rho": 1.0}),
        (np.random.default_rng(0).random((600, 2)), {"sigma": 3e-3, "lambda": 150, "k": 0.9, "max_nodes": 12}),
    ],
)
def test_every_change_of_the_network_is_that_of_the_plain_program(X, given):
    engine, plain = both(X, **given)
    nodes = ildn_nodes(engine)
    for at, i in enumerate(nodes["id"]):
        node = plain.nodes[int(i)]
        assert nodes["count"][at] == node.n
        np.testing.assert_allclose(nodes["centre"][at], node.centre, rtol=0, atol=1e-12)
        np.testing.assert_allclose(nodes["covariance"][at], node.covariance, rtol=0, atol=1e-12)
        np.testing.assert_allclose(nodes["radius"][at] ** 2, plain.squared_radius(node.n, X.shape[1]), rtol=1e-12)


@pytest.mark.parametrize(("smallest", "n"), [(1, 300), (8, 1200)])
def test_clusters_are_the_components_and_every_change_of_them_is_reported_once(smallest, n):
    """A cluster goes on as its part with the most records, and into the oldest that it is joined with."""
    X = wandering_ring(n)
    given = {"sigma": 1e-3, "k": 0.6, "max_nodes": 10}
    plain = PlainILDN(lam=100, **given)
    engine = ILDN(lambda_=100, min_cluster_records=smallest, **given)
    members = {}
    text = set()
    following = 0
    for x in X:
        expected = answer(plain, members, x)
        plain.learn(x)
        step = engine.learn(x[None])
        assert step.cluster[0, 0] == expected[0]
        np.testing.assert_allclose(step.score[0], expected[1], rtol=1e-9)
        records = {i: node.n for i, node in plain.nodes.items()}
        parts = [part for part in plain.components() if sum(records[i] for i in part) >= smallest]
        present = set(members)
        nodes, members = ildn_nodes(engine), {c.id: set() for c in engine.clusters()}
        for i, c in zip(nodes["id"].tolist(), nodes["cluster"].tolist(), strict=True):
            if c >= 0:
                members[c].add(i)
        assert sorted(map(sorted, members.values())) == sorted(parts)
        for e in step.events:
            text.add((e.kind, e.reason.criterion))
            assert {c.id for c in e.before} <= present
            present ^= {e.cluster}
            if e.kind in ("emerged", "split"):
                assert e.cluster == following
                following += 1
            if e.kind == "absorbed":
                assert e.other == min(c.id for c in e.before)
                assert sum(c.size for c in e.before) <= e.after[0].size
                assert 0 <= e.reason.value < e.reason.threshold == 1.0
            if e.kind == "split":
                kept, new = e.after
                assert (kept.id, new.id) == (e.other, e.cluster)
                assert kept.size >= new.size >= smallest
            if e.reason.criterion == "denoising":
                assert e.reason.value < e.reason.threshold
            if e.reason.criterion == "max_nodes":
                assert e.reason.value == 11 > e.reason.threshold == 10
        for c in engine.clusters():
            check_description(c, [plain.nodes[i] for i in members[c.id]])
    if smallest == 1:
        return
    assert {kind for kind, _ in text} == {"emerged", "absorbed", "split", "vanished"}
    assert {why for _, why in text} == {"min_cluster_records", "distance", "denoising", "max_nodes"}


def answer(plain, members, x):
    """Cluster of the nearest node that has one, by distance in radii, if it is within three; and the score."""
    found = [
        (plain.nodes[i].squared_distance(x) / plain.squared_radius(plain.nodes[i].n, len(x)), i, c)
        for c, nodes in members.items()
        for i in nodes
    ]
    if not found:
        return -1, np.nan
    ratio, _, cluster = min(found)
    return cluster if ratio <= 9 else -1, 1 / (1 + ratio)


def check_description(c, nodes):
    n = np.array([node.n for node in nodes])
    mean = np.average([node.centre for node in nodes], axis=0, weights=n)
    squares = [np.diag(node.covariance) + (node.centre - mean) ** 2 for node in nodes]
    assert (c.size, c.nodes) == (n.sum(), len(nodes))
    np.testing.assert_allclose(c.centre, mean, atol=1e-12)
    np.testing.assert_allclose(c.spread, np.sqrt(np.average(squares, axis=0, weights=n)), atol=1e-12)


def exact_distances(X, sigma, Q):
    """Squared Mahalanobis distances of Q from the node of all X, in decimal arithmetic of 50 digits."""
    n, d = X.shape
    with localcontext() as context:
        context.prec = 50
        rows = [[Decimal(value) for value in x] for x in X.tolist()]
        mean = [sum(column) / n for column in zip(*rows, strict=True)]
        columns = [[value - m for value in column] for column, m in zip(zip(*rows, strict=True), mean, strict=True)]
        factor = []
        for i in range(d):
            factor.append([])
            for j in range(i + 1):
                value = sum(a * b for a, b in zip(columns[i], columns[j], strict=True)) / n
                value += Decimal(sigma) / n if i == j else 0
                value -= sum(factor[i][k] * factor[j][k] for k in range(j))
                factor[i].append(value.sqrt() if i == j else value / factor[j][j])
        distances = []
        for q in Q.tolist():
            y = []
            for i in range(d):
                y.append((Decimal(q[i]) - mean[i] - sum(factor[i][k] * y[k] for k in range(i))) / factor[i][i])
            distances.append(float(sum(value * value for value in y)))
    return np.array(distances)


def one_node(X, sigma):
    """A model whose only node has learned all of X, and what a distance from it needs."""
    d = X.shape[1]
    radii = np.full(800, 1e300)
    rules = Rules(d, -(-d // 8) * 8, sigma, 0.0, 1000, 0.95, 25, 1000, 0, radii)
    model = new_model(d, 16, 2, 16, 0)
    room = room_for(model, rules)
    append_node(model, rules, X[0])
    for x in X[1:]:
        add_record(model, rules, 0, x, room)
    return model, rules, room


def distances(model, rules, room, Q):
    found = []
    for q in Q:
        squared_distances(model.centre, 1, q, room.squares)
        found.append(squared_distance(model, rules, 0, q, room.squares, room))
    return np.array(found)


def test_distances_stay_sound_in_64_dimensions_at_a_condition_of_1e9():
    rng = np.random.default_rng(64)
    turn = np.linalg.qr(rng.normal(size=(64, 64)))[0]
    wide = (10.0 ** -np.linspace(0, 4.5, 64))[:, None] * turn.T
    X, Q, sigma = rng.normal(size=(400, 64)) @ wide, rng.normal(size=(5, 64)) @ wide, 1e-9
    model, rules, room = one_node(X, sigma)
    covariance = model.covariance[model.slot[0]]
    assert np.linalg.cond(covariance[:, :64]) > 1e9
    expected = exact_distances(X, sigma, Q)
    np.testing.assert_allclose(distances(model, rules, room, Q), expected, rtol=1e-10)
    # After a merge W comes from the covariance, whose own rounding is seen through the condition.
    set_whitening(covariance, 64, 64, sigma / 400, room.work, model.whitening[model.slot[0]])
    np.testing.assert_allclose(distances(model, rules, room, Q), expected, rtol=1e-6)


def test_whitening_keeps_in_step_with_the_covariance_over_many_records():
    X = np.random.default_rng(0).normal(size=(30_000, 3)) * [1.0, 1e-2, 1e-4]
    model, *_ = one_node(X, 1e-9)
    slot = model.slot[0]
    W, M = model.whitening[slot][:, :3].T, model.covariance[slot][:, :3]
    np.testing.assert_allclose(W @ M @ W.T, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(M, np.cov(X.T, bias=True) + 1e-9 / len(X) * np.eye(3), rtol=1e-9, atol=1e-15)
    assert model.widest[0] >= np.linalg.eigvalsh(M).max()


def test_a_constant_feature_and_duplicates_never_make_a_node_singular():
    X = np.random.default_rng(0).normal(size=(2000, 3)) * 0.01
    X[:, 1] = 0.5
    engine = ILDN(sigma=1e-3)
    engine.learn(np.repeat(X, 2, axis=0))
    for covariance in ildn_nodes(engine)["covariance"]:
        assert np.linalg.eigvalsh(covariance).min() > 0
    assert np.isfinite(engine.predict(X).score).all()


@pytest.mark.parametrize("d", [1, 2, 3, 8, 19, 64])
def test_eigenvalues_are_those_of_the_library(d):
    rng = np.random.default_rng(d)
    lanes = -(-d // 8) * 8
    for spread in (0, 4, 12):
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
        matrix = (turn * 10.0 ** -rng.uniform(0, spread, d)) @ turn.T
        matrix = (matrix + matrix.T) / 2
        padded, out = np.zeros((d, lanes)), np.empty(lanes)
        padded[:, :d] = matrix
        eigenvalues(padded, d, lanes, 1e-14, np.empty((d, lanes)), *np.empty((3, lanes)), out)
        expected = np.linalg.eigvalsh(matrix)[::-1]
        np.testing.assert_allclose(out[:d], expected, rtol=0, atol=1e-14 * expected[0])
        assert (out[:d] > 0).all()


@pytest.mark.parametrize("beside", [1e-130, 1e-150, 1e-155, 1e-160, 1e-165])
def test_eigenvalues_stay_numbers_beside_elements_whose_squares_are_none(beside):
    """Features that are almost 0, beside a founder's variance: what they have in common is next to nothing."""
    for d in (3, 5):
        padded, out, wanted = np.zeros((d, 8)), np.empty(8), np.arange(d, 0.0, -1.0)
        padded[:, :d] = np.diag(wanted[::-1]) + beside * (np.ones((d, d)) - np.eye(d))
        eigenvalues(padded, d, 8, 1e-14, np.empty((d, 8)), *np.empty((3, 8)), out)
        np.testing.assert_allclose(out[:d], wanted, rtol=1e-14)


def test_radii_are_quantiles_of_chi_square_that_shrink_with_the_records():
    for q in (1e-3, 0.5, 0.9, 0.95, 0.9999):
        for d in (1, 2, 3, 19, 64, 255, 256):
            assert chi_square_quantile(q, d) == pytest.approx(chi2.ppf(q, d), rel=1e-12)
    for radius, power in (("sq", 1), ("sqrt", 2)):
        radii = squared_radii(0.9, 4, radius)
        np.testing.assert_allclose(radii, [eps(n + 1) ** power * chi2.ppf(0.9, 4) for n in range(len(radii))])
        assert radii[-1] == chi_square_quantile(0.9, 4)


def test_a_share_so_small_that_no_radius_is_left_is_refused():
    assert chi_square_quantile(1e-200, 1) == 0.0
    with pytest.raises(ParameterError, match=r"q = 1e-200: must be a number of at least 0\.01 and below 1"):
        ILDN(q=1e-200)


def trained():
    engine = ILDN(sigma=1e-3, min_cluster_records=8)
    engine.learn(wandering_ring(600), np.arange(600) % 3)
    assert len(ildn_nodes(engine)["edges"]) > 2
    return engine


def test_a_model_says_how_many_records_it_has_learned_and_which_nodes_are_in_clusters():
    engine = ILDN()
    assert engine.models() == {}
    engine = trained()
    (facts,) = engine.models().values()
    assert facts.records == 600
    nodes = ildn_nodes(engine)
    clustered = nodes["cluster"] >= 0
    assert list(facts.cluster_of.items()) == list(
        zip(nodes["id"][clustered].tolist(), nodes["cluster"][clustered].tolist(), strict=True)
    )
