"""A tree of CAEA models in two lists of blocks, and one record learned by it (Algorithm 2, online).

``floats[m]`` and ``integers[m]`` are the blocks of model m; entry 0 is the pool of kept records, entry 1 the root. A
record is learned depth first: by a model, then by the child of the node it was given to. So what the orphans of a
deletion step do to a sibling happens before the next record comes, as in learning one by one.
"""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.caea_batch import longest_idle
from resonance.engine.caea_step import (
    ANSWER,
    CASE,
    FOUNDED,
    SCORE,
    SECOND_AT,
    isolated_nodes,
    learn_one,
    scale_of,
    smallest,
    squared_cim,
)
from resonance.engine.kept_records import (
    FREE_MODEL,
    append_record,
    drop_all,
    drop_first,
    free_record,
    label_of,
    move_all,
    next_record,
    put_record,
)
from resonance.engine.model_block import (
    CAPACITY,
    CHILD,
    CLUSTER_ID,
    CLUSTERS,
    DEGREE,
    F_HEAD,
    FEWEST_LINKS,
    FIRST,
    I_HEAD,
    ID,
    KEPT,
    LABELS,
    LAST,
    LEAVES,
    LEVEL,
    LINKS,
    MOST_LINKS,
    PARENT,
    PARENT_ID,
    SMALLEST,
    WAIT_FIRST,
    WAIT_LAST,
    WAITING,
    WON,
    K,
    N,
    at_cluster,
    at_field,
    at_labels,
    mean_sigma,
    new_block,
    remove_nodes,
    with_room,
)
from resonance.engine.reading import NO_REASON, VANISHED, read_clusters, stored_shapes, tell

ROOT = 1


@jit
def new_model(floats, integers, queues, rules, parent, parent_id, level, classes):
    """Add an empty model to the tree; return its index."""
    block, head = new_block(rules.d, rules.h, SMALLEST, FEWEST_LINKS, classes)
    head[PARENT] = parent
    head[PARENT_ID] = parent_id
    head[LEVEL] = level
    m = integers[0][FREE_MODEL]
    if m < 0:
        floats.append(block)
        integers.append(head)
        queues.append(np.empty((0, 3), dtype=np.int64))
        return len(integers) - 1
    integers[0][FREE_MODEL] = integers[m][0]
    floats[m] = block
    integers[m] = head
    queues[m] = np.empty((0, 3), dtype=np.int64)
    return m


@jit
def drop_kept(pool, head, capacity, node):
    """Let a node keep nothing."""
    drop_all(
        pool, head, at_field(FIRST, capacity) + node, at_field(LAST, capacity) + node, at_field(KEPT, capacity) + node
    )


@jit
def subtree(integers, m, valid):
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
        head = integers[m]
        children = at_field(CHILD, head[CAPACITY])
        if left + head[K] > len(stack):
            stack = np.concatenate((stack, np.empty(head[K] + len(stack), dtype=np.int64)))
        for node in range(head[K] - 1, -1, -1):
            child = head[children + node]
            if child >= 0 and (not valid or integers[child][K] > 2):
                stack[left] = child
                left += 1
    return found[:count]


@jit
def path_to(integers, m, path):
    """Write the node ids that lead to a model."""
    while integers[m][PARENT] >= 0:
        path[integers[m][LEVEL] - 1] = integers[m][PARENT_ID]
        m = integers[m][PARENT]


@jit
def remove_model(floats, integers, rules, m, record, log):
    """Remove a model and all below it; its clusters vanish."""
    path = np.empty(rules.max_depth + 1, dtype=np.int64)
    models = subtree(integers, m, False)
    for q in models:
        head = integers[q]
        for node in range(head[K]):
            drop_kept(integers[0], head, head[CAPACITY], node)
        drop_all(integers[0], head, WAIT_FIRST, WAIT_LAST, WAITING)
        if head[CLUSTERS] > 0:
            path_to(integers, q, path)
            shapes = stored_shapes(floats[q], head, rules)
            none = np.empty((0, shapes.shape[1]))
            for c in range(head[CLUSTERS]):
                cluster = head[at_cluster(CLUSTER_ID, head[CAPACITY]) + c]
                tell(head, path, record, VANISHED, cluster, -1, NO_REASON, 0.0, 0.0, shapes[c : c + 1], none, log)
    for q in models:
        gone = np.empty(1, dtype=np.int64)
        gone[0] = integers[0][FREE_MODEL]
        integers[q] = gone
        floats[q] = np.empty(0)
        integers[0][FREE_MODEL] = q


