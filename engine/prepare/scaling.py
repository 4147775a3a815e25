"""Ranges and means of a warm-up's features, and the way back from a logarithm."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from resonance.engine.arithmetic import exp_minus, jit
from resonance.engine.base import MAGNITUDE, FloatArray
from resonance.engine.errors import ParameterError

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
