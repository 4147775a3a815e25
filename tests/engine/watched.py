"""Streams through a drift watch, with the clusters of an engine, in any batches, restored anywhere."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from resonance.engine.drift import STRIDE, DriftWatch, changes

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
        if watch.wants_cells(lambda: clusters):
            watch.take_cells(clusters)


KINDS, CHANGES = ("drift", "settled", "recovered"), ("moved", "widened", "narrowed")


def normal(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the rows of a specification with what a watch reports: of two pieces of evidence the larger one."""
    rows = rows.copy()
    units, channels = rows[:, 0] == 2, rows[:, 0] == 3
    what = rows[units, 3].astype(int)
    rows[units, 3], rows[units, 4] = (what & 1) + 2 * ((what & 6) > 0), rows[units, 4:6].max(axis=1, initial=0.0)
    rows[units, 5] = 0.0
    rows[units & (rows[:, 2] == 0), 8] = -1.0
    rows[channels, 9] = 0.0
    return rows


def watched(stream: Arrays, cut: int = STRIDE, *, restored: bool = False) -> tuple[NDArray[Any], DriftWatch]:
    """Return the normal rows of a stream, and its watch; `restored` after every batch."""
    X = stream["X"].astype(np.float64)
    watch, rows, done = DriftWatch(X.shape[1], **json.loads(str(stream["params"]))), list[list[float]](), 0
    grain = np.atleast_2d(stream["grain"] if "grain" in stream else np.zeros(X.shape[1]))
    while done < len(X):
        end, first = min(done + min(watch.room, cut), len(X)), watch.records
        columns = [stream[name][done:end].astype(np.int64) for name in ("answer", "offset", "offset")]
        # The specification knows nothing of what a mean since a change is held against.
        with patch.object(changes, "_bounded", lambda one, seen, moved, after: after):
            for index, kind, units in watch._learned(X[done:end], *columns, grain):
                record = first + index
                if kind is not None:
                    number = watch._state.episodes - 1
                    offset = int(columns[1][index])
                    rows.append([1, record, KINDS.index(kind), number, len(units), offset, watch.cells])
                # Nor of an episode's end but that it came.
                for unit in units if kind in ("drift", None) else ():
                    what = unit.features + 2 * unit.share
                    own = (unit.evidence, 0, unit.share_before, unit.since.offset, unit.cluster, kind is None)
                    rows.append([2, record, unit.unit, what, *own, unit.share_after])
                    for each in unit.channels:
                        shown = (each.evidence, each.before, each.after, each.spread, each.ratio)
                        rows.append([3, record, each.channel, CHANGES.index(each.change), *shown])
        done = end
        take_cells(watch, stream)
        if restored:
            watch = DriftWatch.from_state(watch.state())
    return np.array([row + [0.0] * (11 - len(row)) for row in rows], dtype=float).reshape(-1, 11), watch


CENTRES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
COUNTS = "cluster", "was", "unit", "features", "share", "evidence", "share_before", "share_after", "since", "channels"


def clusters(sizes=(4, 3, 2, 1), centres=CENTRES):
    return [
        SimpleNamespace(id=id_, size=size, centre=centre)
        for id_, (size, centre) in enumerate(zip(sizes, centres, strict=True), start=10)
    ]


def stream(n=6_144, seed=0, centres=CENTRES):
    """Return stationary records of equally large clusters, and which cluster each is of."""
    rng = np.random.default_rng(seed)
    where = rng.integers(len(centres), size=n)
    return centres[where] + 0.1 * rng.standard_normal((n, centres.shape[1])), where


def moved(n=6_144, at=3_000, by=0.3):
    """Return a stream of which the third cluster moves along its second feature."""
    X, where = stream(n)
    X[at:, 1] += by * (where[at:] == 2)
    return X, where


def learn(watch, X, where, sizes=(512,), restored=False, found=clusters, grain=None):
    """Return the changes and the watch; batches take the sizes in turn, as far as there is room."""
    changes, done, turn = [], 0, 0
    while done < len(X):
        end = min(done + min(watch.room, sizes[turn % len(sizes)]), len(X))
        turn += 1
        offsets = np.arange(watch.records, watch.records + end - done) * 2
        own = None if grain is None else grain[done:end]
        changes += watch.learn(X[done:end], where[done:end] + 10, offsets, offsets * 1_000, own)
        done = end
        if watch.wants_cells(found):
            watch.take_cells(found())
        if restored:
            watch = DriftWatch.from_state(watch.state())
    return changes, watch


def plain(changes):
    """Return changes as values that can be compared; the index in the batch is not one of them."""
    return [
        (
            *(change.record, change.kind, change.cells, change.evidence, change.threshold),
            [
                (*(getattr(unit, name) for name in COUNTS), *(unit.before, unit.after, unit.spread))
                for unit in change.units
            ],
        )
        for change in changes
    ]


def wave(n, seed=0, day=1_440):
    """Return records of two features that go on a wave."""
    rng = np.random.default_rng(seed)
    return 0.3 * np.sin(2 * np.pi * (np.arange(n)[:, None] / day + rng.random(2))) + 0.03 * rng.normal(size=(n, 2))