@jit
def _keep(pool, head, capacity, node, slot, limit):
    """Let a node keep a record, and no more than the last `limit`."""
    first, last = at_field(FIRST, capacity) + node, at_field(LAST, capacity) + node
    count = at_field(KEPT, capacity) + node
    append_record(pool, head, first, last, count, slot)
    if head[count] > limit:
        drop_first(pool, head, first, last, count)


@jit
def _leaves_below(integers, m):
    """Return how many leaves there are at and below a model: nodes without a valid child, one of more than 2 nodes."""
    leaves = 0
    for q in subtree(integers, m, True):
        head = integers[q]
        children = at_field(CHILD, head[CAPACITY])
        for node in range(head[K]):
            child = head[children + node]
            leaves += 1 if child < 0 or integers[child][K] <= 2 else 0
    return leaves


@jit
def _is_shown(integers, m):
    """Return whether the tree is read down to a model: it and those above it have more than 2 nodes each."""
    while integers[m][LEVEL] > 1:
        if integers[m][K] <= 2:
            return False
        m = integers[m][PARENT]
    return True


@jit
def _count_founded(integers, m, top):
    """Count the node that a model has just founded, below the second level, among the leaves of `top`."""
    head = integers[m]
    if head[LEVEL] == 1:
        head[LEAVES] += 1
    elif head[K] == 3 and _is_shown(integers, m):
        # The model has become valid: its leaves stand for the node that it is the child of.
        integers[top][LEAVES] += _leaves_below(integers, m) - 1
    elif head[K] > 3 and _is_shown(integers, m):
        integers[top][LEAVES] += 1


@jit
def _take_out(floats, integers, queues, rules, m, gone, removed, top, record, log):
    """Remove nodes of a model with their subtrees; what they keep must be taken from them before."""
    head = integers[m]
    capacity, lost = head[CAPACITY], 0
    children = at_field(CHILD, capacity)
    shown = top >= 0 and _is_shown(integers, m)
    for r in range(removed):
        child = head[children + gone[r]]
        if shown:
            lost += _leaves_below(integers, child) if child >= 0 and integers[child][K] > 2 else 1
        if child >= 0:
            remove_model(floats, integers, rules, child, record, log)
    remove_nodes(floats[m], head, rules.d, gone, removed)
    if not shown:
        return
    integers[top][LEAVES] -= lost
    if head[LEVEL] > 1 and head[K] <= 2:
        # No longer valid: the node that it is the child of is a leaf again, and may be the longest idle one.
        integers[top][LEAVES] += 1 - _leaves_below(integers, m)
        queues[top] = np.empty((0, 3), dtype=np.int64)


@jit
def _evict(floats, integers, queues, rules, m, node, top, record, log):
    """Remove one node with its subtree and its kept records: memory is bounded, nobody inherits."""
    drop_kept(integers[0], integers[m], integers[m][CAPACITY], node)
    gone = np.empty(1, dtype=np.int64)
    gone[0] = node
    _take_out(floats, integers, queues, rules, m, gone, 1, top, record, log)


@jit
def _idle_leaves(integers, top):
    """Return the leaves below `top` as rows (won, model, node id), the longest idle one last."""
    rows = np.empty((integers[top][LEAVES], 3), dtype=np.int64)
    at = 0
    for m in subtree(integers, top, True):
        head = integers[m]
        capacity = head[CAPACITY]
        for node in range(head[K]):
            child = head[at_field(CHILD, capacity) + node]
            if child < 0 or integers[child][K] <= 2:
                rows[at, 0] = head[at_field(WON, capacity) + node]
                rows[at, 1] = m
                rows[at, 2] = head[at_field(ID, capacity) + node]
                at += 1
    return rows[np.argsort(rows[:, 0])[::-1]]


@jit
def _is_below(integers, m, top):
    """Return whether there is a model at entry `m`, and it is `top` or one below it: entries are used again."""
    if len(integers[m]) < I_HEAD:
        return False
    while integers[m][LEVEL] > 1:
        m = integers[m][PARENT]
    return m == top


