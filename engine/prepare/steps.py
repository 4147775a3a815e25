"""Features given in steps, as rounded readings and counts are: each value is spread over its step.

Values that repeat exactly pile up on the points of a grid. Between the points nothing is dense, so that a coarse grid
looks like many small clusters. A number from within its step, uniform as in subtractive dither, has the density that
the reading had before it was rounded (Schuchman 1964, "Dither signals and their effect on quantization noise").
"""

from typing import Final

import numpy as np
from resonance.engine.arithmetic import draw, jit
from resonance.engine.base import FloatArray

_MIN_VALUES: Final = 5
"""Different values from which on a feature is a quantity in steps; fewer may be a code for kinds of things."""
_ON_GRID: Final = 1e-3
"""Part of a step by which a value may miss its point, from calculations before the record was sent."""


def step_of(values: FloatArray) -> float:
    """Return the step of a feature whose values repeat and stand on an even grid, 0 for any other.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Of the warm-up, in the input's units.
    """
    different = np.unique(values + 0.0)
    if not _MIN_VALUES <= len(different) <= len(values) // 2:
        return 0.0
    gaps = np.diff(different)
    step = float(gaps.min())
    steps = gaps / step
    is_grid = bool(np.all(np.abs(steps - np.rint(steps)) <= _ON_GRID))
    # Most neighbours on a grid are one step apart; numbers that are whole for another reason are not.
    return step if is_grid and 2 * np.count_nonzero(steps < 1.5) >= len(gaps) else 0.0


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
            out[i, c] = v + step[c] * (draw((number + i) * d + c) - 0.5) if step[c] > 0.0 else v
    return out
