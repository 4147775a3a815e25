"""Batches of a tree, of its root alone and of what lies below one node; and the tree packed for a snapshot.

The root alone writes down what the children of its nodes would learn. Its steps are those of `tree.learn_record` on the
first level. What a child learns never comes back to the root, so the root needs to know of a child no more than that it
is there. What lies below one of its nodes is a tree whose root is a place holder.
"""

import numpy as np
from numba import types
from numba.typed import List
from resonance.engine.caea import block as layout
from resonance.engine.caea.block import (
    CAPACITY,
    CHILD,
    FIRST,
    ID,
    KEPT,
    NEXT_ID,
    WAIT_FIRST,
    K,
    N,
    at_field,
    at_threshold,
    copy_rows,
    mean_sigma,
    packed_model,
    parts_of,
    remove_nodes,
    unpacked_model,
)
from resonance.engine.caea.learn import ANSWER, FOUNDED, SCORE, longest_idle, scratch_for
from resonance.engine.correntropy import FAR, cim, scale_of, smallest, squared_cim
from resonance.engine.hcaea.memory import (
    FREE,
    POOL,
    ROOT,
    add,
    append_record,
    block_of,
    drop_kept,
    grow_pool,
    head_of,
    label_of,
    new_model,
    next_record,
    put_record,
    subtree,
)
from resonance.engine.hcaea.tree import (
    PATH,
    adopt,
    drop_settled,
    learn_here,
    learn_record,
    leaves_below,
    let_go,
    read_model,
)
from resonance.kernels.arithmetic import jit

FLOATS, INTEGERS, INDEX = types.float64[::1], types.int64[::1], types.int64[:, ::1]


@jit
def new_lists():
    """Return the three empty lists that a tree lies in; see `memory`."""
    return List.empty_list(FLOATS), List.empty_list(INTEGERS), List.empty_list(INDEX)


@jit
def learn_batch(floats, integers, indexes, rules, factors, X, labels, log, clusters, score, novel, nodes):
    """Learn a batch in order; fill what is answered for each record."""
    scratch = scratch_for(rules)
    scored = np.empty(2)
    rows, levels = np.empty((rules.max_depth, rules.d)), np.empty((8, rules.max_depth), dtype=np.int64)
    for t in range(len(X)):
        for i in range(rules.d):
            rows[0, i] = X[t, i]
        learn_record(
            floats, integers, indexes, rules, factors, ROOT, 0, 1, rows, labels[t], t, log, scratch, levels,
            clusters[t], nodes[t], scored,
        )  # fmt: skip
        score[t] = scored[0]
        novel[t] = scored[1] == 1.0


@jit
def predict_labels(weights, stride, leaves, sigma, label, X, out):
    """Answer each record with the majority label of the nearest leaf that has one, by the mean bandwidth of all."""
    d = X.shape[1]
    total = 0.0
    for j in range(leaves):
        total += sigma[j]
    scale = scale_of(total / leaves)
    sums, squares = np.empty(stride), np.empty(stride, dtype=np.int64)
    for t in range(len(X)):
        squared_cim(weights, stride, leaves, d, scale, X[t], sums, squares)
        for j in range(leaves):
            if label[j] < 0:
                squares[j] = FAR
        where, best = smallest(squares, stride)
        if best < FAR:
            out[t] = label[where]


@jit
def predict_clusters(indexes, rules, X, clusters, score):
    """Answer each record on every level of the path that it would take: down to where it would found a node."""
    table = indexes[0]
    room = (rules.max_nodes + 16) // 8 * 8
    sums, squares = np.empty(room), np.empty(room, dtype=np.int64)
    for t in range(len(X)):
        m = ROOT
        while m >= 0 and head_of(table, m)[layout.K] > 0:
            block, head = block_of(table, m), head_of(table, m)
            capacity, k, level = head[layout.CAPACITY], head[layout.K], head[layout.LEVEL]
            squared_cim(
                block[layout.F_HEAD:], capacity, k, rules.d, scale_of(mean_sigma(block, k)), X[t], sums, squares
            )  # fmt: skip
            where, nearest = smallest(squares, (k + 7) & ~7)
            near, best = -1, FAR
            for j in range(k):
                if head[at_field(layout.CLUSTER, capacity) + j] >= 0 and squares[j] < best:
                    near, best = j, squares[j]
            if near >= 0:
                clusters[t, level] = head[at_field(layout.CLUSTER, capacity) + near]
                if level == 0:
                    score[t] = 1.0 - cim(best)
            if k < rules.h or cim(nearest) > block[at_threshold(rules.d, capacity) + where]:
                break
            m = head[at_field(layout.CHILD, capacity) + where]


