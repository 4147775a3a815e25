"""Batches of a tree, of its root alone and of what lies below one node; and the tree packed for a snapshot.

The root alone writes down what the children of its nodes would learn. Its steps are those of `tree.learn_record` on the
first level. What a child learns never comes back to the root, so the root needs to know of a child no more than that it
is there. What lies below one of its nodes is a tree whose root is a place holder.
"""

import numpy as np
from numba import types
from numba.typed import List
from resonance.engine.caea.learn import ANSWER, FOUNDED, SCORE, longest_idle, read_model, scratch_for
from resonance.engine.caea.model import mean_sigma, packed_model, parts_of, remove_nodes, unpacked_model
from resonance.engine.correntropy import FAR, cim, scale_of, smallest, squared_cim
from resonance.engine.hcaea.memory import (
    FIRST,
    LENGTH,
    ROOT,
    WAITING,
    add,
    append_record,
    drop_kept,
    grow_pool,
    model_of,
    new_model,
    pool_of,
    put_record,
    subtree,
)
from resonance.engine.hcaea.tree import (
    PATH,
    assign_orphan,
    drop_kept_of_linked,
    learn_here,
    learn_record,
    leaves_below,
    release_records,
)
from resonance.kernels.arithmetic import jit

FLOATS, INTEGERS, INDEX = types.float64[::1], types.int64[::1], types.int64[:, ::1]


@jit
def new_lists():
    """Return the two empty lists that a tree lies in; see `memory`."""
    return List.empty_list(INTEGERS), List.empty_list(INDEX)


