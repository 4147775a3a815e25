"""HCAEA from its parts: a root, and a subtree for each of its nodes wherever it lives."""

import copy

import numpy as np
import pytest
from resonance.engine import HCAEA, HCAEARoot, HCAEASubtree, Operations, ParameterError, RecordError, StateError
from resonance.engine.state import pack, unpack

from tests.conformance import SHARED
from tests.engine.composition import Composition
from tests.engine.nodes import described, joined
from tests.engine.streams import nested, shifting

SETTINGS = {
    "default": {},
    "paper": {"lambda": 28, "grace": 0, "reading": "components", "max_depth": None},
    "drop": {"reading": "affinity", "lambda": 20, "orphans": "drop", "min_child_records": 10},
    "crowded": {"lambda": 20, "max_nodes": 24, "max_leaves": 20, "min_cluster_records": 5},
    "deep": {"lambda": 20, "max_depth": 4, "max_leaves": 25, "min_child_records": 4, "min_cluster_records": 8},
    "flat": {"lambda": 20, "max_depth": 1},
    "often": {"lambda": 3, "max_nodes": 4, "grace": 0, "min_child_records": 2, "min_cluster_records": 2},
}
"""Parameters under which nodes get children, lose them, and are evicted."""


def answers(step):
    """Return everything that was answered; events of a record come model by model."""
    found = joined([step])
    return {**found, "events": sorted(found["events"], key=lambda event: (event[0], event[2], event[3]))}


def compare(parameters, X, y=None, *, places=1, size=1000, sent=1000, reload_at=()):
    """Learn with both; every answer, event, cluster and at the end every bit of the state must be the same."""
    whole, parts = HCAEA.make(parameters), Composition(parameters, places, sent)
    events = 0
    for at in range(0, len(X), size):
        labels = None if y is None else y[at : at + size]
        expected, got = whole.learn(X[at : at + size], labels), parts.learn(X[at : at + size], labels)
        assert answers(got) == answers(expected)
        events += sum(bool(event.path) for event in expected.events)
        if at in reload_at:
            parts.reload()
    assert (described(parts.clusters()), parts.state()) == (described(whole.clusters()), whole.state())
    return events


@pytest.mark.parametrize("name", SETTINGS)
def test_the_parts_are_the_tree_bit_for_bit(name):
    X = np.concatenate([shifting(1500), nested(1500)])
    y = np.arange(len(X)) % 7 - 1
    events = compare(SETTINGS[name], X, y, places=3, size=250, sent=40, reload_at=range(0, len(X), 500))
    assert events or name in ("default", "flat", "paper")


@pytest.mark.parametrize(("size", "sent"), [(1, 1), (7, 3), (1000, 1000)])
def test_it_does_not_matter_how_records_and_operations_are_batched(size, sent):
    compare(SETTINGS["deep"], shifting(1000), places=2, size=size, sent=sent, reload_at=(350, 700, 0))


@pytest.mark.golden
@pytest.mark.parametrize("name", ["aggregation", "compound", "s1", "wdbc", "statlog"])
def test_the_parts_are_the_tree_on_data_sets(name):
    file = SHARED / "data" / f"{name}.npz"
    if not file.exists():
        pytest.skip("the data sets do not lie beside the repository")
    data = np.load(file)
    order = np.random.default_rng(0).permutation(len(data["X"]))[:1500]
    X, y = data["X"][order].astype(float), data["y"][order].astype(np.int64)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    compare({"min_cluster_records": 8}, X, y, places=3, size=100, sent=30, reload_at=(300, 800))


def test_a_part_is_copied_as_its_state_says():
    X = nested(1200)
    root = HCAEARoot.make(SETTINGS["crowded"])
    wanted = root.learn(X[:1000]).operations
    node = int(np.bincount(wanted.node).argmax())
    own = wanted.take(np.flatnonzero(wanted.node == node))
    assert not own.removed.any()
    half = len(own) // 2
    subtree = HCAEASubtree.below(node, SETTINGS["crowded"])
    subtree.follow(own.take(np.arange(half)))
    twins = copy.copy(root), copy.deepcopy(subtree)
    assert answers(twins[0].learn(X[1000:])) == answers(root.learn(X[1000:]))
    rest = own.take(np.arange(half, len(own)))
    assert answers(twins[1].follow(rest)) == answers(subtree.follow(rest))
    assert [twin.state() for twin in twins] == [root.state(), subtree.state()]


def test_the_root_answers_like_the_tree_and_is_bounded():
    X = shifting(2500)
    whole, root = HCAEA(lambda_=20, max_nodes=30), HCAEARoot(lambda_=20, max_nodes=30)
    sizes = []
    for at in range(0, len(X), 100):
        whole.learn(X[at : at + 100])
        root.learn(X[at : at + 100])
        expected, got = whole.predict(X[:20]), root.predict(X[:20])
        assert got.cluster[:, 0].tobytes() == expected.cluster[:, 0].tobytes()
        assert got.score.tobytes() == expected.score.tobytes()
        sizes.append(len(root.state()))
    assert max(sizes[15:]) < 1.2 * max(sizes[:15])


