"""Sets that are joined and never parted: every member leads to another of its set, the root to itself."""

from resonance.engine.arithmetic import jit


@jit
def root_of(parent, i):
    """Return the root of the set that `i` is in, and shorten the way to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i
