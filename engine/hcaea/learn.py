"""Batches of a tree, of its root alone and of what lies below one node; and the tree packed for a snapshot.

What lies below a node of a root that lives elsewhere is a tree whose root is a place holder.
"""

import numpy as np
from numba import types
from numba.typed import List
from resonance.engine.caea.learn import scratch_for
from resonance.engine.caea.model import mean_sigma, packed_model, parts_of, unpacked_model
from resonance.engine.correntropy import FAR, cim, scale_of, smallest, squared_cim
from resonance.engine.hcaea.memory import (
    FIRST,
    LENGTH,
    ROOT,
    WAITING,
    add,
    append_record,
    grow_pool,
    model_of,
    new_model,
    pool_of,
    put_record,
    subtree,
)
from resonance.engine.hcaea.tree import PATH, learn_record, leaves_below
from resonance.kernels.arithmetic import jit
from resonance.kernels.lists import joined
from resonance.kernels.ordering import nearest_marked

FLOATS, INTEGERS, INDEX = types.float64[::1], types.int64[::1], types.int64[:, ::1]


@jit
def new_lists():
    """Return the two empty lists that a tree lies in; see `memory`."""
    return List.empty_list(INTEGERS), List.empty_list(INDEX)


@jit
def learn_batch(blocks, indexes, rules, factors, first, above, X, labels, records, answered, log, operations, step):
    """Learn vectors in order, by the model `first` and all below it; fill what is answered for those that are.

    `above` are the ids of the nodes that lead to it. What the root answers is left alone for models below it. Where its
    children live elsewhere their operations are appended to a log.
    """
    scratch, (clusters, score, novel, nodes), start = scratch_for(rules), step, len(above)
    scored = np.array((np.nan, 0.0))
    rows, levels = np.empty((rules.max_depth, rules.d)), np.empty((8, rules.max_depth), dtype=np.int64)
    levels[PATH, :start] = above
    for t in range(len(X)):
        rows[start] = X[t]
        learn_record(
            blocks, indexes, rules, factors, first, start, answered[t], rows, labels[t], records[t], log, operations,
            scratch, levels, clusters[t], nodes[t], scored,
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
        where, _ = nearest_marked(squares, label, leaves, FAR)
        if where >= 0:
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
            near, best = nearest_marked(squares, model.cluster, k, FAR)
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
    """Return a model and those below it with what their nodes keep, depth first in node order, in two arrays."""
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
    return joined(out_floats, np.empty(0)), joined(out_integers, np.empty(0, dtype=np.int64))


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


TOP = 2
"""Entry of the model on the second level; that of the place holder is `ROOT`."""


@jit
def add_placeholder_root(blocks, indexes, rules, node):
    """Add a root of one node, whose child is going to be the model at `TOP`."""
    model = model_of(indexes[0], new_model(blocks, indexes, rules, -1, -1, 0))
    model.nodes, model.next_id = 1, node + 1
    model.id[0], model.child[0] = node, TOP
