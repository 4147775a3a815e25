"""Modal: against its plain version, and what it is for."""

import numpy as np
import pytest
from resonance.engine import Modal
from resonance.engine.modal import engine
from resonance.engine.modal.learn import leaving_landmark
from resonance.engine.modal.nearest import list_all
from sklearn.metrics import adjusted_rand_score

from tests.engine.plain_modal import PlainModal
from tests.engine.streams import clouds, shifting
from tests.night import seeds, some_at_night

SMALL = {"landmarks": 64, "max_landmarks": 256, "memory": 300, "min_cluster_records": 5, "expire_records": 500}
"""A model in which landmarks are replaced, clusters expire and the past fades within a thousand records."""


def gaussian(n, d=2, seed=0, centre=0.0, width=1.0):
    return np.random.default_rng(seed).normal(size=(n, d)) * width + centre


def ring(n, radius, seed=0):
    rng = np.random.default_rng(seed)
    angle = rng.random(n) * 2 * np.pi
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) * radius + rng.normal(size=(n, 2)) * 0.04


def mixed(seed, *parts):
    """Return the records of some parts in random order, and the part of each."""
    order = np.random.default_rng(seed).permutation(sum(map(len, parts)))
    return np.concatenate(parts)[order], np.repeat(np.arange(len(parts)), [len(part) for part in parts])[order]


def noisy(n, d, seed):
    """A shifting stream, a sixth of which lies anywhere, on an integer grid."""
    rng = np.random.default_rng(seed)
    anywhere = rng.random((n, 1)) < 1 / 6
    return np.round(np.where(anywhere, rng.random((n, d)) * 2, shifting(n, d, seed)) * 200)


