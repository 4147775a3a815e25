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
    """Return the arrays of a list one behind the other, behind an empty one of their type."""
    length = 0
    for each in entries:
        length += len(each)
    whole, at = np.empty(length, empty.dtype), 0
    for each in entries:
        whole[at : at + len(each)] = each
        at += len(each)
    return whole
