"""A batch learned by the root of a hierarchy alone: what its nodes' children would learn is written down instead.

The steps are those of `tree.learn_record` on the first level. What a child learns never comes back to the root,
so the root needs to know of a child no more than that it is there.
"""

import numpy as np
from numba import types
from numba.typed import List
from resonance.engine.arithmetic import jit
from resonance.engine.caea.batch import longest_idle, scratch_for
from resonance.engine.caea.block import CAPACITY, CHILD, FIRST, ID, KEPT, WAIT_FIRST, K, N, at_field, remove_nodes
from resonance.engine.caea.step import ANSWER, FOUNDED, SCORE
from resonance.engine.hcaea.kept_records import label_of, next_record
from resonance.engine.hcaea.memory import POOL, ROOT, block_of, drop_kept, head_of
from resonance.engine.hcaea.tree import adopt, drop_settled, learn_here, let_go, read_model

THERE = 0
"""Stands where a tree has the entry of a child model: the child is there, but elsewhere."""

# An operation is a row of integers, and a vector beside it.
O_NODE, O_RECORD, O_REMOVED, O_ANSWERED, O_LABEL, O_WIDTH = 0, 1, 2, 3, 4, 5

ROWS, VECTORS = types.int64[:, ::1], types.float64[:, ::1]


@jit
def _append(rows, vectors, count, node, record, removed, answered, label, x):
    """Append an operation; return how many there are."""
    if count == len(rows[0]):
        longer, wider = np.empty((2 * count, O_WIDTH), dtype=np.int64), np.zeros((2 * count, vectors[0].shape[1]))
        for at in range(count):
            for i in range(O_WIDTH):
                longer[at, i] = rows[0][at, i]
            for i in range(wider.shape[1]):
                wider[at, i] = vectors[0][at, i]
        rows[0], vectors[0] = longer, wider
    row = rows[0][count]
    row[O_NODE] = node
    row[O_RECORD] = record
    row[O_REMOVED] = removed
    row[O_ANSWERED] = answered
    row[O_LABEL] = label
    if not removed:
        for i in range(len(x)):
            vectors[0][count, i] = x[i]
    return count + 1


@jit
def _pass_on(table, rules, node, record, answered, label, x, rows, vectors, count):
    """Append what the child of a node learns: the node's new record; where the child is new, all that the node kept."""
    head, pool, records = head_of(table, ROOT), head_of(table, POOL), block_of(table, POOL)
    capacity = head[CAPACITY]
    name = head[at_field(ID, capacity) + node]
    if head[at_field(CHILD, capacity) + node] >= 0:
        return _append(rows, vectors, count, name, record, 0, answered, label, x)
    if head[at_field(KEPT, capacity) + node] >= rules.min_child_records:
        head[at_field(CHILD, capacity) + node] = THERE
        slot = head[at_field(FIRST, capacity) + node]
        while slot >= 0:
            following = next_record(pool, slot)
            # The last one that the node kept is the one that has just come.
            last = answered if following < 0 else 0
            kept = records[slot * rules.d : (slot + 1) * rules.d]
            count = _append(rows, vectors, count, name, record, 0, last, label_of(pool, slot), kept)
            slot = following
    return count


@jit
def _remove(table, rules, gone, removed, record, rows, vectors, count):
    """Remove nodes of the root, whose positions ascend, and append the removal of the children they have."""
    head = head_of(table, ROOT)
    capacity = head[CAPACITY]
    for r in range(removed):
        if head[at_field(CHILD, capacity) + gone[r]] >= 0:
            name = head[at_field(ID, capacity) + gone[r]]
            count = _append(rows, vectors, count, name, record, 1, 0, -1, vectors[0][0])
    remove_nodes(block_of(table, ROOT), head, rules.d, gone, removed)
    return count


@jit
def learn_root(
    floats, integers, indexes, rules, factors, X, labels, log, rows, vectors, cluster, score, novel, nodes
):  # fmt: skip
    """Learn a batch in order and fill what is answered for each record; return the number of operations.

    `rows` and `vectors` are lists of one array each, replaced by longer ones as they fill.
    """
    table, scratch = indexes[0], scratch_for(rules)
    _, _, gone, _, row = scratch
    path, orphan = np.empty(1, dtype=np.int64), np.empty(rules.d)
    deeper = rules.max_depth > 1
    count = 0
    for t in range(len(X)):
        clock = head_of(table, ROOT)[N] + 1
        node = learn_here(
            floats, integers, table, rules, factors, ROOT, np.int64(-1), clock, X[t], labels[t], scratch
        )  # fmt: skip
        head, pool = head_of(table, ROOT), head_of(table, POOL)
        cluster[t, 0] = np.int64(row[ANSWER])
        nodes[t, 0] = head[at_field(ID, head[CAPACITY]) + node]
        score[t] = row[SCORE]
        novel[t] = row[FOUNDED] == 1.0
        if deeper:
            count = _pass_on(table, rules, node, t, 1, labels[t], X[t], rows, vectors, count)
            drop_settled(pool, head, rules, node)
        if head[K] > rules.max_nodes:
            gone[0] = longest_idle(head)
            drop_kept(pool, head, gone[0])
            count = _remove(table, rules, gone, 1, t, rows, vectors, count)
        if head[N] % rules.interval == 0:
            removed = let_go(table, rules, ROOT, gone)
            if removed > 0:
                count = _remove(table, rules, gone, removed, t, rows, vectors, count)
            read_model(block_of(table, ROOT), head, rules, factors, path, t, log, scratch)
        while head[WAIT_FIRST] >= 0 and head[K] > 0:
            node, label = adopt(floats, integers, table, rules, ROOT, orphan, scratch)
            head = head_of(table, ROOT)
            count = _pass_on(table, rules, node, t, 0, label, orphan, rows, vectors, count)
            drop_settled(pool, head, rules, node)
    return count


@jit
def children_of(table):
    """Return for each node of the root whether it has a child."""
    head = head_of(table, ROOT)
    start = at_field(CHILD, head[CAPACITY])
    return (head[start : start + head[K]] >= 0).astype(np.uint8)


@jit
def give_children(table, there):
    """Write down which nodes of the root have a child."""
    head = head_of(table, ROOT)
    start = at_field(CHILD, head[CAPACITY])
    for node in range(head[K]):
        head[start + node] = THERE if there[node] else -1


@jit
def room_for_operations(count, d):
    """Return the lists that `learn_root` writes to."""
    rows, vectors = List.empty_list(ROWS), List.empty_list(VECTORS)
    rows.append(np.empty((count, O_WIDTH), dtype=np.int64))
    vectors.append(np.zeros((count, d)))
    return rows, vectors
