"""Sorting in kernels: numba's own sort takes seconds to compile for every type of numbers, and more as `argsort`."""

import numpy as np
from resonance.engine.arithmetic import jit


@jit
def stable_order(values):
    """Return the positions of some numbers in ascending order; of equal ones the first comes first. By merging."""
    count = len(values)
    order, merged = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    for at in range(count):
        order[at] = at
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            left, right = low, middle
            for at in range(low, high):
                if left < middle and (right == high or not values[order[right]] < values[order[left]]):
                    merged[at] = order[left]
                    left += 1
                else:
                    merged[at] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order
