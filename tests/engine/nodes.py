"""What models answer and hold, as tests compare it: nodes out of `arrays` come in the order of their ids."""

import numpy as np
from resonance.engine.hcaea.memory import ROOT
from resonance.engine.ildn.ellipsoid import squared_radii
from resonance.engine.labels import majority_label
from resonance.engine.sa_art import layout


def described(clusters):
    """Return all of some clusters."""
    return [(c.path, c.id, c.size, c.nodes, c.centre.tobytes(), c.spread.tobytes()) for c in clusters]


def joined(steps, starts=(0,)):
    """Everything that was answered, with the indices of events counted over the whole stream."""
    events = [
        (
            start + e.index,
            e.kind,
            e.path,
            e.number,
            e.cluster,
            e.other,
            None if e.reason is None else (e.reason.criterion, e.reason.value, e.reason.threshold),
            described((*e.before, *e.after)),
        )
        for start, step in zip(starts, steps, strict=True)
        for e in step.events
    ]
    arrays = {
        name: np.concatenate([getattr(step, name) for step in steps]).tobytes()
        for name in ("cluster", "score", "novel", "path")
    }
    groups = [
        (start + g.index, g.before, g.after) for start, step in zip(starts, steps, strict=True) for g in step.groups
    ]
    return {"events": events, "groups": groups, **arrays}


def by_id(arrays, *names):
    """Return some arrays of nodes in the order of the ids."""
    order = np.argsort(arrays["id"])
    return {name: arrays[name][order] for name in ("id", *names)}


def dense(places, rows, columns):
    """Return the matrix that rows of row, column and number stand for."""
    matrix = np.zeros((rows, columns), dtype=np.int64)
    matrix[places[:, 0], places[:, 1]] = places[:, 2]
    return matrix


def _nodes_of(model, classes):
    """Return the nodes of one CAEA model without what joins them, in the order in which they were made."""
    k = model.nodes
    labels = np.zeros((k, classes), dtype=np.int64)
    labels[:, : model.labels.shape[1]] = model.labels[:k, :classes]
    names = ("id", "count", "cluster", "hits", "since", "sigma", "threshold")
    found = {name: getattr(model, name)[:k].copy() for name in names}
    return {**found, "weight": model.weight[:, :k].T.copy(), "labels": labels}


def caea_nodes(engine):
    """Return the nodes of a CAEA: also ages of edges (-1 where there is none) and common wins; none before a record."""
    if not engine.dimension:
        return {}
    model, k = engine._model, engine._model.nodes
    age, cowin = np.full((k, k), -1, dtype=np.int64), np.zeros((k, k), dtype=np.int64)
    node, at = np.nonzero(np.arange(model.other.shape[1]) < model.linked[:k, None])
    other = model.other[node, at]
    age[node, other], cowin[node, other] = model.age[node, at] - 1, model.wins[node, at]
    return {**_nodes_of(model, engine._classes), "age": age, "cowin": cowin}


def leaves(tree):
    """Return path, weight, sigma, count and labels of the leaves of a HCAEA, depth first; and their majorities."""
    paths = {model._address: path for model, path in ((tree._model(m), path) for m, path in tree._models())}
    found = [(model, at, paths[model._address]) for model, at in tree._leaves(ROOT)]
    nodes = [{name: each[at] for name, each in _nodes_of(model, tree._classes).items()} for model, at, _ in found]
    whole = {name: np.stack([node[name] for node in nodes]) for name in ("weight", "sigma", "count", "labels")}
    padded = [
        (*path, int(node["id"]), *[-1] * (tree.depth - len(path) - 1))
        for (*_, path), node in zip(found, nodes, strict=True)
    ]
    labels = np.array([majority_label(row) for row in whole["labels"]], dtype=np.int64)
    return {**whole, "path": np.array(padded, dtype=np.int64), "label": labels}


def ildn_nodes(model):
    """Return id, count, cluster, radius, centre and covariance of the nodes of an ILDN, and pairs of ids as edges."""
    arrays, sigma, d = model.arrays(), model.sigma, model.dimension
    ids, count, _, cluster = arrays["nodes"]
    covariance = np.tile(sigma * np.eye(d), (len(ids), 1, 1))
    row, column = np.tril_indices(d)
    for at, triangle in zip(np.flatnonzero(count > 1), arrays["covariance"], strict=True):
        covariance[at][row, column] = covariance[at][column, row] = triangle
    radii = squared_radii(model.q, d, model.radius)
    return {
        "id": ids,
        "count": count,
        "cluster": cluster,
        "radius": np.sqrt(radii[np.minimum(count, len(radii)) - 1]),
        "centre": arrays["centre"],
        "covariance": covariance,
        "edges": ids[arrays["edges"]],
    }


def mlca_nodes(model):
    """Return id, count, weight, sigma and labels of the nodes of an MLCA, and what its probabilities come from."""
    arrays = model.arrays()
    counts = dense(arrays["labels"], len(arrays["id"]), len(model.labels))
    kept = {name: arrays[name] for name in ("records", "having", "lacking", "group") if name in arrays}
    return by_id({**arrays, "labels": counts}, "count", "weight", "sigma", "labels") | kept


def categories(model):
    """Return the categories of a Fuzzy ART or SA-ART as matrices (K, d), with complement coding (K, 2d)."""
    own, d = model._categories, model.dimension
    order = np.argsort(own.id[: own.count])

    def matrix(field, absent=0.0):
        found = np.full((len(order), d), absent)
        for row, slot in zip(found, order.tolist(), strict=True):
            row[model._features[slot][: own.used[slot]]] = model._fields[slot][field, : own.used[slot]]
        return found

    found = {"id": own.id[order], "size": own.size[order], "rho": own.rho[order], "weight": matrix(layout.W)}
    if model._kernel_rules.salient:
        named = {"mean": layout.MEAN, "squares": layout.SQUARES, "count": layout.COUNT, "salience": layout.S}
        found |= {name: matrix(field) for name, field in named.items()}
    if model.complement:
        for name, field in (("weight", layout.CW), ("salience", layout.CS)):
            if name in found:
                found[name] = np.concatenate([found[name], matrix(field, 1.0)], axis=1)
    return found
