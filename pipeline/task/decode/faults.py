"""Faults of records, in the words of their dead letters."""

from dataclasses import dataclass

from resonance.engine.prepare.sparse import Problem
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import STREAM_BYTES, SourceRecord
from resonance.schemas import DeadLetterClass, DeadLetterStage


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a record becomes a dead letter."""

    index: int
    """Position of the record in its batch."""
    stage: DeadLetterStage
    kind: DeadLetterClass
    """``class`` of the dead letter."""
    message: str
    """What is wrong and what to do."""
    record: SourceRecord | None = None
    """The faulty record, if it came before the batch, when the record at `index` then only decided it; or a message
    that could not be taken apart."""

    def is_earlier(self, records: RecordColumns) -> bool:
        """Return whether the faulty record came before the one of its batch with which that was decided."""
        return self.record is not None and self.record.offset != records.offsets[self.index]


class FaultError(Exception):
    """Carries a fault out of the code that found it; never leaves the partition task."""

    def __init__(self, stage: DeadLetterStage, kind: DeadLetterClass, message: str) -> None:
        super().__init__(message)
        self.stage: DeadLetterStage = stage
        self.kind: DeadLetterClass = kind
        self.message = message

    def at(self, index: int, record: SourceRecord | None = None) -> Fault:
        """Return the fault of the record at a position of its batch, or of an earlier one (see `Fault.record`)."""
        return Fault(index, self.stage, self.kind, self.message, record)


class UnfitValueError(ValueError):
    """Says why a value does not fit its schema."""


def unusable_schema(reason: str) -> FaultError:
    """Return the fault of a record whose schema cannot be used."""
    return FaultError("decode", "wrong_schema", f"its schema cannot be used: {reason}")


def long_name(what: str, remedy: str = "") -> FaultError:
    """Return the fault of a record whose stream would have too long a name; `what` says how long it is."""
    return FaultError("limit", "key_too_long", f"{what}, and the name of a stream has at most {STREAM_BYTES}{remedy}")


def not_a_number(feature: str) -> FaultError:
    """Return the fault of a record with NaN for a feature."""
    text = f"{feature} is NaN; send a number, or set prepare.missing to mean or a number"
    return FaultError("validate", "missing_feature", text)


def not_prepared(problem: str | Problem) -> FaultError:
    """Return the fault of a record that a preparation refuses."""
    if isinstance(problem, str):
        return FaultError("limit", "out_of_range", problem)
    return FaultError("validate" if problem.kind == "wrong_type" else "limit", problem.kind, problem.text)
