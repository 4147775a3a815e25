"""The partition task: all of the pipeline that thinks.

It owns the models of one input partition, by stream. Records go in, in offset order; answers, events and dead letters
come out. It knows no Kafka, no clock and no thread, so the worker, a replay, the benchmarks and the tests call the
same thing, and what comes out is a function of the input log alone, however the log is cut into batches.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import orjson
from resonance.pipeline import sizes, stops
from resonance.pipeline.answers import Answered, Answers, in_order, through
from resonance.pipeline.dead_letters import DeadLetters
from resonance.pipeline.encoding import Encoder, Origins, describe
from resonance.pipeline.faults import FaultError
from resonance.pipeline.input import Decoded, InputMapping
from resonance.pipeline.layout import shape_from
from resonance.pipeline.learning import Learner
from resonance.pipeline.probing import Probing
from resonance.pipeline.records import Counts, Message, Outputs, SourceRecord, StreamSnapshot
from resonance.pipeline.settings import Settings
from resonance.pipeline.stream_model import StreamModel
from resonance.pipeline.streams import Streams
from resonance.schemas import ClusterSnapshot

PIECE = 512
"""Records that are handled at once; what they become on the way still fits a core's own cache."""

FORMAT = 2
"""Format of `PartitionTask.partition_state`."""


@dataclass(slots=True, eq=False)
class _Batch:
    """A decoded batch on its way through the models."""

    decoded: Decoded
    origins: Origins

    def blame(self, error: FaultError, positions: Iterable[int]) -> None:
        """Make dead letters of usable records."""
        self.decoded.faults += [error.at(self.decoded.index[position]) for position in positions]


class PartitionTask:
    """The models of one input partition.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    topic : str
        Input topic.
    partition : int
        Partition of it.
    """

    def __init__(self, settings: Settings, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self._settings = settings
        self._where = f"{topic}[{partition}]"
        self._by_key = settings.stream == "key"
        self._mapping = InputMapping(settings)
        encoder = Encoder(settings, topic, partition)
        self._streams = Streams(settings, topic, partition)
        self._answers = Answers(settings, encoder)
        self._letters = DeadLetters(settings, encoder)
        self._learner = Learner(settings, self._where, encoder, self._streams)
        self._probing = Probing(
            settings, self._where, self._mapping, self._streams, self._learner, self._answers, self._letters
        )
        self._records = self._skipped = 0

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
            the settings leave assignments out or it was learned before.
        """
        outputs = Outputs()
        self._run(records, outputs)
        return outputs

    def catch_up(self, records: Sequence[SourceRecord]) -> None:
        """Learn records without answering them; each stream skips what is below its own `next`."""
        self._run(records, None)

    def _run(self, records: Sequence[SourceRecord], outputs: Outputs | None) -> None:
        self._records += len(records)
        probed = 0
        while probed < len(records) and self._probing.is_deciding(records[probed].offset):
            self._probing.probe(records[probed], outputs)
            probed += 1
        for start in range(probed, len(records), PIECE):
            self._batch(records[start : start + PIECE], outputs)

    # A batch, once the features are known

    def _batch(self, records: Sequence[SourceRecord], outputs: Outputs | None) -> None:
        decoded = self._mapping.decode(records)
        self._skipped += decoded.skipped
        usable = records if len(decoded.index) == len(records) else [records[i] for i in decoded.index]
        batch = _Batch(decoded, Origins.of(usable, decoded))
        answers: list[Answered] = []
        events: list[tuple[int, Message]] = []
        for key, group in self._groups(batch):
            model = self._model(key, batch, group)
            if model is None:
                continue
            positions = _behind(group, batch.origins.offsets, model.next)
            if not positions:
                continue
            rows, own, lengths = decoded.rows, batch.origins, decoded.sizes
            if len(positions) < len(usable):
                rows, own, lengths = rows[positions], own.take(positions), [lengths[i] for i in positions]
            told = None if outputs is None else own
            learned = self._learner.learn(model, rows, own.offsets, sum(lengths), told)
            for at, problem in learned.fed.faults:
                batch.blame(FaultError("limit", "out_of_range", problem), [positions[at]])
            if outputs is not None:
                events += [(positions[at], message) for at, message in learned.events]
                given = self._answers.of(model, self._learner.texts_of(model), own, learned.fed)
                answers += [(through(places, positions), messages) for places, messages in given]
            self._answers.remember(model, learned.fed)
        if outputs is not None:
            outputs.assignments += in_order(answers, len(usable))
            events.sort(key=itemgetter(0))
            outputs.events += [message for _, message in events]
        self._letters.bury(records, decoded.faults, outputs)

    def _groups(self, batch: _Batch) -> Iterable[tuple[bytes | None, Sequence[int]]]:
        """Return the positions of each stream's records, streams in the order of their first record."""
        keys = batch.origins.keys
        long = sizes.too_long(batch.origins, keyed=self._by_key)
        for position, problem in long.items():
            batch.blame((self._by_key and self._letters.key_fault(keys[position])) or problem, [position])
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
        preparations = [model.preparation for model in self._streams.models()]
        return Counts(
            self._records,
            self._skipped + self._probing.skipped,
            self._letters.by_class,
            self._probing.outvoted,
            len(preparations),
            sum(preparation.compared for preparation in preparations),
            sum(preparation.outside for preparation in preparations),
        )

    @property
    def dead_letter_run(self) -> tuple[str, int]:
        """Class and number of the dead letters in a row at the end of what was seen."""
        return self._letters.run

    @property
    def event_bytes(self) -> int:
        """What the topic of the events takes in one message; can be set before the first record."""
        return self._learner.event_bytes

    @event_bytes.setter
    def event_bytes(self, size: int) -> None:
        self._learner.event_bytes = size

    # Snapshots

    @property
    def replay_from(self) -> int | None:
        """Lowest offset of a record that neither a snapshot nor `partition_state` contains; None when all are there."""
        offsets = [offset for offset in (self._streams.replay_from, self._probing.replay_from) if offset is not None]
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

    def is_whole(self, position: int) -> bool:
        """Whether `states` and `partition_state` hold what the records below an offset left, and nothing else."""
        return self._probing.replay_from is None and all(model.next <= position for model in self._streams)

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
        if not new_version:
            self._learner.check_events(self._streams.named(snapshot.stream))

    @property
    def first_version(self) -> int:
        """Version of the models of streams that are new; can be set before the first record."""
        return self._streams.first_version

    @first_version.setter
    def first_version(self, version: int) -> None:
        self._streams.first_version = version

    def partition_state(self) -> bytes:
        """Return what the partition knows beside its streams, as JSON."""
        own = {"format": FORMAT, "first_version": self._streams.first_version}
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
                raise stops.newer_format(self._where, found, FORMAT)
            first_version = int(content["first_version"])
            self._probing.restore(content)
        except (ValueError, KeyError, TypeError, IndexError):
            raise stops.unreadable(self._where, "the state of the partition") from None
        self._streams.first_version = first_version


def _behind(group: Sequence[int], offsets: list[int], place: int) -> Sequence[int]:
    """Return the positions of a group whose records are not below an offset."""
    if offsets[group[0]] >= place:
        return group
    return group[bisect_left(group, place, key=offsets.__getitem__) :]
