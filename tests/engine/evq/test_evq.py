"""What the eVQ family does beyond what every engine keeps: merges, splits, consolidation, and labels."""

import math
from fractions import Fraction

import numpy as np
import pytest
from resonance.engine import EVQ, ParameterError
from resonance.engine.state import pack, unpack

from tests.engine.streams import shifting


def two_blobs(n=600, gap=1.0, seed=0):
    rng = np.random.default_rng(seed)
    own = np.arange(n) % 2
    return rng.normal(size=(n, 2)) * 0.05 + own[:, None] * gap, own


def halves(n=300):
    """A stream that comes as two neighbouring ends first, then as what lies between: two clusters that are one."""
    rng = np.random.default_rng(4)
    ends = np.where(np.arange(60)[:, None] % 2 == 0, [0.35, 0.5], [0.65, 0.5]) + rng.normal(size=(60, 2)) * 0.01
    return np.concatenate([ends, [0.5, 0.5] + rng.normal(size=(n, 2)) * [0.12, 0.05]])


def test_a_split_tells_separation_components_and_bic():
    step = EVQ(low=0.0, high=1.0).learn(two_blobs()[0])
    (split,) = [e for e in step.events if e.kind == "split"]
    assert split.reason.criterion == "separation"
    assert split.reason.value > split.reason.threshold == 2.57
    assert split.reason.further["bic_gain"] > split.reason.further["bic_margin"] == 10.0
    assert split.reason.further["components"] >= 2
    (parent,), (stays, new) = split.before, split.after
    assert (parent.id, stays.id, new.id) == (split.other, split.other, split.cluster)
    assert stays.size + new.size == parent.size
    assert stays.size >= new.size


def test_a_merge_tells_overlap_and_volume_and_the_older_id_survives():
    model = EVQ(mode="evq-am", low=0.0, high=1.0, sig0=0.03, fac=1.2, consolidate_every=len(halves()))
    events = model.learn(halves()).events
    merges = [e for e in events if e.kind == "absorbed"]
    assert merges
    for e in merges:
        assert e.cluster > e.other
        assert e.reason.criterion == "overlap"
        assert e.reason.value > e.reason.threshold == 0.0
        assert 0.0 < e.reason.further["volume_ratio"] <= e.reason.further["volume_limit"] == 2.0
        assert e.after[0].size == sum(cluster.size for cluster in e.before)
        assert e.after[0].id == e.other


def test_consolidation_comes_at_its_record_whatever_the_batch():
    X = halves()
    model = EVQ(mode="evq-am", low=0.0, high=1.0, sig0=0.03, fac=1.2, check_every=10**6, consolidate_every=200)
    merges = [e.index for e in model.learn(X).events if e.kind == "absorbed"]
    assert merges
    assert set(merges) == {199}


def test_the_first_warm_up_records_wait_and_are_then_learned_in_order():
    X, own = two_blobs(100)
    model = EVQ(warmup=30)
    step = model.learn(X[:29], own[:29])
    assert (step.path == -1).all()
    assert not step.events
    assert model.clusters() == []
    step = EVQ.from_state(model.state()).learn(X[29:30], own[29:30])
    assert step.path[0, 0] >= 0
    assert step.cluster[0, 0] == -1
    assert {e.index for e in step.events} == {0}


def test_score_is_one_half_on_the_border():
    model = EVQ(mode="evq-a", low=0.0, high=1.0)
    model.learn(np.random.default_rng(0).normal(size=(200, 2)) * 0.05 + 0.5)
    found = model.arrays()
    centre, root = found["centre"][0], np.linalg.cholesky(found["cov"][0])
    border = centre + root @ np.array([0.6, -0.8]) * model._model.radius[model._model.slot[0]]
    answer = model.predict(np.array([centre, border, centre + 1.0001 * (border - centre)]))
    np.testing.assert_allclose(answer.score, [1.0, 0.5, 0.5], atol=1e-4)
    assert answer.cluster[[0, 2], 0].tolist() == [0, -1]


def test_labels_follow_their_records_into_the_parts():
    X, own = two_blobs()
    model = EVQ(low=0.0, high=1.0)
    model.learn(X, own)
    assert len(model.clusters()) == 2
    assert (model.predict(X).label == own).all()


