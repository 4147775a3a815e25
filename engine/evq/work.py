"""Room that the steps of a batch need beside the model."""

from typing import NamedTuple

import numpy as np
from numba.typed import List
from resonance.engine.base import FloatArray
from resonance.engine.evq.layout import Rules


class Work(NamedTuple):
    """Vectors and matrices of d features, and the rows of events (see `engine.events`)."""

    v: FloatArray
    u: FloatArray
    scale: FloatArray
    upper: FloatArray
    square: FloatArray
    log: List


def work_for(rules: Rules, log: List) -> Work:
    """Return room for steps that append their events to a log."""
    d = rules.d
    return Work(np.empty(d), np.empty(d), np.empty(d), np.zeros((d, d)), np.empty((d, d)), log)
