"""What can be wrong with a record, in the words of its dead letter."""

from dataclasses import dataclass

from resonance.pipeline.records import SourceRecord
from resonance.schemas import DeadLetterClass, DeadLetterStage


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a record becomes a dead letter.

    Attributes
    ----------
    index : int
        Position of the record in its batch.
    stage, kind : str
        ``stage`` and ``class`` of the dead letter.
    message : str
        What is wrong and what to do.
    record : SourceRecord or None
        The record, where it came before its batch: the one at `index` decided about it.
    """

    index: int
    stage: DeadLetterStage
    kind: DeadLetterClass
    message: str
    record: SourceRecord | None = None


class FaultError(Exception):
    """Carries a fault out of the code that found it; never leaves the partition task.

    Parameters
    ----------
    stage, kind, message : str
        As in `Fault`.
    """

    def __init__(self, stage: DeadLetterStage, kind: DeadLetterClass, message: str) -> None:
        super().__init__(message)
        self.stage: DeadLetterStage = stage
        self.kind: DeadLetterClass = kind
        self.message = message

    def at(self, index: int, record: SourceRecord | None = None) -> Fault:
        """Return the fault of the record at a position of its batch, or of one that came before it (see `Fault`)."""
        return Fault(index, self.stage, self.kind, self.message, record)


def out_of_range(problem: str) -> FaultError:
    """Return the fault of a record whose values cannot be prepared."""
    return FaultError("limit", "out_of_range", problem)
