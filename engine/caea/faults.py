"""What does not fit in packed models: every position, count and length is looked at once, before kernels follow it.

A checksum proves that bytes arrived as they were written, not that an engine wrote them. Kernels follow every position
and count of a model without looking: one that does not fit would read and write beyond its arrays, or never end.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.caea import model
from resonance.engine.caea.model import CLUSTER_FIELDS, HEAD, LABEL_WIDTH, LINK_WIDTH, NODE_FIELDS, parts_of
from resonance.engine.errors import StateError
from resonance.engine.labels import MAX_CLASSES
from resonance.kernels.arithmetic import jit
from resonance.kernels.table import MAX_RECORDS, require, stored_fields

# Bounds that depend on the model; one that a value is to stay below is the next one down.
_LIMITS = (
    MAX_RECORDS, "learned", "most_nodes", "next_id", "most_clusters", "last_level", "pairs", "cells", "next_cluster",
    "max_nodes", "nodes", "oldest", "classes",
)  # fmt: skip
_FIELDS = [
    (f"{field} of a {name}", each.numbers)
    for kind in (model.Model, model.Link, model.Label)
    for name, fields in stored_fields(kind).items()
    for field, each in fields
]


def _bounds_of(numbers: Any) -> list[int]:
    """Return least number, which limit the numbers may reach, by how much less, and whether they ascend."""
    below = numbers.below in _LIMITS
    return [numbers.low, _LIMITS.index(numbers.below if below else numbers.high), below, numbers.ascending]


_BOUNDS = np.array([_bounds_of(numbers) for _, numbers in _FIELDS], dtype=np.int64)
_NODES, _CLUSTERS = HEAD, HEAD + NODE_FIELDS
_LINKS = _CLUSTERS + CLUSTER_FIELDS
_LABELS = _LINKS + LINK_WIDTH
_COUNT, _MADE, _CLUSTER, _SEEN, _SINCE = (
    [field for field, _ in stored_fields(model.Model)["node"]].index(name)
    for name in ("count", "made", "cluster", "seen", "since")
)
_OTHERS = (
    "the end of a model",
    "a weight, bandwidth or record that is no finite number",
    "the records that a node keeps",
    "what is left behind the last model",
)
FITS = -1
CUT, NUMBER, KEPT, REST = range(len(_FIELDS), len(_FIELDS) + len(_OTHERS))


def check_fault(name: str, code: int, at: int) -> None:
    """Raise `StateError` for the fault that a kernel found in the state of engine `name`, at one of its integers."""
    if code != FITS:
        what = (*(name for name, _ in _FIELDS), *_OTHERS)[code]
        raise StateError(f"the state of {name} does not hold what it says it holds: {what} (integer {at})")


def checked_arrays(
    name: str, dimension: object, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> tuple[int, FloatArray, IntArray]:
    """Return classes and arrays of a state, or raise `StateError` where they are none of that dimension."""
    classes = header.get("classes", 0)
    try:
        floats, integers = arrays["floats"], arrays["integers"]
        for array, kind in ((floats, np.float64), (integers, np.int64)):
            require(array.ndim == 1 and array.dtype == kind, f"{array.dtype} of shape {array.shape}")
        # Every model has the last of its records: a larger dimension would make room for what is not there.
        require(type(dimension) is int and 1 <= dimension <= len(floats), f"{dimension!r} features")
        require(type(classes) is int and 0 <= classes <= MAX_CLASSES, f"{classes!r} classes of labels")
    except (KeyError, ValueError) as error:
        raise StateError(f"the state of {name} holds no model: {error}") from None
    return classes, floats, integers


@jit
def _limits_of(packed, at, rules, classes):
    """Return `_LIMITS` of a packed model; those of its head are only good as far as it was checked."""
    n, k, clusters = packed[at + model.N], packed[at + model.K], packed[at + model.NEXT_CLUSTER]
    return (
        MAX_RECORDS, n, min(rules.max_nodes, n), packed[at + model.NEXT_ID],
        min(clusters, rules.max_nodes // 2) if k > 0 else 0, rules.max_depth - 1, k * (k - 1) // 2, k * classes,
        clusters, rules.max_nodes, k, rules.age_max + 1, classes,
    )  # fmt: skip


@jit
def _columns_fault(packed, at, rows, first, columns, by_column, limits):
    """Check columns, which stand one behind the other or in rows, against their bounds."""
    down, right = (1, rows) if by_column else (columns, 1)
    for column in range(columns):
        least, limit, less, ascending = _BOUNDS[first + column]
        most = limits[limit] - less
        before = least - 1
        for row in range(rows):
            where = at + row * down + column * right
            if packed[where] < least or packed[where] > most or (ascending and packed[where] <= before):
                return first + column, where
            before = packed[where]
    return FITS, 0


@jit
def _pairs_fault(packed, start, stop, step, width, first):
    """Check that rows stand in the order of their first two columns, none twice."""
    before = -1
    for at in range(start, stop, step):
        pair = packed[at] * width + packed[at + 1]
        if pair <= before:
            return first, at
        before = pair
    return FITS, 0


@jit
def _nodes_fault(packed, start, at_clusters, n, k, clusters):
    """Check what holds between the columns of a node, and of all nodes."""
    ids, won = packed[at_clusters : at_clusters + clusters], 0
    for node in range(start, start + k):
        # Each record was won by one node at most, which also keeps the sum from running over.
        if packed[node] > n - won:
            return _NODES + _COUNT, node
        won += packed[node]
        for field in (_SEEN, _SINCE):
            if packed[node + field * k] < packed[node + _MADE * k]:
                return _NODES + field, node + field * k
        cluster = packed[node + _CLUSTER * k]
        c = np.searchsorted(ids, cluster)
        if cluster >= 0 and (c == clusters or ids[c] != cluster):
            return _NODES + _CLUSTER, node + _CLUSTER * k
    return FITS, 0


@jit
def model_fault(floats, at_floats, packed, at, rules, classes):
    """Return what is wrong with the packed model that begins at `at` and `at_floats`, and at which integer."""
    if at + HEAD > len(packed):
        return CUT, at
    limits = _limits_of(packed, at, rules, classes)
    code, where = _columns_fault(packed, at, 1, 0, HEAD, True, limits)
    if code != FITS:
        return code, where
    n, k, clusters = packed[at + model.N], packed[at + model.K], packed[at + model.CLUSTERS]
    links, labels = packed[at + model.JOINED], packed[at + model.MARKS]
    if packed[at + model.NEXT_ID] < k:
        return model.NEXT_ID, at + model.NEXT_ID
    if packed[at + model.LEVEL] != 1 and packed[at + model.LEAVES] > 0:
        return model.LEAVES, at + model.LEAVES
    start, (at_clusters, joined, marks, end, length) = at + HEAD, parts_of(packed, at, rules.d, rules.h)
    if end > len(packed) or at_floats + length > len(floats):
        return CUT, at
    # Weights and bandwidths; the thresholds of a model with few nodes are not numbers yet, and spreads may overflow.
    ring, last = at_floats + (rules.d + 2) * k, min(n, rules.h) * rules.d
    if not (np.isfinite(floats[at_floats : ring - k]).all() and np.isfinite(floats[ring : ring + last]).all()):
        return NUMBER, at
    code, where = _columns_fault(packed, start, k, _NODES, NODE_FIELDS, True, limits)
    if code == FITS:
        code, where = _columns_fault(packed, at_clusters, clusters, _CLUSTERS, CLUSTER_FIELDS, True, limits)
    if code == FITS:
        code, where = _nodes_fault(packed, start, at_clusters, n, k, clusters)
    if code == FITS:
        code, where = _columns_fault(packed, joined, links, _LINKS, LINK_WIDTH, False, limits)
    if code == FITS:
        code, where = _columns_fault(packed, marks, labels, _LABELS, LABEL_WIDTH, False, limits)
    if code == FITS:
        code, where = _pairs_fault(packed, joined, marks, LINK_WIDTH, k, _LINKS)
    if code == FITS:
        code, where = _pairs_fault(packed, marks, end, LABEL_WIDTH, classes, _LABELS)
    for link in range(joined, marks if code == FITS else joined, LINK_WIDTH):
        if packed[link + 1] >= packed[link]:
            return _LINKS + 1, link + 1
    return code, where
