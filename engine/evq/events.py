"""What happened to the clusters of a model: rows of floats in the kernels, events outside."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.base import Event, EventKind, FloatArray, Reason
from resonance.engine.events import cluster_of
from resonance.engine.evq.model import EVENTS, ID, SUPPORT
from resonance.engine.evq.work import (
    E_AFTER,
    E_BEFORE,
    E_CLUSTER,
    E_CRITERION,
    E_FURTHER,
    E_HEAD,
    E_KIND,
    E_NUMBER,
    E_OTHER,
    E_RECORD,
    E_THRESHOLD,
    E_VALUE,
    SHAPE_HEAD,
    Work,
)

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

_LARGEST = 1.7e308
"""A reason is a finite number."""


@jit
def shape_of(model, rules, i, shape):
    """Write slot `i` as (id, size, nodes, centre, spread) to `shape`."""
    d = rules.d
    shape[0] = model.number[i, ID]
    shape[1] = model.number[i, SUPPORT]
    shape[2] = 1.0
    for a in range(d):
        shape[SHAPE_HEAD + a] = model.centre[i, a]
        shape[SHAPE_HEAD + d + a] = np.sqrt(model.cov[i, a, a])


@jit
def tell(model, rules, work, t, kind, criterion, value, threshold):
    """Begin the row of an event; its clusters, and what else decided, are written by the functions below.

    There is room for it: see `batch.learn_batch`.
    """
    row = work.told[work.filled[0]]
    work.filled[0] += 1
    row[E_RECORD] = t
    row[E_KIND] = kind
    row[E_NUMBER] = model.head[EVENTS]
    model.head[EVENTS] += 1
    row[E_CRITERION] = criterion
    row[E_VALUE] = min(value, _LARGEST)
    row[E_THRESHOLD] = threshold
    row[E_CLUSTER] = row[E_OTHER] = -1.0
    row[E_BEFORE] = row[E_AFTER] = 0.0
    for further in range(E_FURTHER, E_BEFORE):
        row[further] = 0.0


@jit
def tell_before(model, rules, work, i):
    """Add a cluster as it was to the last event, before any as it is."""
    row, width = work.told[work.filled[0] - 1], SHAPE_HEAD + 2 * rules.d
    shape_of(model, rules, i, row[E_HEAD + np.int64(row[E_BEFORE]) * width :])
    row[E_BEFORE] += 1.0


@jit
def tell_after(model, rules, work, i):
    """Add a cluster as it is to the last event."""
    row, width = work.told[work.filled[0] - 1], SHAPE_HEAD + 2 * rules.d
    shape_of(model, rules, i, row[E_HEAD + np.int64(row[E_BEFORE] + row[E_AFTER]) * width :])
    row[E_AFTER] += 1.0


@jit
def tell_whom(work, cluster, other, first, second, third):
    """Name the clusters of the last event, and what else decided."""
    row = work.told[work.filled[0] - 1]
    row[E_CLUSTER], row[E_OTHER] = cluster, other
    row[E_FURTHER], row[E_FURTHER + 1], row[E_FURTHER + 2] = first, second, third


def event_of(row: FloatArray, d: int) -> Event:
    """Return the event that a row describes."""
    before, after, criterion = (int(row[at]) for at in (E_BEFORE, E_AFTER, E_CRITERION))
    width = SHAPE_HEAD + 2 * d
    shapes = row[E_HEAD : E_HEAD + (before + after) * width].reshape(-1, width)
    described = tuple(cluster_of(shape, (), d) for shape in shapes)
    other = int(row[E_OTHER])
    further = {name: float(row[E_FURTHER + at]) for at, name in enumerate(FURTHER[criterion])}
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


def take_events(work: Work, d: int) -> list[Event]:
    """Return the events that were told, and forget them."""
    events = [event_of(row, d) for row in work.told[: work.filled[0]]]
    work.filled[0] = 0
    return events
