"""Which landmarks of a group are outliers: where the stream is so thin, hardly a record of a cluster lies."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.modal.model import LANDMARKS, MASS

_DEVIATIONS = 2.88
"""Standard deviations of a normal variable beyond which one of 500 lies on one side."""
_MOST = 0.1
"""Share of the records of a group that can be outliers; more of them are a part of it."""


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
def leave_out_outliers(model, logs, dimension, group, groups):
    """Take the landmarks out of their groups around which there is hardly a record.

    Parameters
    ----------
    logs : ndarray
        Logarithm of the density at each landmark.
    dimension : float
        Intrinsic dimension.
    group : ndarray of int64
        By landmark, its group; gets -1 for outliers.
    groups : int
        Groups that there are.
    """
    count, mass = model.head[LANDMARKS], model.real[MASS]
    whole, passed, thin = np.zeros(groups), np.zeros(groups), np.zeros(groups)
    median = np.full(groups, np.inf)
    for i in range(count):
        if group[i] >= 0:
            whole[group[i]] += mass[i]
    for i in np.argsort(-logs, kind="mergesort"):
        g = group[i]
        if g < 0:
            continue
        passed[g] += mass[i]
        if median[g] == np.inf and 2.0 * passed[g] >= whole[g]:
            median[g] = logs[i]
    least = median - thinness(dimension)
    for i in range(count):
        if group[i] >= 0 and logs[i] < least[group[i]]:
            thin[group[i]] += mass[i]
    for i in range(count):
        g = group[i]
        if g >= 0 and logs[i] < least[g] and thin[g] <= _MOST * whole[g]:
            group[i] = -1
