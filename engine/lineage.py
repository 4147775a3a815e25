"""Ids that last from reading to reading: which group a cluster goes on in, and the events that tell of it."""

import numpy as np
from resonance.engine.events import ABSORBED, EMERGED, NO_REASON, SPLIT, VANISHED, emit, rows_of
from resonance.kernels.arithmetic import jit
from resonance.kernels.ordering import stable_order


@jit
def find_heirs(place, group, weight, clusters, groups):
    """Find what becomes of the clusters, and where the groups come from.

    Parameters
    ----------
    place : ndarray of int64
        By node, the place of its cluster among the present ones in ascending order of their ids; -1 for none.
    group : ndarray of int64
        By node, its group; -1 for none.
    weight : ndarray
        By node, its records.
    clusters, groups : int
        How many there are.

    Returns
    -------
    heir : ndarray of int64
        By place of a cluster, the group with the largest part of it, or -1.
    origin : ndarray of int64
        By group, the place of the cluster of which it has the largest part, or -1.
    owner : ndarray of int64
        By group, the place of the oldest cluster whose heir it is, or -1.
    """
    count = len(group)
    heir, most = np.full(clusters, -1, dtype=np.int64), np.zeros(clusters)
    origin, largest = np.full(groups, -1, dtype=np.int64), np.zeros(groups)
    owner = np.full(groups, -1, dtype=np.int64)
    key = np.empty(count, dtype=np.int64)
    for i in range(count):
        key[i] = (place[i] + 1) * (count + 1) + group[i] + 1
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

    Return the number of the next event.

    Parameters
    ----------
    number, path, record, log
        As `events.emit`.
    lineage : tuple of ndarray
        What `find_heirs` has returned.
    before, after : ndarray
        Rows of the clusters before, and of the groups.
    lost, new : ndarray of shape (clusters, 3) and (groups, 4)
        Criterion, value and threshold by which a cluster was absorbed, and by which a group is new; for a group that
        was split off also the id of the cluster that it came from.
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
