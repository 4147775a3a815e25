"""The partition task: turns the records of one input partition into outputs.

It owns the models of the partition's streams. Records go in, in offset order; assignments, events, clusters and dead
letters come out. It knows no Kafka, no clock and no thread, so the worker, replays, benchmarks and tests run the same
code. The outputs are a function of the input log alone, however the log is cut into batches.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from resonance.pipeline.columns import Times, some_of
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Outputs, SourceRecord, StreamSnapshot
from resonance.pipeline.task.decode.faults import Fault, FaultError
from resonance.pipeline.task.decode.late_labels import LabelDecoding
from resonance.pipeline.task.decode.record_batch import RecordBatch, slice_of
from resonance.pipeline.task.decode.unpacking import Unpacker
from resonance.pipeline.task.encode import message_sizes
from resonance.pipeline.task.encode.cluster_events import EventCause
from resonance.pipeline.task.encode.selection import Answers
from resonance.pipeline.task.learning import Learner, StreamRows
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_drift import Marks
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.scoring import NO_VALUE, ModelPlace, Refusal, Scores, no_model
from resonance.pipeline.task.stream_task import NO_CONTEXT, StreamTask, TaskContext


class Downstream(Protocol):
    """Sends the records of a root on to its subtrees."""

    def check_room(self, model: StreamModel) -> None:
        """Refuse a stream whose messages could be too long.

        The `ConfigurationError` names the settings with which the topic of the routes takes them.
        """

    def send(
        self, model: StreamModel, own: RecordBatch, result: LearnResult, wanted: Sequence[bool], outputs: Outputs | None
    ) -> None:
        """Write the messages that rows of a batch cause; the model counts those that were sent to each subtree.

        `wanted` says which of the learned rows get their assignment now: the others have theirs already, or need none.
        Without outputs the messages were sent before, and are only counted.
        """


PIECE = 2048
"""Records that are handled at once: each stream learns 512 between two looks of its watch, so fewer cut them apart."""
PIECE_OF_STREAMS = 8192
"""The same of a partition with many streams: the more each of them has in it, the less costs a record."""


class PartitionTask(StreamTask):
    """Learns the records of one input partition, with a model for each stream.

    Every record with a value becomes an assignment or a dead letter, unless the settings leave assignments out, or it
    was learned before. With a `sender` the models are roots: it writes the messages to their subtrees, which assign the
    records.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        partition: int,
        context: TaskContext = NO_CONTEXT,
        sender: Downstream | None = None,
    ) -> None:
        super().__init__(settings, topic, partition, context)
        self._by_key = settings.by_key
        self._names_by_key = settings.stream == "key"
        self._answers = Answers(settings, self._encoder)
        self._learner = Learner(settings, topic, partition, self.models, self.health, context.event_bytes)
        if settings.raises_alerts:
            self._raise_alerts()
        self._unpacker = Unpacker.of(settings)
        self._decode = self._features.decode
        if settings.labels.topic is not None:
            self._decode = LabelDecoding(settings, self.mapping).decode
        self._sender = sender
        if sender is not None:
            self._learner.further_check = sender.check_room

    def announce(self) -> None:
        """Let the next record of each stream list the clusters that are there, and the next of all emit open alerts.

        This is for models that have learned without outputs.
        """
        for name in self.models.names:
            model = self.models.named(name)
            if model.seq:
                model.listing = []
            if self._alerts is not None:
                self._alerts.announce(model)
            self.models.touched(model, model.next - 1)
            self.models.evict()
        super().announce()

    def go_on_at(self, offset: int) -> None:
        """Let the partition continue at an offset, whatever the offsets of the records that it learned."""
        # The alerts before the models, whose states contain the gaps between their records.
        super().go_on_at(offset)
        self.models.go_on_at(offset)
        self._features.move(offset)

    def _run(self, found: Sequence[SourceRecord], outputs: Outputs | None) -> None:
        records, start = RecordColumns.of(found), 0
        size = PIECE_OF_STREAMS if self._by_key else PIECE
        while start < len(records):
            faults: list[Fault] = []
            piece = records[start : start + self.messages(records, start, size)]
            start += len(piece)
            if self._unpacker is not None:
                piece, faults = self._unpacker.columns(piece)
            self.records += len(piece)
            if piece:
                batch = self._decode(piece)
                # Of messages that have no record because of them.
                batch.faults, batch.skipped = batch.faults + faults, batch.skipped - len(faults)
                self._batch(piece, batch, outputs)

    # Answers without learning

    def score(self, records: Sequence[SourceRecord]) -> Scores:
        """Return what the models answer for records now, for each as if it came next; nothing is learned or counted.

        A negative offset, of the record or of its source, stands for the place where the model would learn it.
        """
        columns = RecordColumns.of(records)
        if self.mapping.layout is None:
            stream = self.models.name_of(None)
            return Scores(len(columns), refusals=dict.fromkeys(range(len(columns)), no_model(stream)))
        return self.score_batch(self.mapping.decode(columns), len(columns))

    def score_batch(self, batch: RecordBatch, count: int) -> Scores:
        """Return what the models answer for the records of a batch, `count` with those that have faults."""
        outputs, answers = Outputs(), Answers(self._settings, self._encoder, everything=True)
        scores = Scores(count)
        if batch.skipped:
            scores.refusals = dict.fromkeys(set(range(count)).difference(batch.index), NO_VALUE)
        long = message_sizes.too_long(batch, keyed=self._by_key)
        offsets = batch.offsets if batch.sources is None else batch.sources.offsets
        for key, group in self._groups(batch, long):
            if (model := self.models.get(key)) is None:
                refusal = no_model(self.models.name_of(key))
                scores.refusals |= dict.fromkeys([batch.index[at] for at in group], refusal)
                continue
            next_, texts = model.next, self._learner.texts_of(model)
            place = ModelPlace(model.stream, model.version, next_)
            for at in group:
                if offsets[at] < 0:
                    offsets[at] = next_
            for positions in [group] if isinstance(batch.rows, np.ndarray) else [[at] for at in group]:
                result = model.answer(batch.given(positions)[0])
                for at, error in result.faults:
                    batch.blame(error, [positions[at]])
                answers.put(model, texts, positions, result)
            scores.models.append((group if len(batch) == count else [batch.index[at] for at in group], place))
        scores.refusals |= {fault.index: Refusal.of(fault) for fault in batch.faults}
        answers.write(outputs, batch)
        scores.assignments = outputs.sort().assignments
        self.models.evict()
        return scores

    # A batch

    def _batch(self, records: RecordColumns, batch: RecordBatch, outputs: Outputs | None) -> None:
        """Learn records, cut where streams end among them."""
        clock, expiry = self.models.clock, self.models.expiry
        if clock.active and len(batch):
            clock.read(records, batch)
        done = 0
        for position in expiry.ends(records, batch) if expiry.active and len(batch) else ():
            if (cut := batch.index[position]) > done:
                self._part(records[done:cut], batch.between(done, cut), outputs)
                done = cut
            self._end_streams(batch, position, outputs)
        self._part(records[done:], batch.between(done, len(records)) if done else batch, outputs)

    def _end_streams(self, batch: RecordBatch, position: int, outputs: Outputs | None) -> None:
        """End the streams that have had no record for long before the one at a position."""
        cause, models = EventCause(batch, position, outputs), self.models
        for key in sorted(models.expiry.take_ended(cause.offset, batch.clocks[position]), key=models.name_of):
            model = models.get(key)
            if model is None:
                continue
            if self._alerts is not None:
                self._alerts.stream_ended(key, model, cause)
            self._learner.end(key, model, cause)
            models.end(key, cause.offset)
            models.evict()

    def _part(self, records: RecordColumns, batch: RecordBatch, outputs: Outputs | None) -> None:
        self._skipped += batch.skipped
        if self._alerts is not None:
            self._alerts.begin(records, batch, outputs)
        long = message_sizes.too_long(batch, keyed=self._by_key)
        marks = Marks(some_of(records.offsets, batch.index), Times.of(batch.times).milliseconds)
        for key, group in self._groups(batch, long):
            if (model := self._model_of(key, batch, group)) is None:
                continue
            behind = _behind(group, batch.offsets, model.next)
            while behind:
                portion = model.portion(len(behind))
                positions, behind = behind[:portion], behind[portion:]
                self._learn(model, StreamRows(batch, positions, outputs), marks.take(slice_of(positions)))
        if outputs is not None:
            self._answers.write(outputs, batch)
        if self._alerts is not None:
            self._alerts.end(records, batch, outputs, long)
        self._dead_letters.record(records, batch.faults, outputs, self.models.first_version)
        self.models.evict()

    def _model_of(self, key: bytes | None, batch: RecordBatch, group: Sequence[int]) -> StreamModel | None:
        """Return the model of some records of a stream, which may begin; None where there is no room for it."""
        model, expiry = self.models.get(key), self.models.expiry
        if model is None:
            first = batch.offsets[group[0]]
            if len(self.models) - expiry.absent(first) >= self._settings.limits.streams:
                batch.blame(self._dead_letters.no_room(key), group)
                return None
            model = self._learner.begin(key)
            if expiry.active:
                expiry.began(key, model, first, batch.clocks[group[0]])
            if self._alerts is not None:
                self._alerts.began(key, model)
        if expiry.active:
            clock = batch.clocks[group[-1]]
            model.seen = clock if model.seen is None else max(model.seen, clock)
        return model

    def _learn(self, model: StreamModel, rows: StreamRows, marks: Marks) -> None:
        """Give records to their stream's model, and what becomes of them to all that write or watch."""
        batch, positions, outputs = rows
        result, texts = self._learner.learn(model, rows, marks), self._learner.texts_of(model)
        for at, error in result.faults:
            batch.blame(error, [positions[at]])
        for at, error, record in result.dead_letters:
            batch.faults.append(error.at(batch.index[positions[at]], record))
        if outputs is not None:
            self._answers.put(model, texts, positions, result)
        if self._sender is not None:
            self._sender.send(model, batch.take(positions), result, self._answers.wanted(model, result), outputs)
        self._answers.remember(model, result)
        if self._alerts is not None:
            self._alerts.learned(model, batch, positions, result, texts)

    def _groups(
        self, batch: RecordBatch, long: Mapping[int, FaultError]
    ) -> Iterable[tuple[bytes | None, Sequence[int]]]:
        """Return the positions of each stream's records without the `long` ones; the stream of the first one first."""
        keys = batch.streams
        for position, problem in long.items():
            batch.blame((self._names_by_key and self._dead_letters.key_fault(keys[position])) or problem, [position])
        if not self._by_key:
            everything = range(len(keys))
            positions = [i for i in everything if i not in long] if long else everything
            return [(None, positions)] if positions else []
        groups: dict[bytes | None, list[int]] = {}
        for position, key in enumerate(keys):
            if position in long:
                continue
            if (group := groups.get(key)) is None:
                groups[key] = [position]
            else:
                group.append(position)
        if self._names_by_key:
            for key in list(groups):
                if error := self._dead_letters.key_fault(key):
                    batch.blame(error, groups.pop(key))
        return groups.items()

    # Snapshots

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Continue a stream from a snapshot, after `restore_partition`.

        With `new_version` the next version of the stream's model begins there instead, under the present settings.
        Raises `MismatchError` if the model was learned with other settings, which it names, or if the state cannot be
        read; raises `ConfigurationError` if the events would not fit into their topic.
        """
        self.models.restore(snapshot, new_version=new_version)
        model = self.models.named(snapshot.stream)
        self.health.restored(model)
        if self._alerts is not None or model.alerts is not None:
            self._raise_alerts().restored(model)
        if not new_version:
            self._learner.check(model)
        self.models.evict()

    def _own_state(self) -> dict[str, Any]:
        own = self._features.state() | self.models.times()
        return own if self._alerts is None else own | {"alerts": self._alerts.state()}

    def _restore_own(self, content: Any) -> None:
        super()._restore_own(content)
        self._features.restore(content)
        self.models.restore_times(content)
        self._restore_alerts(content)


def _behind(group: Sequence[int], offsets: list[int], place: int) -> Sequence[int]:
    """Return those positions of a group whose records stand at an offset or behind it."""
    if offsets[group[0]] >= place:
        return group
    return group[bisect_left(group, place, key=offsets.__getitem__) :]
