"""Which features go together: what tells groups apart shows in more than one of them."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from resonance.engine.base import FloatArray, IntArray

_STRONG: Final = 0.25
"""Share of the variance that one feature explains of another one from which both go together: a correlation of 1/2."""
_MAX_VALUES: Final = 20
"""Different values up to which a feature is compared by its values, and not by their order."""


def _ranks(column: FloatArray) -> FloatArray:
    """Return the mean rank of each value among equal ones, from 0."""
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: FloatArray = (ends - 0.5 * (counts + 1.0))[place]
    return ranks


def _explained(group: IntArray, column: FloatArray) -> float:
    """Return the share of a column's variance between groups, without that of chance (Kelley's epsilon squared)."""
    n, counts = len(group), np.bincount(group)
    gap = column - column.mean()
    total = float(gap @ gap)
    if not total > 0.0 or n <= len(counts):
        return 0.0
    sums = np.bincount(group, gap)
    between = float((sums * sums / counts).sum())
    return 1.0 - (total - between) / (n - len(counts)) * (n - 1) / total


def go_together(columns: Sequence[FloatArray], among: Sequence[int]) -> set[int]:
    """Return which of some columns with few values go together with any other column.

    Parameters
    ----------
    columns : sequence of ndarray of shape (n,)
        The values of each feature, without missing ones.
    among : sequence of int
        The places of those that are looked at. Each splits the records into groups, one for each of its values.
    """
    found: set[int] = set()
    ranked = [_ranks(column) for column in columns]
    few = [len(np.unique(column)) <= _MAX_VALUES for column in columns]
    for c in among:
        values, group = np.unique(columns[c], return_inverse=True)
        if len(values) < 2:
            continue
        for other, column in enumerate(columns):
            if other == c:
                continue
            # Each value of the other one for itself, as the order of few values says little; else their ranks.
            parts = [(column == value).astype(float) for value in np.unique(column)] if few[other] else [ranked[other]]
            if any(_explained(group, part) >= _STRONG for part in parts):
                found.add(c)
                break
    return found
