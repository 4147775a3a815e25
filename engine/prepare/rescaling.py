"""Ranges that are frozen anew where most records have left them, and how prepared values change with that."""

from collections.abc import Sequence

import numpy as np
from resonance.engine.base import IntArray
from resonance.engine.prepare.columns import Columns
from resonance.engine.prepare.protocol import RangeChange, Rescaling
from resonance.engine.prepare.range_watch import RangeWatch


def rescale(columns: Columns, watch: RangeWatch, names: Sequence[str]) -> Rescaling | None:
    """Give the features that have left their ranges new ones; None where nothing changes.

    `names` are those of the prepared columns. It is time for it where the watch has seen `LOOK` records.
    """
    # Two values at most, each spread over its step, are as good as none: a range of them would be all noise.
    low, width = watch.look(columns.low, columns.width, 2.0 * columns.step)
    c = np.flatnonzero((low != columns.low) | (width != columns.width))
    if not len(c):
        return None
    factor, shift = np.ones(len(names)), np.zeros(len(names))
    at = columns.first[c]
    factor[at], shift[at] = columns.width[c] / width[c], (columns.low[c] - low[c]) / width[c]
    before = _ranges(columns, len(names), at)
    columns.low, columns.width = low, width
    changed = [names[column] for column in at]
    return Rescaling(factor, shift, list(map(RangeChange, changed, before, _ranges(columns, len(names), at))))


def _ranges(columns: Columns, count: int, at: IntArray) -> list[tuple[float, float]]:
    """Return the input values that some of `count` columns map to 0 and to 1."""
    low, high = np.zeros(count), np.ones(count)
    for end in (low, high):
        columns.to_input_units(end, np.zeros(count))
    return list(zip(low[at].tolist(), high[at].tolist(), strict=True))
