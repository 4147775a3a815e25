"""Which assignments the settings want."""

from collections.abc import Sequence
from itertools import compress

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Message, Outputs
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.encode.assignments import Encoder, StreamTexts
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_model import StreamModel


class Answers:
    """Chooses the assignments that are emitted, and has them written."""

    def __init__(self, settings: Settings, encoder: Encoder) -> None:
        self._wanted = settings.output.assignments
        self._elsewhere = settings.is_keyed
        self._encoder = encoder

    def put(
        self, outputs: Outputs, model: StreamModel, texts: StreamTexts, own: RecordBatch, result: LearnResult
    ) -> None:
        """Write the assignments of a stream's rows that the settings want; `own` has the records of the rows.

        `model.last` is the assignment before them.
        """
        if self._wanted == "none":
            return
        messages: list[Message] = []
        places: Sequence[int] = ()
        if result.warming:
            places, messages = result.warming, self._encoder.warming(texts, own.take(result.warming))
        if result.step is not None and not self._elsewhere:
            messages += self._encoder.assignments(texts, own.take(result.learned), result.step)
            places = [*places, *result.learned] if places else result.learned
        if self._wanted != "all":
            # The rows of the warm-up come first, so cutting drops the learned rows where these are answered elsewhere.
            kept = self._kept(model, result)[: len(messages)]
            places, messages = list(compress(places, kept)), list(compress(messages, kept))
        offsets = own.offsets if len(places) == len(own.offsets) else [own.offsets[place] for place in places]
        outputs.put("assignments", offsets, messages)

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


def _statuses(result: LearnResult) -> list[tuple[str, int]]:
    """Return status and cluster of the assignments of rows, in order."""
    statuses = [("warming_up", -1)] * len(result.warming)
    if result.step is not None:
        statuses += [("assigned", cluster) for cluster in result.step.cluster[:, 0].tolist()]
    return statuses
