"""Which landmarks of a group are outliers: where the stream is so thin, hardly a record of a cluster lies."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.modal.changes import group_masses
from resonance.engine.modal.layout import LANDMARKS, MASS, PLACE
from resonance.engine.ordering import stable_order

_DEVIATIONS = 2.88
"""Standard deviations of a normal variable beyond which one of 500 lies on one side."""
_MAX = 0.1
"""Share of the records of a group that can be outliers; more of them are a part of it."""

_INSIDE = 2.0
"""How many times as deep below the median a landmark lies that leaves its cluster."""


@jit
def thinness(dimension):
    """Return the natural logarithm of how many times denser a Gaussian is at its median record than far outside.

    That is where one record of 500 lies farther outside. Squared distances are chi-square; their quantiles are those
    of E. B. Wilson, M. M. Hilferty, "The Distribution of Chi-Square", PNAS 17(12), 1931.
    """
    part = 2.0 / (9.0 * dimension)
    median = 1.0 - part
    far = median + _DEVIATIONS * np.sqrt(part)
    return 0.5 * dimension * (far * far * far - median * median * median)


@jit
def without_outliers(model, logs, dimension, group, groups):
    """Return the groups of landmarks, -1 for none, without those around which there is hardly a record.

    What is in a cluster already, as the rest of one that was absorbed is, leaves it only from twice that depth on.
    `logs` are the logarithms of the density at each landmark.
    """
    count, mass = model.head[LANDMARKS], model.real[MASS]
    whole, passed, thin = group_masses(model, group, groups), np.zeros(groups), np.zeros(groups)
    median = np.full(groups, np.inf)
    for i in stable_order(-logs):
        g = group[i]
        if g < 0:
            continue
        passed[g] += mass[i]
        if median[g] == np.inf and 2.0 * passed[g] >= whole[g]:
            median[g] = logs[i]
    depth = thinness(dimension)
    left = group.copy()
    for i in range(count):
        g = group[i]
        if g >= 0 and logs[i] < median[g] - depth * (1.0 if model.number[PLACE, i] < 0 else _INSIDE):
            thin[g] += mass[i]
            left[i] = -1
    for i in range(count):
        if group[i] >= 0 and thin[group[i]] > _MAX * whole[group[i]]:
            left[i] = group[i]
    return left
