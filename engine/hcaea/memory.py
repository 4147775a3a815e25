"""Where the models of a tree lie, and the records that nodes keep: an entry of three lists for each model.

Records that nodes keep are chains in one pool. A node keeps its records until it has a child model to learn them, and
its last ones as long as it may still be removed. ``floats[0]`` holds the records one behind the other; ``integers[0]``
a head, for each record the next one of its chain, and for each its label.

``floats[m]`` and ``integers[m]`` own the blocks of model m; entry 0 is the pool of kept records, entry 1 the root. An
entry whose model is removed is used again. ``indexes`` is no part of the state: ``indexes[0]`` is the table, a row for
each entry, and ``indexes[m]`` belongs to the leaves (see `tree`). Steps reach blocks by the table: taking one from a
list costs twenty nanoseconds, and a record needs dozens of them.
"""

import numpy as np
from resonance.engine.caea import block, faults
from resonance.engine.caea import block as layout
from resonance.engine.caea.block import at_cluster, at_field, copy_rows, new_block, parts_of
from resonance.engine.caea.reading import stored_shapes
from resonance.engine.events import NO_REASON, VANISHED, emit
from resonance.kernels.arithmetic import jit
from resonance.kernels.borrowed import floats_at, integers_at

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


POOL, ROOT = 0, 1

# A row of the table.
AT_FLOATS, FLOATS, AT_INTEGERS, INTEGERS = 0, 1, 2, 3


@jit
def block_of(table, m):
    """Return the floats of a model, borrowed: good until the model grows or is removed."""
    return floats_at(table[m, AT_FLOATS], table[m, FLOATS])


@jit
def head_of(table, m):
    """Return the integers of a model, borrowed: good until the model grows or is removed."""
    return integers_at(table[m, AT_INTEGERS], table[m, INTEGERS])


@jit
def put(floats, integers, table, m, block, head):
    """Put blocks at an entry that there is."""
    floats[m] = block
    integers[m] = head
    table[m, AT_FLOATS], table[m, FLOATS] = block.ctypes.data, len(block)
    table[m, AT_INTEGERS], table[m, INTEGERS] = head.ctypes.data, len(head)


@jit
def add(floats, integers, indexes, block, head):
    """Put blocks at an entry of their own; return which."""
    m = integers[POOL][FREE_MODEL] if len(integers) > 0 else -1
    if m >= 0:
        integers[POOL][FREE_MODEL] = integers[m][0]
    else:
        m = len(integers)
        floats.append(block)
        integers.append(head)
        indexes.append(np.empty((0, 4), dtype=np.int64))
        if len(indexes[0]) <= m:
            table = np.empty((2 * m + 16, 4), dtype=np.int64)
            for row in range(m):
                for at in range(4):
                    table[row, at] = indexes[0][row, at]
            indexes[0] = table
    put(floats, integers, indexes[0], m, block, head)
    return m


@jit
def new_model(floats, integers, indexes, rules, parent, parent_id, level):
    """Add an empty model to the tree; return its entry."""
    block, head = new_block(rules.d, rules.h, layout.SMALLEST, layout.FEWEST_LINKS, 0)
    head[layout.PARENT] = parent
    head[layout.PARENT_ID] = parent_id
    head[layout.LEVEL] = level
    return add(floats, integers, indexes, block, head)


@jit
def grow_pool(floats, integers, table, d):
    """Double the pool; the new records are free."""
    records, pool = new_pool(d, 2 * integers[POOL][ROOM])
    old_records, old = floats[POOL], integers[POOL]
    room = old[ROOM]
    copy_rows(records, 0, 0, old_records, 0, 0, 1, d * room)
    for slot in range(room):
        pool[P_HEAD + slot] = old[P_HEAD + slot]
        pool[P_HEAD + 2 * room + slot] = old[P_HEAD + room + slot]
    pool[FREE] = room
    pool[FREE_MODEL] = old[FREE_MODEL]
    put(floats, integers, table, POOL, records, pool)


@jit
def drop_kept(pool, head, node):
    """Let a node keep nothing."""
    drop_all(pool, head, at_field(layout.FIRST, head[layout.CAPACITY]) + node, head[layout.CAPACITY])


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
        head = head_of(table, m)
        children = at_field(layout.CHILD, head[layout.CAPACITY])
        if left + head[layout.K] > len(stack):
            stack = np.concatenate((stack, np.empty(head[layout.K] + len(stack), dtype=np.int64)))
        for node in range(head[layout.K] - 1, -1, -1):
            child = head[children + node]
            if child > POOL and (not valid or head_of(table, child)[layout.K] > 2):
                stack[left] = child
                left += 1
    return found[:count]


@jit
def path_to(table, m, path):
    """Write the node ids that lead to a model."""
    head = head_of(table, m)
    while head[layout.PARENT] >= 0:
        path[head[layout.LEVEL] - 1] = head[layout.PARENT_ID]
        head = head_of(table, head[layout.PARENT])


@jit
def remove_model(floats, integers, table, rules, m, record, log):
    """Remove a model and all below it; its clusters vanish."""
    path = np.empty(rules.max_depth + 1, dtype=np.int64)
    models = subtree(table, m, False)
    pool = head_of(table, POOL)
    for q in models:
        head = head_of(table, q)
        for node in range(head[layout.K]):
            drop_kept(pool, head, node)
        drop_all(pool, head, layout.WAIT_FIRST, 1)
        if head[layout.CLUSTERS] > 0:
            path_to(table, q, path)
            shapes = stored_shapes(block_of(table, q), head, rules)
            none = np.empty((0, shapes.shape[1]))
            for c in range(head[layout.CLUSTERS]):
                cluster = head[at_cluster(layout.CLUSTER_ID, head[layout.CAPACITY]) + c]
                what, why = (VANISHED, cluster, -1), (NO_REASON, 0.0, 0.0)
                own, shape = path[: head[layout.LEVEL]], shapes[c : c + 1]
                head[layout.EVENTS] = emit(head[layout.EVENTS], own, record, what, why, shape, none, log)
    for q in models:
        gone = np.empty(1, dtype=np.int64)
        gone[0] = pool[FREE_MODEL]
        put(floats, integers, table, q, np.empty(0), gone)
        pool[FREE_MODEL] = q


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
        k, level = packed[at + block.K], packed[at + block.LEVEL]
        if level > above + 1 or level < first or (level == first) != (at == 0):
            return block.LEVEL, at + block.LEVEL
        if level > first:
            parent = begins[level - 1]
            nodes = packed[parent + block.K]
            names = parent + block.HEAD + block.ID * nodes
            node = free[level - 1]
            while node < nodes and packed[names + node] != packed[at + block.PARENT_ID]:
                node += 1
            if node == nodes:
                return block.PARENT_ID, at + block.PARENT_ID
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
