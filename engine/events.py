"""From the rows that kernels write to the events and clusters that callers get."""

from collections.abc import Sequence

from numba.typed import List
from resonance.engine.base import Cluster, Event, FloatArray, Reason
from resonance.engine.reading import (
    CRITERIA,
    E_AFTER,
    E_BEFORE,
    E_CLUSTER,
    E_CRITERION,
    E_HEAD,
    E_KIND,
    E_LEVEL,
    E_NUMBER,
    E_OTHER,
    E_RECORD,
    E_THRESHOLD,
    E_VALUE,
    KINDS,
    SHAPE_HEAD,
)


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


def event_of(row: FloatArray, d: int, criteria: Sequence[str] = CRITERIA) -> Event:
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


def events_from(log: List, d: int, criteria: Sequence[str] = CRITERIA) -> list[Event]:
    """Return the events of a log, and empty it."""
    if not len(log):
        return []
    events = [event_of(row, d, criteria) for row in log]
    log.clear()
    return events
