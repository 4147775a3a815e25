"""MLCA, MLCA-I and MLCA-C: against their plain version, and what label sets, new labels and late ones mean."""

import numpy as np
import pytest
from resonance.engine import ENGINES, MLCA, MLCAC, MLCAI, GroupChange, LabelEngine, RecordError
from resonance.engine.labels import label_sets

from tests.engine.nodes import mlca_nodes
from tests.engine.plain_mlca import FORMS, PlainMLCA, stream
from tests.night import at_night


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


def by_label(answers, labels=(0, 1, 2)):
    """Return probabilities in the order of some labels; NaN for one that is not known."""
    unknown = np.full(len(answers.probabilities), np.nan)
    columns = dict(zip(answers.labels, answers.probabilities.T, strict=True))
    return np.stack([columns.get(label, unknown) for label in labels], axis=1)


@pytest.mark.parametrize("vigilance", [at_night(0.3), 0.45, 0.6])
@pytest.mark.parametrize("warmup", ["growing", "buffer"])
def test_every_step_is_that_of_the_plain_version(form, vigilance, warmup):
    X, sets = stream(200)
    plain, model = PlainMLCA(form, vigilance, 12, 4), ENGINES[form](vigilance=vigilance, lambda_=12, k=4, warmup=warmup)
    step = model.learn(X, sets)
    first = 0
    if warmup == "buffer":
        first = 12
        plain.learn_together(X[:first], sets[:first])
    probabilities = by_label(step.labels)
    winners = []
    for t in range(first, len(X)):
        if t:
            far, expected = plain.predict(X[t])
            np.testing.assert_allclose(probabilities[t], expected, atol=1e-9)
            assert step.score[t] == pytest.approx(1 - far, abs=1e-9)
            assert (step.cluster[t, 0] >= 0) == (far <= vigilance)
        winners.append(plain.learn(X[t], sets[t]))
    assert step.path[first:, 0].tolist() == winners
    column = [model.labels.index(label) for label in range(3)]
    nodes = counts = mlca_nodes(model)
    np.testing.assert_allclose(nodes["weight"], plain.y, atol=1e-12)
    np.testing.assert_allclose(nodes["sigma"], np.array(plain.sigma)[:, : nodes["sigma"].shape[1]], rtol=1e-12)
    assert nodes["count"].tolist() == plain.m
    np.testing.assert_array_equal(nodes["labels"][:, column], plain.cl)
    np.testing.assert_array_equal(counts["having"][column], plain.c)
    np.testing.assert_array_equal(counts["lacking"][column], plain.nc)
    if form == "mlca_c":
        assert [np.flatnonzero(counts["group"] == g).tolist() for g in range(len(plain.groups))] == plain.groups


def test_most_nodes_need_no_second_comparison_and_none_is_missed():
    # Bandwidths of very different widths: their mean and their median tell different nodes to be near.
    rng = np.random.default_rng(2)
    X = rng.random((300, 8)) * np.geomspace(0.05, 2.0, 300)[rng.permutation(300), None]
    plain, model = PlainMLCA("mlca", 0.2, 5, 3), MLCA(vigilance=0.2, lambda_=5, k=3)
    sets = [{int(x.argmax()) % 3} for x in X]
    path = model.learn(X, sets).path[:, 0].tolist()
    assert path == [plain.learn(x, own) for x, own in zip(X, sets, strict=True)]
    assert len(plain.y) > 100
    column = [model.labels.index(label) for label in range(3)]
    np.testing.assert_array_equal(model.arrays()["having"][column], plain.c)


def test_a_record_without_labels_is_answered_and_changes_nothing(form):
    X, sets = stream()
    model = ENGINES[form]()
    model.learn(X[:40], sets[:40])
    before = model.state()
    step, predicted = model.learn(X[40:]), model.predict(X[40:])
    assert model.state() == before
    assert (step.path == -1).all()
    assert not step.novel.any()
    assert not step.events
    np.testing.assert_array_equal(step.cluster, predicted.cluster)
    np.testing.assert_array_equal(step.score, predicted.score)
    np.testing.assert_array_equal(step.labels.probabilities, predicted.labels.probabilities)
    # Records between them do not show either.
    other = ENGINES[form]()
    for at in range(0, 40, 10):
        other.learn(X[at : at + 10], sets[at : at + 10])
        other.learn(X, [None] * len(X))
        other.learn(X, [-1] * len(X))
    assert other.state() == before


