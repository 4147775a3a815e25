"""A model as arrays without room to spare, and back: what a snapshot keeps of it.

The arrays are a function of the model alone, not of the room it happens to have: equal models, equal bytes. What can
be computed from the rest, such as radii and spectra, is not among them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine.ildn import layout
from resonance.engine.ildn.graph import pairs_of, put_pairs, spread_from
from resonance.engine.ildn.layout import Kept, Model, Rules, new_model, set_reach
from resonance.engine.table import ABOVE_ZERO, Arrays, checked, packed, put, require, require_covariances, room_for


def packed_model(model: Model) -> dict[str, NDArray[Any]]:
    """Return the contents of a model: matrices only for nodes of two records and more, edges from their older end."""
    nodes, d = int(model.head[layout.NODES]), len(model.centre)
    slots = model.fields[layout.SLOT, :nodes]
    slots, (row, column) = slots[slots >= 0], np.tril_indices(d)
    kept = Kept(model.values[layout.WIDEST], model.covariance[slots][:, row, column], pairs_of(model))
    return packed(model, nodes=nodes, slots=slots, lanes=d) | packed(kept, nodes=nodes)


def unpacked_model(arrays: Arrays, rules: Rules, classes: int) -> Model:
    """Return the model that `packed_model` gave the arrays of; KeyError or ValueError where they hold none."""
    d, (row, column) = rules.d, np.tril_indices(rules.d)
    found = checked(Model, arrays, d=d, lanes=d, classes=classes)
    learned, nodes, slots = found["learned"], found["nodes"], found["slots"]
    kept = checked(Kept, arrays, nodes=nodes, slots=slots, triangle=len(row))
    require(found["next_id"] <= 2 * learned and found["next_cluster"] <= learned * rules.max_nodes, "counters")
    grown = np.flatnonzero(found["count"] > 1)
    require(1 <= nodes <= rules.max_nodes and len(grown) == slots, f"{nodes} nodes, {slots} matrices")
    a, b = kept["a"], kept["b"]
    require((a < b).all() and (np.diff(a << 32 | b) > 0).all(), "edges")
    model = new_model(d, room_for(nodes + 1, layout.SMALLEST), slots + 8, 2 * len(a) + 16, classes)
    put(model, found)
    model.head[[layout.NODES, layout.FREE]] = nodes, 8
    model.fields[layout.FIRST, :nodes] = -1
    put_pairs(model, np.stack([a, b], axis=1))
    model.free[:8] = np.arange(slots, slots + 8)
    model.fields[layout.SLOT, :nodes] = -1
    model.fields[layout.SLOT, grown] = np.arange(slots)
    model.covariance[:slots, row, column] = model.covariance[:slots, column, row] = kept["covariance"]
    require_covariances(model.covariance[:slots, :, :d], ABOVE_ZERO)
    for node in range(nodes):
        set_reach(model, rules, node, kept["widest"][node])
    _check_clusters(model, rules)
    return model


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
        require(len(of_cluster) == 1 and cluster not in seen, "clusters that are not the network's components")
        require((cluster >= 0) == (size >= rules.min_cluster_records), "the size of its clusters")
        if cluster >= 0:
            seen.add(cluster)
