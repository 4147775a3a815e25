"""Second stage of a keyed hierarchy: the subtrees of one partition of the routes, and their snapshots."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from resonance.engine.base import Step
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.prepare import AnyPreparation, Preparation
from resonance.pipeline import mismatches
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Outputs, SourceRecord, StreamSnapshot
from resonance.pipeline.repartition.envelope import no_place
from resonance.pipeline.repartition.keyed.operation_batch import OperationBatch, as_range
from resonance.pipeline.repartition.keyed.operation_records import Part, Reader, SubtreeOperation
from resonance.pipeline.repartition.keyed.subtree_model import SubtreeModel, SubtreeResult
from resonance.pipeline.task.counts import Counts
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.pipeline.task.feature_discovery import FeatureDiscovery
from resonance.pipeline.task.learning import Learner, StreamRows
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.model_health import ModelHealth
from resonance.pipeline.task.model_store import StoredModel
from resonance.pipeline.task.partition_task import PIECE_OF_STREAMS
from resonance.pipeline.task.stream_task import NO_CONTEXT, StreamTask, TaskContext
from resonance.pipeline.task.streams import Streams


class Subtrees(Streams):
    """Subtrees of a partition, in the order in which they began; the key of a subtree is its name."""

    def __init__(self, settings: Settings, topic: str, partition: int, features: FeatureDiscovery) -> None:
        super().__init__(settings, topic, partition, features)
        self._gone: dict[str, None] = {}

    def of(self, part: Part) -> SubtreeModel | None:
        """Return the model of a subtree, or None where it is not here."""
        model = self.get(part.name.encode())
        return model if isinstance(model, SubtreeModel) else None

    def name_of(self, key: bytes | None) -> str:
        """Return the name of a subtree."""
        return (key or b"").decode()

    def key_of(self, name: str) -> bytes:
        """Return the key of the subtree with a name."""
        return name.encode()

    def begin_below(self, first: SubtreeOperation) -> SubtreeModel:
        """Begin a subtree and return its model.

        A first message that is incomplete, or does not fit the roots of these settings, is a `StateError`.
        """
        model = SubtreeModel(self._settings, first)
        if not self._is_of_roots(model.preparation):
            raise StateError("its columns are not those that the settings make of a record")
        self._take(model)
        return model

    def _is_of_roots(self, preparation: AnyPreparation) -> bool:
        """Return whether the vectors of a preparation can be learned under the settings."""
        if not isinstance(preparation, Preparation):
            return False
        settings, features = self._settings, preparation.features
        known, count = settings.features, settings.input.dimension
        if tuple(features) != known if known is not None else count not in (None, len(features)):
            return False
        try:
            own = settings.preparation(features)
        except ParameterError:
            return False
        # A warm-up may have fewer axes than the settings request.
        fits = preparation.dimension <= own.dimension if own.projects else True
        return fits and (own.columns, own.projects) == (preparation.columns, preparation.projects)

    def _take(self, model: StreamModel) -> None:
        self._put(model.name.encode(), model)
        self._gone.pop(model.name, None)

    def remove(self, model: StreamModel) -> None:
        """Remove a subtree whose root node was removed, and mark its snapshot for deletion."""
        name = model.name
        self._drop(name.encode())
        self._schedule.remove(name)
        self._gone[name] = None

    def dropped(self) -> list[str]:
        """Return the subtrees whose snapshots must be deleted, each once."""
        gone, self._gone = list(self._gone), {}
        return gone

    def _header(self, version: int) -> dict[str, Any]:
        return {**self._settings_header(), "version": version}

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Restore a subtree from a snapshot; a new version has subtrees of its own."""
        where = self._check(snapshot, "subtree")
        try:
            model = SubtreeModel.from_bytes(snapshot.body)
        except StateError as error:
            raise mismatches.unreadable(where, f"the state ({error})") from None
        self._take(model)

    def _read(self, key: bytes | None, stored: StoredModel) -> StreamModel:
        model = SubtreeModel.from_bytes(stored.state)
        model.snapshot_bytes = stored.snapshot_bytes
        return model


_Answers = tuple[Sequence[int], StreamTexts, Step]
"""Rows of a stream, its texts, and the answers to these rows."""


class PartHealth(ModelHealth):
    """Counts clusters and events alone; the answers are evaluated where the roots give them."""

    def restored(self, model: StreamModel) -> None:
        """Count the clusters of a subtree that was restored from a snapshot."""
        self.clusters += len(model.engine.clusters())

    def learned(self, model: StreamModel, result: LearnResult, *, emitted: bool) -> None:
        """Note the events of a subtree."""
        super().learned(model, LearnResult(events=result.events), emitted=emitted)


