"""Raw rows to prepared ones: one pass over each record."""

import math
from collections.abc import Sequence

import numpy as np
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.prepare.scaling import LARGEST, asinh
from resonance.kernels.arithmetic import fma, inline, jit, log1p

LANES = 8
"""Axes are padded to a multiple of it: the inner loop then has no rest."""

MISSING, NOT_FINITE, NO_LOGARITHM, TOO_LARGE, TOO_FAR, AXIS_TOO_FAR = range(1, 7)


@inline
def _row(columns, X, i, clip, out, o):
    """Prepare record i as row o; return the feature at fault, what is wrong (0: nothing), and values out of range."""
    beyond = 0
    for c in range(X.shape[1]):
        v = X[i, c]
        if math.isnan(v):
            v = columns.fill[c]
        if math.isnan(v):
            return c, MISSING, 0
        j = columns.first[c]
        if columns.values[c] > 0:
            code = np.rint(v)
            for k in range(columns.values[c]):
                out[o, j + k] = (1.0 + (v - code)) / columns.width[c] if code == k else 0.0
            continue
        if not abs(v) <= LARGEST:
            return c, NOT_FINITE, 0
        if columns.logs[c]:
            if v <= -1.0:
                return c, NO_LOGARITHM, 0
            v = log1p(v)
        if not abs(v) <= MAGNITUDE:
            return c, TOO_LARGE, 0
        if columns.bend[c] > 0.0:
            v = (v - columns.pivot[c]) / columns.bend[c]
            if not abs(v) <= MAGNITUDE:
                return c, TOO_FAR, 0
            v = asinh(v)
        v = (v - columns.low[c]) / columns.width[c]
        if not abs(v) <= MAGNITUDE:
            return c, TOO_FAR, 0
        if columns.ranged[c] and (v < 0.0 or v > 1.0):
            beyond += 1
        if clip:
            # Written so that a negative zero becomes 0 on every CPU.
            v = v if v > 0.0 else 0.0
            v = v if v < 1.0 else 1.0
        out[o, j] = v
    return 0, 0, beyond


@jit
def squared_length(x):
    """Return the sum of squares, as eight sums that are added in order."""
    d = len(x)
    whole = d // 8 * 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for c in range(0, whole, 8):
        s0 = fma(x[c], x[c], s0)
        s1 = fma(x[c + 1], x[c + 1], s1)
        s2 = fma(x[c + 2], x[c + 2], s2)
        s3 = fma(x[c + 3], x[c + 3], s3)
        s4 = fma(x[c + 4], x[c + 4], s4)
        s5 = fma(x[c + 5], x[c + 5], s5)
        s6 = fma(x[c + 6], x[c + 6], s6)
        s7 = fma(x[c + 7], x[c + 7], s7)
    for c in range(whole, d):
        s0 = fma(x[c], x[c], s0)
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@jit
def to_unit_length(x):
    """Divide a record by its length; one of zeros stays."""
    length = np.sqrt(squared_length(x))
    if length > 0.0:
        for c in range(len(x)):
            x[c] /= length


@jit
def _project_row(z, centre, lanes, sums):
    """Write the distances from the centre along the axes, the columns of `lanes`, to `sums`; `z` is overwritten."""
    d, padded = lanes.shape
    for c in range(d):
        z[c] -= centre[c]
    for k in range(padded):
        sums[k] = 0.0
    whole = d // 8 * 8
    for c in range(0, whole, 8):
        z0, z1, z2, z3, z4, z5, z6, z7 = z[c], z[c + 1], z[c + 2], z[c + 3], z[c + 4], z[c + 5], z[c + 6], z[c + 7]
        a0, a1, a2, a3 = lanes[c], lanes[c + 1], lanes[c + 2], lanes[c + 3]
        a4, a5, a6, a7 = lanes[c + 4], lanes[c + 5], lanes[c + 6], lanes[c + 7]
        for k in range(padded):
            half = fma(z3, a3[k], fma(z2, a2[k], fma(z1, a1[k], fma(z0, a0[k], sums[k]))))
            sums[k] = fma(z7, a7[k], fma(z6, a6[k], fma(z5, a5[k], fma(z4, a4[k], half))))
    for c in range(whole, d):
        z0, a0 = z[c], lanes[c]
        for k in range(padded):
            sums[k] = fma(z0, a0[k], sums[k])


