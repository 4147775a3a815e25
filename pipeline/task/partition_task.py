"""The partition task: all of the pipeline that thinks.

It owns the models of one input partition, by stream. Records go in, in offset order; answers, events, clusters and
dead letters come out. It knows no Kafka, no clock and no thread, so the worker, a replay, the benchmarks and the tests
call the same thing, and what comes out is a function of the input log alone, however the log is cut into batches.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

import orjson
from resonance.pipeline import mismatches
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Counts, Message, Outputs, SourceRecord, StreamSnapshot
from resonance.pipeline.task.dead_letters import DeadLetters, WithDeadLetters
from resonance.pipeline.task.decode.dense import shape_from
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.json_records import Decoded, InputMapping
from resonance.pipeline.task.decode.late_labels import LabelDecoding, own_times
from resonance.pipeline.task.downstream import Downstream
from resonance.pipeline.task.emission import Emission
from resonance.pipeline.task.encode import message_sizes
from resonance.pipeline.task.encode.assignments import Encoder, describe
from resonance.pipeline.task.encode.origins import Origins
from resonance.pipeline.task.encode.selection import Answered, Answers, in_order, through
from resonance.pipeline.task.feature_discovery import Probing
from resonance.pipeline.task.learning import EmitMode, Learner
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.model_health import ModelHealth
from resonance.pipeline.task.streams import Streams
from resonance.schemas import ClusterSnapshot

PIECE = 512
"""Records that are handled at once; what they become on the way still fits a core's own cache."""

FORMAT = 3
"""Format of `PartitionTask.partition_state`."""


@dataclass(slots=True, eq=False)
class _Batch:
    """A decoded batch on its way through the models."""

    decoded: Decoded
    origins: Origins

    def blame(self, error: FaultError, positions: Iterable[int]) -> None:
        """Make dead letters of usable records."""
        self.decoded.faults += [error.at(self.decoded.index[position]) for position in positions]


