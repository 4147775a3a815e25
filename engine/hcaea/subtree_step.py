"""What lies below one node of a root: a tree whose root is a place holder, and vectors learned by what is below it."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.caea.batch import scratch_for
from resonance.engine.caea.block import CAPACITY, CHILD, ID, NEXT_ID, K, at_field
from resonance.engine.hcaea.memory import new_model
from resonance.engine.hcaea.tree import PATH, learn_record

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
