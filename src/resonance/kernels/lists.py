"""numba's lists as Python takes them: their own methods numba compiles anew in every process, each in a second."""

import numpy as np
from resonance.kernels.arithmetic import jit


@jit
def entry(entries, at):
    """Return an entry of a list."""
    return entries[at]


@jit
def length(entries):
    """Return how many entries a list has."""
    return len(entries)


@jit
def append(entries, new):
    """Append an array to a list."""
    entries.append(new)


@jit
def joined(entries, empty):
    """Return the arrays of a list one behind the other; `empty` is an array of their type."""
    total = 0
    for each in entries:
        total += len(each)
    whole, at = np.empty(total, empty.dtype), 0
    for each in entries:
        # Number by number: numba compiles the message about arrays of other shapes for seconds.
        for number in each:
            whole[at] = number
            at += 1
    return whole
