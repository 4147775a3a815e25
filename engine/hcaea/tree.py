"""One record learned by a tree of CAEA models (Algorithm 2, online), and the leaves, which are bounded.

A record is learned depth first: by a model, then by the child of the node it was given to. So what the orphans of a
deletion step do to a sibling happens before the next record comes, as in learning one by one.

A leaf is a node without a valid child model, one of more than 2 nodes. The model below a root node, here `top`, counts
those at and below it; beyond ``max_leaves`` the one that won longest ago goes. Who that is stands in a queue,
``indexes[top]`` with rows (won, model, node id), of which the first ``integers[top][QUEUED]`` are left.
"""

import numpy as np
from resonance.engine.caea import block
from resonance.engine.caea import block as layout
from resonance.engine.caea import learn as step
from resonance.engine.caea.block import at_field, at_labels, mean_sigma, remove_nodes, with_class, with_room
from resonance.engine.caea.learn import fade_hits, is_expired, learn_one, longest_idle, nodes_to_remove, renew
from resonance.engine.caea.reading import read_clusters
from resonance.engine.correntropy import scale_of, smallest, squared_cim
from resonance.engine.hcaea import memory as kept
from resonance.engine.hcaea.memory import (
    INTEGERS,
    POOL,
    block_of,
    drop_kept,
    grow_pool,
    head_of,
    new_model,
    put,
    remove_model,
    subtree,
)
from resonance.kernels.arithmetic import jit
from resonance.kernels.borrowed import borrow
from resonance.kernels.ordering import stable_order


@jit
def _is_leaf(table, head, node):
    child = head[at_field(block.CHILD, head[block.CAPACITY]) + node]
    return child < 0 or head_of(table, child)[block.K] <= 2


@jit
def leaves_below(table, m):
    """Return how many leaves there are at and below a model."""
    leaves = 0
    for q in subtree(table, m, True):
        head = head_of(table, q)
        for node in range(head[block.K]):
            leaves += 1 if _is_leaf(table, head, node) else 0
    return leaves


@jit
def _is_shown(table, m):
    """Return whether the tree is read down to a model: it and those above it have more than 2 nodes each."""
    head = head_of(table, m)
    while head[block.LEVEL] > 1:
        if head[block.K] <= 2:
            return False
        head = head_of(table, head[block.PARENT])
    return True


@jit
def count_founded(table, m, top):
    """Count the node that a model has just founded, below the root, among the leaves of `top`."""
    head, above = head_of(table, m), head_of(table, top)
    if head[block.LEVEL] == 1:
        head[block.LEAVES] += 1
    elif head[block.K] == 3 and _is_shown(table, m):
        # The model has become valid: its leaves stand for the node that it is the child of. They may have won before
        # those in the queue.
        above[block.LEAVES] += leaves_below(table, m) - 1
        above[block.QUEUED] = 0
    elif head[block.K] > 3 and _is_shown(table, m):
        above[block.LEAVES] += 1


@jit
def take_out(floats, integers, table, rules, m, gone, removed, top, record, log):
    """Remove nodes of a model with their subtrees; what they keep must be taken from them before.

    `gone` has their positions, ascending; `top` is -1 for nodes of the root.
    """
    head, lost = head_of(table, m), 0
    children = at_field(block.CHILD, head[block.CAPACITY])
    shown = top >= 0 and _is_shown(table, m)
    for r in range(removed):
        child = head[children + gone[r]]
        if shown:
            lost += 1 if _is_leaf(table, head, gone[r]) else leaves_below(table, child)
        if child >= 0:
            remove_model(floats, integers, table, rules, child, record, log)
    remove_nodes(block_of(table, m), head, rules.d, gone, removed)
    if not shown:
        return
    above = head_of(table, top)
    above[block.LEAVES] -= lost
    if head[block.LEVEL] > 1 and head[block.K] <= 2:
        # No longer valid: the node that it is the child of is a leaf again, and may be the longest idle one.
        above[block.LEAVES] += 1 - leaves_below(table, m)
        above[block.QUEUED] = 0


