"""From the rows that kernels write to the events and clusters that callers get."""

from collections.abc import Sequence

from numba.typed import List
from resonance.engine.base import Cluster, Event, EventKind, FloatArray, Reason

EMERGED, ABSORBED, SPLIT, VANISHED = 0, 1, 2, 3
KINDS: tuple[EventKind, ...] = ("emerged", "absorbed", "split", "vanished")

NO_REASON = 0
"""Stands for the criterion where no number decided; the others are the engine's own."""

# An event is a row of floats: this head, the path of the model, then the clusters before and after, each as
# id, size, nodes, centre, spread.
E_RECORD, E_KIND, E_LEVEL, E_NUMBER, E_CLUSTER, E_OTHER = 0, 1, 2, 3, 4, 5
E_CRITERION, E_VALUE, E_THRESHOLD, E_BEFORE, E_AFTER = 6, 7, 8, 9, 10
E_HEAD = 11
SHAPE_HEAD = 3


def cluster_of(row: FloatArray, path: tuple[int, ...], d: int) -> Cluster:
    """Return the cluster that a row (id, size, nodes, centre, spread) describes."""
    return Cluster(
        id=int(row[0]),
        path=path,
        size=int(row[1]),
        nodes=int(row[2]),
        centre=row[SHAPE_HEAD : SHAPE_HEAD + d].copy(),
        spread=row[SHAPE_HEAD + d : SHAPE_HEAD + 2 * d].copy(),
    )


def event_of(row: FloatArray, d: int, criteria: Sequence[str]) -> Event:
    """Return the event that a row describes; `criteria` are the names of the engine's reasons."""
    level = int(row[E_LEVEL])
    path = tuple(int(node) for node in row[E_HEAD : E_HEAD + level])
    width = SHAPE_HEAD + 2 * d
    shapes = row[E_HEAD + level :].reshape(-1, width)
    described = tuple(cluster_of(shape, path, d) for shape in shapes)
    before = int(row[E_BEFORE])
    criterion = criteria[int(row[E_CRITERION])]
    other = int(row[E_OTHER])
    return Event(
        index=int(row[E_RECORD]),
        kind=KINDS[int(row[E_KIND])],
        path=path,
        number=int(row[E_NUMBER]),
        cluster=int(row[E_CLUSTER]),
        other=other if other >= 0 else None,
        before=described[:before],
        after=described[before : before + int(row[E_AFTER])],
        reason=Reason(criterion, float(row[E_VALUE]), float(row[E_THRESHOLD])) if criterion else None,
    )


def events_from(log: List, d: int, criteria: Sequence[str]) -> list[Event]:
    """Return the events of a log, and empty it; `criteria` as in `event_of`."""
    if not len(log):
        return []
    events = [event_of(row, d, criteria) for row in log]
    log.clear()
    return events
