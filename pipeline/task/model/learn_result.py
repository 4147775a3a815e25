"""What a stream's model returns for the rows that it processes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from resonance.engine import Operations, RootStep
from resonance.engine.base import Event, GroupChange, Step
from resonance.engine.prepare.rescaling import RangeChange
from resonance.pipeline.records import SourceRecord
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.model.stream_drift import NO_MARKS, Marks, WatchedChange


@dataclass(frozen=True, slots=True, eq=False)
class ChildOperations:
    """Operations for the subtrees that follow from rows which a root has learned."""

    places: Sequence[int]
    """Row that each `Operations.record` stands for."""
    operations: Operations
    answered: bool
    """Whether the rows get their assignments now; those of a warm-up got theirs before."""


@dataclass(slots=True, eq=False)
class LearnResult:
    """What became of the rows of one call, by their positions."""

    warming: Sequence[int] = ()
    """Rows that the warm-up held back."""
    learned: Sequence[int] = ()
    """Rows that were learned at once; `step` has their answers."""
    step: Step | None = None
    """None when no row was learned at once."""
    events: list[tuple[int, Event]] = field(default_factory=list)
    """Events, each with the row that caused it."""
    drift: list[tuple[int, RangeChange | GroupChange | WatchedChange]] = field(default_factory=list)
    """Features that have another range, changes in the number of feature groups, and changes of the data, each with its
    row."""
    marks: Marks = NO_MARKS
    """Where and when the rows stand in the log."""
    looked: bool = False
    """Whether the ranges of the features were compared with the last records, which is when they can change."""
    faults: list[tuple[int, FaultError]] = field(default_factory=list)
    """Rows that cannot be prepared, and why."""
    dead_letters: list[tuple[int, FaultError, SourceRecord | None]] = field(default_factory=list)
    """Labels that cannot be learned: the row that decided it, the fault, and the message with the labels if earlier."""
    child_operations: list[ChildOperations] = field(default_factory=list)
    """Operations for the models below a root, where these live elsewhere."""

    def learned_one_by_one(self, places: Sequence[int], step: Step, *, answered: bool) -> None:
        """Add the events and operations of a step; `places` has the row of each record of the step."""
        self.events += [(places[event.index], event) for event in step.events]
        self.drift += [(places[change.index], change) for change in step.groups]
        if isinstance(step, RootStep):
            self.child_operations.append(ChildOperations(places, step.operations, answered))
