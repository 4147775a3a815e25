"""Room that the steps of a batch need beside the model, and the rows of what they tell."""

from typing import NamedTuple

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.evq.model import Rules

# What an event is told by: this head, then up to three clusters before and after, each as id, size, nodes, centre,
# spread.
E_RECORD, E_KIND, E_NUMBER, E_CLUSTER, E_OTHER, E_CRITERION, E_VALUE, E_THRESHOLD = 0, 1, 2, 3, 4, 5, 6, 7
E_FURTHER = 8
E_BEFORE, E_AFTER = 11, 12
E_HEAD = 13
SHAPE_HEAD = 3

FEWEST_EVENTS = 64
"""Events that there is room for, at least, before a batch is interrupted to take them away."""


class Work(NamedTuple):
    """Vectors and matrices of d, and rows of events.

    Attributes
    ----------
    v, u, scale : ndarray of shape (d,)
        Vectors.
    upper, square : ndarray of shape (d, d)
        Matrices.
    told : ndarray of shape (rows, E_HEAD + 3 (SHAPE_HEAD + 2 d))
        Events.
    filled : ndarray of int64, shape (1,)
        How many there are.
    """

    v: FloatArray
    u: FloatArray
    scale: FloatArray
    upper: FloatArray
    square: FloatArray
    told: FloatArray
    filled: IntArray


def work_for(rules: Rules, events: int) -> Work:
    """Return room for steps, and for a number of events."""
    d = rules.d
    return Work(
        v=np.empty(d),
        u=np.empty(d),
        scale=np.empty(d),
        upper=np.zeros((d, d)),
        square=np.empty((d, d)),
        told=np.empty((events, E_HEAD + 3 * (SHAPE_HEAD + 2 * d))),
        filled=np.zeros(1, dtype=np.int64),
    )
