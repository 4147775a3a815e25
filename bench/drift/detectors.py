"""The detectors of the benchmark: the watch behind an engine, and River's ADWIN for each feature."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from resonance.engine import ENGINES
from resonance.engine.base import FloatArray
from resonance.engine.drift import DriftChange
from resonance.engine.prepare import Preparation
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.task.model.stream_drift import Marks, StreamDrift

from bench.streams import Array

DEFAULTS = Settings.of({"stream": "partition", "input.topics": ["features"]}).drift_parameters or {}
DETECTORS = ("watch", "adwin")


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm: its record, the cells it names of how many, those the records in question lie in, and its feature."""

    record: int
    cells: frozenset[int] = frozenset()
    of: int = 0
    touched: frozenset[int] = frozenset()
    feature: int | None = None


def prepared(X: Array) -> tuple[FloatArray, FloatArray]:
    """Return records as the pipeline prepares them with the default engine, and the grain of their columns."""
    preparation = Preparation([f"f{i}" for i in range(X.shape[1])], robust=True, project="auto")
    preparation.hold(X[: preparation.wanted])
    first = preparation.freeze()
    records = np.ascontiguousarray(np.concatenate([first, preparation.apply(X[len(first) :])]))
    return records, np.broadcast_to(preparation.grain(records), records.shape).copy()


def watched(X: FloatArray, grain: FloatArray, engine: str, own: Any = None) -> Iterator[Alarm]:
    """Yield the changes that the watch finds in prepared records behind an engine; `own`: records to place."""
    model, drift = ENGINES[engine](), StreamDrift(DEFAULTS)
    at = 0
    while at < len(X):
        rows = X[at : at + drift.room]
        # Cells may be taken anew after the batch: those of its alarms are the ones before it.
        centres = None if drift.watch is None else drift.watch._state.centre[: drift.watch.cells].copy()
        offsets = np.arange(at, at + len(rows))
        answers = model.learn(rows).cluster[:, 0]
        for _, found in drift.learn(model, rows, answers, Marks(offsets, offsets), grain[at : at + len(rows)]):
            if found.change.kind == "drift":
                yield _alarm(found.change, None if own is None else X[own], centres)
        at += len(rows)


def _alarm(change: DriftChange, own: FloatArray | None, centres: FloatArray | None) -> Alarm:
    features = [each.channel for unit in change.units for each in unit.channels if each.channel < len(unit.before)]
    touched: frozenset[int] = frozenset()
    if own is not None and centres is not None and len(centres) > 1 and len(own):
        nearest = ((own[:, None] - centres) ** 2).sum(2).argmin(1)
        touched = frozenset((np.flatnonzero(np.bincount(nearest) > 0.2 * len(own)) + 1).tolist())
    cells = frozenset(unit.unit for unit in change.units)
    return Alarm(change.record, cells, change.cells, touched, features[0] if features else None)


def adwin(X: FloatArray) -> Iterator[Alarm]:
    """Yield the alarms of ADWIN, one for each feature, with its defaults."""
    from river import drift  # noqa: PLC0415 - an extra

    detectors = [drift.ADWIN() for _ in range(X.shape[1])]
    for record, row in enumerate(X.tolist()):
        for feature, (detector, value) in enumerate(zip(detectors, row, strict=True)):
            detector.update(value)
            if detector.drift_detected:
                yield Alarm(record, feature=feature)


def alarms(records: Array, detector: str, engine: str, own: Any = None) -> list[Alarm]:
    """Return the alarms of a detector in records, once they are prepared."""
    X, grain = prepared(records)
    return list(watched(X, grain, engine, own) if detector == "watch" else adwin(X))
