"""The records that nodes of a hierarchy keep: chains in one pool, the first entry of a tree's two lists.

A node keeps its records until it has a child model to learn them, and its last ones as long as it may still be
removed. ``floats[0]`` holds the records one behind the other; ``integers[0]`` a head, for each record the next one of
its chain, and for each its label.
"""

import numpy as np
from resonance.engine.arithmetic import jit

FREE = 0  # first unused record
ROOM = 1  # records there is room for
FREE_MODEL = 2  # first unused entry of the tree's lists
P_HEAD = 4


@jit
def new_pool(d, room):
    """Return an empty pool for `room` records."""
    integers = np.empty(P_HEAD + 2 * room, dtype=np.int64)
    integers[FREE] = 0 if room > 0 else -1
    integers[ROOM] = room
    integers[FREE_MODEL] = -1
    integers[3] = 0
    for slot in range(room):
        integers[P_HEAD + slot] = slot + 1 if slot + 1 < room else -1
        integers[P_HEAD + room + slot] = -1
    return np.zeros(d * room), integers


@jit
def put_record(records, pool, d, x, label):
    """Copy a record into the pool, which has room; return where it is."""
    slot = pool[FREE]
    pool[FREE] = pool[P_HEAD + slot]
    pool[P_HEAD + slot] = -1
    pool[P_HEAD + pool[ROOM] + slot] = label
    for i in range(d):
        records[slot * d + i] = x[i]
    return slot


@jit
def next_record(pool, slot):
    """Return the record that follows in the chain, -1 at its end."""
    return pool[P_HEAD + slot]


@jit
def label_of(pool, slot):
    """Return the label of a record."""
    return pool[P_HEAD + pool[ROOM] + slot]


@jit
def free_record(pool, slot):
    """Give a record back."""
    pool[P_HEAD + slot] = pool[FREE]
    pool[FREE] = slot


@jit
def append_record(pool, block, first, stride, slot):
    """Append a record to a chain: its first one stands in `block` at `first`, last and length `stride` apart behind."""
    pool[P_HEAD + slot] = -1
    if block[first] < 0:
        block[first] = slot
    else:
        pool[P_HEAD + block[first + stride]] = slot
    block[first + stride] = slot
    block[first + 2 * stride] += 1


@jit
def take_first(pool, block, first, stride):
    """Take the oldest record out of a chain; return where it is."""
    slot = block[first]
    block[first] = pool[P_HEAD + slot]
    if block[first] < 0:
        block[first + stride] = -1
    block[first + 2 * stride] -= 1
    return slot


@jit
def drop_all(pool, block, first, stride):
    """Give back every record of a chain."""
    while block[first] >= 0:
        free_record(pool, take_first(pool, block, first, stride))


@jit
def move_all(pool, block, first, stride, to, to_stride):
    """Append one chain of `block` to another one of it, and leave the first empty."""
    if block[first] < 0:
        return
    if block[to] < 0:
        block[to] = block[first]
    else:
        pool[P_HEAD + block[to + to_stride]] = block[first]
    block[to + to_stride] = block[first + stride]
    block[to + 2 * to_stride] += block[first + 2 * stride]
    block[first] = block[first + stride] = -1
    block[first + 2 * stride] = 0