class PartitionTask(WithDeadLetters):
    """The models of one input partition.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    topic : str
        Input topic.
    partition : int
        Partition of it.

    Attributes
    ----------
    health : ModelHealth
        Whether its models are still any good; no part of the state.
    record_after : int
        0: what it knows beside its streams is written with their snapshots alone.
    """

    record_after = 0

    def __init__(self, settings: Settings, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self._settings = settings
        self._where = f"{topic}[{partition}]"
        self._by_key = settings.by_key
        self._names_by_key = settings.stream == "key"
        self._mapping = InputMapping(settings)
        self._decode = self._mapping.decode
        if settings.labels.topic is not None:
            self._decode = LabelDecoding(settings, self._mapping).decode
        encoder = Encoder(settings, topic, partition)
        self._emission = Emission(settings.emit_from, topic, partition)
        self._streams = Streams(settings, topic, partition)
        self._answers = Answers(settings, encoder)
        self._letters = DeadLetters(settings, encoder)
        self.health = ModelHealth()
        self._learner = Learner(settings, topic, partition, self._streams, self.health)
        self._probing = Probing(
            settings,
            self._where,
            self._mapping,
            self._streams,
            self._learner,
            self._answers,
            self._letters,
            self._emission,
        )
        self._records = self._skipped = 0
        self._sender: Downstream | None = None

    def _send_by(self, sender: Downstream) -> None:
        """Let models be roots whose children are asked by a sender, and whose records are answered there."""
        self._sender = self._probing.sender = sender
        self._learner.further_check = sender.check_room

    def process(self, records: Sequence[SourceRecord]) -> Outputs:
        """Learn records and answer them.

        Parameters
        ----------
        records : sequence of SourceRecord
            In offset order; gaps are allowed.

        Returns
        -------
        Outputs
            In offset order, each kind for itself. Every record with a value is an assignment or a dead letter, unless
            the settings leave assignments out, it was learned before, or it comes before `Settings.emit_from`.
        """
        outputs = Outputs()
        if records:
            self._emission.go_on_at(records[0].offset)
        self._run(records, outputs)
        return outputs

    def catch_up(self, records: Sequence[SourceRecord]) -> None:
        """Learn records again without answering them; each stream skips what is below its own `next`."""
        self._run(records, None)

    def emit_from_setting(self, offset: int) -> None:
        """Let the present `Settings.emit_from` count from an offset on where nothing was told yet under another one.

        Who starts again says so before the first record: what is read again after a crash was told, or not, under the
        setting of its own time, and from which offset on that was is part of the state.
        """
        self._emission.go_on_at(offset)

    def learn_silently(self, records: Sequence[SourceRecord]) -> None:
        """Learn records that are told to nobody, before the first call of `process`.

        What follows is told as `Settings.emit_from` says; each stream's first record that is told brings a list of the
        clusters that exist then. Until then the list is owed: it is part of the state.

        Parameters
        ----------
        records : sequence of SourceRecord
            In offset order, of this partition or numbered as if they were.
        """
        self._run(records, None, silent=True)
        if records:
            self._emission.begin_at(records[-1].offset + 1)

    def go_on_at(self, offset: int) -> None:
        """Let the partition go on at an offset, whatever the numbers of the records were that it learned silently.

        Raises
        ------
        ValueError
            Records are held back until it is known what features they have.
        """
        if self._probing.holding:
            raise ValueError("the features of the records are not decided")
        self._streams.go_on_at(offset)
        self._probing.decided_before(offset)
        self._emission.begin_at(offset)

    def _run(self, records: Sequence[SourceRecord], outputs: Outputs | None, *, silent: bool = False) -> None:
        self._records += len(records)
        probed = 0
        while probed < len(records) and self._probing.is_deciding(records[probed].offset):
            self._probing.probe(records[probed], outputs, silent=silent)
            probed += 1
        for start in range(probed, len(records), PIECE):
            self._piece(records[start : start + PIECE], outputs, silent=silent)

    # A batch, once the features are known

    def _piece(self, records: Sequence[SourceRecord], outputs: Outputs | None, *, silent: bool) -> None:
        """Learn records, cut where telling begins among them."""
        telling = EmitMode.RECOVER if outputs is None else EmitMode.EMIT
        if silent:
            self._batch(records, self._decode(records), None, EmitMode.SUPPRESS)
            return
        if self._emission.tells(records[0].offset):
            self._batch(records, self._decode(records), outputs, telling)
            return
        decoded = self._decode(records)
        self._emission.look(*own_times(decoded, records))
        place = self._emission.emit_from_offset
        cut = len(records) if place is None else bisect_left(records, place, key=attrgetter("offset"))
        if cut == len(records):
            self._batch(records, decoded, None, EmitMode.SUPPRESS)
            return
        for part, to, how in ((records[:cut], None, EmitMode.SUPPRESS), (records[cut:], outputs, telling)):
            if part:
                self._batch(part, self._decode(part), to, how)

    def _batch(
        self, records: Sequence[SourceRecord], decoded: Decoded, outputs: Outputs | None, telling: EmitMode
    ) -> None:
        self._skipped += decoded.skipped
        usable = records if len(decoded.index) == len(records) else [records[i] for i in decoded.index]
        batch = _Batch(decoded, Origins.of(usable, decoded))
        answers: list[Answered] = []
        events: list[tuple[int, Message]] = []
        clusters: list[tuple[int, Message]] = []
        drifts: list[tuple[int, Message]] = []
        routes: list[tuple[int, Message]] = []
        for key, group in self._groups(batch):
            model = self._model(key, batch, group)
            if model is None:
                continue
            behind = _behind(group, batch.origins.offsets, model.next)
            while behind:
                portion = model.portion(len(behind))
                positions, behind = behind[:portion], behind[portion:]
                rows, own, lengths, taught = decoded.rows, batch.origins, decoded.sizes, decoded.taught
                if len(positions) < len(usable):
                    rows, own, lengths = rows[positions], own.take(positions), [lengths[i] for i in positions]
                    taught = [taught[i] for i in positions] if taught else taught
                learned = self._learner.learn(model, rows, own.offsets, sum(lengths), own, telling, taught)
                for at, error in learned.fed.faults:
                    batch.blame(error, [positions[at]])
                for at, error, record in learned.fed.letters:
                    decoded.faults.append(error.at(decoded.index[positions[at]], record))
                if outputs is not None:
                    events += [(positions[at], message) for at, message in learned.events]
                    clusters += [(positions[at], message) for at, message in learned.clusters]
                    drifts += [(positions[at], message) for at, message in learned.drifts]
                    given = self._answers.of(model, self._learner.texts_of(model), own, learned.fed)
                    answers += [(through(places, positions), messages) for places, messages in given]
                if self._sender is not None:
                    wanted = self._answers.wanted(model, learned.fed)
                    sent = self._sender.send(model, own, learned.fed, wanted, alone=False, told=outputs is not None)
                    routes += [(positions[at], message) for at, message in sent]
                self._answers.remember(model, learned.fed)
        if outputs is not None:
            outputs.routes += _by_position(routes)
            outputs.assignments += in_order(answers, len(usable))
            outputs.events += _by_position(events)
            outputs.clusters += _by_position(clusters)
            outputs.drift_events += _by_position(drifts)
        self._letters.record(records, decoded.faults, outputs)

    def _groups(self, batch: _Batch) -> Iterable[tuple[bytes | None, Sequence[int]]]:
        """Return the positions of each stream's records, streams in the order of their first record."""
        keys = batch.origins.streams
        long = message_sizes.too_long(batch.origins, keyed=self._by_key)
        for position, problem in long.items():
            batch.blame((self._names_by_key and self._letters.key_fault(keys[position])) or problem, [position])
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
                if error := self._letters.key_fault(key):
                    batch.blame(error, groups.pop(key))
        return groups.items()

    def _model(self, key: bytes | None, batch: _Batch, group: Sequence[int]) -> StreamModel | None:
        """Return the model of a stream; None, with dead letters, where there is no room for another one."""
        model = self._streams.get(key)
        if model is None:
            if len(self._streams) >= self._settings.limits.streams:
                batch.blame(self._letters.no_room(key), group)
                return None
            model = self._learner.begin(key, self._probing.layout)
        return model

    # Streams

    @property
    def streams(self) -> list[str]:
        """Names of the streams, in the order of their beginning."""
        return [model.name for model in self._streams]

    def model(self, stream: str) -> StreamModel:
        """Return the model of a stream, for whoever only looks."""
        return self._streams.named(stream)

    def clusters(self, stream: str) -> list[ClusterSnapshot]:
        """Return the present clusters of a stream as the bus describes them."""
        model = self._streams.named(stream)
        return [describe(model, self._learner.texts_of(model), cluster) for cluster in model.engine.clusters()]

    @property
    def counts(self) -> Counts:
        """What was seen so far; may be asked for in another thread."""
        models = self._streams.models()
        preparations = [model.preparation for model in models]
        memories = [model.labels for model in models if model.labels is not None]
        return Counts(
            self._records,
            self._skipped + self._probing.skipped,
            self._letters.by_stage_and_class,
            self._probing.outvoted,
            len(preparations),
            sum(preparation.compared for preparation in preparations),
            sum(preparation.outside for preparation in preparations),
            sum(model.snapshot_bytes for model in models),
            bool(memories),
            sum(memory.learned for memory in memories),
            sum(len(memory.waiting) for memory in memories),
            sum(memory.unlabelled for memory in memories),
        )

    @property
    def event_bytes(self) -> int:
        """What the topics of events and clusters take in one message; can be set before the first record."""
        return self._learner.event_bytes

    @event_bytes.setter
    def event_bytes(self, size: int) -> None:
        self._learner.event_bytes = size

    # Snapshots

    @property
    def recovery_offset(self) -> int | None:
        """Lowest offset of a record that neither a snapshot nor `partition_state` contains; None when all are there."""
        offsets = [
            offset for offset in (self._streams.recovery_offset, self._probing.recovery_offset) if offset is not None
        ]
        return min(offsets, default=None)

    def due(self) -> list[str]:
        """Return the streams whose next snapshot is due, the longest dirty first."""
        return self._streams.due()

    def dirty(self) -> list[str]:
        """Return the streams that have learned since their snapshot, the longest dirty first."""
        return self._streams.dirty()

    def snapshot(self, stream: str) -> StreamSnapshot:
        """Return the state of a stream, which is clean then."""
        return self._streams.snapshot(stream, self._probing.layout, self._probing.until)

    def dropped(self) -> list[str]:
        """Return the streams that ended since the last call; their snapshots are to go."""
        return []

    def is_consistent_at(self, position: int) -> bool:
        """Whether `states` and `partition_state` hold what the records below an offset left, and nothing else."""
        return self._probing.recovery_offset is None and all(model.next <= position for model in self._streams)

    def states(self) -> Iterator[StreamSnapshot]:
        """Yield the state of every stream; none counts as snapshotted by that."""
        return self._streams.states(self._probing.layout, self._probing.until) if len(self._streams) else iter(())

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Continue a stream from a snapshot, after `restore_partition`.

        Parameters
        ----------
        snapshot : StreamSnapshot
            Of a stream of this partition.
        new_version : bool
            Begin the next version of the stream's model there instead, under the present settings.

        Raises
        ------
        MismatchError
            The model was learned with other settings, which are named; or the state cannot be read.
        ConfigurationError
            Its events would not fit into their topic.
        """
        shape = shape_from(snapshot.header.get("shape"))
        if shape is not None:
            # Without a transaction a snapshot can stand there whose partition record was not written.
            self._probing.take_decision(shape, int(snapshot.header.get("probed_until", 0)))
        self._streams.restore(snapshot, self._probing.layout, new_version=new_version)
        model = self._streams.named(snapshot.stream)
        self.health.restored(model)
        if not new_version:
            self._learner.check(model)

    @property
    def first_version(self) -> int:
        """Version of the models of streams that are new; can be set before the first record."""
        return self._streams.first_version

    @first_version.setter
    def first_version(self, version: int) -> None:
        self._streams.first_version = self._letters.version = version

    def adopt_emission(self, other: "PartitionTask") -> None:
        """Tell from where another task of the partition does."""
        self._emission.restore(other._emission.state())

    def adopt_position(self, other: "PartitionTask") -> None:
        """Go on, with other models, where another task of the partition stands."""
        self.adopt_emission(other)

    def partition_state(self) -> bytes:
        """Return what the partition knows beside its streams, as JSON."""
        own = {"format": FORMAT, "first_version": self._streams.first_version, "emission": self._emission.state()}
        return orjson.dumps(own | self._probing.state())

    def restore_partition(self, state: bytes) -> None:
        """Continue from `partition_state`, before any stream is restored.

        Raises
        ------
        MismatchError
            It cannot be read, or a newer release wrote it.
        """
        try:
            content = orjson.loads(state)
            if (found := int(content["format"])) > FORMAT:
                raise mismatches.newer_format(self._where, found, FORMAT)
            first_version = int(content["first_version"])
            self._probing.restore(content)
            self._emission.restore(content.get("emission"))
        except (ValueError, KeyError, TypeError, IndexError):
            raise mismatches.unreadable(self._where, "the state of the partition") from None
        self.first_version = first_version


def _by_position(messages: list[tuple[int, Message]]) -> list[Message]:
    """Join the messages of the streams in the order of the records that caused them."""
    messages.sort(key=itemgetter(0))
    return [message for _, message in messages]


def _behind(group: Sequence[int], offsets: list[int], place: int) -> Sequence[int]:
    """Return the positions of a group whose records are not below an offset."""
    if offsets[group[0]] >= place:
        return group
    return group[bisect_left(group, place, key=offsets.__getitem__) :]
