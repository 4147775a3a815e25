"""What makes a scale robust: flags and rare counters count little, and skewed features are bent.

Two values lie apart however alike the records are otherwise: with the width of other features each combination of
flags would be a cluster of its own. So would each number that a counter of rare things shows now and then. And where
most records crowd at one end of the range, a cluster there is too narrow to be seen.
"""

from typing import Final

import numpy as np
from resonance.engine.arithmetic import exp_minus, inline, jit, log1p
from resonance.engine.base import FloatArray
from resonance.engine.prepare.scaling import percentile

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


def is_flag(values: FloatArray) -> bool:
    """Whether a feature has at most two values in the warm-up."""
    return len(np.unique(values)) <= 2


def is_steady(values: FloatArray) -> bool:
    """Whether a feature has at most two values, or one in nine tenths of the records or more."""
    counts = np.unique(values, return_counts=True)[1]
    return len(counts) <= 2 or bool(counts.max() >= _COMMON * len(values))


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