def test_nothing_is_known_before_the_first_label(form):
    model = ENGINES[form]()
    for labels in (model.learn(np.zeros((3, 4))).labels, model.predict(np.zeros((3, 4))).labels):
        assert labels.labels == ()
        assert labels.probabilities.shape == (3, 0)
    # The dimension is that of the first record that teaches.
    step = model.learn(np.zeros((2, 6)), [None, {"a"}])
    assert step.labels.labels == ("a",)
    assert np.isnan(step.labels.probabilities).all()
    assert model.predict(np.zeros((1, 6))).labels.probabilities[0, 0] > 0.5


def test_new_labels_come_at_any_time():
    X = np.repeat(np.eye(3), [4, 4, 4], axis=0)
    sets = [{"old"}] * 4 + [{"new", 7}] * 4 + [{"newer", "old"}] * 4
    model = MLCA()
    step = model.learn(X, sets)
    assert step.labels.labels == model.labels == ("old", 7, "new", "newer")
    known = ~np.isnan(step.labels.probabilities)
    assert known.sum(axis=1).tolist() == [0, 1, 1, 1, 1, 3, 3, 3, 3, 4, 4, 4]
    # A label that had not come yet has no past: neither of records with it nor of records without it.
    assert model.arrays()["lacking"].sum(axis=1).tolist() == [4, 4, 4, 0]
    assert model.arrays()["having"].sum(axis=1).tolist() == [7, 4, 4, 4]
    np.testing.assert_array_equal(known[5], [True, True, True, False])


def test_an_empty_set_teaches_that_a_record_has_none_of_the_labels():
    X = np.random.default_rng(0).random((200, 2))
    model = MLCA(vigilance=0.1)
    step = model.learn(X, [{"fault"} if x[0] > 0.5 else set() for x in X])
    assert (step.path >= 0).all()
    assert model.arrays()["lacking"].sum() > 80
    answer = model.predict(np.array([[0.9, 0.5], [0.1, 0.5]])).labels.probabilities[:, 0]
    assert answer[0] > 0.5
    assert answer[1] < 0.1


def test_a_label_set_is_a_set_whatever_holds_it():
    X = np.random.default_rng(0).random((4, 3))
    forms = [
        [{"b", "a", 3}, frozenset({2}), set(), {10, 9}],
        [["a", 3, "b"], [2, 2], [], np.array([9, 10]).tolist()],
        [("b", "a", "a", np.int64(3)), {2: None}.keys(), (), (np.str_("a"), 10, 9)[1:]],
    ]
    states, models = [], []
    for sets in forms:
        model = MLCA()
        model.learn(X, sets)
        states.append(model.state())
        models.append(model)
    assert states[0] == states[1] == states[2]
    # In the order of their records; within one integers before text.
    assert models[0].labels == (3, "a", "b", 2, 9, 10)
    assert [type(label) for label in models[2].labels] == [int, str, str, int, int, int]


def test_the_order_of_labels_does_not_depend_on_the_process():
    assert label_sets([set("qwertyuiop"), {"b", -1, 10, 2}], 2) == [tuple("eiopqrtuwy"), (-1, 2, 10, "b")]


def test_class_numbers_are_sets_of_one_integer():
    X, _ = stream()
    numbers = np.arange(len(X)) % 4 - 1
    as_classes, as_array, as_sets = MLCA(), MLCA(), MLCA()
    as_classes.learn(X, numbers.tolist())
    as_array.learn(X, numbers)
    as_sets.learn(X, [{int(number)} if number >= 0 else None for number in numbers])
    assert as_classes.state() == as_array.state() == as_sets.state()
    assert as_classes.labels == (0, 1, 2)


@pytest.mark.parametrize(
    ("labels", "record", "problem"),
    [
        ([{"a"}, {True}], 1, "True is no label: labels are text, or integers of 64 bits"),
        *(([{"a"}, {0.5}], 1, "0.5 is no label"), ([{"a"}, {2**63}], 1, "9223372036854775808 is no label")),
        ([{"a"}, {None}], 1, "None is no label"),
        ([{"a"}, {"x" * 1001}], 1, "a label of 1,001 characters begins 'xxxxxxxxxxxxxxxxxxxx': 1,000 at most"),
        *(([{"a"}, "b"], 1, "'b' is no set of labels"), ([{"a"}, b"b"], 1, "b'b' is no set of labels")),
        *(([{"a"}, {"b": 1}], 1, "{'b': 1} is no set of labels"), ([None, 3], 1, "3 is no set of labels")),
        ([{"a"}, {"b", "c"}], 1, "label 'c' is one more than max_labels = 2"),
        *(([{"a"}], 0, "2 records have 1 label sets"), ([0], 0, "2 records have labels of shape")),
        ([0, 1000], 1, "a label is a class number from 0 to 999, or -1 for none"),
    ],
)
def test_what_is_no_label_is_refused_and_nothing_is_learned(labels, record, problem):
    model = MLCA(max_labels=2)
    model.learn(np.eye(2)[:1], [{"a"}])
    before = model.state()
    with pytest.raises(RecordError) as error:
        model.learn(np.eye(2), labels)
    assert problem in str(error.value)
    assert (error.value.index, model.state()) == (record, before)