def test_an_operation_names_what_it_is_for():
    root = HCAEARoot(lambda_=20, max_nodes=15, min_child_records=6)
    X = shifting(800)
    step = root.learn(X, np.arange(800) % 3)
    wanted = step.operations
    answered = wanted.record[wanted.answered]
    assert len(np.unique(answered)) == len(answered), "a record is answered once at most"
    assert (step.path[answered, 0] == wanted.node[wanted.answered]).all()
    assert wanted.vector[wanted.answered].tobytes() == X[answered].tobytes()
    assert (wanted.label[wanted.answered] == answered % 3).all()
    for node in wanted.node[wanted.removed]:
        own = wanted.take(np.flatnonzero(wanted.node == node))
        assert own.removed.tolist() == [False] * (len(own) - 1) + [True], "nothing follows a removal"
    first = wanted.take(np.flatnonzero(wanted.node == wanted.node[0]))
    assert (first.record[:6] == first.record[0]).all(), "a new child learns what the node has kept"


def given(node, X, removed=False):
    count = len(X)
    wanted = np.full(count, node), np.arange(count), np.zeros(count, bool), np.ones(count, bool), np.full(count, -1)
    whole = Operations(*wanted, X)
    if removed:
        whole.removed[-1] = True
        whole.answered[-1] = False
    return whole


def test_a_subtree_refuses_what_is_not_its_own():
    subtree = HCAEASubtree.below(4, {})
    X = shifting(50)
    subtree.follow(given(4, X))
    before = subtree.state()
    with pytest.raises(StateError, match="not for root node 4"):
        subtree.follow(given(5, X))
    bad = X.copy()
    bad[1, 0] = np.nan
    with pytest.raises(RecordError, match="record 1"):
        subtree.follow(given(4, bad))
    assert subtree.state() == before
    assert not subtree.ended
    subtree.follow(given(4, X, removed=True))
    assert subtree.ended
    assert subtree.clusters() == []
    with pytest.raises(StateError, match="was removed"):
        subtree.follow(given(4, X))
    with pytest.raises(StateError, match="nothing to go on with"):
        subtree.state()
    with pytest.raises(ParameterError, match="max_depth = 1"):
        HCAEASubtree.below(0, {"max_depth": 1})


def test_states_that_hold_something_else_are_refused():
    parts = Composition(SETTINGS["deep"])
    parts.learn(shifting(600))
    header, arrays = unpack(parts.root.state(), "hcaea-root", 2)
    for there in (arrays["children"][:-1], arrays["children"] + 2):
        with pytest.raises(StateError, match="does not hold what it says"):
            HCAEARoot.from_state(pack("hcaea-root", 2, header, {**arrays, "children": there.astype(np.uint8)}))
    tree = parts.subtrees()[0]
    header, arrays = unpack(tree.state(), "hcaea-subtree", 2)
    for node in (-1, 2**60, True, None, header["node"] + 1):
        with pytest.raises(StateError, match=r"root node|does not hold"):
            HCAEASubtree.from_state(pack("hcaea-subtree", 2, {**header, "node": node}, arrays))
    twice = {name: np.concatenate([array, array]) for name, array in arrays.items()}
    with pytest.raises(StateError, match="does not hold what it says"):
        HCAEASubtree.from_state(pack("hcaea-subtree", 2, header, twice))
    for engine in (HCAEARoot, HCAEASubtree):
        with pytest.raises(StateError, match="state of"):
            engine.from_state(HCAEA().state())


def test_an_untouched_part_has_a_state_too():
    parts = Composition({})
    parts.reload()
    assert answers(parts.learn(shifting(200))) == answers(HCAEA().learn(shifting(200)))
    empty = HCAEASubtree.from_state(HCAEASubtree.below(3, {}).state())
    assert (empty.node, empty.clusters()) == (3, [])


@pytest.mark.parametrize("part", ["root", "subtree"])
def test_any_integer_of_a_state_may_be_any_other(part):
    """A crafted state is refused, or what it gives can be learned with and saved."""
    parts = Composition(
        {"lambda": 6, "min_cluster_records": 4, "max_nodes": 8, "max_leaves": 8, "min_child_records": 3}
    )
    parts.learn(nested(60, d=2), np.arange(60) % 3 - 1)
    engine = parts.root if part == "root" else parts.subtrees()[0]
    header, arrays = unpack(engine.state(), engine.name, engine.revision)
    refused = 0
    for name in arrays:
        if arrays[name].dtype == np.float64:
            continue
        for at in range(len(arrays[name])):
            for value in (0, 1, 7, 2**20, 2**62, -1):
                if arrays[name].dtype == np.uint8 and not 0 <= value < 256:
                    continue
                other = arrays[name].copy()
                other[at] = value
                try:
                    copy = type(engine).from_state(pack(engine.name, engine.revision, header, {**arrays, name: other}))
                except StateError:
                    refused += 1
                    continue
                if isinstance(copy, HCAEARoot):
                    copy.learn(shifting(40, d=2))
                else:
                    copy.follow(given(copy.node, shifting(40, d=2)))
                assert type(engine).from_state(copy.state()).state() == copy.state()
    assert refused > len(arrays["integers"])
