"""What every engine keeps, whatever its algorithm: an engine joins by a line in `ENGINES_HERE`."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from resonance.engine import (
    CAEA,
    ENGINES,
    EVQ,
    HCAEA,
    ILDN,
    MLCA,
    MLCAC,
    MLCAI,
    SAART,
    FuzzyART,
    LabelEngine,
    Modal,
    ParameterError,
    RecordError,
    StateError,
    make_engine,
    shell,
)
from resonance.engine.hcaea.memory import ROOT

from tests.engine.nodes import joined
from tests.engine.streams import shifting as unbounded


def labelled(engine):
    """Return an engine to which every record without labels comes with some that follow from its features."""

    class RowLabels(engine):
        def learn(self, X, labels=None):
            sets = [{"low" if x[0] < 0.5 else "high", int(x[-1] > 0.7)} for x in np.asarray(X, dtype=float)]
            return super().learn(X, sets if labels is None else labels)

    return RowLabels


LabelledMLCA, LabelledMLCAI, LabelledMLCAC = (labelled(engine) for engine in (MLCA, MLCAI, MLCAC))

ENGINES_HERE = {
    "modal": Modal,
    "modal-crowded": lambda: Modal(landmarks=64, memory=300, min_cluster_records=5, expire_records=400),
    "caea": CAEA,
    "caea-paper": lambda: CAEA.make(CAEA.presets["paper"]),
    "caea-crowded": lambda: CAEA(lambda_=20, max_nodes=24, grace=4),
    "hcaea": HCAEA,
    "hcaea-paper": lambda: HCAEA.make({**HCAEA.presets["paper"], "max_depth": None}),
    "hcaea-drop": lambda: HCAEA(lambda_=20, orphans="drop", min_child_records=10),
    "hcaea-crowded": lambda: HCAEA(lambda_=20, max_nodes=40, max_leaves=30, min_cluster_records=5),
    "hcaea-deep": lambda: HCAEA(lambda_=20, max_depth=4, max_leaves=25, min_child_records=4),
    "fuzzy_art": FuzzyART,
    "fuzzy_art-plain": lambda: FuzzyART(complement=False, rho=0.9),
    "fuzzy_art-crowded": lambda: FuzzyART.make({**FuzzyART.presets["paper"], "rho": 0.95, "max_clusters": 20}),
    "sa_art": SAART,
    "sa_art-paper": lambda: SAART.make(SAART.presets["paper"]),
    "sa_art-crowded": lambda: SAART(rho0=0.95, delta=0.0, max_clusters=20),
    "sa_art-complement-crowded": lambda: SAART(rho0=0.97, delta=0.0, complement=True, max_clusters=20),
    "mlca": LabelledMLCA,
    "mlca-buffer": lambda: LabelledMLCA(lambda_=20, warmup="buffer"),
    "mlca-crowded": lambda: LabelledMLCA(vigilance=0.1, max_nodes=20, k=5),
    "mlca_i": lambda: LabelledMLCAI(vigilance=0.2),
    "mlca_i-crowded": lambda: LabelledMLCAI(vigilance=0.1, max_nodes=20),
    "mlca_c": lambda: LabelledMLCAC(vigilance=0.2, lambda_=20),
    "mlca_c-buffer": lambda: LabelledMLCAC(vigilance=0.2, lambda_=20, warmup="buffer"),
    "mlca_c-crowded": lambda: LabelledMLCAC(vigilance=0.1, lambda_=20, max_nodes=20),
    "ildn": ILDN,
    "ildn-paper": lambda: ILDN.make(ILDN.presets["paper"]),
    "ildn-denoising": lambda: ILDN(sigma=3e-3, radius="sqrt", lambda_=100, k=0.5),
    "ildn-crowded": lambda: ILDN(sigma=3e-3, max_nodes=30, min_cluster_records=5),
    "evq": lambda: EVQ(mode="evq", low=0.0, high=1.0),
    "evq-a": lambda: EVQ(mode="evq-a", sig0=0.02, fac=2.5),
    "evq-am": lambda: EVQ(mode="evq-am", sig0=0.02, fac=2.5, consolidate_every=170),
    "evq-ams": EVQ,
    "evq-ams-ranges": lambda: EVQ(low=0.0, high=1.0, consolidate_every=400),
    "evq-ams-paper": lambda: EVQ.make({**EVQ.presets["paper"], "low": 0, "high": 1}),
    "evq-ams-crowded": lambda: EVQ(max_clusters=9, n_sub=60, sig0=0.01, fac=2.0, low=0.0, high=1.0),
}


@pytest.fixture(params=ENGINES)
def make(request):
    return ENGINES_HERE[request.param]


every_setting = pytest.mark.parametrize("make", ENGINES_HERE.values(), ids=ENGINES_HERE)
"""For what may depend on the settings: the rest is shown with one of each engine."""


@pytest.fixture
def fitting(make):
    """Clip records for an engine that is defined on [0, 1] alone, as their preparation does."""
    return (lambda X: np.clip(X, 0.0, 1.0)) if make().unit_interval else lambda X: X


@pytest.fixture
def shifting(fitting):
    return lambda *given, **named: fitting(unbounded(*given, **named))


def learn_in_batches(engine, X, size):
    return [engine.learn(X[at : at + size]) for at in range(0, len(X), size)]


@every_setting
def test_a_batch_gives_the_bits_of_single_records(make, shifting):
    X = shifting(1000)
    whole, cut = make(), make()
    expected = whole.learn(X)
    # Most of what an engine does happens within so many records; behind them, batches of seven are as good.
    steps = learn_in_batches(cut, X[:300], 1) + learn_in_batches(cut, X[300:], 7)
    starts = [*range(300), *range(300, 1000, 7)]
    assert joined(steps, starts) == joined([expected])
    assert cut.state() == whole.state()


@every_setting
def test_a_restore_at_any_time_changes_nothing(make, shifting):
    X = shifting(1000, d=2, seed=0)
    engine, restored = make(), make()
    for at in range(0, len(X), 50):
        restored = type(restored).from_state(restored.state())
        assert joined([restored.learn(X[at : at + 50])]) == joined([engine.learn(X[at : at + 50])])
        assert restored.state() == engine.state()
    assert [c.id for c in restored.clusters()] == [c.id for c in engine.clusters()]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_goes_on_alone_with_the_same_bits(make, shifting, copied):
    X = shifting(600)
    engine = make()
    assert copied(engine).state() == engine.state()
    engine.learn(X[:400])
    before = engine.state()
    twin = copied(engine)
    # Whatever the copy learns, first and in rooms that grow, the original does not notice.
    expected = joined([twin.learn(X[400:])])
    assert engine.state() == before
    assert joined([engine.learn(X[400:])]) == expected
    assert twin.state() == engine.state()


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_can_be_sent_to_another_process(name):
    engine, X = make_engine(name, {}), np.clip(unbounded(300), 0.0, 1.0)
    engine.learn(X[:200], np.arange(200) % 3)
    twin = pickle.loads(pickle.dumps(engine))  # noqa: S301
    assert twin.state() == engine.state()
    assert joined([twin.learn(X[200:])]) == joined([engine.learn(X[200:])])


def test_two_interleaved_streams_equal_two_separate_runs(make, shifting):
    X, Y = shifting(1000, seed=1), shifting(1000, seed=2)
    a, b = make(), make()
    for at in range(0, 1000, 10):
        a.learn(X[at : at + 10])
        b.learn(Y[at : at + 10])
    alone = make()
    alone.learn(X)
    assert a.state() == alone.state()


@every_setting
def test_folding_the_events_gives_the_clusters_at_every_record(make, shifting):
    X = shifting(700)
    engine = make()
    present = set()
    ever = set()
    numbers = {}
    for i, x in enumerate(X):
        events = engine.learn(x[None]).events
        for e in events:
            assert e.number == numbers.get(e.path, 0)
            numbers[e.path] = e.number + 1
            if e.kind in ("emerged", "split"):
                assert (e.path, e.cluster) not in ever, "an id is never used again"
                present.add((e.path, e.cluster))
                ever.add((e.path, e.cluster))
            else:
                present.remove((e.path, e.cluster))
        # A cluster that came or went without an event is still there, or still missing, a few records later.
        if events or i % 5 == 0:
            assert present == {(c.path, c.id) for c in engine.clusters()}
    assert ever


def test_predict_changes_nothing_and_agrees_with_learning(make, shifting):
    X = shifting(1080)
    engine = make()
    engine.learn(X[:1000])
    for at in range(1000, 1080):
        before, x = engine.state(), X[at : at + 1]
        predicted = engine.predict(x)
        assert engine.state() == before
        step = engine.learn(x)
        # On every level.
        np.testing.assert_array_equal(predicted.cluster, step.cluster)
        np.testing.assert_array_equal(predicted.score, step.score)
        # Of those that learn labels the record may have some, which predicting knows nothing of.
        assert predicted.novel[0] == (step.novel[0] and not isinstance(engine, LabelEngine))


def test_predict_before_any_record_has_no_answer(make):
    answer = make().predict(np.zeros((2, 3)))
    assert (answer.cluster == -1).all()
    assert np.isnan(answer.score).all()


def test_answers_are_in_their_ranges(make, shifting):
    engine = make()
    step = engine.learn(shifting(2000))
    known = ~np.isnan(step.score)
    assert ((step.score[known] >= 0) & (step.score[known] <= 1)).all()
    # Where a cluster answers only for records that are near enough, the others have a score all the same.
    unlike = known if isinstance(engine, LabelEngine | Modal | EVQ | ILDN) else False
    assert ((known == (step.cluster[:, 0] >= 0)) | unlike).all()
    assert step.path.shape == (2000, engine.depth)
    # A record that waits for the end of a warm-up is learned by no node yet.
    learned = step.path[:, 0] >= 0
    assert learned[known].all()
    assert learned[20:].all()
    text = [c for e in step.events for c in (*e.before, *e.after)]
    assert text
    for cluster in (*text, *engine.clusters()):
        assert np.isfinite(cluster.centre).all()
        assert (cluster.spread >= 0).all()


@pytest.mark.parametrize(("bad", "index"), [([np.nan, 0, 0, 0], 1), ([np.inf, 0, 0, 0], 1), ([1e200, 0, 0, 0], 1)])
def test_a_bad_record_is_named_and_leaves_the_state_untouched(make, bad, index, shifting):
    engine = make()
    engine.learn(shifting(200))
    before = engine.state()
    with pytest.raises(RecordError, match=f"record {index} of the batch: feature 0") as caught:
        engine.learn(np.array([[0.1, 0.2, 0.3, 0.4], bad]))
    assert (caught.value.index, engine.state()) == (index, before)


def test_another_dimension_is_refused(make, shifting):
    engine = make()
    engine.learn(shifting(100))
    with pytest.raises(RecordError, match="3 features, the model has 4"):
        engine.learn(np.zeros((1, 3)))
    if isinstance(engine, EVQ | ILDN):
        with pytest.raises(RecordError, match="257 features, the engine takes at most 256; project them"):
            make().learn(np.zeros((1, 257)))


@every_setting
def test_neither_extreme_but_finite_values_nor_equal_ones_do_harm(make, fitting):
    rng = np.random.default_rng(0)
    extreme = rng.normal(size=(300, 3)) * 10.0 ** rng.integers(-150, 150, size=(300, 3))
    for X in (np.clip(extreme, -1e150, 1e150), np.ones((500, 2))):
        engine = make()
        step = engine.learn(fitting(X))
        known = ~np.isnan(step.score)
        assert ((step.score[known] >= 0) & (step.score[known] <= 1)).all()
        assert type(engine).from_state(engine.state()).state() == engine.state()


def test_the_callers_array_is_neither_changed_nor_kept_and_any_kind_is_learned_alike(make, shifting):
    X = shifting(300)
    copy = X.copy()
    engine = make()
    engine.learn(X)
    np.testing.assert_array_equal(X, copy)
    X[:] = 7.0
    copy.setflags(write=False)
    for given in (copy, np.asfortranarray(copy), copy.tolist()):
        other = make()
        other.learn(given)
        assert engine.state() == other.state()


def test_an_empty_batch_changes_nothing(make, shifting):
    engine = make()
    engine.learn(shifting(100))
    before = engine.state()
    step = engine.learn(np.empty((0, 4)))
    assert len(step.novel) == 0
    assert not step.events
    assert engine.state() == before


def test_damaged_and_foreign_states_are_refused(make, shifting):
    engine = make()
    engine.learn(shifting(100))
    state = engine.state()
    with pytest.raises(StateError):
        type(engine).from_state(state[:-1])
    with pytest.raises(StateError):
        type(engine).from_state(state[:200] + bytes([state[200] ^ 1]) + state[201:])
    other = HCAEA if isinstance(engine, CAEA) else CAEA
    with pytest.raises(StateError, match="state of"):
        other.from_state(state)


@pytest.mark.parametrize("name", [name for name in ENGINES_HERE if name.endswith("crowded")])
def test_memory_is_bounded(name):
    engine = ENGINES_HERE[name]()
    sizes = []
    for seed in range(12):
        X = unbounded(1000, d=2, seed=seed)
        engine.learn(np.clip(X, 0.0, 1.0) if engine.unit_interval else X)
        sizes.append(len(engine.state()))
    assert max(sizes[6:]) < 1.2 * max(sizes[:6])


def test_every_engine_is_in_this_file_and_declares_what_it_takes():
    assert {engine().name for engine in ENGINES_HERE.values()} == {*ENGINES}
    for name, engine in ENGINES.items():
        made = make_engine(name, {})
        assert made.name == name
        for preset in engine.presets.values():
            make_engine(name, preset)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("lambda", 2, "lambda = 2: must be an integer of at least 3 and of at most 10,000"),
        ("lambda", 7.5, "lambda = 7.5: must be an integer of at least 3 and of at most 10,000"),
        ("lambda", True, "lambda = True: must be an integer of at least 3 and of at most 10,000"),
        ("tau", 1.0, "tau = 1.0: must be a number above 0 and below 1"),
        ("reading", "edges", "reading = 'edges': must be one of valley, affinity, components"),
        ("lamda", 50, r"lamda = 50: .* \(did you mean lambda\?\)"),
        ("max_nodes", 20, "max_nodes = 20: must be above lambda / 2 = 25"),
        ("max_nodes", 10**12, "max_nodes = 1000000000000: must be an integer of at least 4 and of at most 100,000"),
    ],
)
def test_parameters_are_checked_with_one_wording(name, value, message):
    with pytest.raises(ParameterError, match=message):
        make_engine("hcaea", {name: value})


def test_a_model_that_lost_all_its_nodes_answers_and_goes_on():
    for engine in (CAEA(lambda_=3, grace=0), HCAEA(lambda_=3, grace=0)):
        lost = 0
        for seed in range(40):
            X = np.random.default_rng(seed).random((3, 2))
            engine.learn(X, [0, 1, 2])
            answer = engine.predict(X)
            nodes = (engine._model if isinstance(engine, CAEA) else engine._model(ROOT)).nodes
            if not nodes:
                lost += 1
                assert (answer.label == -1).all()
                assert np.isnan(answer.score).all()
        assert lost


def test_numbers_of_numpy_are_parameters_too():
    assert CAEA(lambda_=np.int64(20), tau=np.float64(0.1)).state() == CAEA(lambda_=20, tau=0.1).state()


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_shows_its_parameters_and_they_can_be_read(name):
    plain = ENGINES[name]()
    assert repr(plain) == f"{type(plain).__name__}()"
    integer = next(each for each in plain.parameters if each.kind is int and each.default is not None)
    changed = make_engine(name, {integer.name: integer.default + 1})
    argument = f"{integer.name}_" if integer.name == "lambda" else integer.name
    assert repr(changed) == f"{type(plain).__name__}({argument}={integer.default + 1})"
    assert getattr(changed, argument) == integer.default + 1
    again = ENGINES[name].from_state(changed.state())
    assert repr(again) == repr(changed)
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        changed.colour  # noqa: B018


def test_an_unknown_engine_is_refused():
    with pytest.raises(ParameterError, match="engine = 'kmeans': must be one of modal, caea, hcaea, evq, ildn"):
        make_engine("kmeans", {})


def test_labels_never_influence_the_clusters(make, shifting):
    X = shifting(600)
    a, b = make(), make()
    labels = np.arange(600) % 5
    expected, got = a.learn(X), b.learn(X, labels)
    assert joined([expected]) == joined([got])
    assert set(b.predict(X[:50]).label.tolist()) <= {-1, 0, 1, 2, 3, 4}
    copy = type(b).from_state(b.state())
    np.testing.assert_array_equal(copy.predict(X[:50]).label, b.predict(X[:50]).label)


def test_labels_that_are_none_are_refused(make):
    for wrong in (-2, 1000, 2**60):
        with pytest.raises(RecordError, match="a label is a class number from 0 to 999, or -1 for none") as error:
            make().learn(np.zeros((2, 2)), [0, wrong])
        assert error.value.index == 1
    with pytest.raises(RecordError, match="labels are integers, not float64"):
        make().learn(np.zeros((1, 2)), [0.5])
    with pytest.raises(RecordError, match="labels of shape"):
        make().learn(np.zeros((1, 2)), [1, 2])


@pytest.mark.parametrize("name", [name for name in ENGINES if not issubclass(ENGINES[name], MLCA | MLCAI | MLCAC)])
def test_parameters_are_checked_without_a_kernel(name, monkeypatch):
    for module in (shell, sys.modules[ENGINES[name].__module__]):
        monkeypatch.setattr(
            module, "new_log", lambda: pytest.fail("numba loads a kernel, and what it needs for any"), raising=False
        )
    assert make_engine(name, {}).name == name


def test_an_engine_is_imported_when_it_is_looked_up():
    code = "import sys\nfrom resonance.engine import ENGINES\nassert 'numba' not in sys.modules\nENGINES['evq']"
    code += "\nprint(*(name for name in sys.modules if name.endswith('.engine')))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["resonance.engine", "resonance.engine.evq.engine"]
