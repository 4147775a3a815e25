"""One record learned by a tree of CAEA models (Algorithm 2, online), and the leaves, which are bounded.

A record is learned depth first: by a model, then by the child of the node it was given to. So what the orphans of a
deletion step do to a sibling happens before the next record comes, as in learning one by one.

A leaf is a node without a valid child model, one of more than 2 nodes. The model below a root node, here `top`, counts
those at and below it; beyond ``max_leaves`` the one that won longest ago goes. Who that is stands in a queue,
``indexes[top]`` with rows (won, model, node id), of which the first `Model.queued` are left.

A root whose children live elsewhere (`Rules.remote`) writes down what they would learn. What a child learns never comes
back to the root, so the root needs to know of a child no more than that it is there.
"""

import numpy as np
from resonance.engine.caea import learn as step
from resonance.engine.caea.learn import is_expired, learn_one, longest_idle, nodes_to_remove, read_model
from resonance.engine.caea.model import is_full, mean_sigma, remove_nodes, with_class, with_room
from resonance.engine.correntropy import scale_of, smallest, squared_cim
from resonance.engine.hcaea.memory import (
    ADDRESS,
    FIRST,
    LENGTH,
    WAITING,
    append_record,
    drop_kept,
    free_record,
    grow_pool,
    model_of,
    move_all,
    new_model,
    pool_of,
    put,
    put_record,
    remove_model,
    subtree,
    take_first,
)
from resonance.kernels.arithmetic import jit
from resonance.kernels.borrowed import borrow
from resonance.kernels.ordering import stable_order


@jit
def _is_leaf(table, model, node):
    child = model.child[node]
    return child < 0 or model_of(table, child).nodes <= 2


@jit
def leaves_below(table, m):
    """Return how many leaves there are at and below a model."""
    leaves = 0
    for q in subtree(table, m, True):
        model = model_of(table, q)
        for node in range(model.nodes):
            leaves += 1 if _is_leaf(table, model, node) else 0
    return leaves


@jit
def _is_shown(table, m):
    """Return whether the tree is read down to a model: it and those above it have more than 2 nodes each."""
    model = model_of(table, m)
    while model.level > 1:
        if model.nodes <= 2:
            return False
        model = model_of(table, model.parent)
    return True


@jit
def count_founded(table, m, top):
    """Count the node that a model has just founded, below the root, among the leaves of `top`."""
    model, above = model_of(table, m), model_of(table, top)
    if model.level == 1:
        model.leaves += 1
    elif model.nodes == 3 and _is_shown(table, m):
        # The model has become valid: its leaves stand for the node that it is the child of. They may have won before
        # those in the queue.
        above.leaves += leaves_below(table, m) - 1
        above.queued = 0
    elif model.nodes > 3 and _is_shown(table, m):
        above.leaves += 1


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
def _pass_on(model, pool, rules, node, record, answered, label, x, operations):
    """Append what the child of a node learns: the node's new record; where the child is new, all that the node kept."""
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
def remove_with_subtrees(blocks, table, rules, m, gone, removed, top, record, log, operations):
    """Remove nodes of a model with their subtrees; what they keep must be taken from them before.

    `gone` has their positions, ascending; `top` is -1 for nodes of the root.
    """
    model, lost = model_of(table, m), 0
    shown = top >= 0 and _is_shown(table, m)
    for r in range(removed):
        child = model.child[gone[r]]
        if shown:
            lost += 1 if _is_leaf(table, model, gone[r]) else leaves_below(table, child)
        if child >= 0 and rules.remote:
            _append(operations, rules.d, model.id[gone[r]], record, 1, 0, -1, model.sigma)
        elif child >= 0:
            remove_model(blocks, table, rules, child, record, log)
    remove_nodes(model, gone, removed)
    if not shown:
        return
    above = model_of(table, top)
    above.leaves -= lost
    if model.level > 1 and model.nodes <= 2:
        # No longer valid: the node that it is the child of is a leaf again, and may be the longest idle one.
        above.leaves += 1 - leaves_below(table, m)
        above.queued = 0


@jit
def evict(blocks, table, rules, m, node, top, record, log, operations, gone):
    """Remove one node with its subtree and its kept records: memory is bounded, no other node takes them."""
    drop_kept(pool_of(table), model_of(table, m), node)
    gone[0] = node
    remove_with_subtrees(blocks, table, rules, m, gone, 1, top, record, log, operations)


@jit
def _idle_leaves(table, top):
    """Return the leaves below `top` as rows (won, model, node id), the longest idle one last."""
    rows = np.empty((model_of(table, top).leaves, 3), dtype=np.int64)
    at = 0
    for m in subtree(table, top, True):
        model = model_of(table, m)
        for node in range(model.nodes):
            if _is_leaf(table, model, node):
                rows[at, 0], rows[at, 1], rows[at, 2] = model.won[node], m, model.id[node]
                at += 1
    # Stable: leaves that won at the same time keep the order of the tree, whenever the queue is made.
    return rows[stable_order(rows[:, 0])[::-1]]


