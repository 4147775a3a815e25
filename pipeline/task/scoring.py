"""What a task answers for records that it does not learn: the assignments, and how much the models know."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self

import orjson
from resonance.pipeline.columns import Texts, behind
from resonance.pipeline.records import Messages
from resonance.pipeline.task.decode.faults import Fault, FaultError
from resonance.schemas import DeadLetterClass, DeadLetterStage


class Refusal(NamedTuple):
    """Why a record has no assignment: as its dead letter would say it, or that there is no model for it."""

    stage: DeadLetterStage | Literal["model"]
    kind: DeadLetterClass | Literal["no_model", "no_value"]
    message: str

    @classmethod
    def of(cls, fault: Fault | FaultError) -> Self:
        """Return the refusal of a record with a fault."""
        return cls(fault.stage, fault.kind, fault.message)


NO_VALUE = Refusal("validate", "no_value", "the value is null: no assignment follows from such a record")


def no_model(stream: str) -> Refusal:
    """Return the refusal of a record whose stream has no model."""
    return Refusal("model", "no_model", f"stream {stream} has no model here: it has not begun, is not stored, or ended")


class ModelPlace(NamedTuple):
    """How much the model knows that has answered."""

    stream: str
    version: int
    next: int
    """Offset behind the last record that it has learned, in the log of its partition."""
    time: str | None = None
    """Kafka's time of a record that it had learned last; None where that is not known."""
    behind: int | None = None
    """Offsets of the log that stand behind it; None where that is not known."""


class Scored(NamedTuple):
    """The answer for one record.

    Attributes
    ----------
    assignment : bytes or None
        As a worker writes it, but for an empty ``path``: no node has learned the record.
    refusal : Refusal or None
        Why there is none.
    model : ModelPlace or None
        What has answered.
    """

    assignment: bytes | None = None
    refusal: Refusal | None = None
    model: ModelPlace | None = None

    def json(self) -> bytes:
        """Return all of it as a JSON object, in which the assignment keeps its bytes."""
        refused = self.refusal and dict(zip(("stage", "class", "message"), self.refusal, strict=True))
        assignment = None if self.assignment is None else orjson.Fragment(self.assignment)
        model = self.model and self.model._asdict()
        return orjson.dumps({"assignment": assignment, "refusal": refused, "model": model})


@dataclass(slots=True, eq=False)
class Scores:
    """The answers for some records, as columns."""

    count: int
    assignments: Messages = field(default_factory=Messages)
    """Of the records that are not refused, in their order."""
    refusals: dict[int, Refusal] = field(default_factory=dict)
    """By position."""
    models: list[tuple[Sequence[int], ModelPlace]] = field(default_factory=list)
    """What has answered the records at some positions."""

    def each(self) -> list[Scored]:
        """Return the answer for each record."""
        own, models = self.assignments, dict[int, ModelPlace]()
        for positions, model in self.models:
            models |= dict.fromkeys(positions, model)
        values = iter(Texts(own.text, behind(own.ends), own.ends))
        return [
            Scored(None, refusal) if (refusal := self.refusals.get(at)) else Scored(next(values), None, models[at])
            for at in range(self.count)
        ]
