"""Tables that kernels make, read and enlarge themselves."""

import gc

import numpy as np
import pytest
from numba import types
from numba.typed import List
from resonance.engine.base import FloatArray, IntArray
from resonance.kernels.arithmetic import jit
from resonance.kernels.table import Table, floats, ints, new
from resonance.kernels.table_memory import copy_block, new_block, plan_of, published, taker_of, words_of


class Model(Table):
    used: int = ints()
    mean: float = floats()
    id: IntArray = ints("slots")
    at: FloatArray = floats("d", "slots+8")
    pair: IntArray = ints("slots", 2)
    width: float = floats()


_PLAN = plan_of(Model, "d", "slots")
_model_at = taker_of(Model)
_LENGTH = Model._numba_type_.first["id"] + 1


@jit
def _made(d, slots):
    """Return the block of a model, of which each number says where it is."""
    block = new_block(_PLAN, (d, slots))
    model = _model_at(published(block.ctypes.data))
    model.used, model.mean, model.width = slots, 0.5, 0.25
    for slot in range(len(model.id)):
        model.id[slot] = slot
        model.pair[slot, 0], model.pair[slot, 1] = slot, -slot
    for i in range(len(model.at)):
        for slot in range(model.at.shape[1]):
            model.at[i, slot] = 100.0 * i + slot
    return block


@jit
def _enlarged(model, d, slots):
    block = new_block(_PLAN, (d, slots))
    copy_block(_PLAN, words_of(model, _PLAN), block)
    return block


def test_a_kernel_makes_the_table_that_python_makes():
    block = _made(3, 5)
    model, other = Model(block), new(Model, d=3, slots=5)
    assert block.shape == other._block.shape
    assert [getattr(model, name).shape for name in ("id", "at", "pair")] == [(5,), (3, 13), (5, 2)]
    other.used, other.mean, other.width = 5, 0.5, 0.25
    other.id[:], other.pair[:] = np.arange(5), np.outer(np.arange(5), [1, -1])
    other.at[:] = 100.0 * np.arange(3)[:, None] + np.arange(13)
    assert (block == other._block).all()


@pytest.mark.parametrize("slots", [3, 5, 9])
def test_a_table_of_another_size_has_what_both_have_room_for(slots):
    old = Model(_made(3, 5))
    found, both = Model(_enlarged(old, 3, slots)), min(slots, 5)
    assert (found.used, found.mean, found.width) == (5, 0.5, 0.25)
    for name in ("id", "pair"):
        assert (getattr(found, name)[:both] == getattr(old, name)[:both]).all()
        assert not getattr(found, name)[both:].any()
    assert (found.at[:, : both + 8] == old.at[:, : both + 8]).all()
    assert not found.at[:, both + 8 :].any()


@jit
def _lengths(times):
    """Return the length of an array of a table, to which the kernel adds 1 so many times."""
    block = new_block(_PLAN, (1, 0))
    for _ in range(times):
        block[_LENGTH] = len(_model_at(published(block.ctypes.data)).id) + 1
    return len(_model_at(published(block.ctypes.data)).id)


def test_a_kernel_that_writes_where_arrays_lie_reads_it_thereafter():
    """LLVM loads these words once for all uses of an address."""
    assert _lengths(100) == 100


@jit
def _grown(blocks, times):
    """Enlarge a table in its entry over and over; the one before is free then."""
    for _ in range(times):
        model = _model_at(published(blocks[0].ctypes.data))
        d, slots = len(model.at), len(model.id)
        block = _enlarged(model, d, slots + 1)
        blocks[0] = block
        model = _model_at(published(block.ctypes.data))
        model.id[slots] = slots
    return len(_model_at(published(blocks[0].ctypes.data)).id)


def test_a_table_that_grows_in_its_place_is_the_new_one_at_once():
    blocks = List.empty_list(types.int64[::1])
    blocks.append(_made(2, 1))
    held = Model(blocks[0])
    assert _grown(blocks, 200) == 201
    gc.collect()
    assert Model(blocks[0]).id.tolist() == list(range(201))
    # Python holds the memory of a table that it has taken.
    assert (held.id.tolist(), held.at.shape) == ([0], (2, 9))
