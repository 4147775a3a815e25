"""Arrays that are declared once: their room, what a state has of them, and what it may have."""

import copy
import gc

import numpy as np
import pytest
from numba.core.errors import TypingError
from resonance.engine.base import FloatArray, IntArray
from resonance.kernels import table
from resonance.kernels.arithmetic import jit
from resonance.kernels.table import Table, checked, floats, ints, new, packed, put, resized


class Model(Table):
    learned: int = ints(low=1, rows="head")
    counted: int = ints(fill=7, stored=False)
    next_id: int = ints(high="learned", rows="head")
    width: float = floats(stored=False)
    id: IntArray = ints("slots", below="next_id", ascending=True, rows="number")
    seen: IntArray = ints("slots", stored=False)
    size: IntArray = ints("slots", low=1, total="learned", rows="number")
    at: FloatArray = floats("d", "slots+8", most=10.0, stored="place", turned=True)
    low: FloatArray = floats("slots", "d", columns="range")
    high: FloatArray = floats("slots", "d", columns="range")
    votes: IntArray = ints("slots", "classes", sparse=True, low=1)
    free: IntArray = ints("slots", fill=np.arange, stored=False)
    gap: FloatArray = floats("slots", 2, fill=np.inf, stored=False)


def model():
    made = new(Model, d=2, slots=4, classes=3)
    made.learned, made.next_id, made.width = 9, 5, 0.5
    made.id[:2], made.seen[:2], made.size[:2] = [1, 4], [8, 8], [2, 3]
    made.at[:, :2] = [[1.0, 2.0], [3.0, 4.0]]
    made.high[0] = 1.0
    made.votes[1, 2] = 6
    return made


def arrays():
    return packed(model(), slots=2)


def test_a_state_has_what_is_used_and_what_does_not_follow():
    assert {name: array.tolist() for name, array in arrays().items()} == {
        "head": [9, 5],
        "number": [[1, 4], [2, 3]],
        "place": [[1.0, 3.0], [2.0, 4.0]],
        "range": [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]],
        "votes": [[1, 2, 6]],
    }
    listed = packed(model(), slots=np.array([1, 0]))
    assert listed["place"].tolist() == [[2.0, 4.0], [1.0, 3.0]]
    assert listed["votes"].tolist() == [[0, 2, 6]]


def test_a_model_comes_back_from_its_state():
    found = checked(Model, arrays(), classes=3)
    assert (found["learned"], found["next_id"], found["slots"], found["d"]) == (9, 5, 2, 2)
    other = new(Model, d=2, slots=6, classes=3)
    put(other, found)
    again = packed(other, slots=2)
    assert all((again[name] == array).all() for name, array in arrays().items())


def test_a_model_that_grows_keeps_what_it_has():
    old = model()
    larger = resized(old, slots=6, classes=3)
    assert (larger.learned, larger.counted, larger.next_id, larger.width) == (9, 7, 5, 0.5)
    assert (larger.id.shape, larger.at.shape, larger.votes.shape) == ((6,), (2, 14), (6, 3))
    assert (larger.id[:4] == old.id).all()
    assert (larger.at[:, :12] == old.at).all()
    assert larger.free.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.isinf(larger.gap).all()
    assert resized(old, slots=4) is old


def test_a_batch_that_needs_no_more_room_looks_at_no_other_array(monkeypatch):
    old, looked = model(), []
    assert resized(old, classes=old.votes.shape[1]) is old
    monkeypatch.setattr(table, "_name", lambda axis: looked.append(axis) or "")
    assert resized(old, classes=old.votes.shape[1]) is old
    assert looked == []


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        *(("head", 0, 0), ("head", 1, 10), ("number", (0, 1), 5), ("number", (0, 1), 1), ("number", (1, 0), 0)),
        *(("number", (1, 0), 7), ("place", (0, 0), np.nan), ("place", (0, 0), 10.5), ("votes", (0, 0), 2)),
        *(("votes", (0, 1), 3), ("votes", (0, 2), 0), ("votes", (0, 0), -1)),
    ],
)
def test_a_number_that_the_declaration_excludes_is_refused(name, at, value):
    found = {**arrays()}
    found[name] = found[name].copy()
    found[name][at] = value
    with pytest.raises(ValueError, match=name):
        checked(Model, found, classes=3)


@pytest.mark.parametrize("name", ["head", "number", "place", "range", "votes"])
def test_other_types_and_shapes_are_refused(name):
    array = arrays()[name]
    for other in (array.astype(np.int32), array[None], np.concatenate([array, array]), array[..., :0]):
        with pytest.raises(ValueError, match=r"of shape|of int32|the places"):
            checked(Model, {**arrays(), name: other}, d=2, classes=3)


@jit
def changed(table, slot):
    table.gap[slot, 1] = 3.0
    table.size[slot] += table.next_id
    table.learned += 1
    table.width *= 4.0
    return table.at.shape, table.gap[slot].sum()


def test_kernels_read_and_write_the_arrays_and_numbers_of_a_table():
    table = model()
    assert changed(table, 2) == ((2, 12), np.inf)
    assert (table.gap[2, 1], table.size[2], table.learned, table.width) == (3.0, 5, 10, 2.0)


@jit
def _fill(model, number):
    """Write to arrays of a table after others were allocated where its memory would be if it were free."""
    taken = 0.0
    for _ in range(50):
        taken += np.full(1_000, 7.0)[3]
    model.seen[:] = number
    model.gap[:] = taken
    return model.seen.sum() + model.size.sum()


def test_a_table_that_nobody_else_has_lives_as_long_as_its_kernel():
    for number in range(10):
        assert _fill(resized(model(), slots=40 + number), number) == (40 + number) * number + 5
        gc.collect()


def test_a_copy_of_a_table_has_arrays_of_its_own():
    table = model()
    other = copy.deepcopy(table)
    changed(other, 1)
    assert (other.gap[1, 1], table.gap[1, 1]) == (3.0, np.inf)
    assert (other.learned, table.learned) == (10, 9)


@jit
def replaced(table):
    table.id = table.size


def test_an_array_of_a_table_is_not_replaced():
    with pytest.raises(AttributeError, match=r"Model\.id stays the same array"):
        model().id = np.zeros(3, dtype=np.int64)
    with pytest.raises(TypingError, match="id stays the same array"):
        replaced(model())
