"""Events of a model: rows of floats in the kernels, `Event` for callers."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numba import types
from numba.typed import List
from resonance.engine.base import Cluster, Event, EventKind, FloatArray, Reason
from resonance.kernels.arithmetic import jit

Describe = Callable[[FloatArray, tuple[int, ...]], Cluster]
EMERGED, ABSORBED, SPLIT, VANISHED = 0, 1, 2, 3
KINDS: tuple[EventKind, ...] = ("emerged", "absorbed", "split", "vanished")

NO_REASON = 0
"""Stands for the criterion where no number decided; the others are the engine's own."""
NO_PATH = np.empty(0, dtype=np.int64)
"""Path of the only model of an engine."""

# An event is a row of floats: this head, the path of the model, then the clusters before and after, each as
# id, size, nodes, centre, spread.
E_RECORD, E_KIND, E_LEVEL, E_NUMBER, E_CLUSTER, E_OTHER = 0, 1, 2, 3, 4, 5
E_CRITERION, E_VALUE, E_THRESHOLD, E_FURTHER, E_BEFORE, E_AFTER = 6, 7, 8, 9, 12, 13
E_HEAD = 14
SHAPE_HEAD = 3

_ROW = types.float64[::1]


# Kernels, as numba compiles its own functions for lists anew in every process.
@jit
def new_log():
    """Return an empty list of rows, each an array of floats."""
    return List.empty_list(_ROW)


@jit
def drained(log):
    """Return the rows of a log one behind the other, and the length of each; empty it."""
    lengths = np.empty(len(log), dtype=np.int64)
    for i in range(len(log)):
        lengths[i] = len(log[i])
    rows, at = np.empty(lengths.sum()), 0
    for row in log:
        rows[at : at + len(row)] = row
        at += len(row)
    log.clear()
    return rows, lengths


@jit
def emit(number, path, record, what, why, before, after, log):
    """Append an event to `log`; return the number of the next one.

    `number` is that of the event among those of the model at `path`, and `record` an index in the batch. `what` are
    kind, cluster, and the other cluster or -1; `why` are criterion, value, threshold; `before` and `after` are rows of
    clusters.
    """
    level = len(path)
    row = np.zeros(E_HEAD + level + before.size + after.size)
    row[E_RECORD], row[E_LEVEL], row[E_NUMBER] = record, level, number
    row[E_KIND], row[E_CLUSTER], row[E_OTHER] = what
    row[E_CRITERION], row[E_VALUE], row[E_THRESHOLD] = why
    row[E_BEFORE], row[E_AFTER] = len(before), len(after)
    at = E_HEAD + level
    row[E_HEAD:at] = path
    for shapes in (before, after):
        for shape in shapes:
            row[at : at + len(shape)] = shape
            at += len(shape)
    log.append(row)
    return number + 1


@jit
def rows_of(shapes, a, b):
    """Return the rows `a` and `b` of `shapes`."""
    return shapes[np.array((a, b))]


def cluster_of(row: FloatArray, path: tuple[int, ...], d: int) -> Cluster:
    """Return the cluster that a row (id, size, nodes, centre, spread) describes."""
    centre, spread = row[SHAPE_HEAD : SHAPE_HEAD + 2 * d].reshape(2, d).copy()
    return Cluster(int(row[0]), path, int(row[1]), int(row[2]), centre, spread)


def _event_of(
    row: FloatArray, describe: Describe, criteria: Sequence[str], further: Mapping[str, Sequence[str]]
) -> Event:
    """Return the event that a row describes."""
    start, before = E_HEAD + int(row[E_LEVEL]), int(row[E_BEFORE])
    path = tuple(int(node) for node in row[E_HEAD:start])
    described = tuple(describe(shape, path) for shape in row[start:].reshape(before + int(row[E_AFTER]), -1))
    criterion, other = criteria[int(row[E_CRITERION])], int(row[E_OTHER])
    more = {name: float(row[E_FURTHER + at]) for at, name in enumerate(further.get(criterion, ()))}
    return Event(
        index=int(row[E_RECORD]),
        kind=KINDS[int(row[E_KIND])],
        path=path,
        number=int(row[E_NUMBER]),
        cluster=int(row[E_CLUSTER]),
        other=other if other >= 0 else None,
        before=described[:before],
        after=described[before:],
        reason=Reason(criterion, float(row[E_VALUE]), float(row[E_THRESHOLD]), more) if criterion else None,
    )


def events_from(
    log: List,
    d: int,
    criteria: Sequence[str],
    further: Mapping[str, Sequence[str]] | None = None,
    describe: Describe | None = None,
) -> list[Event]:
    """Return the events that `emit` has appended to a log, of records of `d` features, and empty it.

    `criteria` are the names of the engine's reasons by number, and `further` those of the further values of some of
    them; `describe` gives the cluster that a row describes where rows are not those of `cluster_of`.
    """
    rows, lengths = drained(log)
    if not len(lengths):
        return []
    cluster = describe or (lambda row, path: cluster_of(row, path, d))
    return [_event_of(row, cluster, criteria, further or {}) for row in np.split(rows, np.cumsum(lengths)[:-1])]