@jit
def learn_batch(blocks, indexes, rules, factors, first, above, X, labels, records, answered, log, step):
    """Learn vectors in order, by the model `first` and all below it; fill what is answered for those that are.

    `above` are the ids of the nodes that lead to it. What the root answers is left alone for models below it.
    """
    scratch, (clusters, score, novel, nodes), start = scratch_for(rules), step, len(above)
    scored = np.array((np.nan, 0.0))
    rows, levels = np.empty((rules.max_depth, rules.d)), np.empty((8, rules.max_depth), dtype=np.int64)
    levels[PATH, :start] = above
    for t in range(len(X)):
        rows[start] = X[t]
        learn_record(
            blocks, indexes, rules, factors, first, start, answered[t], rows, labels[t], records[t], log, scratch,
            levels, clusters[t], nodes[t], scored,
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
def predict_clusters(indexes, rules, X, clusters, score, novel):
    """Answer each record on every level of the path that it would take: down to where it would found a node."""
    table = indexes[0]
    room = (rules.max_nodes + 16) // 8 * 8
    sums, squares = np.empty(room), np.empty(room, dtype=np.int64)
    for t in range(len(X)):
        m = ROOT
        novel[t] = model_of(table, m).nodes == 0
        while m >= 0 and model_of(table, m).nodes > 0:
            model = model_of(table, m)
            k, scale = model.nodes, scale_of(mean_sigma(model))
            squared_cim(model.weight.reshape(-1), len(model.id), k, rules.d, scale, X[t], sums, squares)
            where, nearest = smallest(squares, (k + 7) & ~7)
            near, best = -1, FAR
            for j in range(k):
                if model.cluster[j] >= 0 and squares[j] < best:
                    near, best = j, squares[j]
            if near >= 0:
                clusters[t, model.level] = model.cluster[near]
                if model.level == 0:
                    score[t] = 1.0 - cim(best)
            if k < rules.h or cim(nearest) > model.threshold[where]:
                novel[t] = model.level == 0
                break
            m = model.child[where]


@jit
def _pack_chain(pool, chain):
    """Return the records of a chain one behind the other, and their labels."""
    d = pool.vector.shape[1]
    records, labels = np.empty(chain[LENGTH] * d), np.empty(chain[LENGTH], dtype=np.int64)
    slot = chain[FIRST]
    for at in range(chain[LENGTH]):
        records[at * d : (at + 1) * d] = pool.vector[slot]
        labels[at] = pool.label[slot]
        slot = pool.follows[slot]
    return records, labels


@jit
def pack_tree(indexes, first):
    """Return a model and those below it with what their nodes keep, depth first in node order: two lists of arrays."""
    table, out_floats, out_integers = indexes[0], List.empty_list(FLOATS), List.empty_list(INTEGERS)
    for m in subtree(table, first, False):
        model = model_of(table, m)
        floats, integers = packed_model(model)
        out_floats.append(floats)
        out_integers.append(integers)
        # What waits comes behind what the nodes keep.
        chains = np.roll(np.arange(model.nodes + 1), -1)
        out_integers.append(model.chain[:, LENGTH][chains])
        for at in chains:
            records, labels = _pack_chain(pool_of(table), model.chain[at])
            out_floats.append(records)
            out_integers.append(labels)
    return out_floats, out_integers


@jit
def unpack_tree(blocks, indexes, rules, packed_floats, packed, above):
    """Append every model of a packed tree that fits; return False where it has other leaves than it says.

    `above` is the root that the first one is below, -1 where the first one is the root.
    """
    d, h = rules.d, rules.h
    at_f, at_i = 0, 0
    last = np.full(rules.max_depth + 1, -1, dtype=np.int64)  # the last model of each level: the parent of what comes
    last[0] = above
    while at_i < len(packed):
        _, _, _, end, length = parts_of(packed, at_i, d, h)
        m = add(blocks, indexes, unpacked_model(packed_floats[at_f : at_f + length], packed[at_i:end], d, h))
        at_f, at_i = at_f + length, end
        model = model_of(indexes[0], m)
        if model.level > 0:
            model.parent = last[model.level - 1]
            parent = model_of(indexes[0], model.parent)
            for node in range(parent.nodes):
                if parent.id[node] == model.parent_id:
                    parent.child[node] = m
        last[model.level] = m
        kept = packed[at_i : at_i + model.nodes + 1]
        at_i += model.nodes + 1
        for node in range(model.nodes + 1):
            chain = model.chain[node + 1 if node < model.nodes else WAITING]
            for _ in range(kept[node]):
                if pool_of(indexes[0]).free < 0:
                    grow_pool(blocks, indexes[0])
                pool = pool_of(indexes[0])
                append_record(pool, chain, put_record(pool, packed_floats[at_f : at_f + d], packed[at_i]))
                at_f += d
                at_i += 1
    for m in range(ROOT, len(blocks)):
        model = model_of(indexes[0], m)
        if model.level == 1 and model.leaves != leaves_below(indexes[0], m):
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
        row[O_HEAD:] = x
    log.append(row)


@jit
def _pass_on(table, rules, node, record, answered, label, x, operations):
    """Append what the child of a node learns: the node's new record; where the child is new, all that the node kept."""
    model, pool = model_of(table, ROOT), pool_of(table)
    name = model.id[node]
    if model.child[node] >= 0:
        _append(operations, rules.d, name, record, 0, answered, label, x)
    elif model.chain[node + 1, LENGTH] >= rules.min_child_records:
        model.child[node] = THERE
        slot = model.chain[node + 1, FIRST]
        while slot >= 0:
            following = pool.follows[slot]
            # The last one that the node kept is the one that has just come.
            last = answered if following < 0 else 0
            _append(operations, rules.d, name, record, 0, last, pool.label[slot], pool.vector[slot])
            slot = following


@jit
def _remove(model, rules, gone, removed, record, operations):
    """Remove nodes of the root, whose positions ascend, and append the removal of the children they have."""
    for r in range(removed):
        if model.child[gone[r]] >= 0:
            _append(operations, rules.d, model.id[gone[r]], record, 1, 0, -1, model.sigma)
    remove_nodes(model, gone, removed)


@jit
def learn_root(blocks, indexes, rules, factors, X, labels, log, operations, cluster, score, novel, nodes):
    """Learn a batch in order, fill what is answered for each record, and append the operations to their log."""
    table, scratch = indexes[0], scratch_for(rules)
    _, _, gone, _, row = scratch
    path, orphan = np.empty(1, dtype=np.int64), np.empty(rules.d)
    deeper = rules.max_depth > 1
    for t in range(len(X)):
        clock = model_of(table, ROOT).learned + 1
        node = learn_here(blocks, table, rules, factors, ROOT, np.int64(-1), clock, X[t], labels[t], scratch)
        model, pool = model_of(table, ROOT), pool_of(table)
        cluster[t, 0] = np.int64(row[ANSWER])
        nodes[t, 0] = model.id[node]
        score[t] = row[SCORE]
        novel[t] = row[FOUNDED] == 1.0
        if deeper:
            _pass_on(table, rules, node, t, 1, labels[t], X[t], operations)
            drop_kept_of_linked(pool, model, rules, node)
        if model.nodes > rules.max_nodes:
            gone[0] = longest_idle(model)
            drop_kept(pool, model, gone[0])
            _remove(model, rules, gone, 1, t, operations)
        if model.learned % rules.interval == 0:
            removed = release_records(table, rules, ROOT, gone)
            if removed > 0:
                _remove(model, rules, gone, removed, t, operations)
            read_model(model, rules, factors, path, t, log, scratch)
        while model.chain[WAITING, FIRST] >= 0 and model.nodes > 0:
            node, label = assign_orphan(blocks, table, rules, ROOT, orphan, scratch)
            model = model_of(table, ROOT)
            _pass_on(table, rules, node, t, 0, label, orphan, operations)
            drop_kept_of_linked(pool, model, rules, node)


TOP = 2
"""Entry of the model on the second level; that of the place holder is `ROOT`."""


@jit
def add_placeholder_root(blocks, indexes, rules, node):
    """Add a root of one node, whose child is going to be the model at `TOP`."""
    model = model_of(indexes[0], new_model(blocks, indexes, rules, -1, -1, 0))
    model.nodes, model.next_id = 1, node + 1
    model.id[0], model.child[0] = node, TOP