def test_records_held_back_are_learned_together():
    X, sets = stream(30)
    model = MLCAC(lambda_=12, warmup="buffer", vigilance=0.3)
    early = model.learn(X[:10], sets[:10])
    assert early.labels.labels == model.labels == ()
    assert np.isnan(early.score).all()
    assert (early.path == -1).all()
    assert not early.events
    assert not model.clusters()
    step = model.learn(X[10:15], [None, *sets[11:15]])
    # The twelfth with labels is the fourth of this batch.
    assert step.path[:, 0].tolist()[:2] == [-1, -1]
    emerged = [event for event in step.events if event.index == 2]
    assert len(emerged) > 1
    assert step.groups == [GroupChange(2, 1, step.groups[0].after)]
    assert step.path[2, 0] >= 0
    assert np.isnan(step.labels.probabilities[:3]).all()
    assert not np.isnan(step.labels.probabilities[3:, :2]).any()


def test_the_node_that_won_longest_ago_goes():
    model = MLCA(vigilance=0.1, max_nodes=2, k=2)
    step = model.learn(np.eye(3)[[0, 1, 0, 2]], [{"a"}, {"b"}, {"a"}, {"c"}])
    assert [(e.index, e.kind, e.cluster) for e in step.events] == [
        (0, "emerged", 0),
        (1, "emerged", 1),
        (3, "vanished", 1),
        (3, "emerged", 2),
    ]
    vanished, emerged = step.events[2], step.events[3]
    assert (vanished.reason, vanished.before[0].size, emerged.reason.criterion) == (None, 1, "cim")
    assert emerged.reason.value > emerged.reason.threshold == 0.1
    nodes = mlca_nodes(model)
    assert nodes["id"].tolist() == [0, 2]
    # Its labels have left the neighbourhoods, not the prior.
    assert (nodes["labels"].sum(axis=0).tolist(), model.arrays()["records"].tolist()) == ([2, 0, 1], [2, 1, 1])
    assert [cluster.id for cluster in model.clusters()] == [0, 2]


def test_bandwidths_of_a_full_model_are_those_of_its_nodes():
    X, sets = stream(400, seed=2)
    for engine in (MLCA, MLCAI):
        model = engine(vigilance=0.05, max_nodes=30, lambda_=10)
        model.learn(X, sets)
        nodes = model._nodes
        np.testing.assert_allclose(nodes.total, mlca_nodes(model)["sigma"].sum(axis=0), rtol=1e-12)
        if engine is MLCA:
            np.testing.assert_array_equal(nodes.sorted[:30], np.sort(mlca_nodes(model)["sigma"][:, 0]))
        assert (len(mlca_nodes(model)["id"]), engine.from_state(model.state()).state()) == (30, model.state())


def test_attributes_that_never_change_are_one_group():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(0, 1, 40), np.full(40, 5.0), rng.normal(0, 1, 40), np.full(40, -70.0)])
    X = np.column_stack([X, rng.normal(1000, 1, 40)])
    model = MLCAC(lambda_=20)
    step = model.learn(X, [{"a"}] * 40)
    assert model.arrays()["group"].tolist() == [0, 1, 0, 1, 2]
    assert step.groups == [GroupChange(19, 1, 3)]


def test_attributes_on_any_scale_weigh_alike():
    rng = np.random.default_rng(1)
    X = rng.random((600, 2))
    sets = [{name for name, x in zip(("right", "up"), row, strict=True) if x > 0.5} for row in X]
    scaled = X * [1.0, 1e6]
    model = MLCAI(vigilance=0.1, warmup="buffer")
    model.learn(scaled[:500], sets[:500])
    predicted = by_label(model.predict(scaled[500:]).labels, ("right", "up")) > 0.5
    assert (predicted == (X[500:] > 0.5)).mean() > 0.9


def test_a_model_says_how_many_records_taught_it():
    model = MLCA(vigilance=0.1)
    assert model.models() == {}
    model.learn(np.eye(3)[[0, 1, 2, 0]], [{"a"}, {"b"}, None, set()])
    (facts,) = model.models().values()
    assert (facts.path, facts.records, facts.cluster_of) == ((), 3, {0: 0, 1: 1})


def test_the_three_are_chosen_by_name():
    for name in FORMS:
        engine = ENGINES[name]
        assert issubclass(engine, LabelEngine)
        assert engine.make({"lambda": 12, "vigilance": 0.01}).state() == engine(lambda_=12, vigilance=0.01).state()
