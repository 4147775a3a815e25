"""Sorting, joining and searching in kernels: numba's own sort takes seconds to compile for every type of numbers."""

import numpy as np
from resonance.kernels.arithmetic import bits_of, inline, jit

_DIGITS, _VALUES = 8, 256
"""A number is eight digits of a byte."""


@jit
def _key(value):
    """Return an integer without a sign that is in the order of the numbers."""
    # The sum makes one zero of both.
    bits = np.uint64(bits_of(value + 0.0))
    return ~bits if bits >> np.uint64(63) else bits | np.uint64(1 << 63)


@jit
def _digit(key, place):
    return np.int64(key >> np.uint64(8 * place) & np.uint64(_VALUES - 1))


@jit
def stable_order(values):
    """Return the positions of some numbers in ascending order; of equal ones the first comes first.

    By their digits, the last one first. Integers are below 2**53.
    """
    count = len(values)
    keys, order = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.int64)
    place = np.zeros((_DIGITS, _VALUES), dtype=np.int64)
    for at in range(count):
        keys[at], order[at] = _key(float(values[at])), at
        for digit in range(_DIGITS):
            place[digit, _digit(keys[at], digit)] += 1
    sorted_keys, sorted_order = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.int64)
    for digit in range(_DIGITS):
        if count == 0 or place[digit, _digit(keys[0], digit)] == count:
            continue
        before = 0
        for value in range(_VALUES):
            before, place[digit, value] = before + place[digit, value], before
        for at in range(count):
            value = _digit(keys[at], digit)
            to = place[digit, value]
            place[digit, value] += 1
            sorted_keys[to], sorted_order[to] = keys[at], order[at]
        keys, sorted_keys = sorted_keys, keys
        order, sorted_order = sorted_order, order
    return order


@inline
def put_in_order(ascending, count, value):
    """Put a value in its place of `count` ascending ones; there is room for it."""
    at = count
    while at > 0 and ascending[at - 1] > value:
        ascending[at] = ascending[at - 1]
        at -= 1
    ascending[at] = value


@inline
def nearest_marked(values, marks, count, far):
    """Return the first position of the smallest value whose mark is not below 0, and the value.

    -1 and `far` where none of these is below `far`.
    """
    where, best = np.int64(-1), far
    for j in range(count):
        if marks[j] >= 0 and values[j] < best:
            where, best = np.int64(j), values[j]
    return where, best


@jit
def root_of(parent, i):
    """Return the root of the set that `i` is in, where sets are only ever joined, and shorten the way to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i
