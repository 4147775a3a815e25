"""Where the models of a tree lie: an entry of three lists for each, and a table of their addresses.

``floats[m]`` and ``integers[m]`` own the blocks of model m; entry 0 is the pool of kept records, entry 1 the root. An
entry whose model is removed is used again. ``indexes`` is no part of the state: ``indexes[0]`` is the table, a row for
each entry, and ``indexes[m]`` belongs to `leaves`. Steps reach blocks by the table: taking one from a list costs
twenty nanoseconds, and a record needs dozens of them.
"""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.borrowed import floats_at, integers_at
from resonance.engine.caea import block as layout
from resonance.engine.caea.block import at_cluster, at_field, copy_rows, new_block
from resonance.engine.caea.reading import stored_shapes
from resonance.engine.events import NO_REASON, VANISHED, emit
from resonance.engine.hcaea.kept_records import FREE, FREE_MODEL, P_HEAD, ROOM, drop_all, new_pool

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
                emit(head, layout.EVENTS, path[: head[layout.LEVEL]], record, what, why, shapes[c : c + 1], none, log)
    for q in models:
        gone = np.empty(1, dtype=np.int64)
        gone[0] = pool[FREE_MODEL]
        put(floats, integers, table, q, np.empty(0), gone)
        pool[FREE_MODEL] = q
