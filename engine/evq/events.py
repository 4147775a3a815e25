"""What happened to the clusters of a model."""

import numpy as np
from resonance.engine import events
from resonance.engine.arithmetic import jit
from resonance.engine.events import NO_PATH, SHAPE_HEAD
from resonance.engine.evq.layout import EVENTS, ID, SUPPORT

NO_CRITERION, OUTSIDE, OVERLAP, SEPARATION, LIMIT = 0, 1, 2, 3, 4
CRITERIA = ("", "distance", "overlap", "separation", "max_clusters")
FURTHER = {
    "overlap": ("volume_ratio", "volume_limit"),
    "separation": ("components", "bic_gain", "bic_margin"),
}
"""Names of the further values of some criteria."""

_LARGEST = 1.7e308
"""A reason is a finite number."""


@jit
def shapes_of(model, rules, slots):
    """Return slots as rows (id, size, nodes, centre, spread)."""
    d = rules.d
    shapes = np.ones((len(slots), SHAPE_HEAD + 2 * d))
    for row in range(len(slots)):
        i, shape = slots[row], shapes[row]
        shape[0], shape[1] = model.number[i, ID], model.number[i, SUPPORT]
        for a in range(d):
            shape[SHAPE_HEAD + a] = model.centre[i, a]
            shape[SHAPE_HEAD + d + a] = np.sqrt(model.cov[i, a, a])
    return shapes


@jit
def emit(model, work, t, what, criterion, value, threshold, before, after):
    """Append an event to the log; `what` and the rows of clusters are as in `engine.events.emit`."""
    why = (criterion, min(value, _LARGEST), threshold)
    events.emit(model.head, EVENTS, NO_PATH, t, what, why, before, after, work.log)


@jit
def note_further(work, first, second, third):
    """Add to the last event what else decided."""
    row = work.log[len(work.log) - 1]
    row[events.E_FURTHER], row[events.E_FURTHER + 1], row[events.E_FURTHER + 2] = first, second, third
