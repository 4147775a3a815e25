"""What becomes of the rows that a stream's model is given."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from resonance.engine import Operations, RootStep
from resonance.engine.base import Event, GroupChange, Step
from resonance.pipeline.records import SourceRecord
from resonance.pipeline.task.decode.faults import FaultError


@dataclass(frozen=True, slots=True, eq=False)
class ChildOperations:
    """Operations that follow from rows which a root has learned.

    Attributes
    ----------
    places : sequence of int
        The row that each `Operations.record` stands for.
    operations : Operations
        In order.
    answered : bool
        The rows are answered now; those of a warm-up were before.
    """

    places: Sequence[int]
    operations: Operations
    answered: bool


@dataclass(frozen=True, slots=True)
class RangeChange:
    """A feature has another range than before.

    Attributes
    ----------
    feature : str
        The feature.
    before, after : tuple of float
        Where the range begins and ends, in the units of the input.
    """

    feature: str
    before: tuple[float, float]
    after: tuple[float, float]


@dataclass(slots=True, eq=False)
class LearnResult:
    """What became of the rows that a stream was given, all by their positions.

    Attributes
    ----------
    warming : sequence of int
        Rows that the warm-up held back.
    learned : sequence of int
        Rows that were learned at once; `step` has their answers.
    step : Step or None
        None when nothing was learned at once.
    events : list of (int, Event)
        Each with the row that caused it.
    rescaled : list of RangeChange
        Features whose range is another one, from the first of the rows on.
    groups : list of (int, GroupChange)
        Changes of how many groups the features are divided into, each with the row that caused it.
    faults : list of (int, FaultError)
        Rows that cannot be prepared, and why.
    letters : list of (int, FaultError, SourceRecord or None)
        Labels that cannot be learned, each with the row that decided it, and the message that said them where that is
        an earlier one.
    asked : list of ChildOperations
        What the models below a root have got to do, where these live elsewhere.
    """

    warming: Sequence[int] = ()
    learned: Sequence[int] = ()
    step: Step | None = None
    events: list[tuple[int, Event]] = field(default_factory=list)
    rescaled: list[RangeChange] = field(default_factory=list)
    groups: list[tuple[int, GroupChange]] = field(default_factory=list)
    faults: list[tuple[int, FaultError]] = field(default_factory=list)
    letters: list[tuple[int, FaultError, SourceRecord | None]] = field(default_factory=list)
    asked: list[ChildOperations] = field(default_factory=list)

    def learned_one_by_one(self, places: Sequence[int], step: Step, *, answered: bool) -> None:
        """Take in what became of some rows that were learned; `places` has the rows that caused it."""
        self.events += [(places[event.index], event) for event in step.events]
        self.groups += [(places[change.index], change) for change in step.groups]
        if isinstance(step, RootStep):
            self.asked.append(ChildOperations(places, step.operations, answered))