@jit
def transform(X, columns, clip, out, faults):
    """Write prepared rows to `out`; return how many values are outside their range, and how many rows are faulty.

    ``faults[i]`` gets (feature, code), code 0 for a usable row; the rest of a faulty row of `out` is not written.
    """
    outside, faulty = 0, 0
    for i in range(X.shape[0]):
        faults[i, 0], faults[i, 1], beyond = _row(columns, X, i, clip, out, i)
        outside += beyond
        faulty += faults[i, 1] != 0
    return outside, faulty


@jit
def transform_and_project(X, columns, unit, centre, lanes, middle, out, faults):
    """Like `transform`, and go on from the prepared columns to `middle` and the distances from it along axes.

    A row of `out` has one value for each axis; the fault `AXIS_TOO_FAR` names the axis. With `unit` the prepared
    columns are divided by their length.
    """
    outside, faulty = 0, 0
    row, sums = np.empty((1, lanes.shape[0])), np.empty(lanes.shape[1])
    z = row[0]
    for i in range(X.shape[0]):
        faults[i, 0], faults[i, 1], beyond = _row(columns, X, i, False, row, 0)
        if faults[i, 1] == 0:
            if unit:
                to_unit_length(z)
            _project_row(z, centre, lanes, sums)
            for k in range(out.shape[1]):
                out[i, k] = sums[k] + middle
                if not abs(out[i, k]) <= MAGNITUDE:
                    faults[i, 0], faults[i, 1] = k, AXIS_TOO_FAR
                    break
        if faults[i, 1] == 0:
            outside += beyond
        else:
            faulty += 1
    return outside, faulty


@jit
def scores(rows, centre, lanes, out):
    """Write the distances of prepared columns from the centre along the axes."""
    sums = np.empty(lanes.shape[1])
    for i in range(rows.shape[0]):
        _project_row(rows[i].copy(), centre, lanes, sums)
        for j in range(out.shape[1]):
            out[i, j] = sums[j]


@jit
def rows_to_unit_length(rows):
    """Divide each record by its length."""
    for i in range(rows.shape[0]):
        to_unit_length(rows[i])


@jit
def squared_lengths(rows, centre):
    """Return the squared distance of each record from a centre."""
    found = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        found[i] = squared_length(rows[i] - centre)
    return found


@jit
def column_means(rows):
    """Return the mean of each column: one sum from the first row to the last."""
    means = np.zeros(rows.shape[1])
    for row in rows:
        means += row
    return means / rows.shape[0]


def problem(row: FloatArray, fault: IntArray, features: Sequence[str], width: FloatArray) -> str:
    """Return what is wrong with a raw row by the fault that `transform` found: a feature, or an axis, and a code."""
    c, code = int(fault[0]), int(fault[1])
    if code == AXIS_TOO_FAR:
        return f"beyond {MAGNITUDE:g} along principal axis {c + 1}"
    if code == MISSING:
        return f"{features[c]} is missing"
    return value_problem(features[c], float(row[c]), float(width[c]), code)


def value_problem(name: str, value: float, width: float, code: int) -> str:
    """Say what is wrong with a number by its fault."""
    what = {
        NOT_FINITE: "not a finite number",
        NO_LOGARITHM: "log1p needs a value above -1",
        TOO_LARGE: f"beyond {MAGNITUDE:g}",
        TOO_FAR: f"beyond {MAGNITUDE:g} once scaled with width {width!r}",
    }
    return f"{name} is {value!r}: {what[code]}"