@jit
def _pack_chain(floats, pool, d, slot, count):
    """Return the `count` records of a chain one behind the other, and their labels."""
    records, labels = np.empty(count * d), np.empty(count, dtype=np.int64)
    for at in range(count):
        copy_rows(records, at * d, 0, floats, slot * d, 0, 1, d)
        labels[at] = label_of(pool, slot)
        slot = next_record(pool, slot)
    return records, labels


@jit
def pack_tree(indexes, rules, first):
    """Return a model and those below it with what their nodes keep, depth first in node order: two lists of arrays."""
    table, out_floats, out_integers = indexes[0], List.empty_list(FLOATS), List.empty_list(INTEGERS)
    for m in subtree(table, first, False):
        head = head_of(table, m)
        capacity, k = head[layout.CAPACITY], head[layout.K]
        block, packed = packed_model(block_of(table, m), head, rules.d, rules.h)
        out_floats.append(block)
        out_integers.append(packed)
        kept = np.empty(k + 1, dtype=np.int64)
        copy_rows(kept, 0, 0, head, at_field(layout.KEPT, capacity), 0, 1, k)
        kept[k] = head[layout.WAITING]
        out_integers.append(kept)
        for node in range(k + 1):
            slot = head[at_field(layout.FIRST, capacity) + node] if node < k else head[layout.WAIT_FIRST]
            records, labels = _pack_chain(block_of(table, POOL), head_of(table, POOL), rules.d, slot, kept[node])
            out_floats.append(records)
            out_integers.append(labels)
    return out_floats, out_integers


@jit
def unpack_tree(floats, integers, indexes, rules, packed_floats, packed, above):
    """Append every model of a packed tree that fits; return False where it has other leaves than it says.

    `above` is the root that the first one is below, -1 where the first one is the root.
    """
    d, h = rules.d, rules.h
    at_f, at_i = 0, 0
    last = np.full(rules.max_depth + 1, -1, dtype=np.int64)  # the last model of each level: the parent of what comes
    last[0] = above
    while at_i < len(packed):
        _, _, _, end, length = parts_of(packed, at_i, d, h)
        block, head = unpacked_model(packed_floats[at_f : at_f + length], packed[at_i:end], d, h)
        at_f, at_i = at_f + length, end
        m = add(floats, integers, indexes, block, head)
        level, capacity, k = head[layout.LEVEL], head[layout.CAPACITY], head[layout.K]
        if level > 0:
            parent = integers[last[level - 1]]
            head[layout.PARENT] = last[level - 1]
            for node in range(parent[layout.K]):
                if parent[at_field(layout.ID, parent[layout.CAPACITY]) + node] == head[layout.PARENT_ID]:
                    parent[at_field(layout.CHILD, parent[layout.CAPACITY]) + node] = m
        last[level] = m
        kept = packed[at_i : at_i + k + 1]
        at_i += k + 1
        for node in range(k + 1):
            for _ in range(kept[node]):
                if integers[POOL][FREE] < 0:
                    grow_pool(floats, integers, indexes[0], d)
                slot = put_record(floats[POOL], integers[POOL], d, packed_floats[at_f : at_f + d], packed[at_i])
                at_f += d
                at_i += 1
                if node < k:
                    append_record(integers[POOL], head, at_field(layout.FIRST, capacity) + node, capacity, slot)
                else:
                    append_record(integers[POOL], head, layout.WAIT_FIRST, 1, slot)
    for m in range(ROOT, len(integers)):
        if integers[m][layout.LEVEL] == 1 and integers[m][layout.LEAVES] != leaves_below(indexes[0], m):
            return False
    return True


THERE = 0
"""Stands where a tree has the entry of a child model: the child is there, but elsewhere."""

# An operation is a row of floats: this head, and the vector.
O_NODE, O_RECORD, O_REMOVED, O_ANSWERED, O_LABEL, O_HEAD = 0, 1, 2, 3, 4, 5


