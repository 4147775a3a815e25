"""Where the models of a tree lie, and the records that nodes keep.

Records that nodes keep are chains in one pool. A node keeps its records until it has a child model to learn them, and
its last ones as long as it may still be removed.

``blocks[m]`` owns the block of model m; entry 0 is the pool of kept records, entry 1 the root. An entry whose model is
removed is used again. ``indexes`` is no part of the state: ``indexes[0]`` is the table, a row for each entry, and
``indexes[m]`` belongs to the leaves (see `tree`). Steps reach models by the table: taking a block from a list costs
twenty nanoseconds, and a record needs dozens of them.
"""

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.caea import faults
from resonance.engine.caea import model as layout
from resonance.engine.caea.model import HEAD, LEVEL, PARENT_ID, K, model_at, parts_of
from resonance.engine.caea.reading import stored_shapes
from resonance.engine.events import NO_REASON, VANISHED, emit
from resonance.kernels.arithmetic import jit
from resonance.kernels.table import Table, floats, ints
from resonance.kernels.table_memory import copy_block, new_block, plan_of, published, taker_of, words_of


class Pool(Table):
    """The records that nodes keep."""

    free: int = ints(stored=False)  # the first unused record, -1 for none
    free_model: int = ints(stored=False)  # the first unused entry of the tree, -1 for none
    follows: IntArray = ints("room", stored=False)  # the next record of a chain, or the next unused one; -1 for none
    label: IntArray = ints("room", stored=False)
    vector: FloatArray = floats("room", "d", stored=False)


_PLAN = plan_of(Pool, "d", "room")
_pool_at = taker_of(Pool)

FIRST, LAST, LENGTH = 0, 1, 2
"""A chain of records; see `Model.chain`."""
WAITING = 0
"""The chain of the records that wait; that of a node comes at its position + 1."""


@jit
def new_pool(d, room):
    """Return the block of an empty pool for `room` records."""
    block = new_block(_PLAN, (d, room))
    pool = _pool_at(published(block.ctypes.data))
    pool.free_model = -1
    for slot in range(room):
        pool.follows[slot] = slot + 1 if slot + 1 < room else -1
    return block


@jit
def put_record(pool, x, label):
    """Copy a record into the pool, which has room; return where it is."""
    slot = pool.free
    pool.free = pool.follows[slot]
    pool.label[slot] = label
    for i in range(len(x)):
        pool.vector[slot, i] = x[i]
    return slot


@jit
def free_record(pool, slot):
    """Give a record back."""
    pool.follows[slot] = pool.free
    pool.free = slot


@jit
def append_record(pool, chain, slot):
    """Append a record to a chain."""
    pool.follows[slot] = -1
    if chain[FIRST] < 0:
        chain[FIRST] = slot
    else:
        pool.follows[chain[LAST]] = slot
    chain[LAST] = slot
    chain[LENGTH] += 1


@jit
def take_first(pool, chain):
    """Take the oldest record out of a chain; return where it is."""
    slot = chain[FIRST]
    chain[FIRST] = pool.follows[slot]
    if chain[FIRST] < 0:
        chain[LAST] = -1
    chain[LENGTH] -= 1
    return slot


@jit
def drop_all(pool, chain):
    """Give back every record of a chain."""
    while chain[FIRST] >= 0:
        free_record(pool, take_first(pool, chain))


@jit
def move_all(pool, chain, to):
    """Append one chain to another one, and leave it empty."""
    while chain[FIRST] >= 0:
        append_record(pool, to, take_first(pool, chain))


POOL, ROOT = 0, 1

# A row of the table: the address of a model, 0 for none, and the next unused entry.
ADDRESS, NEXT = 0, 1


@jit
def model_of(table, m):
    """Return a model: good until it grows or is removed."""
    return model_at(table[m, ADDRESS])


@jit
def pool_of(table):
    """Return the pool: good until it grows."""
    return _pool_at(table[POOL, ADDRESS])


@jit
def put(blocks, table, m, block):
    """Put a block at an entry that there is."""
    blocks[m] = block
    table[m, ADDRESS] = published(block.ctypes.data)


@jit
def add(blocks, indexes, block):
    """Put a block at an entry of its own; return which."""
    m = pool_of(indexes[0]).free_model if len(blocks) > 0 else np.int64(-1)
    if m >= 0:
        pool_of(indexes[0]).free_model = indexes[0][m, NEXT]
    else:
        m = len(blocks)
        blocks.append(block)
        indexes.append(np.empty((0, 2), dtype=np.int64))
        if len(indexes[0]) <= m:
            table = np.empty((2 * m + 16, 2), dtype=np.int64)
            # Row by row: numba compiles the message about arrays of other shapes for seconds.
            for at in range(m):
                table[at, 0], table[at, 1] = indexes[0][at]
            indexes[0] = table
    put(blocks, indexes[0], m, block)
    return m


@jit
def new_model(blocks, indexes, rules, parent, parent_id, level):
    """Add an empty model to the tree; return its entry."""
    m = add(blocks, indexes, layout.new_model(rules.d, rules.h, layout.SMALLEST, layout.FEWEST_LINKS, 0))
    model = model_of(indexes[0], m)
    model.parent, model.parent_id, model.level = parent, parent_id, level
    return m


