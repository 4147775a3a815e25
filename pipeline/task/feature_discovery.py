"""Finds out, from the first usable records of a partition, what a single feature path leads to.

These records get the status `warming_up` and are held back (`first_records`) until one of them decides; their models
learn them with that record.
"""

import logging
from typing import Any, Final

import numpy as np
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Outputs, SourceRecord, stream_key
from resonance.pipeline.task.dead_letters import DeadLetters
from resonance.pipeline.task.decode.dense import Shape, shape_as_json, shape_from
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.json_records import AnyLayout, InputMapping, Probe
from resonance.pipeline.task.decode.labels import Taught
from resonance.pipeline.task.downstream import Downstream
from resonance.pipeline.task.emission import Emission
from resonance.pipeline.task.encode import message_sizes
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.pipeline.task.encode.origins import Origins
from resonance.pipeline.task.encode.selection import Answers
from resonance.pipeline.task.learning import EmitMode, Learner
from resonance.pipeline.task.model.first_records import FirstRecords, HeldRecord
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.streams import Streams

PROBED: Final = 20
"""Number of usable records that decide what a single feature path leads to."""

_log = logging.getLogger(__name__)


class Probing:
    """Holds the first records of a partition back until they have shown their features."""

    def __init__(
        self,
        settings: Settings,
        where: str,
        mapping: InputMapping,
        streams: Streams,
        learner: Learner,
        answers: Answers,
        dead_letters: DeadLetters,
        emission: Emission,
    ) -> None:
        self.skipped = self.outvoted = 0
        """Records with a null value; records that have other features than most, or too many labels."""
        self.sender: Downstream | None = None
        self._where = where
        self._by_key = settings.by_key
        self._names_by_key = settings.stream == "key"
        self._most_streams = settings.limits.streams
        # Where the settings list the features, or records are sparse, the first records in a state do not matter.
        self._finds = settings.finds_features
        self._mapping = mapping
        self._streams = streams
        self._learner = learner
        self._answers = answers
        self._dead_letters = dead_letters
        self._emission = emission
        self._first = FirstRecords(settings)
        self._until = 0

    @property
    def layout(self) -> AnyLayout:
        """Where the features stand; an error while that is not decided."""
        if self._mapping.layout is None:
            raise RuntimeError("a stream begins before its features are known")
        return self._mapping.layout

    @property
    def until(self) -> int:
        """Offset behind the record that decided; 0 while nothing is decided."""
        return self._until

    @property
    def recovery_offset(self) -> int | None:
        """Lowest offset of a held record that `state` leaves out; None when it has all of them."""
        return self._first.recovery_offset

    def is_deciding(self, offset: int) -> bool:
        """Whether a record is one of the first, or the one that ends them."""
        # Records can be held although the features are known: the settings may name the dimension since.
        return self._mapping.layout is None or offset < self._until or len(self._first) > 0

    def probe(self, record: SourceRecord, outputs: Outputs | None, *, silent: bool) -> None:
        """Hold a record back with the status `warming_up` until enough of them have shown the features.

        A recovery that begins below the deciding record repeats this, so that the outputs are the same: streams with a
        later snapshot skip their records, the others learn theirs at the same moment. Without outputs the record is
        learned again; `silent` suppresses its outputs whatever `Emission` says.
        """
        if record.offset < self._first.end:
            return
        emitted = not silent and self._emission.emits(record.offset)
        key = stream_key(record) if self._by_key else None
        try:
            probe = self._mapping.probe(record, None if record.offset < self._until else self._mapping.dense_layout)
            if probe is None:
                self.skipped += 1
                return
            emitted = not silent and self._emission.begins_at(record.offset, probe.time)
            if self._names_by_key and (error := self._dead_letters.key_fault(key)):
                raise error
            if errors := message_sizes.too_long(Origins.of_probe(record, probe), keyed=self._by_key):
                raise errors[0]
            begun = self._first.keys.union(self._streams.keys)
            if key not in begun and len(begun) >= self._most_streams:
                raise self._dead_letters.no_room(key)
            if not self._is_known(key, record.offset):
                self._hold(record, key, probe, outputs if emitted else None)
        except FaultError as error:
            self._dead_letters.record([record], [error.at(0)], outputs if emitted else None)
            return
        self._dead_letters.record([record], [], None)
        mode = (EmitMode.RECOVER if outputs is None else EmitMode.EMIT) if emitted else EmitMode.SUPPRESS
        if self._mapping.layout is None:
            if len(self._first) == PROBED:
                self._decide()
                self._release(Origins.of_probe(record, probe), outputs, mode)
        elif record.offset >= self._until - 1:
            self._release(Origins.of_probe(record, probe), outputs, mode)

    def _is_known(self, key: bytes | None, offset: int) -> bool:
        """Whether the model of a key has learned the record at an offset already."""
        model = self._streams.get(key)
        return model is not None and offset < model.next

    def _hold(self, record: SourceRecord, key: bytes | None, probe: Probe, outputs: Outputs | None) -> None:
        """Hold a record back and emit its assignment."""
        first = key not in self._first.keys
        size = len(record.value or b"")
        self._first.hold(HeldRecord(record.offset, key, probe.shape, probe.row, size, probe.labels))
        if outputs is not None:
            texts = StreamTexts(self._streams.name_of(key), self._streams.first_version, 1)
            outputs.assignments += self._answers.held(texts, Origins.of_probe(record, probe), first=first)

    def _decide(self) -> None:
        """Choose the features that most of the held records have; of equally frequent ones, those seen first."""
        shape, votes = self._first.majority()
        self._mapping.decide(shape)
        self._until = self._first.end
        lost = "" if votes == PROBED else f"; the other {PROBED - votes} were answered warming_up and are not learned"
        _log.info(
            "%s: a record has %d features, as %d of the first %d usable ones%s",
            self._where,
            len(self.layout.features),
            votes,
            PROBED,
            lost,
        )

    def _release(self, deciding: Origins, outputs: Outputs | None, mode: EmitMode) -> None:
        """Give the held records to their models; the deciding record is the cause of all that follows."""
        self.outvoted += len(self._first)
        for key, released in self._first.release(self.layout.shape).items():
            self.outvoted -= len(released)
            held = [record for record in released if not self._is_known(key, record.offset)]
            if not held:
                continue
            model = self._streams.get(key) or self._learner.begin(key, self.layout)
            rows = np.array([record.row for record in held])
            offsets = [record.offset for record in held]
            size = sum(record.size for record in held)
            # No ids are needed: where labels can come later, the features are known from the beginning.
            taught = [Taught(None, record.labels) for record in held]
            learned = self._learner.learn(model, rows, offsets, size, deciding, mode, taught)
            self.outvoted += len(learned.result.dead_letters)
            if outputs is not None:
                outputs.events += [message for _, message in learned.events]
                outputs.clusters += [message for _, message in learned.clusters]
                outputs.drift_events += [message for _, message in learned.drifts]
            if self.sender is not None:
                # Each of them got its assignment when it was held back.
                none = [False] * len(learned.result.learned)
                sent = self.sender.send(model, deciding, learned.result, none, alone=True, emitted=outputs is not None)
                if outputs is not None:
                    outputs.routes += [message for _, message in sent]
            self._answers.remember(model, LearnResult(warming=range(len(held))))

    @property
    def holding(self) -> bool:
        """Whether records are held back."""
        return len(self._first) > 0

    def decided_before(self, offset: int) -> None:
        """Note that the features were decided below an offset, whatever the offsets of the deciding records."""
        self._until = min(self._until, offset)

    def take_decision(self, shape: Shape, until: int) -> None:
        """Adopt an earlier decision, unless the features are known already."""
        if self._mapping.layout is None:
            self._mapping.decide(shape)
            self._until = until

    def state(self) -> dict[str, Any]:
        """Return the decision and the records that wait for it, in a form that JSON can hold."""
        layout = self._mapping.layout
        shape = None if layout is None else shape_as_json(layout.shape)
        return {"probed_until": self._until, "shape": shape, "first_records": self._first.state()}

    def restore(self, content: Any) -> None:
        """Continue from a `state`."""
        until, known = int(content["probed_until"]), shape_from(content["shape"])
        if self._finds and "first_records" in content:
            self._first.restore(content["first_records"])
        if known is not None:
            self.take_decision(known, until)