@jit
def _is_below(table, m, top):
    """Return whether there is a model at entry `m`, and it is `top` or one below it: entries are used again."""
    if table[m, ADDRESS] == 0:
        return False
    while model_of(table, m).level > 1:
        m = model_of(table, m).parent
    return m == top


@jit
def bound_leaves(blocks, indexes, table, rules, top, record, log, operations, gone):
    """Remove the longest idle leaves until the subtree of a root node has no more than `max_leaves`.

    The queue is made when the last one ran out, or nodes became leaves that may have won before. Who has won since
    comes after all who are still in it as they were: the first of these is the longest idle leaf of all.
    """
    above = model_of(table, top)
    while above.leaves > rules.max_leaves:
        if above.queued == 0:
            indexes[top] = _idle_leaves(table, top)
            above.queued = len(indexes[top])
            continue
        above.queued -= 1
        won, m, name = borrow(indexes[top])[above.queued]
        if not _is_below(table, m, top):
            continue
        model = model_of(table, m)
        for node in range(model.nodes):
            if model.id[node] == name:
                if _is_leaf(table, model, node) and model.won[node] == won:
                    evict(blocks, table, rules, m, node, top, record, log, operations, gone)
                break


@jit
def release_records(table, rules, m, gone):
    """Write the nodes that a deletion step removes to `gone`, and return how many.

    What isolated ones kept waits for a new node; what expired ones kept is of the past.
    """
    model, pool = model_of(table, m), pool_of(table)
    removed = nodes_to_remove(model, rules, gone)
    for r in range(removed):
        if rules.nearest and not is_expired(model, rules, gone[r]):
            move_all(pool, model.chain[gone[r] + 1], model.chain[WAITING])
        else:
            drop_kept(pool, model, gone[r])
    return removed


@jit
def _keep(pool, model, node, slot, limit):
    """Let a node keep a record, and no more than the last `limit`."""
    chain = model.chain[node + 1]
    append_record(pool, chain, slot)
    if chain[LENGTH] > limit:
        free_record(pool, take_first(pool, chain))


@jit
def count_label(blocks, table, m, node, label):
    """Count the label of a record of a node; return the model, which may be another one."""
    if label >= model_of(table, m).labels.shape[1]:
        put(blocks, table, m, with_class(model_of(table, m), label))
    model = model_of(table, m)
    model.labels[node, label] += 1
    return model


@jit
def learn_here(blocks, table, rules, factors, m, top, clock, x, label, scratch):
    """Learn a record with one model alone and let its node keep it; return the position of the node."""
    sums, squares, _, work, row = scratch
    if is_full(model_of(table, m)):
        put(blocks, table, m, with_room(model_of(table, m)))
    model = model_of(table, m)
    node = learn_one(model, rules, factors, x, clock, sums, squares, work, row)
    if label >= 0:
        model = count_label(blocks, table, m, node, label)
    if row[step.FOUNDED] == 1.0 and top >= 0:
        count_founded(table, m, top)
    if model.level + 1 < rules.max_depth:
        if rules.nearest or model.child[node] < 0:
            if pool_of(table).free < 0:
                grow_pool(blocks, table)
            pool = pool_of(table)
            _keep(pool, model, node, put_record(pool, x, label), rules.keep)
        second = np.int64(row[step.SECOND])
        if rules.nearest and second >= 0 and model.child[second] >= 0:
            drop_kept(pool_of(table), model, second)  # it has an edge now
    return node


@jit
def assign_orphan(blocks, table, rules, m, x, scratch):
    """Take the first waiting record to the nearest node; return the node's position and the record's label."""
    sums, squares, _, _, _ = scratch
    model, pool = model_of(table, m), pool_of(table)
    slot = take_first(pool, model.chain[WAITING])
    label = pool.label[slot]
    for i in range(rules.d):
        x[i] = pool.vector[slot, i]
    scale, k = scale_of(mean_sigma(model)), model.nodes
    squared_cim(model.weight.reshape(-1), len(model.id), k, rules.d, scale, x, sums, squares)
    node, _ = smallest(squares, (k + 7) & ~7)
    if label >= 0:
        model = count_label(blocks, table, m, node, label)
    if model.child[node] < 0 or model.degree[node] == 0:
        _keep(pool, model, node, slot, rules.keep)
    else:
        free_record(pool, slot)
    return node, label


@jit
def drop_kept_of_linked(pool, model, rules, node):
    """Let a node keep nothing once it has a child, and no deletion step can find it isolated."""
    if model.child[node] >= 0 and (not rules.nearest or model.degree[node] > 0):
        drop_kept(pool, model, node)


