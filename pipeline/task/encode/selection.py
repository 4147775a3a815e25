"""Which assignments the settings want, and their order over the streams of a batch."""

from collections.abc import Sequence

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Message
from resonance.pipeline.task.encode.assignments import Encoder, StreamTexts
from resonance.pipeline.task.encode.origins import Origins
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_model import StreamModel

Answered = tuple[Sequence[int], list[Message]]
"""Positions of records, and their assignments."""


class Answers:
    """Chooses the assignments that are emitted, and has them written."""

    def __init__(self, settings: Settings, encoder: Encoder) -> None:
        self._wanted = settings.output.assignments
        self._elsewhere = settings.is_keyed
        self._encoder = encoder

    def of(self, model: StreamModel, texts: StreamTexts, own: Origins, result: LearnResult) -> list[Answered]:
        """Return the assignments of a stream's rows that the settings want, with their positions among the rows.

        `model.last` is the assignment before them, and `own` has the records of the rows.
        """
        answers: list[Answered] = []
        if self._wanted == "none":
            return answers
        if result.warming:
            answers.append((result.warming, self._encoder.warming(texts, own.take(result.warming))))
        if result.step is not None and not self._elsewhere:
            answers.append((result.learned, self._encoder.assignments(texts, own.take(result.learned), result.step)))
        if self._wanted == "all":
            return answers
        places = [place for some, _ in answers for place in some]
        messages = [message for _, some in answers for message in some]
        # The rows of the warm-up come first, so cutting drops the learned rows where these are answered elsewhere.
        chosen = [i for i, keep in enumerate(self._kept(model, result)[: len(places)]) if keep]
        return [([places[i] for i in chosen], [messages[i] for i in chosen])]

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


def through(places: Sequence[int], positions: Sequence[int]) -> Sequence[int]:
    """Map positions in a group of records to positions in their batch."""
    if isinstance(positions, range) and positions.start == 0:
        return places
    return [positions[place] for place in places]


def in_order(answers: list[Answered], count: int) -> list[Message]:
    """Join the assignments of the streams in the order of the records."""
    if len(answers) == 1:
        return answers[0][1]
    slots: list[Message | None] = [None] * count
    for positions, messages in answers:
        for position, message in zip(positions, messages, strict=True):
            slots[position] = message
    return [message for message in slots if message is not None]


def _statuses(result: LearnResult) -> list[tuple[str, int]]:
    """Return status and cluster of the assignments of rows, in order."""
    statuses = [("warming_up", -1)] * len(result.warming)
    if result.step is not None:
        statuses += [("assigned", cluster) for cluster in result.step.cluster[:, 0].tolist()]
    return statuses