@jit
def evict(floats, integers, table, rules, m, node, top, record, log, gone):
    """Remove one node with its subtree and its kept records: memory is bounded, no other node takes them."""
    drop_kept(head_of(table, POOL), head_of(table, m), node)
    gone[0] = node
    take_out(floats, integers, table, rules, m, gone, 1, top, record, log)


@jit
def _idle_leaves(table, top):
    """Return the leaves below `top` as rows (won, model, node id), the longest idle one last."""
    rows = np.empty((head_of(table, top)[block.LEAVES], 3), dtype=np.int64)
    at = 0
    for m in subtree(table, top, True):
        head = head_of(table, m)
        capacity = head[block.CAPACITY]
        for node in range(head[block.K]):
            if _is_leaf(table, head, node):
                rows[at, 0] = head[at_field(block.WON, capacity) + node]
                rows[at, 1] = m
                rows[at, 2] = head[at_field(block.ID, capacity) + node]
                at += 1
    # Stable: leaves that won at the same time keep the order of the tree, whenever the queue is made.
    return rows[stable_order(rows[:, 0])[::-1]]


@jit
def _is_below(table, m, top):
    """Return whether there is a model at entry `m`, and it is `top` or one below it: entries are used again."""
    if table[m, INTEGERS] < block.I_HEAD:
        return False
    while head_of(table, m)[block.LEVEL] > 1:
        m = head_of(table, m)[block.PARENT]
    return m == top


@jit
def bound_leaves(floats, integers, indexes, table, rules, top, record, log, gone):
    """Remove the longest idle leaves until the subtree of a root node has no more than `max_leaves`.

    The queue is made when the last one ran out, or nodes became leaves that may have won before. Who has won since
    comes after all who are still in it as they were: the first of these is the longest idle leaf of all.
    """
    above = head_of(table, top)
    while above[block.LEAVES] > rules.max_leaves:
        if above[block.QUEUED] == 0:
            indexes[top] = _idle_leaves(table, top)
            above[block.QUEUED] = len(indexes[top])
            continue
        above[block.QUEUED] -= 1
        won, m, name = borrow(indexes[top])[above[block.QUEUED]]
        if not _is_below(table, m, top):
            continue
        head = head_of(table, m)
        capacity = head[block.CAPACITY]
        for node in range(head[block.K]):
            if head[at_field(block.ID, capacity) + node] == name:
                if _is_leaf(table, head, node) and head[at_field(block.WON, capacity) + node] == won:
                    evict(floats, integers, table, rules, m, node, top, record, log, gone)
                break


@jit
def let_go(table, rules, m, gone):
    """Write the nodes that a deletion step removes to `gone`, and return how many.

    What isolated ones kept waits for a new node; what expired ones kept is of the past.
    """
    head, pool = head_of(table, m), head_of(table, POOL)
    capacity = head[layout.CAPACITY]
    removed = nodes_to_remove(block_of(table, m), head, rules, gone)
    for r in range(removed):
        if rules.nearest and not is_expired(head, rules, gone[r]):
            kept.move_all(pool, head, at_field(layout.FIRST, capacity) + gone[r], capacity, layout.WAIT_FIRST, 1)
        else:
            drop_kept(pool, head, gone[r])
    return removed


@jit
def read_model(block, head, rules, factors, path, record, log, scratch):
    """Do what a reading of one model is: take bandwidths anew where they do not fit any more, and read its clusters."""
    sums, squares, _, work, _ = scratch
    renew(block, head, rules, factors, sums, squares, work)
    fade_hits(head, rules)
    read_clusters(block, head, rules, path, record, log)


@jit
def _keep(pool, head, node, slot, limit):
    """Let a node keep a record, and no more than the last `limit`."""
    capacity = head[layout.CAPACITY]
    first = at_field(layout.FIRST, capacity) + node
    kept.append_record(pool, head, first, capacity, slot)
    if head[at_field(layout.KEPT, capacity) + node] > limit:
        kept.free_record(pool, kept.take_first(pool, head, first, capacity))


