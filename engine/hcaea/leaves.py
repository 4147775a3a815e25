"""The leaves of a tree, counted for each root node and bounded.

A leaf is a node without a valid child model, one of more than 2 nodes. The model below a root node, here `top`, counts
those at and below it; beyond ``max_leaves`` the one that won longest ago goes. Who that is stands in a queue,
``indexes[top]`` with rows (won, model, node id), of which the first ``integers[top][QUEUED]`` are left.
"""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.borrowed import borrow
from resonance.engine.caea import block
from resonance.engine.caea.block import at_field, remove_nodes
from resonance.engine.hcaea.memory import INTEGERS, POOL, block_of, drop_kept, head_of, remove_model, subtree
from resonance.engine.ordering import stable_order


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
