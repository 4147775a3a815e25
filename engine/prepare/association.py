"""Which features go together: what separates groups shows in more than one of them."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from resonance.engine.base import FloatArray, IntArray

_STRONG: Final = 0.25
"""Share of the variance that one feature explains of another one from which both go together: a correlation of 1/2."""
_MAX_VALUES: Final = 20
"""Different values up to which a feature is compared by its values, and not by their order."""
_BLOCK: Final = 256
"""Columns that are compared at once, which bounds the memory."""


def _ranks(column: FloatArray) -> FloatArray:
    """Return the mean rank of each value among equal ones, from 0."""
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: FloatArray = (ends - 0.5 * (counts + 1.0))[place]
    return ranks


def _explained(groupings: Sequence[IntArray], parts: FloatArray) -> FloatArray:
    """Return the share of each part's variance between the groups of each grouping, without that of chance.

    That is Kelley's epsilon squared; 0 where nothing varies. `parts` are columns.
    """
    n, sizes = len(parts), [int(group.max()) + 1 for group in groupings]
    member = np.zeros((n, sum(sizes)))
    starts = np.cumsum([0, *sizes[:-1]])
    for start, group in zip(starts, groupings, strict=True):
        member[np.arange(n), start + group] = 1.0
    whole = parts.sum(axis=0)
    total = (parts * parts).sum(axis=0) - whole * whole / n
    sums = member.T @ parts
    between = np.add.reduceat(sums * sums / member.sum(axis=0)[:, None], starts, axis=0) - whole * whole / n
    free = np.maximum(n - np.array(sizes), 0)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        found: FloatArray = 1.0 - (total - between) / free * (n - 1) / total
    return np.where((total > 0.0) & (free > 0), found, 0.0)


def _parts(column: FloatArray) -> FloatArray:
    """Return what is explained of a column: each value for itself, as the order of few says little; else the ranks."""
    values = np.unique(column)
    if len(values) > _MAX_VALUES:
        return _ranks(column)[:, None]
    # Of two values one says as much as the other.
    return np.equal(column[:, None], values[1:] if len(values) == 2 else values).astype(np.float64)


def go_together(columns: Sequence[FloatArray], among: Sequence[int]) -> set[int]:
    """Return which of the columns at the places `among`, with few values and none missing, go together with any other.

    Each of them splits the records into groups, one for each of its values.
    """
    left = {}
    for c in among:
        values, group = np.unique(columns[c], return_inverse=True)
        if len(values) > 1:
            left[c] = group
    found: set[int] = set()
    for first in range(0, len(columns), _BLOCK):
        if not left:
            break
        others = range(first, min(first + _BLOCK, len(columns)))
        made = [_parts(columns[other]) for other in others]
        owner = np.repeat(others, [each.shape[1] for each in made])
        looked = np.array(list(left))
        strong = _explained(list(left.values()), np.hstack(made)) >= _STRONG
        together = looked[(strong & (owner != looked[:, None])).any(axis=1)].tolist()
        found.update(together)
        left = {c: group for c, group in left.items() if c not in found}
    return found
