"""A model as arrays without room to spare, and back: what a snapshot keeps of it.

The arrays are a function of the model alone, not of the room it happens to have: equal models, equal bytes. What can
be told from the rest, such as radii and spectra, is not among them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE
from resonance.engine.contents import MAX_RECORDS
from resonance.engine.errors import StateError
from resonance.engine.ildn import layout
from resonance.engine.ildn.graph import spread_from
from resonance.engine.ildn.layout import Model, Rules, new_model, set_reach

_HEAD = (layout.LEARNED, layout.NEXT_ID, layout.NEXT_CLUSTER, layout.EVENTS)
_FIELDS = (layout.ID, layout.COUNT, layout.WON, layout.CLUSTER)
_WIDEST = 1e304
"""No variance of records of a few hundred features, each at most `MAGNITUDE`, is larger."""

Arrays = dict[str, NDArray[Any]]


def packed(model: Model) -> Arrays:
    """Return the contents of a model: matrices only for nodes of two records and more, edges from their older end."""
    nodes, d = int(model.head[layout.NODES]), len(model.centre)
    slots = model.fields[layout.SLOT, :nodes]
    slots = slots[slots >= 0]
    lower = np.tril_indices(d)
    edges = model.edges[: model.head[layout.EDGES]]
    ends = np.stack([edges >> 32, edges & 0xFFFFFFFF], axis=1)
    row, label = np.nonzero(model.labels[:nodes])
    return {
        "head": model.head[list(_HEAD)],
        "nodes": model.fields[list(_FIELDS), :nodes],
        "centre": model.centre[:, :nodes].T,
        "widest": model.values[layout.WIDEST, :nodes],
        "covariance": model.covariance[slots][:, lower[0], lower[1]],
        "whitening": model.whitening[slots][:, :, :d],
        "edges": ends[ends[:, 0] < ends[:, 1]],
        "labels": np.stack([row, label, model.labels[row, label]], axis=1),
    }


def unpacked(arrays: Mapping[str, NDArray[Any]], rules: Rules, classes: int) -> Model:
    """Return the model that `packed` gave the arrays of, or raise `StateError`."""
    _check_shapes(arrays, rules.d)
    _check_values(arrays, rules, classes)
    d, nodes, matrices = rules.d, arrays["nodes"].shape[1], len(arrays["covariance"])
    capacity = layout.SMALLEST
    while capacity <= nodes:
        capacity *= 2
    a, b = arrays["edges"].T
    entries = np.sort(np.concatenate([a << 32 | b, b << 32 | a]))
    model = new_model(d, capacity, matrices + 8, len(entries) + 16, classes)
    model.head[list(_HEAD)] = arrays["head"]
    model.head[layout.NODES], model.head[layout.FREE], model.head[layout.EDGES] = nodes, 8, len(entries)
    model.edges[: len(entries)] = entries
    model.free[:8] = np.arange(matrices, matrices + 8)[::-1]
    model.fields[list(_FIELDS), :nodes] = arrays["nodes"]
    model.fields[layout.SLOT, :nodes] = -1
    model.fields[layout.SLOT, np.flatnonzero(arrays["nodes"][1] > 1)] = np.arange(matrices)
    model.centre[:, :nodes] = arrays["centre"].T
    lower = np.tril_indices(d)
    model.covariance[:matrices, lower[0], lower[1]] = arrays["covariance"]
    model.covariance[:matrices, lower[1], lower[0]] = arrays["covariance"]
    model.whitening[:matrices, :, :d] = arrays["whitening"]
    for row in range(nodes):
        set_reach(model, rules, row, arrays["widest"][row])
    row, label, count = arrays["labels"].T
    model.labels[row, label] = count
    _check_clusters(model, rules)
    return model


def _need(condition: object, what: str) -> None:
    if not condition:
        raise StateError(f"the state of ildn does not hold a model: {what}")


def _check_shapes(arrays: Mapping[str, NDArray[Any]], d: int) -> None:
    wanted = {
        "head": ("i", (len(_HEAD),)),
        "nodes": ("i", (len(_FIELDS), None)),
        "centre": ("f", (None, d)),
        "widest": ("f", (None,)),
        "covariance": ("f", (None, d * (d + 1) // 2)),
        "whitening": ("f", (None, d, d)),
        "edges": ("i", (None, 2)),
        "labels": ("i", (None, 3)),
    }
    _need(set(arrays) == set(wanted), f"arrays {', '.join(sorted(arrays))}")
    for name, (kind, shape) in wanted.items():
        found = arrays[name]
        fits = len(found.shape) == len(shape) and all(
            want in (None, have) for want, have in zip(shape, found.shape, strict=True)
        )
        _need(found.dtype.kind == kind and fits, f"{name} of shape {found.shape}")
    nodes = arrays["nodes"].shape[1]
    _need(len(arrays["centre"]) == nodes == len(arrays["widest"]), "centres and nodes differ in number")
    grown = int((arrays["nodes"][1] > 1).sum())
    _need(len(arrays["covariance"]) == grown == len(arrays["whitening"]), "matrices and nodes differ in number")


def _check_values(arrays: Mapping[str, NDArray[Any]], rules: Rules, classes: int) -> None:
    learned, next_id, next_cluster, events = (int(value) for value in arrays["head"])
    ids, counts, won, clusters = arrays["nodes"]
    nodes = len(ids)
    _need(0 < learned < MAX_RECORDS and 0 <= next_id <= 2 * learned, "its counters")
    _need(0 <= next_cluster <= learned * rules.max_nodes and 0 <= events < MAX_RECORDS, "its counters")
    _need(1 <= nodes <= rules.max_nodes, f"{nodes} nodes")
    _need(ids[0] >= 0 and (np.diff(ids) > 0).all() and ids[-1] < next_id, "ids of nodes")
    _need((counts >= 1).all() and (counts <= learned).all() and sum(counts.tolist()) <= learned, "counts of nodes")
    _need((won >= 1).all() and (won <= learned).all() and len(np.unique(won)) == nodes, "when nodes won")
    _need((clusters >= -1).all() and (clusters < next_cluster).all(), "clusters of nodes")
    for name in ("centre", "widest", "covariance", "whitening"):
        _need(np.isfinite(arrays[name]).all(), f"{name} is not finite")
    _need((np.abs(arrays["centre"]) <= 2.0 * MAGNITUDE).all(), "centres")
    _need((arrays["widest"] > 0.0).all() and (arrays["widest"] <= _WIDEST).all(), "eigenvalues")
    diagonal = np.cumsum(np.arange(1, rules.d + 1)) - 1
    variances = arrays["covariance"][:, diagonal]
    _need((variances > 0.0).all() and (variances <= _WIDEST).all(), "variances")
    row, column = np.tril_indices(rules.d)
    most = (variances[:, row] + variances[:, column]) * (0.5 + 1e-9)
    _need((np.abs(arrays["covariance"]) <= most).all(), "covariances")
    a, b = arrays["edges"].T
    _need((a >= 0).all() and (a < b).all() and (b < nodes).all(), "ends of edges")
    _need((np.diff(a << 32 | b) > 0).all(), "the order of edges")
    row, label, count = arrays["labels"].T
    _need((row >= 0).all() and (row < nodes).all() and (label >= 0).all() and (label < classes).all(), "labels")
    _need((np.diff(row * (classes + 1) + label) > 0).all() and (count >= 1).all(), "labels")
    _need((count <= counts[row]).all(), "labels")


def _check_clusters(model: Model, rules: Rules) -> None:
    """Every component has one cluster, of its own, exactly when it has enough records."""
    nodes = int(model.head[layout.NODES])
    part, reached = np.full(nodes, -1, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    seen: set[int] = set()
    for row in range(nodes):
        if part[row] >= 0:
            continue
        members = reached[: spread_from(model, row, part, row, reached)]
        of_cluster = np.unique(model.fields[layout.CLUSTER, members])
        cluster, size = int(of_cluster[0]), int(model.fields[layout.COUNT, members].sum())
        _need(len(of_cluster) == 1 and cluster not in seen, "clusters that are not the network's components")
        _need((cluster >= 0) == (size >= rules.min_cluster_records), "the size of its clusters")
        if cluster >= 0:
            seen.add(cluster)