@jit
def _bound_leaves(floats, integers, queues, rules, top, record, log):
    """Remove the longest idle leaves until the subtree of a root node has no more than `max_leaves`.

    The order is looked up in a queue made when the last one ran out. Who has won since, or is a leaf since, comes
    after all who are still in it as they were: the first of these is the longest idle leaf of all.
    """
    while integers[top][LEAVES] > rules.max_leaves:
        left = len(queues[top])
        if left == 0:
            queues[top] = _idle_leaves(integers, top)
            continue
        won, m, name = queues[top][left - 1]
        queues[top] = queues[top][: left - 1]
        if not _is_below(integers, m, top):
            continue
        head = integers[m]
        capacity = head[CAPACITY]
        for node in range(head[K]):
            if head[at_field(ID, capacity) + node] == name:
                child = head[at_field(CHILD, capacity) + node]
                leaf = child < 0 or integers[child][K] <= 2
                if leaf and head[at_field(WON, capacity) + node] == won:
                    _evict(floats, integers, queues, rules, m, node, top, record, log)
                break


@jit
def _delete_isolated(floats, integers, queues, rules, m, top, record, log, gone):
    """Remove the isolated nodes of a model with their subtrees; what they kept waits for a new node."""
    head = integers[m]
    capacity = head[CAPACITY]
    removed = isolated_nodes(head, rules, gone)
    if removed == 0:
        return
    for r in range(removed):
        if rules.nearest:
            first, last = at_field(FIRST, capacity) + gone[r], at_field(LAST, capacity) + gone[r]
            count = at_field(KEPT, capacity) + gone[r]
            move_all(integers[0], head, first, last, count, WAIT_FIRST, WAIT_LAST, WAITING)
        else:
            drop_kept(integers[0], head, capacity, gone[r])
    _take_out(floats, integers, queues, rules, m, gone, removed, top, record, log)


@jit
def _learn_here(floats, integers, rules, factors, m, top, clock, x, label, scratch):
    """Learn a record with one model alone and let its node keep it; return the position of the node."""
    sums, squares, _, work, row = scratch
    head = integers[m]
    if head[K] == head[CAPACITY] or head[MOST_LINKS] == head[LINKS]:
        floats[m], integers[m] = with_room(floats[m], head, rules.d, rules.h)
        head = integers[m]
    capacity = head[CAPACITY]
    node = learn_one(floats[m], head, rules, factors, x, clock, sums, squares, work, row)
    if label >= 0:
        head[at_labels(node, capacity, head[LINKS], head[LABELS]) + label] += 1
    if row[FOUNDED] == 1.0 and top >= 0:
        _count_founded(integers, m, top)
    if head[LEVEL] + 1 < rules.max_depth:
        children = at_field(CHILD, capacity)
        if rules.nearest or head[children + node] < 0:
            slot = put_record(floats, integers, rules.d, x, label)
            _keep(integers[0], head, capacity, node, slot, rules.keep)
        second = np.int64(row[SECOND_AT])
        if rules.nearest and row[CASE] == 3.0 and head[children + second] >= 0:
            drop_kept(integers[0], head, capacity, second)  # it has an edge now
    return node


@jit
def _adopt(floats, integers, rules, m, x, scratch):
    """Take the first waiting record to the nearest node; return the node's position and the record's label."""
    sums, squares, _, _, _ = scratch
    block, head, pool = floats[m], integers[m], integers[0]
    capacity, k = head[CAPACITY], head[K]
    slot = head[WAIT_FIRST]
    label = label_of(pool, slot)
    x[:] = floats[0][slot * rules.d : (slot + 1) * rules.d]
    head[WAIT_FIRST] = next_record(pool, slot)
    if head[WAIT_FIRST] < 0:
        head[WAIT_LAST] = -1
    head[WAITING] -= 1
    scale = scale_of(mean_sigma(block, k))
    squared_cim(block[F_HEAD:], capacity, k, rules.d, scale, x, sums, squares)
    node, _ = smallest(squares, (k + 7) & ~7)
    if label >= 0:
        head[at_labels(node, capacity, head[LINKS], head[LABELS]) + label] += 1
    if head[at_field(CHILD, capacity) + node] < 0 or head[at_field(DEGREE, capacity) + node] == 0:
        _keep(pool, head, capacity, node, slot, rules.keep)
    else:
        free_record(pool, slot)
    return node, label


# What a level of the descent does next.
LEARN, DESCEND, FEED, SETTLE, ADOPT = 0, 1, 2, 3, 4


