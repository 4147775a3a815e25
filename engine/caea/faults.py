"""What does not fit in packed models: every position, count and length is looked at once, before kernels follow it."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.caea.block import CLUSTER_FIELDS
from resonance.engine.caea.packing import FIELDS_PACKED, HEAD_PACKED, model_lengths

MAX_COUNTED = 2**53
"""No stream is longer, and events tell numbers up to here exactly."""

SMALLEST_MODEL = len(HEAD_PACKED) + 2
"""Integers of the head of a packed model."""

FITS, CUT, COUNT, NODES, NODE, CLUSTERS, LINK, LABEL, NUMBER, PLACE, LEAVES, KEPT, REST = range(13)
"""What a check finds; `state_checks` has the words, also of the faults of a tree."""


@jit
def first_not_finite(floats, start, stop):
    """Return the first position of a range that holds no finite number, -1 where all do."""
    for at in range(start, stop):
        if not np.isfinite(floats[at]):
            return at
    return -1


@jit
def model_fault(floats, at_floats, packed, at, rules, classes):
    """Return what is wrong with a packed model, `FITS` where nothing is, and at which integer.

    Parameters
    ----------
    floats, packed : ndarray of float64, of int64
        Packed models, see `model_state`.
    at_floats, at : int
        Where those of this one begin.
    rules : Rules
        Parameters of the model.
    classes : int
        Classes of labels there are.
    """
    if at + SMALLEST_MODEL > len(packed):
        return CUT, at
    n, k, next_id, next_cluster, clusters = packed[at], packed[at + 1], packed[at + 2], packed[at + 3], packed[at + 4]
    events, level, leaves = packed[at + 5], packed[at + 7], packed[at + 8]
    joined, marks = packed[at + 11], packed[at + 12]
    if n < 1 or n > MAX_COUNTED:
        return COUNT, at
    if k < 0 or k > rules.max_nodes or k > n:
        return NODES, at + 1
    if next_id < k or next_id > n:
        return NODE, at + 2
    if next_cluster < 0 or next_cluster > MAX_COUNTED:
        return CLUSTERS, at + 3
    if clusters < 0 or clusters > min(next_cluster, rules.max_nodes // 2) or (k == 0 and clusters > 0):
        return NODES, at + 4
    if events < 0 or events > MAX_COUNTED:
        return COUNT, at + 5
    if level < 0 or level >= rules.max_depth:
        return PLACE, at + 7
    if leaves < 0 or (level != 1 and leaves > 0):
        return LEAVES, at + 8
    if packed[at + 9] < 0 or packed[at + 9] > next_id:
        return NODE, at + 9
    if packed[at + 10] < 0 or packed[at + 10] > n:
        return COUNT, at + 10
    if joined < 0 or joined > k * (k - 1) // 2:
        return NODES, at + 11
    if marks < 0 or marks > k * classes:
        return NODES, at + 12
    length_floats, length = model_lengths(packed, at, rules.d, rules.h)
    if at + length > len(packed) or at_floats + length_floats > len(floats):
        return CUT, at
    # Weights and bandwidths; the thresholds of a model with few nodes are not numbers yet, and spreads may overflow.
    end = at_floats + (rules.d + 2) * k
    if (
        first_not_finite(floats, at_floats, end - k) >= 0
        or first_not_finite(floats, end, end + min(n, rules.h) * rules.d) >= 0
    ):
        return NUMBER, at
    start = at + SMALLEST_MODEL
    at_clusters = start + len(FIELDS_PACKED) * k
    code, where = _nodes_fault(packed, start, at_clusters, n, k, next_id, clusters)
    if code == FITS:
        code, where = _clusters_fault(packed, at_clusters, n, clusters, next_cluster, rules.max_nodes)
    if code == FITS:
        start = at_clusters + CLUSTER_FIELDS * clusters
        code, where = _links_fault(packed, start, joined, k, n, rules.age_max)
    if code == FITS:
        code, where = _labels_fault(packed, start + 4 * joined, marks, k, classes)
    return code, where


@jit
def _nodes_fault(packed, start, at_clusters, n, k, next_id, clusters):
    """Check the fields of the nodes: count, id, made, won, cluster, seen, hits, since."""
    ids = packed[at_clusters : at_clusters + clusters]
    won = 0
    for node in range(k):
        count = packed[start + node]
        # Each record was won by one node at most, which also keeps the sum from running over.
        if count < 1 or count > n - won:
            return NODE, start + node
        won += count
    for field in (1, 2):  # nodes stand in the order in which they were made
        before = -1 if field == 1 else 0
        most = next_id - 1 if field == 1 else n
        for node in range(k):
            where = start + field * k + node
            if packed[where] <= before or packed[where] > most:
                return NODE, where
            before = packed[where]
    for node in range(k):
        where = start + 3 * k + node
        if packed[where] < 0 or packed[where] > MAX_COUNTED:
            return NODE, where
    for node in range(k):
        where = start + 4 * k + node
        cluster = packed[where]
        if cluster == -1:
            continue
        c = np.searchsorted(ids, cluster)
        if c == clusters or ids[c] != cluster:
            return NODE, where
    for node in range(k):
        made = packed[start + 2 * k + node]
        for field in (5, 6, 7):
            where = start + field * k + node
            least = 0 if field == 6 else made
            if packed[where] < least or packed[where] > n:
                return NODE, where
    return FITS, 0


@jit
def _clusters_fault(packed, start, n, clusters, next_cluster, max_nodes):
    """Check the fields of the clusters: id, size, nodes, made."""
    before = -1
    for c in range(clusters):
        where = start + c
        if packed[where] <= before or packed[where] >= next_cluster:
            return CLUSTERS, where
        before = packed[where]
        for field in (1, 2, 3):
            where = start + field * clusters + c
            least = 0 if field == 3 else field
            if packed[where] < least or packed[where] > (max_nodes if field == 2 else n):
                return CLUSTERS, where
    return FITS, 0


@jit
def _links_fault(packed, start, joined, k, n, age_max):
    """Check the links: node, earlier node, age, common wins; they stand in the order of the nodes."""
    i, j = 0, -1
    for at in range(start, start + 4 * joined, 4):
        if packed[at] < i or packed[at] >= k:
            return LINK, at
        if packed[at] > i:
            i, j = packed[at], -1
        if packed[at + 1] <= j or packed[at + 1] >= i:
            return LINK, at + 1
        j = packed[at + 1]
        if packed[at + 2] < 0 or packed[at + 2] > age_max + 1:
            return LINK, at + 2
        if packed[at + 3] < 1 or packed[at + 3] > n:
            return LINK, at + 3
    return FITS, 0


@jit
def _labels_fault(packed, start, marks, k, classes):
    """Check the label counts: node, class, count; they stand in the order of nodes and classes."""
    node, mark = 0, -1
    for at in range(start, start + 3 * marks, 3):
        if packed[at] < node or packed[at] >= k:
            return LABEL, at
        if packed[at] > node:
            node, mark = packed[at], -1
        if packed[at + 1] <= mark or packed[at + 1] >= classes:
            return LABEL, at + 1
        mark = packed[at + 1]
        if packed[at + 2] < 1 or packed[at + 2] > MAX_COUNTED:
            return LABEL, at + 2
    return FITS, 0
