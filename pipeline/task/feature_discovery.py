"""The first usable records of a partition, on their way to the decision what a single feature path leads to.

They are answered `warming_up` and held back (`first_records`); the record that decides gives them to their models.
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
"""Usable records of a partition that decide what a single feature path leads to."""

_log = logging.getLogger(__name__)


class Probing:
    """Holds the first records of a partition until they have shown their features.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    where : str
        The input partition, for the log.
    mapping : InputMapping
        Learns the decision.
    streams : Streams
        The models.
    learner : Learner
        Gives the held records to them.
    answers : Answers
        Answers the records.
    letters : DeadLetters
        Takes those that cannot be used.
    emission : Emission
        Says which are told.

    Attributes
    ----------
    skipped, outvoted : int
        Records with a null value, and records that have other features than most, or too many labels.
    """

    def __init__(
        self,
        settings: Settings,
        where: str,
        mapping: InputMapping,
        streams: Streams,
        learner: Learner,
        answers: Answers,
        letters: DeadLetters,
        emission: Emission,
    ) -> None:
        self.skipped = self.outvoted = 0
        self.sender: Downstream | None = None
        self._where = where
        self._by_key = settings.by_key
        self._names_by_key = settings.stream == "key"
        self._most_streams = settings.limits.streams
        # Where nothing is to be found out a state has nothing to say about the first records.
        self._finds = settings.finds_features
        self._mapping = mapping
        self._streams = streams
        self._learner = learner
        self._answers = answers
        self._letters = letters
        self._emission = emission
        self._first = FirstRecords(settings)
        self._until = 0

    @property
    def layout(self) -> AnyLayout:
        """Where the features stand, once that is known."""
        if self._mapping.layout is None:
            raise RuntimeError("a stream begins before its features are known")
        return self._mapping.layout

    @property
    def until(self) -> int:
        """Offset behind the record that decided; 0 before."""
        return self._until

    @property
    def recovery_offset(self) -> int | None:
        """Lowest offset of a record that `state` leaves out; None when it has them all."""
        return self._first.recovery_offset

    def is_deciding(self, offset: int) -> bool:
        """Whether a record is one of the first, or the one that ends them."""
        # Records can be held where the features are known: the settings have got to name the dimension meanwhile.
        return self._mapping.layout is None or offset < self._until or len(self._first) > 0

    def probe(self, record: SourceRecord, outputs: Outputs | None, *, silent: bool) -> None:
        """Answer a record and hold it back until enough of them have shown the features.

        A restore that begins below the record that decided goes this way again, so that everything comes out as it
        did: streams that were snapshotted since skip their records, the others get theirs at the same moment.

        Parameters
        ----------
        record : SourceRecord
            The record.
        outputs : Outputs or None
            Gets what is told; without it the record is learned again.
        silent : bool
            Tell nothing of it, whatever `Emission` says.
        """
        if record.offset < self._first.end:
            return
        told = not silent and self._emission.tells(record.offset)
        key = stream_key(record) if self._by_key else None
        try:
            probe = self._mapping.probe(record, None if record.offset < self._until else self._mapping.dense_layout)
            if probe is None:
                self.skipped += 1
                return
            told = not silent and self._emission.begins_at(record.offset, probe.time)
            if self._names_by_key and (error := self._letters.key_fault(key)):
                raise error
            if errors := message_sizes.too_long(Origins.of_probe(record, probe), keyed=self._by_key):
                raise errors[0]
            begun = self._first.keys.union(self._streams.keys)
            if key not in begun and len(begun) >= self._most_streams:
                raise self._letters.no_room(key)
            if not self._is_known(key, record.offset):
                self._hold(record, key, probe, outputs if told else None)
        except FaultError as error:
            self._letters.record([record], [error.at(0)], outputs if told else None)
            return
        self._letters.record([record], [], None)
        telling = (EmitMode.RECOVER if outputs is None else EmitMode.EMIT) if told else EmitMode.SUPPRESS
        if self._mapping.layout is None:
            if len(self._first) == PROBED:
                self._decide()
                self._release(Origins.of_probe(record, probe), outputs, telling)
        elif record.offset >= self._until - 1:
            self._release(Origins.of_probe(record, probe), outputs, telling)

    def _is_known(self, key: bytes | None, offset: int) -> bool:
        """Whether the model of a key contains a record already."""
        model = self._streams.get(key)
        return model is not None and offset < model.next

    def _hold(self, record: SourceRecord, key: bytes | None, probe: Probe, outputs: Outputs | None) -> None:
        """Hold a record back and answer it."""
        first = key not in self._first.keys
        size = len(record.value or b"")
        self._first.hold(HeldRecord(record.offset, key, probe.shape, probe.row, size, probe.labels))
        if outputs is not None:
            texts = StreamTexts(self._streams.name_of(key), self._streams.first_version, 1)
            outputs.assignments += self._answers.held(texts, Origins.of_probe(record, probe), first=first)

    def _decide(self) -> None:
        """Take the features that most of the held records have; the first seen of those that are equally frequent."""
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

    def _release(self, deciding: Origins, outputs: Outputs | None, telling: EmitMode) -> None:
        """Give the held records to their models; what they cause happens with the record that decided."""
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
            # Without ids: where labels can come later the features are known from the beginning.
            taught = [Taught(None, record.labels) for record in held]
            learned = self._learner.learn(model, rows, offsets, size, deciding, telling, taught)
            self.outvoted += len(learned.fed.letters)
            if outputs is not None:
                outputs.events += [message for _, message in learned.events]
                outputs.clusters += [message for _, message in learned.clusters]
                outputs.drift_events += [message for _, message in learned.drifts]
            if self.sender is not None:
                # All of them were answered when they were held back.
                none = [False] * len(learned.fed.learned)
                sent = self.sender.send(model, deciding, learned.fed, none, alone=True, told=outputs is not None)
                if outputs is not None:
                    outputs.routes += [message for _, message in sent]
            self._answers.remember(model, LearnResult(warming=range(len(held))))

    @property
    def holding(self) -> bool:
        """Whether records are held back."""
        return len(self._first) > 0

    def decided_before(self, offset: int) -> None:
        """Note that the features were known before an offset, whatever the numbers of the records that showed them."""
        self._until = min(self._until, offset)

    def take_decision(self, shape: Shape, until: int) -> None:
        """Take a decision that was made before, unless it is known what a record has."""
        if self._mapping.layout is None:
            self._mapping.decide(shape)
            self._until = until

    def state(self) -> dict[str, Any]:
        """Return the decision and the records that wait for it, as JSON has them."""
        layout = self._mapping.layout
        shape = None if layout is None else shape_as_json(layout.shape)
        return {"probed_until": self._until, "shape": shape, "first_records": self._first.state()}

    def restore(self, content: Any) -> None:
        """Continue from a `state`.

        Raises
        ------
        KeyError, TypeError, ValueError, IndexError
            It is not one.
        """
        until, known = int(content["probed_until"]), shape_from(content["shape"])
        if self._finds and "first_records" in content:
            self._first.restore(content["first_records"])
        if known is not None:
            self.take_decision(known, until)