def waves(n):
    """A place that goes round and round, jumps now and then, and goes elsewhere for good at the end."""
    t = np.arange(n)
    angle, far = 2 * np.pi * t / 180, np.maximum(0.0, t - 0.7 * n) * 0.01
    at = np.stack([np.cos(angle) + far + 3.5 * (t // 700 % 2), np.sin(angle)], axis=1)
    return at + gaussian(n, width=0.1)


def walk(n, d, seed, keep=0.995):
    """A Gaussian process of variance 1 that forgets slowly."""
    steps, X = np.random.default_rng(seed).normal(size=(n, d)), np.zeros((n, d))
    for t in range(1, n):
        X[t] = keep * X[t - 1] + np.sqrt(1 - keep * keep) * steps[t]
    return X


STREAMS = {
    "grid": (np.round(shifting(3000) * 100), SMALL),
    "coarse": (np.round(shifting(3000, d=2, seed=0) * 40), {**SMALL, "landmarks": 128}),
    "noisy": (noisy(4000, 3, 5), {**SMALL, "doubt": 100.0, "valley": 0.1}),
    "floats": (shifting(2500, d=5, seed=2), {**SMALL, "landmarks": 100, "neighbours": 6}),
    "one place first": (np.concatenate([gaussian(17, 2), shifting(2000, d=2, seed=6) + 9.0]), SMALL),
    "every record three times": (np.repeat(shifting(900, d=3, seed=7), 3, axis=0), SMALL),
    "clouds that touch": (
        clouds(2000, 4, 20, 0.06, 3),
        {**SMALL, "landmarks": 256, "memory": 800},
    ),
    "many clouds": (clouds(4000, 4, 40, 0.02, 3), {**SMALL, "memory": 400, "max_landmarks": 512}),
    "many clouds in halves": (
        clouds(6000, 5, 44, 0.03, 3) + 0.13 * (np.random.default_rng(9).random((6000, 1)) < 0.5) * np.eye(1, 5),
        {**SMALL, "landmarks": 256, "memory": 600, "max_landmarks": 1024, "min_cluster_records": 4},
    ),
    "many clouds, then two": (
        np.concatenate([clouds(2000, 4, 40, 0.02, 3), clouds(4000, 4, 2, 0.02, 3)]),
        {**SMALL, "memory": 400, "max_landmarks": 512, "expire_records": 800},
    ),
    "in waves": (waves(4000), {**SMALL, "landmarks": 128, "memory": 600}),
    "a walk": (walk(3000, 2, 8) + 4.0 * (np.arange(3000) // 600 % 2)[:, None], {**SMALL, "memory": 800}),
    "one-dimensional": (shifting(2000, d=1, seed=4), {**SMALL, "neighbours": 14, "reach": 1.5}),
}
# What the plain version does with them it does with the others as well.
AT_NIGHT = ("coarse", "many clouds", "many clouds in halves", "in waves")


def described(shapes):
    return [(c.size, c.nodes, c.centre, c.spread) for c in shapes]


@pytest.mark.parametrize("name", some_at_night(STREAMS, AT_NIGHT))
def test_the_kernels_do_what_is_written_plainly(name):
    X, given = STREAMS[name]
    plain, model = PlainModal(given), Modal(**given)
    learned = [(plain.learn(x), plain.outside) for x in X]
    answers = [np.array(column) for column in zip(*(answer for answer, _ in learned), strict=True)]
    step = model.learn(X)
    for named, (_, expected) in zip(step.outside, learned, strict=True):
        np.testing.assert_allclose(named[~np.isnan(named[:, 0])].ravel(), np.ravel(expected), 1e-9, 1e-12)
    np.testing.assert_array_equal(step.cluster[:, 0], answers[0])
    np.testing.assert_allclose(step.score, answers[1].astype(float), rtol=1e-12)
    np.testing.assert_array_equal(step.novel, answers[2])
    np.testing.assert_array_equal(step.path[:, 0], answers[3])
    # It has replaced landmarks, and has seen clusters come and go.
    assert plain.next_id > 2 * plain.p.landmarks
    assert len(plain.events) > 3
    assert len(step.events) == len(plain.events)
    for event, (index, kind, cluster, other, why, before, after) in zip(step.events, plain.events, strict=True):
        assert (event.index, event.kind, event.cluster, event.other) == (index, kind, cluster, other)
        assert (None if event.reason is None else event.reason.criterion) == (None if why is None else why[0])
        if why:
            np.testing.assert_allclose([event.reason.value, event.reason.threshold], why[1:], rtol=1e-12)
        for ours, theirs in ((event.before, before), (event.after, after)):
            for shape, expected in zip(described(ours), theirs, strict=True):
                assert shape[:2] == expected[:2]
                np.testing.assert_allclose(shape[2], expected[2], rtol=1e-12)
                np.testing.assert_allclose(shape[3], expected[3], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", seeds(2, night=4))
def test_the_lists_of_neighbours_are_those_that_a_restored_model_makes(seed):
    # One more record than a list holds in one place, all others elsewhere: the first ones make room one by one.
    X = np.concatenate([gaussian(17, 2, seed), gaussian(400, 2, seed + 10, centre=50.0)])
    model = Modal(**SMALL)
    for record in X:
        model.learn(record[None])
        restored = Modal.from_state(model.state())._model
        list_all(restored, np.empty(len(restored.listed)))
        lists = (restored.listed, model._model.listed)
        restored, own = (each[: model._model.landmarks, : model._rules.neighbours] for each in lists)
        np.testing.assert_array_equal(own, restored)


def test_a_model_from_a_state_lists_neighbours_with_its_first_record(monkeypatch):
    listed = []
    monkeypatch.setattr(engine, "list_all", lambda model, room: listed.append(model) or list_all(model, room))
    model = Modal(**SMALL)
    model.learn(gaussian(500))
    listed.clear()
    restored = Modal.from_state(model.state())
    assert restored.state() == model.state()
    assert len(restored.clusters()) == len(model.clusters())
    restored.predict(gaussian(5))
    assert not listed
    for _ in range(2):
        np.testing.assert_array_equal(restored.learn(gaussian(50)).path, model.learn(gaussian(50)).path)
        assert len(listed) == 1
    assert restored.state() == model.state()


def test_a_landmark_makes_room_though_every_one_is_the_last_of_its_cluster():
    model = Modal(landmarks=64)
    model.learn(gaussian(200))
    held, rules = model._model, model._rules
    held.place[:64] = np.arange(64)
    held.last[:64] = 200 - np.arange(64)[::-1]
    held.nodes[:64], held.records[:64] = 1, 3
    held.clusters, held.loose = 64, 0
    assert leaving_landmark(held, rules, -1) == 0


@pytest.mark.parametrize("d", [2, 8, 16, 32])
@pytest.mark.parametrize("seed", seeds(1, night=2))
def test_a_gaussian_is_one_cluster_and_stays_one(d, seed):
    model = Modal()
    model.learn(gaussian(20_000, d, seed))
    step = model.learn(gaussian(20_000, d, seed + 100))
    assert not step.events
    assert len(model.clusters()) == 1
    assert step.novel.mean() < 0.02
    assert (step.cluster >= 0).mean() > 0.98


def test_a_ring_around_a_ring_is_another_cluster():
    X, truth = mixed(1, ring(20_000, 1.0), ring(20_000, 0.5, seed=1))
    model = Modal()
    model.learn(X)
    answer = model.predict(X).cluster[:, 0]
    assert len(model.clusters()) == 2
    for part in (0, 1):
        found, count = np.unique(answer[truth == part], return_counts=True)
        assert count.max() > 0.97 * count.sum(), found


def test_moons_are_in_few_pieces_before_they_have_many_records():
    agreement = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth, angle = rng.integers(2, size=6000), np.pi * rng.random(6000)
        side = 1 - 2 * truth
        X = np.column_stack((truth + side * np.cos(angle), 0.5 * truth + side * np.sin(angle)))
        found = Modal().learn(X + 0.06 * rng.normal(size=X.shape)).cluster[3000:, 0]
        agreement.append(adjusted_rand_score(truth[3000:], found))
    assert np.mean(agreement) > 0.6, agreement


@pytest.mark.parametrize("seed", [0, 1])
def test_a_rare_cluster_keeps_its_id_although_its_past_fades(seed):
    X, truth = mixed(seed, gaussian(39_840, 3, seed), gaussian(160, 3, seed + 10, centre=9.0, width=0.5))
    model = Modal()
    step = model.learn(X)
    few = step.cluster[truth == 1, 0]
    assert "vanished" not in {event.kind for event in step.events}
    assert len(set(few[few >= 0])) == 1


def test_one_record_in_a_hundred_makes_a_cluster():
    X, truth = mixed(2, gaussian(19_800, 2, 0), gaussian(200, 2, 1, centre=8.0, width=0.5))
    model = Modal()
    step = model.learn(X)
    assert len(model.clusters()) == 2
    late = np.arange(len(X)) > len(X) // 2
    few = step.cluster[late & (truth == 1), 0]
    assert (few == few[-1]).mean() > 0.9
    assert few[-1] != step.cluster[late & (truth == 0), 0][-1]


def test_an_outlier_is_in_no_cluster_and_unlike_all_others():
    model = Modal()
    model.learn(gaussian(5000, 3))
    far = np.array([[50.0, 0.0, 0.0], [0.0, -1e6, 0.0]])
    wanted, step = model.predict(far), model.learn(far)
    for answer in (wanted, step):
        assert (answer.cluster == -1).all()
        assert (answer.score < 0.5).all()
    assert step.novel.all()
    assert model.predict(np.zeros((1, 3))).score > 0.5


def test_a_cluster_without_records_vanishes_once():
    given = {"landmarks": 128, "memory": 1000, "expire_records": 2000}
    model = Modal(**given)
    both, _ = mixed(0, gaussian(2000, 2, 0), gaussian(2000, 2, 1, centre=20.0))
    model.learn(both)
    known = {c.id for c in model.clusters()}
    assert len(known) == 2
    gone = model.predict(np.full((1, 2), 20.0)).cluster[0, 0]
    step = model.learn(gaussian(8000, 2, 2))
    last = [event for event in step.events if event.cluster == gone]
    assert [event.kind for event in last] == ["vanished"]
    (shape,) = last[0].before
    assert shape.id == gone
    assert shape.size > 0
    assert shape.nodes > 0
    np.testing.assert_allclose(shape.centre, 20.0, atol=1.0)
    assert last[0].index >= 1000
    assert {c.id for c in model.clusters()} == known - {gone}
    assert model.predict(np.full((1, 2), 20.0)).cluster[0, 0] == -1


def test_a_cluster_that_returns_in_time_keeps_its_id():
    model = Modal(expire_records=20_000)
    both, _ = mixed(0, gaussian(4000, 2, 0), gaussian(4000, 2, 1, centre=20.0))
    model.learn(both)
    known = model.predict(np.full((1, 2), 20.0)).cluster[0, 0]
    step = model.learn(gaussian(10_000, 2, 2))
    assert known not in {event.cluster for event in step.events}
    back = model.learn(gaussian(500, 2, 3, centre=20.0))
    assert known >= 0
    assert (back.cluster == known).mean() > 0.95


def test_rounded_and_repeated_records_are_clusters_all_the_same():
    X, _ = mixed(3, gaussian(6000, 2, 0), gaussian(6000, 2, 1, centre=12.0))
    rounded, repeated = Modal(), Modal()
    step = rounded.learn(np.round(X * 4) / 4)
    assert len(rounded.clusters()) == 2
    assert step.novel[6000:].mean() < 0.02
    repeated.learn(np.repeat(X[:4000], 5, axis=0))
    assert len(repeated.clusters()) == 2
    assert all(np.isfinite(c.centre).all() for c in (*rounded.clusters(), *repeated.clusters()))


def test_records_that_are_all_equal_are_one_landmark():
    model = Modal()
    step = model.learn(np.ones((2000, 3)))
    assert step.novel.tolist() == [True] + [False] * 1999
    assert (step.path == 0).all()
    assert len(model.clusters()) <= 1
    assert np.nanmin(step.score, initial=1.0) == 1.0
    assert model.predict(np.full((1, 3), 2.0)).cluster[0, 0] == -1
    assert Modal.from_state(model.state()).state() == model.state()


def test_few_different_records_are_few_landmarks():
    X = np.random.default_rng(0).integers(0, 2, size=(5000, 3)).astype(float)
    model = Modal()
    step = model.learn(X)
    assert step.path.max() == 7
    assert not step.novel[100:].any()
    assert not [event for event in step.events if event.index > 2500]


@pytest.mark.parametrize("magnitude", [1e-150, 1e150])
def test_no_magnitude_is_too_small_or_too_large(magnitude):
    # Records are powers of two larger or smaller than others: everything is, and no decision changes.
    scale = 2.0 ** np.floor(np.log2(magnitude) / 2) if magnitude < 1 else 2.0 ** np.floor(np.log2(magnitude) - 8)
    X, _ = mixed(3, gaussian(1500, 2, 0), gaussian(1500, 2, 1, centre=12.0))
    model, plain = Modal(), Modal()
    step, expected = model.learn(X * scale), plain.learn(X)
    if magnitude > 1:
        assert len(model.clusters()) >= 1
    for cluster in model.clusters():
        assert np.isfinite(cluster.centre).all()
        assert np.isfinite(cluster.spread).all()
    np.testing.assert_array_equal(step.path, expected.path)
    signs = np.random.default_rng(0).choice([-1e150, 1e150], size=(600, 2))
    edge = Modal(**SMALL).learn(signs * np.random.default_rng(1).random((600, 1)))
    known = ~np.isnan(edge.score)
    assert ((edge.score[known] >= 0) & (edge.score[known] <= 1)).all()


def test_labels_are_those_of_the_nearest_landmark_that_has_one():
    X, truth = mixed(3, gaussian(1500, 2, 0), gaussian(1500, 2, 1, centre=12.0))
    model = Modal()
    model.learn(X, np.where(np.arange(3000) % 3 == 0, truth, -1))
    assert (model.predict(X).label == truth).mean() > 0.99


def events_of_wind(seed):
    """Return the kinds of the events of a direction and a strength that wander, and a wave a day."""
    t = np.arange(20_000)
    angle = np.cumsum(np.random.default_rng(seed).normal(0, 0.02, len(t)))
    X = np.exp(0.5 * walk(len(t), 3, seed, 0.9967)) * np.column_stack((np.cos(angle), np.sin(angle), np.ones(len(t))))
    X[:, 2] = np.sin(2 * np.pi * t / 1440) + 0.2 * np.log(X[:, 2])
    return [event.kind for event in Modal().learn(0.2 * X).events]


def test_places_that_a_walk_has_yet_to_cross_are_no_clusters():
    assert sum("split" in events_of_wind(seed) for seed in range(8)) <= 2


@pytest.mark.parametrize("seed", range(3))
def test_places_between_which_a_walk_jumps_are_clusters(seed):
    places = np.arange(20_000) // 500 % 2
    model = Modal()
    model.learn(0.1 * (walk(20_000, 3, seed) + 12.0 * places[:, None]))
    found = model.predict(0.1 * (walk(2_000, 3, seed + 9) + 12.0 * (np.arange(2_000) % 2)[:, None])).cluster[:, 0]
    assert len(set(found[::2]) - {-1}) == len(set(found[1::2]) - {-1}) == 1
    assert not set(found[::2]) & set(found[1::2]) - {-1}


def test_many_landmarks_are_read_no_later_than_an_eighth_of_the_records_ago():
    model = Modal(landmarks=8192)
    X = np.random.default_rng(0).normal(size=(24_000, 1))
    model.learn(X[:16_000])
    for start in range(16_000, len(X), 100):
        model.learn(X[start : start + 100])
        assert start + 100 - model._model.read <= (start + 100) / 8


def test_more_of_many_clusters_are_found_by_the_share_of_false_ones():
    agreement = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = rng.integers(35, size=5000)
        X = rng.random((35, 2))[truth] + rng.normal(size=(5000, 2)) * 0.025
        agreement.append(adjusted_rand_score(truth[2500:], Modal().learn(X).cluster[2500:, 0]))
    assert np.mean(agreement) > 0.56, agreement


def test_a_ring_beside_many_clusters_stays_one():
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(12_000) < 0.5, 0, 1 + rng.integers(25, size=12_000))
    angle = rng.uniform(0, 2 * np.pi, len(truth))
    places = np.column_stack((20 + np.arange(25) % 5 * 2, np.arange(25) // 5 * 2))[truth - 1] + rng.normal(
        0, 0.15, (12_000, 2)
    )
    ring = 6 * np.column_stack((np.cos(angle), np.sin(angle))) + rng.normal(0, 0.3, (12_000, 2))
    found = Modal().learn(np.where((truth == 0)[:, None], ring, places)).cluster[9_000:, 0]
    assert adjusted_rand_score(truth[9_000:], found) > 0.99