@jit
def learn_record(
    floats, integers, queues, rules, factors, X, label, record, log, scratch, levels, clusters, nodes, told
):
    """Learn a record with the root and all below it.

    The descent keeps its own stack, one row a level: at a level a record is learned (LEARN) and goes to the child of
    its node (DESCEND, or FEED when the child is new and learns all that the node kept); when it is back, isolated
    nodes go and clusters are read (SETTLE), and each orphan goes to the child of the node nearest to it (ADOPT).

    Parameters
    ----------
    queues : numba list of ndarray
        An entry for each model, used for those of the second level: see `_bound_leaves`. No part of the state.
    X : ndarray of shape (max_depth, d)
        The record in row 0; the other rows are room for those that deeper levels learn.
    levels : ndarray of int64, shape (7, max_depth)
        Room for the stack.
    scratch : tuple of ndarray
        sums, squares, gone, work, row; valid only between two calls.
    clusters, nodes, told : ndarray
        Filled with the answer for the record: cluster and node on each level; score, founded. Orphans and kept
        records that are learned on the way are not answered again.
    """
    model, phase, at, mark, slots, outer, answers = levels
    path = np.empty(rules.max_depth + 1, dtype=np.int64)
    gone, row = scratch[2], scratch[4]
    top, clock = np.int64(-1), np.int64(0)
    level = 0
    model[0], phase[0], mark[0], outer[0], answers[0] = ROOT, LEARN, label, 1, 1
    while level >= 0:
        m = model[level]
        head = integers[m]
        todo = phase[level]
        if todo == LEARN:
            if level <= 1:
                top = m if level == 1 else np.int64(-1)
                clock = head[N] + 1
            node = _learn_here(floats, integers, rules, factors, m, top, clock, X[level], mark[level], scratch)
            head = integers[m]
            at[level] = node
            if answers[level] == 1:
                clusters[level] = np.int64(row[ANSWER])
                nodes[level] = head[at_field(ID, head[CAPACITY]) + node]
                if level == 0:
                    told[0] = row[SCORE]
                    told[1] = row[FOUNDED]
            outer[level] = 1
            phase[level] = DESCEND if level + 1 < rules.max_depth else SETTLE
        elif todo == DESCEND:
            capacity, node = head[CAPACITY], at[level]
            path[level] = head[at_field(ID, capacity) + node]
            child = head[at_field(CHILD, capacity) + node]
            phase[level] = SETTLE
            if child >= 0:
                X[level + 1] = X[level]
                model[level + 1], phase[level + 1], mark[level + 1] = child, LEARN, mark[level]
                answers[level + 1] = answers[level] * outer[level]
                level += 1
            elif head[at_field(KEPT, capacity) + node] >= rules.min_child_records:
                child = new_model(floats, integers, queues, rules, m, path[level], level + 1, head[LABELS])
                head[at_field(CHILD, capacity) + node] = child
                model[level + 1] = child
                slots[level] = head[at_field(FIRST, capacity) + node]
                phase[level] = FEED
        elif todo == FEED:
            slot = slots[level]
            if slot < 0:
                phase[level] = SETTLE
                continue
            slots[level] = next_record(integers[0], slot)
            X[level + 1] = floats[0][slot * rules.d : (slot + 1) * rules.d]
            mark[level + 1] = label_of(integers[0], slot)
            # The last one that the node kept is the one that has just come.
            answers[level + 1] = answers[level] * outer[level] if slots[level] < 0 else 0
            phase[level + 1] = LEARN
            level += 1
        elif todo == SETTLE:
            capacity, node = head[CAPACITY], at[level]
            if head[at_field(CHILD, capacity) + node] >= 0 and (
                not rules.nearest or head[at_field(DEGREE, capacity) + node] > 0
            ):
                drop_kept(integers[0], head, capacity, node)
            if outer[level] == 1:
                outer[level] = 0
                above = top if level > 0 else np.int64(-1)
                if head[K] > rules.max_nodes:
                    _evict(floats, integers, queues, rules, m, longest_idle(head), above, record, log)
                if head[N] % rules.interval == 0:
                    _delete_isolated(floats, integers, queues, rules, m, above, record, log, gone)
                    read_clusters(floats[m], head, rules, path, record, log)
            phase[level] = ADOPT
        elif head[WAIT_FIRST] >= 0 and head[K] > 0:
            at[level], mark[level] = _adopt(floats, integers, rules, m, X[level], scratch)
            phase[level] = DESCEND
        else:
            if level == 1:
                _bound_leaves(floats, integers, queues, rules, top, record, log)
            level -= 1
