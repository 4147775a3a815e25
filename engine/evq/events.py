"""What happened to the clusters of a model: rows of floats in the kernels, events outside."""

import numpy as np
from numba.typed import List
from resonance.engine.arithmetic import jit
from resonance.engine.base import Event, EventKind, FloatArray, Reason
from resonance.engine.events import cluster_of
from resonance.engine.evq.model import EVENTS, K

EMERGED, ABSORBED, SPLIT, VANISHED = 0, 1, 2, 3
KINDS: tuple[EventKind, ...] = ("emerged", "absorbed", "split", "vanished")

NO_CRITERION, OUTSIDE, OVERLAP, SEPARATION, LIMIT = 0, 1, 2, 3, 4
CRITERIA = ("", "distance", "overlap", "separation", "max_clusters")
FURTHER: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("volume_ratio", "volume_limit"),
    ("components", "bic_gain", "bic_margin"),
    (),
)
"""Names of the further values of each criterion."""

# A row: this head, then the clusters before and after, each as id, size, nodes, centre, spread.
E_RECORD, E_KIND, E_NUMBER, E_CLUSTER, E_OTHER, E_CRITERION, E_VALUE, E_THRESHOLD = 0, 1, 2, 3, 4, 5, 6, 7
E_FURTHER = 8
E_BEFORE = 11
E_HEAD = 12
SHAPE_HEAD = 3


@jit
def shape_of(model, rules, i):
    """Return slot `i` as a row (id, size, nodes, centre, spread)."""
    d = rules.d
    row = np.empty(SHAPE_HEAD + 2 * d)
    row[0] = model.id[i]
    row[1] = model.k[i]
    row[2] = 1.0
    for a in range(d):
        row[SHAPE_HEAD + a] = model.centre[i, a]
        row[SHAPE_HEAD + d + a] = np.sqrt(model.cov[i, a, a])
    return row


@jit
def _new_row(model, t, kind, cluster, other, shapes, before, width):
    """Return the row of the next event with nothing behind its head yet."""
    row = np.zeros(E_HEAD + shapes * width)
    row[E_RECORD] = t
    row[E_KIND] = kind
    row[E_NUMBER] = model.head[EVENTS]
    row[E_CLUSTER] = cluster
    row[E_OTHER] = other
    row[E_BEFORE] = before
    model.head[EVENTS] += 1
    return row


@jit
def _describe(row, place, shape):
    start = E_HEAD + place * len(shape)
    for a in range(len(shape)):
        row[start + a] = shape[a]


@jit
def tell_founded(model, rules, t, i, criterion, distance, radius, log):
    """Tell that the record founded slot `i`: it lay outside the nearest cluster, or was the first."""
    shape = shape_of(model, rules, i)
    row = _new_row(model, t, EMERGED, model.id[i], -1, 1, 0, len(shape))
    row[E_CRITERION] = criterion
    if criterion == OUTSIDE:
        row[E_VALUE] = min(distance, 1.7e308)  # a reason is a finite number
        row[E_THRESHOLD] = radius
    _describe(row, 0, shape)
    log.append(row)


@jit
def tell_vanished(model, rules, t, i, criterion, log):
    """Tell that slot `i` makes room."""
    shape = shape_of(model, rules, i)
    row = _new_row(model, t, VANISHED, model.id[i], -1, 1, 1, len(shape))
    row[E_CRITERION] = criterion
    row[E_VALUE] = model.head[K]
    row[E_THRESHOLD] = rules.max_clusters
    _describe(row, 0, shape)
    log.append(row)


@jit
def tell_absorbed(model, rules, t, younger, older, after, overlap, volume_ratio, log):
    """Tell that a cluster ended in an older one; parts as they were, and `after`, are rows of `shape_of`."""
    row = _new_row(model, t, ABSORBED, np.int64(younger[0]), np.int64(older[0]), 3, 2, len(after))
    row[E_CRITERION] = OVERLAP
    row[E_VALUE] = overlap
    row[E_THRESHOLD] = rules.thr
    row[E_FURTHER] = volume_ratio
    row[E_FURTHER + 1] = rules.volp * rules.d
    _describe(row, 0, younger)
    _describe(row, 1, older)
    _describe(row, 2, after)
    log.append(row)


@jit
def tell_split(model, rules, t, parent, i, new, separation, components, gain, log):
    """Tell that slot `new` came from slot `i`, which was `parent`, a row of `shape_of`."""
    row = _new_row(model, t, SPLIT, model.id[new], model.id[i], 3, 1, len(parent))
    row[E_CRITERION] = SEPARATION
    row[E_VALUE] = separation
    row[E_THRESHOLD] = rules.crit
    row[E_FURTHER] = components
    row[E_FURTHER + 1] = gain
    row[E_FURTHER + 2] = rules.margin
    _describe(row, 0, parent)
    _describe(row, 1, shape_of(model, rules, i))
    _describe(row, 2, shape_of(model, rules, new))
    log.append(row)


def event_of(row: FloatArray, d: int) -> Event:
    """Return the event that a row describes."""
    shapes = row[E_HEAD:].reshape(-1, SHAPE_HEAD + 2 * d)
    described = tuple(cluster_of(shape, (), d) for shape in shapes)
    before, criterion, other = int(row[E_BEFORE]), int(row[E_CRITERION]), int(row[E_OTHER])
    further = {name: float(value) for name, value in zip(FURTHER[criterion], row[E_FURTHER:E_BEFORE], strict=False)}
    reason = Reason(CRITERIA[criterion], float(row[E_VALUE]), float(row[E_THRESHOLD]), further)
    return Event(
        index=int(row[E_RECORD]),
        kind=KINDS[int(row[E_KIND])],
        path=(),
        number=int(row[E_NUMBER]),
        cluster=int(row[E_CLUSTER]),
        other=other if other >= 0 else None,
        before=described[:before],
        after=described[before:],
        reason=reason if criterion != NO_CRITERION else None,
    )


def events_from(log: List, d: int) -> list[Event]:
    """Return the events of a log, and empty it."""
    events = [event_of(row, d) for row in log]
    log.clear()
    return events