def votes_of(model):
    """Return votes and support of the present clusters, by id."""
    _, arrays = unpack(model.state(), "evq", EVQ.revision)
    return arrays["votes"], arrays["number"][:, 1]


def plain_share(votes, labels, stays, support):
    """Return the votes of the part that keeps its id: of each label what the buffer says, rounded half up."""
    shares = []
    for label, count in enumerate(votes.tolist()):
        sides = [side for side, own in zip(stays, labels, strict=True) if own == label] or stays
        share = math.floor(Fraction(count * sum(sides), len(sides)) + Fraction(1, 2))
        shares.append(min(max(share, count - support[1]), support[0]))
    return shares


def with_votes(model, votes):
    """Return a model whose only cluster has other votes."""
    header, arrays = unpack(model.state(), "evq", EVQ.revision)
    return EVQ.from_state(pack("evq", EVQ.revision, header, {**arrays, "votes": np.array([votes])}))


@pytest.mark.parametrize("votes", [None, [0, 0, 0], [49, 0, 0], [0, 49, 0], [0, 0, 49], [7, 11, 13], [1, 1, 1]])
@pytest.mark.parametrize("labels", ["own", "shuffled", "few", "drifted"])
def test_a_split_shares_the_votes_as_its_buffer_says_and_loses_none(votes, labels):
    X, own = two_blobs(50, gap=0.5)
    rng = np.random.default_rng(1)
    marks = {
        "own": own,
        "shuffled": rng.integers(0, 2, size=50),
        "few": np.where(rng.random(50) < 0.1, own, -1),
        # All that had label 0 lately lie on one side.
        "drifted": np.where(own == 0, 0, -1),
    }[labels]
    model = EVQ(low=0.0, high=1.0, min_sub=50, check_every=50)
    model.learn(X[:49], np.append(marks[:48], 2))
    if votes is not None:
        model = with_votes(model, votes)
    (before,), _ = votes_of(model)
    held = unpack(model.state(), "evq", EVQ.revision)[1]["buffer_label"].tolist()
    step = model.learn(X[49:], marks[49:])
    (split,) = [e for e in step.events if e.kind == "split"]
    whole = before.copy()
    if marks[49] >= 0:
        whole[marks[49]] += 1
    (first, second), support = votes_of(model)
    stays = [bool(side == (own[0] if split.after[0].centre[0] < 0.25 else own[1])) for side in own]
    assert (first + second).tolist() == whole.tolist()
    assert first.tolist() == plain_share(whole, [*held, int(marks[49])], stays, support.tolist())
    assert EVQ.from_state(model.state()).state() == model.state()


def test_no_label_is_lost_on_a_long_stream_of_merges_and_splits():
    X = shifting(2500)
    model = EVQ()
    kinds = {e.kind for e in model.learn(X, np.arange(2500) % 3).events}
    assert {"split", "absorbed"} <= kinds
    votes, support = votes_of(model)
    assert votes.sum() == support.sum() == 2500


def test_rescaled_and_moved_features_give_the_same_clusters():
    X = shifting(1200, d=3)
    plain, scaled = EVQ(), EVQ()
    ids = plain.learn(X).path
    np.testing.assert_array_equal(scaled.learn(X * [1e-6, 1e4, 8.0] + [0.0, 5.0, -1e3]).path, ids)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_sub": 301}, "min_sub = 301: must be at most n_sub = 300"),
        ({"low": 0.0}, "high = None: must be given too"),
        ({"low": 1.0, "high": 1.0}, "high = 1.0: must be above low = 1.0"),
        ({"ranges": "given"}, "ranges = 'given': must be with low and high"),
        ({"ranges": "running", "low": 0, "high": 1}, "ranges = 'running': must be without low and high"),
    ],
)
def test_parameters_that_do_not_fit_each_other_are_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        EVQ(**given)


@pytest.mark.parametrize("given", [{"fac": 1e-200}, {"mode": "evq", "vig": 1e-200}])
def test_radii_whose_squares_are_none_are_refused(given):
    with pytest.raises(ParameterError, match="= 1e-200: must be a number of at least"):
        EVQ(**given)
    (name,) = {"fac", "vig"} & set(given)
    engine = EVQ(**{**given, name: 1e-6, "warmup": 1})
    assert engine.learn(np.ones((9, 1))).score[1:].tolist() == [1.0] * 8