@jit
def _append(log, d, node, record, removed, answered, label, x):
    """Append an operation to a log of them; one that removes has no vector."""
    row = np.zeros(O_HEAD + d)
    row[O_NODE], row[O_RECORD], row[O_REMOVED], row[O_ANSWERED], row[O_LABEL] = node, record, removed, answered, label
    if not removed:
        for i in range(d):
            row[O_HEAD + i] = x[i]
    log.append(row)


@jit
def _pass_on(table, rules, node, record, answered, label, x, operations):
    """Append what the child of a node learns: the node's new record; where the child is new, all that the node kept."""
    head, pool, records = head_of(table, ROOT), head_of(table, POOL), block_of(table, POOL)
    capacity = head[CAPACITY]
    name = head[at_field(ID, capacity) + node]
    if head[at_field(CHILD, capacity) + node] >= 0:
        _append(operations, rules.d, name, record, 0, answered, label, x)
    elif head[at_field(KEPT, capacity) + node] >= rules.min_child_records:
        head[at_field(CHILD, capacity) + node] = THERE
        slot = head[at_field(FIRST, capacity) + node]
        while slot >= 0:
            following = next_record(pool, slot)
            # The last one that the node kept is the one that has just come.
            last = answered if following < 0 else 0
            kept = records[slot * rules.d : (slot + 1) * rules.d]
            _append(operations, rules.d, name, record, 0, last, label_of(pool, slot), kept)
            slot = following


@jit
def _remove(table, rules, gone, removed, record, operations):
    """Remove nodes of the root, whose positions ascend, and append the removal of the children they have."""
    head = head_of(table, ROOT)
    capacity = head[CAPACITY]
    for r in range(removed):
        if head[at_field(CHILD, capacity) + gone[r]] >= 0:
            name = head[at_field(ID, capacity) + gone[r]]
            _append(operations, rules.d, name, record, 1, 0, -1, block_of(table, ROOT))
    remove_nodes(block_of(table, ROOT), head, rules.d, gone, removed)


@jit
def learn_root(floats, integers, indexes, rules, factors, X, labels, log, operations, cluster, score, novel, nodes):
    """Learn a batch in order, fill what is answered for each record, and append the operations to their log."""
    table, scratch = indexes[0], scratch_for(rules)
    _, _, gone, _, row = scratch
    path, orphan = np.empty(1, dtype=np.int64), np.empty(rules.d)
    deeper = rules.max_depth > 1
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
            _pass_on(table, rules, node, t, 1, labels[t], X[t], operations)
            drop_settled(pool, head, rules, node)
        if head[K] > rules.max_nodes:
            gone[0] = longest_idle(head)
            drop_kept(pool, head, gone[0])
            _remove(table, rules, gone, 1, t, operations)
        if head[N] % rules.interval == 0:
            removed = let_go(table, rules, ROOT, gone)
            if removed > 0:
                _remove(table, rules, gone, removed, t, operations)
            read_model(block_of(table, ROOT), head, rules, factors, path, t, log, scratch)
        while head[WAIT_FIRST] >= 0 and head[K] > 0:
            node, label = adopt(floats, integers, table, rules, ROOT, orphan, scratch)
            head = head_of(table, ROOT)
            _pass_on(table, rules, node, t, 0, label, orphan, operations)
            drop_settled(pool, head, rules, node)


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


TOP = 2
"""Entry of the model on the second level; that of the place holder is `ROOT`."""


@jit
def hold_place(floats, integers, indexes, rules, node):
    """Add a root of one node, whose child is going to be the model at `TOP`."""
    m = new_model(floats, integers, indexes, rules, -1, -1, 0)
    head = integers[m]
    head[K] = 1
    head[NEXT_ID] = node + 1
    head[at_field(ID, head[CAPACITY])] = node
    head[at_field(CHILD, head[CAPACITY])] = TOP


@jit
def learn_below(floats, integers, indexes, rules, factors, node, X, labels, records, answered, log, clusters, nodes):
    """Learn vectors in order; fill what is answered for those that are."""
    scratch = scratch_for(rules)
    scored = np.empty(2)
    rows, levels = np.empty((rules.max_depth, rules.d)), np.empty((8, rules.max_depth), dtype=np.int64)
    levels[PATH, 0] = node
    for t in range(len(X)):
        rows[1] = X[t]
        learn_record(
            floats, integers, indexes, rules, factors, TOP, 1, answered[t], rows, labels[t], records[t], log, scratch,
            levels, clusters[t], nodes[t], scored,
        )  # fmt: skip