class SubtreeTask(StreamTask):
    """Task of the subtrees whose messages are in one partition of the routes.

    Assignments, events and clusters go to the partition number of the record that caused them, and name its place. A
    record from an unknown partition is a `BrokerError`, because no output has a place for what follows from it.
    """

    models: Subtrees
    _health = PartHealth
    _messages = "messages to subtrees"

    def __init__(self, settings: Settings, topic: str, partition: int, context: TaskContext = NO_CONTEXT) -> None:
        super().__init__(settings, topic, partition, context, Subtrees)
        self._learner = Learner(
            settings, topic, partition, self.models, self.health, context.event_bytes, to_source=True
        )
        self._reader = Reader(self._where)
        self._depth = settings.engine_class.make(settings.engine_parameters).depth
        self._inputs = context.inputs
        self.repeats = 0
        """Messages that were dropped because they had come already, or will come again."""

    def _run(self, records: Sequence[SourceRecord], outputs: Outputs | None) -> None:
        self.records += len(records)
        for start in range(0, len(records), PIECE_OF_STREAMS):
            piece = records[start : start + PIECE_OF_STREAMS]
            messages = self._reader.read(piece)
            self._leave_aside(len(piece) - len(messages))
            if outputs is not None:
                self._check_places(messages)
            if messages:
                self._carry_out(messages, outputs)
                self.models.evict()

    def _check_places(self, messages: Sequence[SubtreeOperation]) -> None:
        """Refuse messages that must not be lost and have no place in the outputs."""
        known = self._inputs
        for message in messages if known else ():
            if message.partition >= known:
                raise no_place(
                    f"{self._where}@{message.offset}", (message.topic, message.partition, message.source_offset), known
                )

    def _carry_out(self, messages: Sequence[SubtreeOperation], outputs: Outputs | None) -> None:
        batch = OperationBatch.of(messages, self._depth)
        answers: list[_Answers] = []
        for stream in batch.streams:
            for run in stream:
                self._follow(batch, run, outputs)
            if outputs is not None and (emitted := batch.emitted_of(stream)):
                answers.append(self._answers(batch, emitted))
        if outputs is not None:
            self._write(batch, answers, outputs)

    def _answers(self, batch: OperationBatch, rows: Sequence[int]) -> _Answers:
        """Return rows of a stream with what is to be written of them."""
        part = batch.messages[rows[0]].part
        return rows, self._learner.texts(part.stream, part.version, self._depth), batch.step_of(rows)

    def _write(self, batch: OperationBatch, answers: Sequence[_Answers], outputs: Outputs) -> None:
        """Write the assignments of all streams at once."""
        rows = [row for own, _, _ in answers for row in own]
        if not rows:
            return
        # They are sorted by stream and subtree.
        order = np.argsort([batch.records.offsets[row] for row in rows])
        records = batch.records.take([rows[at] for at in order.tolist()])
        learned = [(texts, step) for _, texts, step in answers]
        outputs.put("assignments", records.offsets, self._encoder.assignments([], learned, records, order))

    def _follow(self, batch: OperationBatch, run: range, outputs: Outputs | None) -> None:
        for numbered in batch.numbered(run):
            model, places = self._model_of(batch, numbered)
            if model is None:
                continue
            fitting = as_range(batch.fitting(places, model.preparation.dimension))
            self._leave_aside(len(places) - len(fitting))
            if not fitting:
                continue
            rows = StreamRows(batch.records, fitting, outputs)
            result = self._learner.learn(model, rows)
            if isinstance(result, SubtreeResult):
                batch.fill(fitting, result)
                self.repeats += result.dropped
            if model.engine.ended:
                # The tombstones are emitted now, because no later message brings a time at which they could be due.
                for name in model.lifetimes.all_ended():
                    self._learner.encoder.tombstone(name, rows.cause(-1))
                self.models.remove(model)

    def _model_of(self, batch: OperationBatch, rows: Sequence[int]) -> tuple[SubtreeModel | None, Sequence[int]]:
        """Return the model of a subtree, new if its first message is among the rows, and the rows that it lacks."""
        messages = batch.messages
        model = self.models.of(messages[rows[0]].part)
        for number, row in enumerate(rows if model is None else ()):
            if messages[row].number == 0 and (model := self._begun_by(messages[row])) is not None:
                # Messages before the first one belong to no subtree.
                model.next = messages[row].offset
                self.repeats += number
                break
        if model is None:
            # The subtree is gone and its messages are read again, or its first message will come again.
            self.repeats += len(rows)
            return None, rows
        if messages[rows[0]].offset >= model.next:
            return model, rows
        return model, [row for row in rows if messages[row].offset >= model.next]

    def _begun_by(self, message: SubtreeOperation) -> SubtreeModel | None:
        """Return the model of a new subtree, or None where no worker wrote its first message."""
        try:
            model = self.models.begin_below(message)
        except StateError:
            self._leave_aside(1)
            return None
        self._learner.check(model)
        return model

    @property
    def numbers(self) -> dict[str, int]:
        """Number of messages that each subtree has applied."""
        return {model.name: model.number for model in self.models if isinstance(model, SubtreeModel)}

    @property
    def counts(self) -> Counts:
        """Counters so far; other threads may read them."""
        return replace(super().counts, repeated=self.repeats)

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Restore a subtree from a snapshot.

        It raises `MismatchError`, which names the settings that differ, or says that the state cannot be read.
        """
        self.models.restore(snapshot)
        model = self.models.named(snapshot.stream)
        self.health.restored(model)
        self._learner.check(model)
        self.models.evict()
