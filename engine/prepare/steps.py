"""Features given in steps, as rounded readings and counts are: each value is spread over its step.

Values that repeat exactly pile up on the points of a grid. Between the points nothing is dense, so that a coarse grid
looks like many small clusters. A number from within its step, uniform as in subtractive dither, has the density that
the reading had before it was rounded (Schuchman 1964, "Dither signals and their effect on quantization noise").
"""

import math
from typing import Final

import numpy as np
from resonance.engine.arithmetic import draw, jit
from resonance.engine.base import MAGNITUDE, FloatArray
from resonance.engine.prepare.scaling import percentile

_MIN_VALUES: Final = 5
"""Different values from which on a feature is a quantity; fewer may be codes for kinds of things."""
_MIN_WIDTH: Final = 2.0
"""Steps that the 1st and the 99th percentile lie apart at least: a narrower range would be filled by the moving."""
_ON_GRID: Final = 0.01
"""Part of a step by which neighbours may miss their distance, from calculations before the record was sent."""
_SALT: Final = 1 << 62
"""Keeps these numbers apart from those that an engine draws for the same record."""


def step_of(values: FloatArray) -> float:
    """Return the step of a feature whose values repeat and stand on an even grid, 0 for any other.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Those that the records of the warm-up have, in the input's units.
    """
    ordered = np.sort(values + 0.0)
    different = np.unique(ordered)
    if len(different) < _MIN_VALUES:
        return 0.0
    gaps = np.diff(different)
    # At least half of the neighbours on a grid are one step apart; values that differ by an error of rounding are one.
    typical = float(np.sort(gaps[gaps > _ON_GRID * float(np.sort(gaps)[len(gaps) // 2])])[0])
    points = different[np.concatenate([[True], gaps > _ON_GRID * typical])]
    gaps = np.diff(points)
    near = gaps[gaps < 1.5 * typical]
    step = math.fsum(near.tolist()) / len(near)
    steps = gaps / step
    is_grid = bool(np.all(np.abs(steps - np.rint(steps)) <= _ON_GRID)) and 2 * len(near) >= len(gaps)
    repeats = 2 * len(points) <= len(ordered)
    # A value that more than half of the records have, far more than its neighbours, means something of its own, as 0
    # errors do: around it is no hill.
    counts = np.diff(np.append(np.searchsorted(ordered, points), len(ordered)))
    most = int(np.argmax(counts))
    beside = int(counts[max(most - 1, 0) : most + 2].sum()) - int(counts[most])
    is_common = 2 * int(counts[most]) > len(ordered) and 2 * beside < int(counts[most])
    is_wide = percentile(ordered, 99) - percentile(ordered, 1) >= (_MIN_WIDTH - _ON_GRID) * step
    is_quantity = len(points) >= _MIN_VALUES and is_wide
    far = max(abs(float(points[0])), abs(float(points[-1])))
    return step if is_grid and repeats and is_quantity and not is_common and far + step <= MAGNITUDE else 0.0


@jit
def spread_steps(X, step, number):
    """Return raw rows, each value moved within its step by a number that follows from the record's number alone.

    A value so large that it is as good as far away stays: there a step is less than the last bit.
    """
    n, d = X.shape
    out = np.empty((n, d))
    for i in range(n):
        for c in range(d):
            v = X[i, c]
            out[i, c] = v
            if step[c] > 0.0:
                moved = v + step[c] * (draw((number + i) * d + c + _SALT) - 0.5)
                if abs(moved) <= MAGNITUDE:
                    out[i, c] = moved
    return out