@jit
def count_label(floats, integers, table, rules, m, node, label):
    """Count the label of a record of a node; return the model's integers, which may be others."""
    head = head_of(table, m)
    if label >= head[layout.LABELS]:
        larger, longer = with_class(floats[m], integers[m], rules.d, rules.h, label)
        put(floats, integers, table, m, larger, longer)
        head = head_of(table, m)
    head[at_labels(node, head[layout.CAPACITY], head[layout.LINKS], head[layout.LABELS]) + label] += 1
    return head


@jit
def learn_here(floats, integers, table, rules, factors, m, top, clock, x, label, scratch):
    """Learn a record with one model alone and let its node keep it; return the position of the node."""
    sums, squares, _, work, row = scratch
    head = head_of(table, m)
    if head[layout.K] == head[layout.CAPACITY] or head[layout.MAX_LINKS] == head[layout.LINKS]:
        larger, longer = with_room(floats[m], integers[m], rules.d, rules.h)
        put(floats, integers, table, m, larger, longer)
        head = head_of(table, m)
    capacity = head[layout.CAPACITY]
    node = learn_one(block_of(table, m), head, rules, factors, x, clock, sums, squares, work, row)
    if label >= 0:
        head = count_label(floats, integers, table, rules, m, node, label)
    if row[step.FOUNDED] == 1.0 and top >= 0:
        count_founded(table, m, top)
    if head[layout.LEVEL] + 1 < rules.max_depth:
        children = at_field(layout.CHILD, capacity)
        if rules.nearest or head[children + node] < 0:
            if head_of(table, POOL)[kept.FREE] < 0:
                grow_pool(floats, integers, table, rules.d)
            pool = head_of(table, POOL)
            slot = kept.put_record(block_of(table, POOL), pool, rules.d, x, label)
            _keep(pool, head, node, slot, rules.keep)
        second = np.int64(row[step.SECOND])
        if rules.nearest and second >= 0 and head[children + second] >= 0:
            drop_kept(head_of(table, POOL), head, second)  # it has an edge now
    return node


@jit
def adopt(floats, integers, table, rules, m, x, scratch):
    """Take the first waiting record to the nearest node; return the node's position and the record's label."""
    sums, squares, _, _, _ = scratch
    block, head, pool, records = block_of(table, m), head_of(table, m), head_of(table, POOL), block_of(table, POOL)
    capacity, k = head[layout.CAPACITY], head[layout.K]
    slot = kept.take_first(pool, head, layout.WAIT_FIRST, 1)
    label = kept.label_of(pool, slot)
    for i in range(rules.d):
        x[i] = records[slot * rules.d + i]
    scale = scale_of(mean_sigma(block, k))
    squared_cim(block[layout.F_HEAD :], capacity, k, rules.d, scale, x, sums, squares)
    node, _ = smallest(squares, (k + 7) & ~7)
    if label >= 0:
        head = count_label(floats, integers, table, rules, m, node, label)
    if head[at_field(layout.CHILD, capacity) + node] < 0 or head[at_field(layout.DEGREE, capacity) + node] == 0:
        _keep(pool, head, node, slot, rules.keep)
    else:
        kept.free_record(pool, slot)
    return node, label


@jit
def drop_settled(pool, head, rules, node):
    """Let a node keep nothing once it has a child, and no deletion step can find it isolated."""
    capacity = head[layout.CAPACITY]
    if head[at_field(layout.CHILD, capacity) + node] >= 0 and (
        not rules.nearest or head[at_field(layout.DEGREE, capacity) + node] > 0
    ):
        drop_kept(pool, head, node)


# What a level of the descent does next.
LEARN, DESCEND, FEED, SETTLE, ADOPT = 0, 1, 2, 3, 4

PATH = 7
"""Row of the stack that holds the node ids on the way down."""


