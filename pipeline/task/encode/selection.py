"""Which assignments the settings want, of all streams of a batch."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from resonance.engine.base import Step
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Outputs
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.encode.assignments import Encoder, StreamTexts
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_model import StreamModel


class _Rows(NamedTuple):
    """Rows of a stream that were held back, or learned at once."""

    texts: StreamTexts
    places: Sequence[int]
    """Where they stand in the batch."""
    kept: list[bool]
    """Which assignments are wanted; empty where all are."""
    step: Step | None = None


class Answers:
    """Chooses the assignments that are emitted, and has them written, those of many streams at once."""

    def __init__(self, settings: Settings, encoder: Encoder, *, everything: bool = False) -> None:
        self._wanted = "all" if everything else settings.output.assignments
        self._elsewhere = settings.is_keyed
        self._encoder = encoder
        self._held: list[_Rows] = []
        self._learned: list[_Rows] = []

    def put(self, model: StreamModel, texts: StreamTexts, positions: Sequence[int], result: LearnResult) -> None:
        """Take in what became of a stream's rows, which stand at `positions` of the batch that `write` will have.

        `model.last` is the assignment before them.
        """
        if self._wanted == "none":
            return
        warming = result.warming
        kept = [] if self._wanted == "all" else self._kept(model, result)
        if warming:
            self._held.append(_Rows(texts, [positions[row] for row in warming], kept[: len(warming)]))
        if result.step is not None and not self._elsewhere:
            rows = result.learned
            places = positions if len(rows) == len(positions) else [positions[row] for row in rows]
            self._learned.append(_Rows(texts, places, kept[len(warming) :], result.step))

    def write(self, outputs: Outputs, batch: RecordBatch) -> None:
        """Write the assignments that are wanted of all that was taken in."""
        parts = [*self._held, *self._learned]
        held = [(rows.texts, len(rows.places)) for rows in self._held]
        learned = [(rows.texts, rows.step) for rows in self._learned if rows.step is not None]
        self._held, self._learned = [], []
        places, order = _places(parts), None
        if self._wanted != "all":
            order = np.flatnonzero(list(chain.from_iterable(rows.kept for rows in parts)))
            places = [places[at] for at in order.tolist()]
        if len(parts) > 1 and not isinstance(places, range):
            found = np.array(places, np.int64)
            ascending = found.argsort()
            places, order = found[ascending].tolist(), ascending if order is None else order[ascending]
        if not places:
            return
        # Ascending, so that it is all of them where it is as many.
        own = batch if len(places) == len(batch) else batch.take(places)
        outputs.put("assignments", own.offsets, self._encoder.assignments(held, learned, own, order))

    def wanted(self, model: StreamModel, result: LearnResult) -> list[bool]:
        """Return for each learned row whether the settings want its assignment."""
        count = len(result.learned)
        if self._wanted in ("all", "none"):
            return [self._wanted == "all"] * count
        return self._kept(model, result)[len(result.warming) :]

    def _kept(self, model: StreamModel, result: LearnResult) -> list[bool]:
        """Return which assignments are emitted where not all are; those of the warm-up come first."""
        if self._wanted == "novel":
            return [False] * len(result.warming) + ([] if result.step is None else result.step.novel.tolist())
        statuses = _statuses(result)
        return [now != before for now, before in zip(statuses, (model.last, *statuses), strict=False)]

    def remember(self, model: StreamModel, result: LearnResult) -> None:
        """Keep the last assignment where the next one is compared with it."""
        if self._wanted == "changes":
            statuses = _statuses(result)
            model.last = statuses[-1] if statuses else model.last


def _places(parts: Sequence[_Rows]) -> Sequence[int]:
    """Return where the records of all parts stand; a range, which needs no copies, if they follow one another."""
    places: Sequence[int] = parts[0].places if parts else []
    for rows in parts[1:]:
        if not (isinstance(places, range) and isinstance(rows.places, range) and places.stop == rows.places.start):
            return list(chain.from_iterable(rows.places for rows in parts))
        places = range(places.start, rows.places.stop)
    return places


def _statuses(result: LearnResult) -> list[tuple[str, int]]:
    """Return status and cluster of the assignments of rows, in order."""
    statuses = [("warming_up", -1)] * len(result.warming)
    if result.step is not None:
        statuses += [("assigned", cluster) for cluster in result.step.cluster[:, 0].tolist()]
    return statuses