# What a level of the descent does next.
LEARN, DESCEND, FEED, SETTLE, ADOPT = 0, 1, 2, 3, 4

PATH = 7
"""Row of the stack that holds the node ids on the way down."""


@jit
def learn_record(
    blocks, indexes, rules, factors, first, start, answered, rows, label, record, log, operations, scratch, levels,
    clusters, nodes, scored,
):  # fmt: skip
    """Learn a record with a model and all below it.

    The descent keeps its own stack, one row a level: at a level a record is learned (LEARN) and goes to the child of
    its node (DESCEND, or FEED when the child is new and learns all that the node kept); when it is back, isolated
    nodes go and clusters are read (SETTLE), and each orphan goes to the child of the node nearest to it (ADOPT).

    The model `first` is on level `start`, and so is the record in `rows`; the rows behind it are room for those that
    deeper levels learn. `levels` is room for the stack, whose row `PATH` holds the node ids above. `clusters`, `nodes`
    and `scored` get cluster and node on each level, score and whether the root founded a node, where `answered`:
    not for orphans and kept records that are learned on the way.
    """
    stack, X, table = borrow(levels), borrow(rows), borrow(indexes[0])
    entry, phase, at, mark, slots, outer, answers, path = (
        stack[0], stack[1], stack[2], stack[3], stack[4], stack[5], stack[6], stack[PATH]
    )  # fmt: skip
    sums, squares, gone, work, row = scratch
    sums, squares, gone, work, row = borrow(sums), borrow(squares), borrow(gone), borrow(work), borrow(row)
    room = sums, squares, gone, work, row
    top, clock = np.int64(-1), np.int64(0)
    level = start
    entry[level], phase[level], mark[level], outer[level], answers[level] = first, LEARN, label, 1, answered
    while level >= start:
        m, todo = entry[level], phase[level]
        if todo == LEARN:
            if level <= 1:
                top = m if level == 1 else np.int64(-1)
                clock = model_of(table, m).learned + 1
            node = learn_here(blocks, table, rules, factors, m, top, clock, X[level], mark[level], room)
            at[level] = node
            if answers[level] == 1:
                clusters[level] = np.int64(row[step.ANSWER])
                nodes[level] = model_of(table, m).id[node]
                if level == 0:
                    scored[0] = row[step.SCORE]
                    scored[1] = row[step.FOUNDED]
            outer[level] = 1
            todo = DESCEND if level + 1 < rules.max_depth else SETTLE
        model, pool = model_of(table, m), pool_of(table)
        if todo == DESCEND:
            node = at[level]
            path[level] = model.id[node]
            child = model.child[node]
            phase[level] = todo = SETTLE
            if rules.remote:
                passed = answers[level] * outer[level]
                _pass_on(model, pool, rules, node, record, passed, mark[level], X[level], operations)
            elif child >= 0:
                X[level + 1] = X[level]
                entry[level + 1], phase[level + 1], mark[level + 1] = child, LEARN, mark[level]
                answers[level + 1] = answers[level] * outer[level]
                level += 1
                continue
            elif model.chain[node + 1, LENGTH] >= rules.min_child_records:
                child = new_model(blocks, indexes, rules, m, path[level], level + 1)
                table = borrow(indexes[0])
                model.child[node] = entry[level + 1] = child
                slots[level] = model.chain[node + 1, FIRST]
                phase[level] = FEED
                continue
        elif todo == FEED:
            slot = slots[level]
            if slot >= 0:
                slots[level] = pool.follows[slot]
                X[level + 1] = pool.vector[slot]
                mark[level + 1] = pool.label[slot]
                # The last one that the node kept is the one that has just come.
                answers[level + 1] = answers[level] * outer[level] if slots[level] < 0 else 0
                phase[level + 1] = LEARN
                level += 1
                continue
            todo = SETTLE
        if todo == SETTLE:
            drop_kept_of_linked(pool, model, rules, at[level])
            if outer[level] == 1:
                outer[level] = 0
                above = top if level > 0 else np.int64(-1)
                if model.nodes > rules.max_nodes:
                    evict(blocks, table, rules, m, longest_idle(model), above, record, log, operations, gone)
                if model.learned % rules.interval == 0:
                    removed = release_records(table, rules, m, gone)
                    if removed > 0:
                        remove_with_subtrees(
                            blocks, table, rules, m, gone, removed, above, record, log, operations
                        )  # fmt: skip
                    read_model(model, rules, factors, path, record, log, room)
            phase[level] = ADOPT
        if model.chain[WAITING, FIRST] >= 0 and model.nodes > 0:
            at[level], mark[level] = assign_orphan(blocks, table, rules, m, X[level], room)
            phase[level] = DESCEND
        else:
            if level == 1:
                bound_leaves(blocks, indexes, table, rules, top, record, log, operations, gone)
            level -= 1
