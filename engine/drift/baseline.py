"""The baseline of a unit: means, spreads, allowances, and thresholds that grow with the dependence of records."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.drift import layout

_LEAST_VARIANCE, _LEAST_SPREAD = 0.25, 0.04
"""Least variance of a clipped value, and of its absolute value."""
_ERRORS = 3.0
"""Standard errors of the baseline that an allowance carries."""


@jit
def _inflation(total, cross, mean, variance, known, records, late):
    """Return the long-run variance by the variance, from the means of blocks; infinite where it is not known yet.

    `known` is what it was before the last change, 0 for nothing; from `late` records on it is believed as it is.
    """
    blocks = records // layout.BLOCK
    of_blocks = total / blocks - mean * mean
    if of_blocks <= 0.0:
        return 1.0
    r = min(max((cross / (blocks - 1) - mean * mean) / of_blocks, 0.0), 0.9)
    t = (layout.BLOCK * of_blocks / variance) * ((1.0 + r) / (1.0 - r))
    most = records / 32.0
    if known > 0.0:
        most = min(most, 2.0 * known)
    elif t > most and records < late:
        return np.inf
    return min(max(t, 1.0), most)


@jit
def _measure(channel, number, rules, records):
    """Write mean and spread of every channel; return the variances of values and of absolute values.

    A first baseline since a restart also widens the hull of all of them, and counts as a return where it lies inside.
    """
    channels = channel.shape[1]
    variance, variance_q = np.empty(channels), np.empty(channels)
    first, inside = number[layout.WATCHED] == 0, number[layout.BASES] > 0
    for i in range(channels):
        mu, al = channel[layout.SY, i] / records, channel[layout.SA, i] / records
        variance[i] = max(channel[layout.SYY, i] / records - mu * mu, _LEAST_VARIANCE)
        variance_q[i] = max(channel[layout.SYY, i] / records - al * al, _LEAST_SPREAD)
        channel[layout.MU, i], channel[layout.AL, i] = mu, al
        channel[layout.RHO, i], channel[layout.BE, i] = 1.0 / np.sqrt(variance[i]), 1.0 / np.sqrt(variance_q[i])
        if not first:
            continue
        at = channel[layout.C, i] + mu / channel[layout.G, i]
        if number[layout.BASES] == 0:
            channel[layout.LOWEST, i] = channel[layout.HIGHEST, i] = at
        else:
            margin = rules.step / (channel[layout.RHO, i] * channel[layout.G, i])
            if at < channel[layout.LOWEST, i] - margin or at > channel[layout.HIGHEST, i] + margin:
                inside = False
            channel[layout.LOWEST, i] = min(channel[layout.LOWEST, i], at)
            channel[layout.HIGHEST, i] = max(channel[layout.HIGHEST, i], at)
    if first and inside:
        number[layout.RETURNS] += 1
    return variance, variance_q


@jit
def take_baseline(channel, number, rules, records, base):
    """Take the mean of the records since the restart as the baseline; `base` is how many a first one has."""
    variance, variance_q = _measure(channel, number, rules, records)
    first = number[layout.WATCHED] == 0
    far = 0.0
    for i in range(channel.shape[1]):
        up = down = 0.0
        rho, beta = channel[layout.RHO, i], channel[layout.BE, i]
        if number[layout.RETURNS] >= rules.ordinary:
            # All between the places where the unit has been is ordinary.
            if i < rules.d:
                g = channel[layout.G, i]
                at = channel[layout.C, i] + channel[layout.MU, i] / g
                up = max(channel[layout.HIGHEST, i] - at, 0.0) * g
                down = max(at - channel[layout.LOWEST, i], 0.0) * g
                far += max(up, down)
            else:
                up = down = far / rules.root
        t = _inflation(
            channel[layout.BYY, i],
            channel[layout.BYP, i],
            channel[layout.MU, i],
            variance[i],
            channel[layout.TAU_S, i],
            records,
            8 * base,
        )
        if first or channel[layout.HS, i] == np.inf or t == np.inf:
            channel[layout.S, i], channel[layout.OS, i] = 0.0, number[layout.SEEN]
            channel[layout.E, i] = channel[layout.MU, i]
        allowance = rules.step + _ERRORS * np.sqrt(min(t, float(records)) / records)
        channel[layout.KU, i], channel[layout.KD, i] = allowance + up * rho, allowance + down * rho
        channel[layout.HS, i] = rules.threshold / rules.theta * t
        t = _inflation(
            channel[layout.BAA, i],
            channel[layout.BAP, i],
            channel[layout.AL, i],
            variance_q[i],
            channel[layout.TAU_Q, i],
            records,
            8 * base,
        )
        if first or channel[layout.HQ, i] == np.inf or t == np.inf:
            channel[layout.Q, i], channel[layout.OQ, i] = 0.0, number[layout.SEEN]
        allowance = 0.5 * rules.step + _ERRORS * np.sqrt(min(t, float(records)) / records)
        channel[layout.KQ, i] = allowance + max(up, down) * beta
        channel[layout.HQ, i] = rules.threshold / rules.theta_q * t
    if first:
        number[layout.BASES] += 1
    number[layout.WATCHED] = 1
