"""Events of a model, rows of floats in the kernels and `Event` for callers, and ids that last between readings."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numba import types
from numba.typed import List
from resonance.engine.base import Cluster, Event, EventKind, FloatArray, Reason
from resonance.kernels.arithmetic import jit
from resonance.kernels.lists import joined
from resonance.kernels.ordering import stable_order

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
    rows = joined(log, np.empty(0))
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


@jit
def find_heirs(place, group, weight, clusters, groups):
    """Find what becomes of so many clusters, and where so many groups come from; -1 stands for none.

    A node has the place of its cluster among the present ones in ascending order of their ids, a group, and its records
    as weight. Return for each cluster the group with the largest part of it, its heir; for each group the place of the
    cluster of which it has the largest part, its origin, and that of the oldest cluster whose heir it is, its owner.
    """
    count = len(group)
    heir, most = np.full(clusters, -1, dtype=np.int64), np.zeros(clusters)
    origin, largest = np.full(groups, -1, dtype=np.int64), np.zeros(groups)
    owner = np.full(groups, -1, dtype=np.int64)
    key = (place[:count] + 1) * (count + 1) + group + 1
    order = stable_order(key)
    at = 0
    while at < count:
        first, part = order[at], 0.0
        while at < count and key[order[at]] == key[first]:
            part += weight[order[at]]
            at += 1
        c, g = place[first], group[first]
        if c < 0 or g < 0:
            continue
        if part > most[c]:
            most[c], heir[c] = part, g
        if part > largest[g]:
            largest[g], origin[g] = part, c
    for c in range(clusters):
        if heir[c] >= 0 and owner[heir[c]] < 0:
            owner[heir[c]] = c
    return heir, origin, owner


@jit
def has_changed(heir, owner):
    """Return whether a cluster has come or gone."""
    changed = len(heir) != len(owner)
    for c in range(len(heir)):
        changed = changed or heir[c] < 0 or owner[heir[c]] != c
    return changed


@jit
def emit_changes(number, path, record, lineage, before, after, lost, new, log):
    """Append the events of a reading to `log`: clusters that ended, then those that are new, each in the order of ids.

    Return the number of the next event. `lineage` is what `find_heirs` has returned, `before` and `after` are rows of
    the clusters and of the groups. Rows of `lost` and `new` have criterion, value and threshold by which a cluster was
    absorbed, and by which a group is new, and then the id of the cluster that it was split off from.
    """
    heir, origin, owner = lineage
    none = before[:0]
    for c in range(len(heir)):
        g, id_ = heir[c], np.int64(before[c, 0])
        if g < 0:
            number = emit(
                number, path, record, (VANISHED, id_, -1), (NO_REASON, 0.0, 0.0), before[c : c + 1], none, log
            )
        elif owner[g] != c:
            what, why = (ABSORBED, id_, np.int64(after[g, 0])), (np.int64(lost[c, 0]), lost[c, 1], lost[c, 2])
            number = emit(number, path, record, what, why, rows_of(before, c, owner[g]), after[g : g + 1], log)
    for g in range(len(owner)):
        if owner[g] >= 0:
            continue
        c, id_, why = origin[g], np.int64(after[g, 0]), (np.int64(new[g, 0]), new[g, 1], new[g, 2])
        if c < 0:
            number = emit(number, path, record, (EMERGED, id_, -1), why, none, after[g : g + 1], log)
        else:
            what = (SPLIT, id_, np.int64(new[g, 3]))
            number = emit(number, path, record, what, why, before[c : c + 1], rows_of(after, heir[c], g), log)
    return number
