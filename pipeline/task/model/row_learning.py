"""Learning rows: a warm-up holds the first ones back, an engine learns the others, and a watch looks for drift."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from resonance.engine.base import Engine, IntArray, Step
from resonance.engine.errors import RecordError
from resonance.engine.prepare.rescaling import Settling
from resonance.pipeline.task.decode.faults import not_prepared
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_drift import Marks, StreamDrift, parts_of, release

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RowLearning:
    """The rows of one call of a stream's model, which come without labels; `result` gets what becomes of them."""

    _engine: Engine
    # Sparse ones have no warm-up, and are not watched.
    _preparation: Any
    _drift: StreamDrift | None
    _result: LearnResult

    def rescale(self, stream: str) -> None:
        """Go on in other units, where the warm-up is complete or columns have left their ranges, before the first row.

        What was learned in units of a first scale is watched from now on.
        """
        change = self._preparation.rescale()
        if isinstance(change, Settling):
            self._engine.move(change.before, change.after)
            marks = release(self._drift, len(change.after), self._result.marks, 0)
            if marks is not None:
                answers = self._engine.predict(change.after).cluster[:, 0]
                places = [0] * len(answers)
                for part in parts_of(self._drift, len(answers)):
                    self._watch(change.after[part], change.raw[part], answers[part], marks.take(part), places)
        elif change is not None:
            self._engine.rescale(change.factor, change.shift)
            if self._drift is not None:
                self._drift.rescale(change.factor, change.shift)
            names = ", ".join(each.feature for each in change.changes)
            _log.debug("stream %s: the scale of %s is frozen anew", stream, names)
            self._result.drift += [(0, each) for each in change.changes]

    def process(self, rows: Any) -> None:
        """Hold back or learn rows as `Layout.rows` or `SparseLayout.rows` returns them."""
        start = 0 if self._preparation.ready else self._warm_up(rows)
        if start == len(rows):
            return
        prepared, raw, places = self._prepared(self._preparation.apply, rows, start)
        if len(places):
            self._result.learned = places
            marks = self._result.marks
            own = marks if len(places) == len(rows) else marks.take(places)
            self._result.step = self._learn(prepared, raw, places, own)

    def answer(self, rows: Any) -> None:
        """Answer for each row as if it came next; nothing changes. A warm-up has no answers."""
        result = self._result
        if not self._preparation.ready:
            result.warming = self._usable(rows, np.arange(len(rows))).tolist()
            return
        prepared, _, result.learned = self._prepared(self._preparation.transform_next, rows, 0)
        found = self._engine.predict(prepared)
        nowhere = np.full_like(found.cluster, -1)
        result.step = Step(found.cluster, found.score, found.novel, nowhere, labels=found.labels)

    def _warm_up(self, rows: Any) -> int:
        """Hold rows back, and learn them where they end the warm-up; return how many of the rows are of it."""
        preparation, warming, stop = self._preparation, list[int](), 0
        while stop < len(rows) and not preparation.ready:
            start, stop = stop, min(stop + preparation.wanted, len(rows))
            taken = self._usable(rows, np.arange(start, stop))
            preparation.hold(rows[taken])
            warming += taken.tolist()
            if self._drift is not None:
                self._drift.hold(self._result.marks.take(taken))
            if preparation.wanted == 0:
                # The record that ended the warm-up counts as the cause of all events of the held records; of a state of
                # a release with a longer one it is the first.
                self._end_warm_up(warming[-1] if warming else 0)
        self._result.warming = warming
        return stop

    def _end_warm_up(self, last: int) -> None:
        """Learn the rows that were held back; the row at `last` counts as the cause of their events."""
        raw = self._preparation.held_rows()
        prepared = self._preparation.freeze()
        places = [last] * len(prepared)
        # With a first scale they are watched once the one that stays is known.
        marks = None if self._preparation.settling else release(self._drift, len(raw), self._result.marks, last)
        for part in parts_of(self._drift, len(raw)):
            own = None if marks is None else marks.take(part)
            self._learn(prepared[part], raw[part], places[part], own, answered=False)

    def _learn(
        self, prepared: Any, raw: Any, places: Sequence[int], marks: Marks | None, *, answered: bool = True
    ) -> Step:
        """Let the engine learn prepared rows, and the watch see them where they have marks."""
        step = self._engine.learn(prepared)
        self._result.learned_one_by_one(places, step, answered=answered)
        if self._drift is not None and marks is not None:
            if self._preparation.settling:
                self._drift.hold(marks)
            else:
                self._watch(prepared, raw, step.cluster[:, 0], marks, places)
        return step

    def _watch(self, prepared: Any, raw: Any, answers: IntArray, marks: Marks, places: Sequence[int]) -> None:
        if self._drift is not None:
            X = self._preparation.without_means(prepared, raw)
            changes = self._drift.learn(self._engine, X, answers, marks, self._preparation.grain(prepared))
            self._result.drift += [(places[at], change) for at, change in changes]

    def _prepared(self, prepare: Callable[[Any], Any], rows: Any, start: int) -> tuple[Any, Any, Sequence[int]]:
        """Prepare the rows from `start` on, except those that cannot be; return also these rows and their places."""
        rest = rows[start:] if start else rows
        try:
            return prepare(rest), rest, range(start, len(rows))
        except RecordError:
            places = self._usable(rows, np.arange(start, len(rows)))
            return prepare(rows[places]), rows[places], places.tolist()

    def _usable(self, rows: Any, places: IntArray) -> IntArray:
        """Return the places of the rows that can be prepared; the others are faults."""
        problems = self._preparation.check(rows[places])
        self._result.faults += [(int(places[at]), not_prepared(problem)) for at, problem in problems.items()]
        return np.delete(places, list(problems)) if problems else places
