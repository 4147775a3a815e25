"""Learning with labels: those that come with the records, and those that come later.

A late label is learned with the features that were kept, in its place among the stream's records. It causes no
assignment: every record has exactly one, made when the record came.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from resonance.engine.base import FloatArray, LabelAnswers, Step
from resonance.engine.labels import LabelEngine
from resonance.engine.prepare import Preparation
from resonance.pipeline.task.decode.faults import FaultError, not_prepared
from resonance.pipeline.task.decode.labels import Labels, RowLabels
from resonance.pipeline.task.model.label_memory import LabelMemory, shown
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_drift import Marks, StreamDrift, parts_of, release


@dataclass(slots=True)
class LabelledRows:
    """The rows of one call of a stream's model, whose engine learns labels; `result` gets what becomes of them."""

    _engine: LabelEngine
    _preparation: Preparation
    _memory: LabelMemory
    _drift: StreamDrift | None
    _row_labels: Sequence[RowLabels]
    _result: LearnResult
    _warming: list[int] = field(default_factory=list)

    def process(self, rows: FloatArray) -> None:
        """Hold back or learn rows as `Layout.rows` returns them; that of a message of labels has no meaning."""
        self._result.warming = self._warming
        position = 0
        while position < len(rows) and not self._preparation.ready:
            self._hold(position, rows[position : position + 1])
            position += 1
        if position < len(rows):
            self._learn(position, rows)

    def _hold(self, position: int, row: FloatArray) -> None:
        """Hold a row back; the last row that the warm-up needs ends it."""
        own, _, late = self._row_labels[position]
        if late is not None:
            self._memory.seen += 1
            self._late(position)
        elif problems := self._preparation.check(row):
            self._result.faults.append((position, not_prepared(problems[0])))
        else:
            try:
                self._memory.hold(own, self._labels(position))
            except FaultError as error:
                self._result.dead_letters.append((position, error, None))
            else:
                self._memory.seen += 1
                self._preparation.hold(row)
                self._warming.append(position)
                if self._drift is not None:
                    self._drift.hold(self._result.marks.take([position]))
                if self._preparation.wanted == 0:
                    self._end_warm_up(position)
        self._overdue(position)

    def _end_warm_up(self, position: int) -> None:
        """Learn the rows that were held back; the row at `position` counts as the cause of their events."""
        held = self._memory.release()
        raw = self._preparation.held_rows()
        prepared = self._preparation.freeze()
        watched = self._preparation.without_means(prepared, raw)
        marks = release(self._drift, len(held), self._result.marks, position)
        for part in parts_of(self._drift, len(held)):
            sets = [labels for _, labels in held[part]]
            step = self._engine.learn(prepared[part], sets)
            places = [position] * len(sets)
            self._result.learned_one_by_one(places, step, answered=False)
            self._watch(watched[part], sets, step, None if marks is None else marks.take(part), places)
        for features, (own, labels) in zip(prepared, held, strict=True):
            self._memory.keep(own, features if labels is None else None)
            self._memory.learned += labels is not None

    def _learn(self, start: int, rows: FloatArray) -> None:
        """Learn the rows from `start` on."""
        memory, result, stop = self._memory, self._result, len(rows)
        own_rows = [position for position in range(start, stop) if self._row_labels[position].late is None]
        problems = (
            {own_rows[i]: text for i, text in self._preparation.check(rows[own_rows]).items()} if own_rows else {}
        )
        own_rows = [position for position in own_rows if position not in problems]
        prepared: Iterator[tuple[FloatArray, FloatArray]] = iter(())
        if own_rows:
            applied = self._preparation.apply(rows[own_rows])
            prepared = zip(applied, self._preparation.without_means(applied, rows[own_rows]), strict=True)
        features: list[FloatArray] = []
        watched: list[FloatArray] = []
        sets: list[Labels | None] = []
        places: list[int] = []
        answered: list[int] = []
        for position in range(start, stop):
            own, labels, late = self._row_labels[position]
            if position in problems:
                result.faults.append((position, not_prepared(problems[position])))
            elif late is not None:
                memory.seen += 1
                if (found := self._late(position)) is not None:
                    features.append(found)
                    watched.append(found)
                    sets.append(labels)
                    places.append(position)
            else:
                row, seen = next(prepared)
                try:
                    labels = self._labels(position)
                except FaultError as error:
                    result.dead_letters.append((position, error, None))
                else:
                    memory.seen += 1
                    memory.keep(own, row if labels is None else None)
                    answered.append(len(places))
                    features.append(row)
                    watched.append(seen)
                    sets.append(labels)
                    places.append(position)
            self._overdue(position)
        if not features:
            return
        memory.learned += sum(labels is not None for labels in sets)
        learned = np.array(features)
        step = self._engine.learn(learned, sets)
        result.learned_one_by_one(places, step, answered=True)
        self._watch(np.array(watched), sets, step, result.marks.take(places), places)
        result.learned = [places[i] for i in answered]
        if answered:
            result.step = step if len(answered) == len(places) else _part(step, answered)

    def _watch(
        self, X: FloatArray, sets: Sequence[Labels | None], step: Step, marks: Marks | None, places: Sequence[int]
    ) -> None:
        """Let the watch see the rows that were learned: those without labels were only predicted."""
        if self._drift is None or marks is None:
            return
        own = [at for at, labels in enumerate(sets) if labels is not None]
        grain = self._preparation.grain(X[own])
        changes = self._drift.learn(self._engine, X[own], step.cluster[own, 0], marks.take(own), grain)
        self._result.drift += [(places[own[at]], change) for at, change in changes]

    def _labels(self, position: int) -> Labels | None:
        """Return the labels of a record: its own, or those that have waited for it.

        Raise `FaultError` if the stream would have too many labels.
        """
        own, labels, _ = self._row_labels[position]
        if labels is not None:
            self._memory.take_in(labels)
        waited = None if own is None else self._memory.waiting.pop(own, None)
        if waited is None or own is None:
            return labels
        try:
            if labels is not None:
                raise already_labelled(own, "it came with labels")
            self._memory.take_in(waited.labels)
        except FaultError as error:
            self._result.dead_letters.append((position, error, waited.record))
            return labels
        return waited.labels

    def _late(self, position: int) -> FloatArray | None:
        """Return the features with which late labels are learned; None where they are not learned now."""
        own, labels, late = self._row_labels[position]
        if own is None or labels is None or late is None:
            return None
        memory = self._memory
        try:
            if (place := memory.held_at.get(own)) is not None:
                if memory.held[place][1] is not None:
                    raise already_labelled(own, "it has its labels")
                memory.take_in(labels)
                memory.held[place] = own, labels
            elif own in memory.kept:
                if memory.kept[own] is None:
                    raise already_labelled(own, "it has its labels")
                memory.take_in(labels)
                return memory.take(own)
            elif own in memory.waiting:
                raise already_labelled(own, "it has not come, and other labels wait for it")
            elif not memory.wait(own, labels, late):
                raise memory.too_late(own)
        except FaultError as error:
            self._result.dead_letters.append((position, error, None))
        return None

    def _overdue(self, position: int) -> None:
        """Give up labels that have waited long enough."""
        for own, record in self._memory.overdue():
            self._result.dead_letters.append((position, self._memory.too_late(own), record))


def already_labelled(own: bytes, why: str) -> FaultError:
    """Return the fault of labels for a record that takes no more labels."""
    return FaultError("label", "already_labelled", f"the record {shown(own)} is learned once, and {why}")


def not_learned(own: bytes) -> FaultError:
    """Return the fault of labels that still waited when an engine that learns no labels took over."""
    return FaultError(
        "label", "too_late", f"the record {shown(own)} had not come when the engine became one that no labels teach"
    )


def _part(step: Step, rows: list[int]) -> Step:
    """Return a step with the answers for some of its records and with all of its events."""
    before = np.searchsorted(rows, [event.index for event in step.events], side="right") - 1
    events = [replace(event, index=int(index)) for event, index in zip(step.events, before, strict=True)]
    answers = step.labels
    labels = None if answers is None else LabelAnswers(answers.labels, answers.probabilities[rows])
    return replace(
        step,
        cluster=step.cluster[rows],
        score=step.score[rows],
        novel=step.novel[rows],
        path=step.path[rows],
        events=events,
        labels=labels,
    )
