"""A stream with the clusters of its engine through a drift watch, in any batches, restored anywhere."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine.drift import STRIDE, DriftWatch

Arrays = Mapping[str, NDArray[Any]]


def clusters_at(stream: Arrays, records: int) -> list[Any]:
    """Return the clusters that the engine of a stream has after so many records."""
    here = stream["cluster_at"] == records
    rows = zip(stream["cluster_id"][here], stream["cluster_size"][here], stream["cluster_centre"][here], strict=True)
    return [SimpleNamespace(id=int(id_), size=int(size), centre=centre) for id_, size, centre in rows]


def take_cells(watch: DriftWatch, stream: Arrays) -> None:
    """Give a watch the clusters of the stream where it wants them."""
    if watch.records % STRIDE == 0:
        clusters = clusters_at(stream, watch.records)
        if watch.wants_cells(lambda: len(clusters)):
            watch.take_cells(clusters)


def watched(stream: Arrays, cut: int = STRIDE, *, restored: bool = False) -> tuple[NDArray[Any], DriftWatch]:
    """Return the rows that a golden vector has of a stream, and its watch; `restored` after every batch."""
    X = stream["X"].astype(np.float64)
    watch, rows, done = DriftWatch(X.shape[1], **json.loads(str(stream["params"]))), [np.zeros((0, 11))], 0
    while done < len(X):
        end = min(done + min(watch.room, cut), len(X))
        found = watch.learned_rows(X[done:end], stream["answer"][done:end], stream["offset"][done:end])
        # The vectors have no times, and nothing of an episode's last event but itself.
        found = found[found[:, 0] <= 3][:, :11]
        found[found[:, 0] == 3, 10] = 0.0
        rows.append(found)
        done = end
        take_cells(watch, stream)
        if restored:
            watch = DriftWatch.from_state(watch.state())
    return np.concatenate(rows), watch
