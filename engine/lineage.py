"""Ids that last from reading to reading: which group a cluster goes on in, and the events that tell of it."""

import numpy as np
from resonance.engine.events import ABSORBED, EMERGED, NO_REASON, SPLIT, VANISHED, emit, rows_of
from resonance.kernels.arithmetic import jit
from resonance.kernels.ordering import stable_order


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
