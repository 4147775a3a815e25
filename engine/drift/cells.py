"""The cells of a stream: which of them a record counts for, and which cluster gives a cell its name."""

import numpy as np
from resonance.engine.drift.steps import HELD_STUCK
from resonance.kernels.arithmetic import jit

_MOST_VOTES = 64
"""Votes that the name of a cell has at most: after so many records of another cluster it has that of it."""


@jit
def nearest_cell(state, cells, x, still, lacks):
    """Return the cell whose centre is nearest, the first of equally near ones; what is stuck says nothing of it.

    It is -1 of a record that lacks all else.
    """
    best, found = np.inf, -1
    for c in range(cells):
        centre, total, own = state.centre[c], 0.0, len(x)
        for i in range(0 if lacks or still else own):
            e = x[i] - centre[i]
            total += e * e
        for i in range(own if lacks or still else 0):
            if np.isnan(x[i]) or state.held[i] >= HELD_STUCK:
                own -= 1
                continue
            e = x[i] - centre[i]
            total += e * e
        if total < best and own > 0:
            best, found = total, c
    return found


@jit
def vote(state, k, answer):
    """Let a record's cluster vote for the name of its cell."""
    if answer == state.name[k]:
        state.vote[k] = min(state.vote[k] + 1, _MOST_VOTES)
    elif state.vote[k] > 0:
        state.vote[k] -= 1
    else:
        state.name[k], state.vote[k] = answer, 1
