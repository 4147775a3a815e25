"""Ranges and means of a warm-up's features, and the way back from a logarithm.

Flags and rare counters count little in a robust scale, and skewed features are bent. Two values lie apart however alike
the records are otherwise: with the width of other features each combination of flags would be a cluster of its own. So
would each number that a counter of rare things shows now and then. And where most records crowd at one end of the
range, a cluster there is too narrow to be seen.

A feature given in steps, as rounded readings and counts are, is spread over its step. Values that repeat exactly pile
up on the points of a grid. Between the points nothing is dense, so that a coarse grid looks like many small clusters. A
number from within its step, uniform as in subtractive dither, has the density that the reading had before it was
rounded (Schuchman 1964, "Dither signals and their effect on quantization noise").
"""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from resonance.engine.base import MAGNITUDE, FloatArray
from resonance.engine.errors import ParameterError
from resonance.kernels.arithmetic import draw, exp_minus, inline, jit, log1p

LARGEST = float(np.finfo(np.float64).max)


class Described(NamedTuple):
    """Centre and spread of a cluster by feature, in the units of the input."""

    names: Sequence[str]
    centre: FloatArray
    """Shape (len(names),), like `spread`."""
    spread: FloatArray


def bound(name: str, value: Any) -> float:
    """Return a parameter that is a value of a feature as float, or say what it has to be."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAGNITUDE
    if not usable:
        raise ParameterError(name, value, f"a finite number of at most {MAGNITUDE:g} in absolute value")
    return float(value)


def mean_of(values: FloatArray) -> float:
    """Mean, one value after the other: no sum that could overflow, and never outside the values; 0 of none."""
    mean = 0.0
    for k, value in enumerate(values.tolist(), 1):
        mean += (value - mean) / k
    return mean


def percentile(ordered: FloatArray, percent: int) -> float:
    """Percentile of ascending values by Hazen's definition: the k-th of n values lies at (k - 1/2) / n.

    Linear between neighbours. The definition that puts the smallest value at 0 takes the warm-up's range for that of
    the whole stream, which goes further.
    """
    place, rest = divmod(2 * len(ordered) * percent + 100, 200)
    if not 1 <= place < len(ordered):
        return float(ordered[0 if place < 1 else -1])
    below, above = float(ordered[place - 1]), float(ordered[place])
    return below + (above - below) * (rest / 200)


def range_of(values: FloatArray) -> tuple[float, float]:
    """Return what becomes 0, and how wide [0, 1] is, for the values of a warm-up."""
    if not len(values):
        return 0.0, 1.0
    # Adding 0 makes every zero positive: which of -0 and 0 a sort puts first depends on the CPU.
    ordered = np.sort(values + 0.0)
    low = percentile(ordered, 1)
    width = percentile(ordered, 99) - low
    if not width > 0.0:
        width = 1.0
    farthest = max(float(ordered[-1]) - low, low - float(ordered[0]))
    # A range so narrow that its own warm-up would go beyond the engines' numbers: such a feature stays as it is.
    return (low, width) if farthest / width <= MAGNITUDE else (0.0, 1.0)


@jit
def _exp(x):
    """Return e**x for |x| < 600."""
    return exp_minus(-x) if x <= 0.0 else 1.0 / exp_minus(x)


def inverse_log1p(t: float) -> tuple[float, float]:
    """Return exp(t) - 1 and its slope exp(t), finite."""
    if abs(t) < 1e-5:
        # The difference would lose the digits that this keeps.
        return t + 0.5 * t * t, 1.0 + t
    # Halved, because _exp is defined up to 600 and the logarithm of the largest number is 709.8.
    root = _exp(0.5 * min(t, 1000.0)) if t > 0.0 else _exp(t)
    slope = min(root * root, LARGEST) if t > 0.0 else root
    return slope - 1.0, slope


FLAG_WIDTH: Final = 50.0
"""Ranges of another feature that lie between the two values of a flag, inverted: a flag is a fiftieth of one."""
_SKEWED: Final = 2.5
"""Times that the 99th percentile is farther from the median than the 1st, or the other way round."""
_COMMON: Final = 0.9
"""Share of the records from which on one value says nothing: the others come too rarely to be groups of their own."""
_LARGEST: Final = 500.0
"""Beyond its hyperbolic sine is no float that features have."""


@inline
def asinh(t):
    """Return the inverse hyperbolic sine: linear around 0, logarithmic far from it."""
    a = abs(t)
    bent = log1p(a + a * a / (1.0 + np.sqrt(1.0 + a * a)))
    return bent if t >= 0.0 else -bent


@jit
def sinh_and_slope(u):
    """Return the hyperbolic sine and its slope."""
    a = min(abs(u), _LARGEST)
    less = exp_minus(a)
    more = 1.0 / less
    # The difference would lose the digits that the series keeps.
    value = a + a * a * a / 6.0 if a < 1e-4 else 0.5 * (more - less)
    return (value if u >= 0.0 else -value), 0.5 * (more + less)


@jit
def bent_grain(values, low, width, step, out):
    """Write, for each prepared value of a bent feature, what its `step`, in units of the bend, is there at most."""
    for i in range(len(values)):
        t = max(abs(sinh_and_slope(values[i] * width + low)[0]) - step, 0.0)
        out[i] = step / np.sqrt(1.0 + t * t) / width


def is_flag(values: FloatArray) -> bool:
    """Whether a feature has at most two values in the warm-up."""
    return len(np.unique(values)) <= 2


def is_common(values: FloatArray) -> bool:
    """Whether a feature has one value in nine tenths of the records or more."""
    return bool(np.unique(values, return_counts=True)[1].max(initial=0) >= _COMMON * len(values))


def is_steady(values: FloatArray) -> bool:
    """Whether a feature has at most two values, or one in nine tenths of the records or more."""
    return is_flag(values) or is_common(values)


def flag_range(values: FloatArray) -> tuple[float, float]:
    """Return what becomes 0 of a flag, and the width that makes its largest value a fiftieth."""
    if not len(values):
        return 0.0, FLAG_WIDTH
    low, high = float(values.min()), float(values.max())
    # Adding 0 makes a negative zero positive: the smaller of both is either.
    return low + 0.0, FLAG_WIDTH * ((high - low) or 1.0)


def bend_of(values: FloatArray) -> tuple[float, float]:
    """Return the centre and the unit with which a skewed feature is bent; the unit is 0 where it is not.

    The unit is the shorter way from the median to the 1st or 99th percentile.
    """
    if not len(values):
        return 0.0, 0.0
    ordered = np.sort(values + 0.0)
    middle = percentile(ordered, 50)
    below, above = middle - percentile(ordered, 1), percentile(ordered, 99) - middle
    shorter, longer = min(below, above), max(below, above)
    return (middle, shorter) if shorter > 0.0 and longer > _SKEWED * shorter else (0.0, 0.0)


_MIN_VALUES: Final = 5
"""Different whole numbers from which on a feature is a quantity; fewer may be codes for kinds of things."""
_MIN_FRACTIONS: Final = 3
"""The same of values with fractions, such as those of a coarse sensor."""
_MIN_WIDTH: Final = 2.0
"""Steps that the 1st and the 99th percentile lie apart at least: a narrower range would be filled by the moving."""
_MISSED: Final = 3.5
"""Steps beyond which the next value is elsewhere."""
_ON_GRID: Final = 0.01
"""Part of a step by which neighbours may miss their distance, from calculations before the record was sent."""
_SALT: Final = 1 << 62
"""Keeps these numbers apart from those that an engine draws for the same record."""


def step_of(values: FloatArray) -> float:
    """Return the step of a feature whose values in the warm-up repeat and stand on an even grid, 0 for any other."""
    ordered = np.sort(values + 0.0)
    different = np.unique(ordered)
    least = _MIN_VALUES if np.all(different % 1 == 0) else _MIN_FRACTIONS
    if len(different) < least:
        return 0.0
    gaps = np.diff(different)
    # Values that differ by an error of rounding are one.
    typical = float(np.sort(gaps[gaps > _ON_GRID * float(np.sort(gaps)[len(gaps) // 2])])[0])
    points = different[np.concatenate([[True], gaps > _ON_GRID * typical])]
    gaps = np.diff(points)
    near = gaps[gaps < 1.5 * typical]
    step = math.fsum(near.tolist()) / len(near)
    steps = gaps / step
    counts = np.diff(np.append(np.searchsorted(ordered, points), len(ordered)))
    # Most records have values that hardly miss a step, as those in a long tail and codes do.
    run = np.cumsum(np.append(False, gaps >= _MISSED * typical))
    is_run = 2 * counts[(np.bincount(run) >= least)[run]].sum() > len(ordered)
    is_grid = bool(np.all(np.abs(steps - np.rint(steps)) <= _ON_GRID)) and is_run
    repeats = 2 * counts[counts > 1].sum() >= len(ordered)
    # A value that more than half of the records have, far more than its neighbours, means something of its own, as 0
    # errors do: around it is no hill.
    most = int(np.argmax(counts))
    beside = int(counts[max(most - 1, 0) : most + 2].sum()) - int(counts[most])
    stands_out = 2 * int(counts[most]) > len(ordered) and 2 * beside < int(counts[most])
    is_wide = percentile(ordered, 99) - percentile(ordered, 1) >= (_MIN_WIDTH - _ON_GRID) * step
    far = max(abs(float(points[0])), abs(float(points[-1])))
    return step if is_grid and repeats and is_wide and not stands_out and far + step <= MAGNITUDE else 0.0


_FINE: Final = 1e-4
"""Share of the least gap between the values of a feature over which those are spread that are no steps and repeat, as
of flags and categories: records that are equal in all of them are a small cloud, and not a point without a density."""
_OFTEN: Final = 0.1
"""Share of the records, and of their later half, from which on a value repeats: one that is late to change does not."""


def fine_step(values: FloatArray) -> float:
    """Return over what the values of a feature are spread where one of them repeats often, 0 for any other."""
    different, counts = np.unique(values, return_counts=True)
    late, late_counts = np.unique(values[len(values) // 2 :], return_counts=True)
    often = np.intersect1d(
        different[counts >= _OFTEN * len(values)], late[late_counts >= _OFTEN * (len(values) - len(values) // 2)]
    )
    if len(different) < 2 or not len(often):
        return 0.0
    least = float(np.diff(different).min())
    return _FINE * least if abs(different).max() + least <= MAGNITUDE else 0.0


@jit
def spread_steps(X, step, number, further):
    """Return raw rows, each value moved within its step by a number that follows from the record's number alone.

    The first row has `number`, and each one a number that is `further` by so much. A value so large that it is as good
    as far away stays: there a step is less than the last bit.
    """
    n, d = X.shape
    out = np.empty((n, d))
    for i in range(n):
        for c in range(d):
            v = X[i, c]
            out[i, c] = v
            if step[c] > 0.0:
                moved = v + step[c] * (draw((number + i * further) * d + c + _SALT) - 0.5)
                if abs(moved) <= MAGNITUDE:
                    out[i, c] = moved
    return out
