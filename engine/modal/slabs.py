"""Valleys between two groups of landmarks, seen along the line between their means.

In many dimensions a ball that holds records enough is as wide as a cluster, and fills the valley beside it. The same
records projected on a line are dense enough to see it.
"""

import numpy as np
from resonance.kernels.arithmetic import jit, log

_HALF = 1.0 / 6.0
"""Half the width of a slab, in distances between the means: one lies at each mean and one in the middle."""
_FEWEST = 5
"""Landmarks that each of two groups has at least."""


@jit
def group_masses(model, group, groups):
    """Return the records that the landmarks of each group have stood for; a landmark in group -1 is in none."""
    mass = np.zeros(groups)
    for i in range(model.landmarks):
        if group[i] >= 0:
            mass[group[i]] += model.mass[i]
    return mass


@jit
def group_means(model, group, groups):
    """Return the means of groups of landmarks, weighted by the records these have stood for, and these records."""
    d = len(model.at)
    mean, mass = np.zeros((groups, d)), group_masses(model, group, groups)
    for i in range(model.landmarks):
        if group[i] >= 0:
            for f in range(d):
                mean[group[i], f] += model.mass[i] * model.at[f, i]
    for u in range(groups):
        for f in range(d):
            mean[u, f] /= mass[u]
    return mean, mass


@jit
def join_means(group, mean, mass, one, other):
    """Make the group `other` a part of the group `one`."""
    both = mass[one] + mass[other]
    for f in range(mean.shape[1]):
        mean[one, f] = (mass[one] * mean[one, f] + mass[other] * mean[other, f]) / both
    mass[one] = both
    for i in range(len(group)):
        if group[i] == other:
            group[i] = one


@jit
def measure_slabs(model, group, mean, mass, u, v):
    """Measure the valley between two groups on the line between their means; return depth and squared error.

    The depth is the natural logarithm of how many times more records lie in the slab at one mean, that with fewer, than
    in the middle; the error is by the landmarks that the records lie with, a middle without any counting as one record,
    and 0 where nothing can be measured. Every landmark is projected on the line from the mean of the others of its
    group: its own place does not pull the mean towards it, which would make a valley between any two groups of few
    landmarks with many features.
    """
    d = len(model.at)
    line, length2 = np.empty(d), 0.0
    for f in range(d):
        line[f] = mean[v, f] - mean[u, f]
        length2 += line[f] * line[f]
    nodes, total, square = np.zeros(2, dtype=np.int64), np.zeros(3), np.zeros(3)
    for i in range(len(group)):
        own = group[i]
        if own not in (u, v):
            continue
        nodes[0 if own == u else 1] += 1
        m = model.mass[i]
        along, away2 = 0.0, 0.0
        for f in range(d):
            gap = model.at[f, i] - mean[own, f]
            along += gap * line[f]
            away2 += gap * gap
        along = along if own == u else -along
        # Without this landmark the mean of its group is `pull` times as far from it as it is from the mean.
        if m >= mass[own]:
            return 0.0, 0.0
        pull = m / (mass[own] - m)
        whole = length2 + 2.0 * pull * along + pull * pull * away2
        if whole <= 0.0:
            continue
        t = (1.0 + pull) * (along + pull * away2) / whole
        t = t if own == u else 1.0 - t
        for slab in range(3):
            if abs(t - 0.5 * slab) <= _HALF:
                total[slab] += m
                square[slab] += m * m
    end = 0 if total[0] < total[2] else 2
    # Less than one record says nothing.
    if min(nodes[0], nodes[1]) < _FEWEST or total[end] < 1.0:
        return 0.0, 0.0
    error2 = square[end] / (total[end] * total[end])
    if total[1] < 1.0:
        return log(total[end]), error2 + 1.0
    return log(total[end] / total[1]), error2 + square[1] / (total[1] * total[1])