@jit
def grow_pool(blocks, table):
    """Double the pool; the new records are free."""
    old = pool_of(table)
    room, d = old.vector.shape
    block = new_pool(d, 2 * room)
    copy_block(_PLAN, words_of(old, _PLAN), block)
    _pool_at(published(block.ctypes.data)).free = room
    # Last: nothing is read of the old pool once it is gone, wherever LLVM moves its lengths to.
    put(blocks, table, POOL, block)


@jit
def drop_kept(pool, model, node):
    """Let a node keep nothing."""
    drop_all(pool, model.chain[node + 1])


@jit
def subtree(table, m, valid):
    """Return the models at and below `m`, depth first in node order; with `valid`, only those of more than 2 nodes."""
    found = np.empty(8, dtype=np.int64)
    stack = np.empty(8, dtype=np.int64)
    stack[0] = m
    count, left = 0, 1
    while left > 0:
        left -= 1
        m = stack[left]
        if count == len(found):
            found = np.concatenate((found, np.empty(count, dtype=np.int64)))
        found[count] = m
        count += 1
        model = model_of(table, m)
        if left + model.nodes > len(stack):
            stack = np.concatenate((stack, np.empty(model.nodes + len(stack), dtype=np.int64)))
        for node in range(model.nodes - 1, -1, -1):
            child = model.child[node]
            if child > POOL and (not valid or model_of(table, child).nodes > 2):
                stack[left] = child
                left += 1
    return found[:count]


@jit
def path_to(table, m, path):
    """Write the node ids that lead to a model."""
    model = model_of(table, m)
    while model.parent >= 0:
        path[model.level - 1] = model.parent_id
        model = model_of(table, model.parent)


@jit
def remove_model(blocks, table, rules, m, record, log):
    """Remove a model and all below it; its clusters vanish."""
    path = np.empty(rules.max_depth + 1, dtype=np.int64)
    models, pool = subtree(table, m, False), pool_of(table)
    for q in models:
        model = model_of(table, q)
        for row in range(model.nodes + 1):
            drop_all(pool, model.chain[row])
        if model.clusters > 0:
            path_to(table, q, path)
            shapes = stored_shapes(model)
            none = np.empty((0, shapes.shape[1]))
            for c in range(model.clusters):
                what, why = (VANISHED, model.cluster_id[c], -1), (NO_REASON, 0.0, 0.0)
                own, shape = path[: model.level], shapes[c : c + 1]
                model.events = emit(model.events, own, record, what, why, shape, none, log)
    for q in models:
        blocks[q] = np.empty(0, dtype=np.int64)
        table[q, ADDRESS], table[q, NEXT] = 0, pool.free_model
        pool.free_model = q


@jit
def tree_fault(floats, packed, rules, classes, first):
    """Return what is wrong with the packed models of a tree, `FITS` where nothing is, and at which integer.

    The first of them is the only one on level `first`: 0 for a root, 1 for what is below one of its nodes.

    They stand depth first in node order, and behind each what its nodes keep. Not checked here: how many leaves there
    are, which the tree itself says.
    """
    d = rules.d
    begins = np.full(rules.max_depth + 1, -1, dtype=np.int64)  # the last model of each level
    free = np.zeros(rules.max_depth + 1, dtype=np.int64)  # its first node that may be the parent of what comes
    at_floats, at, above = 0, 0, first - 1
    while at < len(packed):
        code, where = faults.model_fault(floats, at_floats, packed, at, rules, classes)
        if code != faults.FITS:
            return code, where
        k, level = packed[at + K], packed[at + LEVEL]
        if level > above + 1 or level < first or (level == first) != (at == 0):
            return LEVEL, at + LEVEL
        if level > first:
            parent = begins[level - 1]
            nodes = packed[parent + K]
            names = parent + HEAD + nodes
            node = free[level - 1]
            while node < nodes and packed[names + node] != packed[at + PARENT_ID]:
                node += 1
            if node == nodes:
                return PARENT_ID, at + PARENT_ID
            free[level - 1] = node + 1
        begins[level], free[level], above = at, 0, level
        _, _, _, kept, length = parts_of(packed, at, d, rules.h)
        at_floats += length
        at, last = kept + k + 1, level + 1 == rules.max_depth
        if at > len(packed):
            return faults.CUT, kept
        for node in range(k + 1):
            count = packed[kept + node]
            # Nodes of the last level never have a child that could learn what they kept.
            if count < 0 or (count > 0 and last) or (node < k and count > rules.keep):
                return faults.KEPT, kept + node
            if count > len(packed) - at or count * d > len(floats) - at_floats:
                return faults.CUT, kept + node
            if not np.isfinite(floats[at_floats : at_floats + count * d]).all():
                return faults.NUMBER, kept + node
            for record in range(at, at + count):
                if packed[record] < -1 or packed[record] >= classes:
                    return faults.KEPT, record
            at_floats += count * d
            at += count
    if at == 0:
        return faults.CUT, 0
    return (faults.FITS, 0) if at_floats == len(floats) else (faults.REST, at)
