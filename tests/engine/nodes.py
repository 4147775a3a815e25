"""The nodes of models out of `arrays`, in the order of their ids, as tests compare them."""

import numpy as np
from resonance.engine.ildn.ellipsoid import squared_radii
from resonance.engine.sa_art import layout


def by_id(arrays, *names):
    """Return some arrays of nodes in the order of the ids."""
    order = np.argsort(arrays["id"])
    return {name: arrays[name][order] for name in ("id", *names)}


def dense(places, rows, columns):
    """Return the matrix that rows of row, column and number stand for."""
    matrix = np.zeros((rows, columns), dtype=np.int64)
    matrix[places[:, 0], places[:, 1]] = places[:, 2]
    return matrix


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
