"""MLCA-C's groups of features: those whose means are near one another share a bandwidth (31)-(33)."""

import numpy as np
from resonance.engine.arithmetic import exp_minus, jit
from resonance.engine.correntropy import median_bandwidth, scale_of
from resonance.engine.mlca.layout import GROUPS, list_groups


@jit
def feature_means(window):
    """Return the mean of each feature over the records of a window, and whether it varies."""
    m, d = window.shape
    means, varies = np.zeros(d), np.zeros(d, dtype=np.bool_)
    for r in range(m):
        for i in range(d):
            means[i] += window[r, i]
            varies[i] |= window[r, i] != window[0, i]
    return means / m, varies


@jit
def nearest_point(centres, count, v):
    """Return which of the first `count` centres is nearest to `v`, the first of equals."""
    best = 0
    for j in range(1, count):
        if abs(v - centres[j]) < abs(v - centres[best]):
            best = j
    return best


@jit
def cluster_points(points, rules, factors):
    """Cluster numbers in their order by the algorithm itself, without moves of a second winner.

    All are known beforehand: the bandwidth of the first is that of the first `interval` together. Return which centre
    is nearest to each in the end, and how many there are.
    """
    count = len(points)
    centres, sizes = np.empty(count), np.empty(count)
    work = np.empty(2)
    k, total = 0, 0.0
    for p in range(count):
        v = points[p]
        near, far = 0, 1.0
        if k > 0:
            near = nearest_point(centres, k, v)
            apart = v - centres[near]
            square = 1.0 - exp_minus(apart * apart * scale_of(total / k))
            far = np.sqrt(square if square > 0.0 else 0.0)
        if k == 0 or far > rules.vigilance:
            end = min(count, max(p + 1, rules.interval))
            begin = max(0, end - rules.interval)
            centres[k], sizes[k] = v, 1.0
            total += median_bandwidth(points[begin:end], end - begin, 1, factors, points[p : p + 1], work)
            k += 1
        else:
            sizes[near] += 1.0
            centres[near] += (v - centres[near]) / sizes[near]
    found = np.empty(count, dtype=np.int64)
    for p in range(count):
        found[p] = nearest_point(centres, k, points[p])
    return found, k


@jit
def regroup(nodes, rules, factors):
    """Divide the features into groups anew, from the means over a full window; return how many there were before.

    Features that did not vary in it are one group, whatever their values: they tell no record from another. `factors`
    are `bandwidth_factors` of one dimension.
    """
    means, varies = feature_means(nodes.window)
    found, constant = cluster_points(means[varies], rules, factors)
    at = 0
    for i in range(rules.d):
        nodes.group[i] = found[at] if varies[i] else constant
        at += varies[i]
    before = nodes.head[GROUPS]
    list_groups(nodes)
    return before