@jit
def learn_record(
    floats, integers, indexes, rules, factors, first, start, answered, rows, label, record, log, scratch, levels,
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
    model, phase, at, mark, slots, outer, answers, path = (
        stack[0], stack[1], stack[2], stack[3], stack[4], stack[5], stack[6], stack[PATH]
    )  # fmt: skip
    sums, squares, gone, work, row = scratch
    sums, squares, gone, work, row = borrow(sums), borrow(squares), borrow(gone), borrow(work), borrow(row)
    room = sums, squares, gone, work, row
    pool = head_of(table, POOL)
    top, clock = np.int64(-1), np.int64(0)
    level = start
    model[level], phase[level], mark[level], outer[level], answers[level] = first, LEARN, label, 1, answered
    while level >= start:
        m = model[level]
        head = head_of(table, m)
        todo = phase[level]
        if todo == LEARN:
            if level <= 1:
                top = m if level == 1 else np.int64(-1)
                clock = head[layout.N] + 1
            node = learn_here(floats, integers, table, rules, factors, m, top, clock, X[level], mark[level], room)
            head, pool = head_of(table, m), head_of(table, POOL)
            at[level] = node
            if answers[level] == 1:
                clusters[level] = np.int64(row[step.ANSWER])
                nodes[level] = head[at_field(layout.ID, head[layout.CAPACITY]) + node]
                if level == 0:
                    scored[0] = row[step.SCORE]
                    scored[1] = row[step.FOUNDED]
            outer[level] = 1
            phase[level] = DESCEND if level + 1 < rules.max_depth else SETTLE
        elif todo == DESCEND:
            capacity, node = head[layout.CAPACITY], at[level]
            path[level] = head[at_field(layout.ID, capacity) + node]
            child = head[at_field(layout.CHILD, capacity) + node]
            phase[level] = SETTLE
            if child >= 0:
                X[level + 1] = X[level]
                model[level + 1], phase[level + 1], mark[level + 1] = child, LEARN, mark[level]
                answers[level + 1] = answers[level] * outer[level]
                level += 1
            elif head[at_field(layout.KEPT, capacity) + node] >= rules.min_child_records:
                child = new_model(floats, integers, indexes, rules, m, path[level], level + 1)
                table = borrow(indexes[0])
                head[at_field(layout.CHILD, capacity) + node] = child
                model[level + 1] = child
                slots[level] = head[at_field(layout.FIRST, capacity) + node]
                phase[level] = FEED
        elif todo == FEED:
            slot = slots[level]
            if slot < 0:
                phase[level] = SETTLE
                continue
            slots[level] = kept.next_record(pool, slot)
            X[level + 1] = block_of(table, POOL)[slot * rules.d : (slot + 1) * rules.d]
            mark[level + 1] = kept.label_of(pool, slot)
            # The last one that the node kept is the one that has just come.
            answers[level + 1] = answers[level] * outer[level] if slots[level] < 0 else 0
            phase[level + 1] = LEARN
            level += 1
        elif todo == SETTLE:
            capacity, node = head[layout.CAPACITY], at[level]
            drop_settled(pool, head, rules, node)
            if outer[level] == 1:
                outer[level] = 0
                above = top if level > 0 else np.int64(-1)
                if head[layout.K] > rules.max_nodes:
                    evict(floats, integers, table, rules, m, longest_idle(head), above, record, log, gone)
                if head[layout.N] % rules.interval == 0:
                    removed = let_go(table, rules, m, gone)
                    if removed > 0:
                        take_out(floats, integers, table, rules, m, gone, removed, above, record, log)
                    read_model(block_of(table, m), head, rules, factors, path, record, log, room)
            phase[level] = ADOPT
        elif head[layout.WAIT_FIRST] >= 0 and head[layout.K] > 0:
            at[level], mark[level] = adopt(floats, integers, table, rules, m, X[level], room)
            phase[level] = DESCEND
        else:
            if level == 1:
                bound_leaves(floats, integers, indexes, table, rules, top, record, log, gone)
            level -= 1
