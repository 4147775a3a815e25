"""The partition task: all of the pipeline that thinks.

It owns the models of one input partition, by stream. Records go in, in offset order; answers, events and dead letters
come out. It knows no Kafka, no clock and no thread, so the worker, a replay, the benchmarks and the tests call the
same thing, and what comes out is a function of the input log alone, however the log is cut into batches.
"""

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

import numpy as np
import orjson
from resonance.engine.base import FloatArray
from resonance.pipeline import sizes, stops
from resonance.pipeline.encoding import Encoder, Origins, StreamTexts, describe
from resonance.pipeline.faults import Fault, FaultError
from resonance.pipeline.first_records import FirstRecords, HeldRecord
from resonance.pipeline.input import Decoded, InputMapping, Probe
from resonance.pipeline.layout import Layout, shape_as_json, shape_from
from resonance.pipeline.records import Counts, Message, Outputs, SourceRecord, StreamSnapshot
from resonance.pipeline.settings import Settings
from resonance.pipeline.stream_model import Fed, StreamModel
from resonance.pipeline.streams import Streams
from resonance.schemas import ClusterSnapshot

PROBED = 20
"""Usable records of a partition that decide what a single feature path leads to."""

PIECE = 512
"""Records that are handled at once; what they become on the way still fits a core's own cache."""

FORMAT = 2
"""Format of `PartitionTask.partition_state`."""

_log = logging.getLogger(__name__)


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

    Attributes
    ----------
    event_bytes : int
        What the topic of the events takes in one message.
    dead_letter_run : tuple of (str, int)
        Class and number of the dead letters in a row at the end of what was seen.
    """

    def __init__(self, settings: Settings, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.event_bytes = sizes.EVENT_BYTES
        self.dead_letter_run: tuple[str, int] = ("", 0)
        self._settings = settings
        self._mapping = InputMapping(settings)
        self._encoder = Encoder(settings, topic, partition)
        self._by_key = settings.stream == "key"
        self._wanted = settings.output.assignments
        self._streams = Streams(settings, topic, partition)
        self._texts: dict[str, StreamTexts] = {}
        self._first = FirstRecords(settings)
        self._probed_until = 0
        self._records = self._skipped = self._outvoted = 0
        self._dead: dict[str, int] = {}

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
        while probed < len(records) and self._is_deciding(records[probed].offset):
            self._probe(records[probed], outputs)
            probed += 1
        for start in range(probed, len(records), PIECE):
            self._batch(records[start : start + PIECE], outputs)

    def _is_deciding(self, offset: int) -> bool:
        """Whether a record is one of the first, or the one that ends them."""
        # Records can be held where the features are known: the settings have got to name the dimension meanwhile.
        return self._mapping.layout is None or offset < self._probed_until or len(self._first) > 0

    # A batch, once the features are known

    def _batch(self, records: Sequence[SourceRecord], outputs: Outputs | None) -> None:
        decoded = self._mapping.decode(records)
        self._skipped += decoded.skipped
        usable = records if len(decoded.index) == len(records) else [records[i] for i in decoded.index]
        batch = _Batch(decoded, Origins.of(usable, decoded))
        answers: list[tuple[Sequence[int], list[Message]]] = []
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
            fed, messages = self._learn(model, rows, own.offsets, sum(lengths), told)
            for at, problem in fed.faults:
                batch.blame(FaultError("limit", "out_of_range", problem), [positions[at]])
            if outputs is not None:
                events += [(positions[at], message) for at, message in messages]
                answers += [(_through(places, positions), texts) for places, texts in self._answers(model, own, fed)]
            self._remember(model, fed)
        if outputs is not None:
            outputs.assignments += _in_order(answers, len(usable))
            events.sort(key=itemgetter(0))
            outputs.events += [message for _, message in events]
        self._bury(records, decoded.faults, outputs)

    def _groups(self, batch: _Batch) -> Iterable[tuple[bytes | None, Sequence[int]]]:
        """Return the positions of each stream's records, streams in the order of their first record."""
        keys = batch.origins.keys
        long = sizes.too_long(batch.origins, keyed=self._by_key)
        for position, problem in long.items():
            batch.blame((self._by_key and self._key_fault(keys[position])) or problem, [position])
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
            if error := self._key_fault(key):
                batch.blame(error, groups.pop(key))
        return groups.items()

    def _model(self, key: bytes | None, batch: _Batch, group: Sequence[int]) -> StreamModel | None:
        """Return the model of a stream; None, with dead letters, where there is no room for another one."""
        model = self._streams.get(key)
        if model is None:
            if len(self._streams) >= self._settings.limits.streams:
                batch.blame(self._no_room(key), group)
                return None
            model = self._begin(key)
        return model

    def _begin(self, key: bytes | None) -> StreamModel:
        """Begin a stream, unless its events would not fit into their topic."""
        model = self._streams.begin(key, self._known_layout())
        self._check_events(model)
        return model

    def _check_events(self, model: StreamModel) -> None:
        if len(self._streams) == 1:
            # Those of a partition have the same features.
            topic, where = self._settings.topic("cluster_events"), f"{self.topic}[{self.partition}]"
            sizes.check_events(model.preparation.columns, topic, self.event_bytes, where)

    def _learn(
        self, model: StreamModel, rows: FloatArray, offsets: list[int], size: int, told: Origins | None
    ) -> tuple[Fed, list[tuple[int, Message]]]:
        """Give rows to a stream's model and return what became of them, with the events' messages.

        Parameters
        ----------
        model : StreamModel
            Has seen none of them.
        rows : ndarray of shape (n, features)
            The rows.
        offsets : list of int
            Their records.
        size : int
            Bytes of these.
        told : Origins or None
            The records that the events name as their causes, one for each row or one for all; None says nothing.
        """
        messages: list[tuple[int, Message]] = []
        texts = self._texts_of(model)
        if model.ended is not None:
            if told is not None:
                messages.append((0, self._encoder.version_started(model, model.ended, told, 0)))
            model.ended = None
            model.seq += 1
        fed = model.feed(rows)
        for at, event in fed.events:
            if told is not None:
                cause = at if len(told.offsets) == len(rows) else 0
                messages.append((at, self._encoder.event(model, texts, event, told, cause)))
            model.seq += 1
        self._streams.learned(model, offsets, size)
        return fed, messages

    def _answers(self, model: StreamModel, own: Origins, fed: Fed) -> list[tuple[Sequence[int], list[Message]]]:
        """Return the answers to a stream's rows that the settings want, with their positions among the rows."""
        answers: list[tuple[Sequence[int], list[Message]]] = []
        if self._wanted == "none":
            return answers
        texts = self._texts_of(model)
        if fed.warming:
            answers.append((fed.warming, self._encoder.warming(texts, own.take(fed.warming))))
        if fed.step is not None:
            answers.append((fed.learned, self._encoder.assignments(texts, own.take(fed.learned), fed.step)))
        if self._wanted == "all":
            return answers
        if self._wanted == "novel":
            kept = [False] * len(fed.warming) + ([] if fed.step is None else fed.step.novel.tolist())
        else:
            statuses = _statuses(fed)
            kept = [now != before for now, before in zip(statuses, (model.last, *statuses), strict=False)]
        places = [place for some, _ in answers for place in some]
        messages = [message for _, some in answers for message in some]
        chosen = [i for i, keep in enumerate(kept) if keep]
        return [([places[i] for i in chosen], [messages[i] for i in chosen])]

    def _remember(self, model: StreamModel, fed: Fed) -> None:
        """Keep the last answer where the next one is compared with it."""
        if self._wanted == "changes":
            statuses = _statuses(fed)
            model.last = statuses[-1] if statuses else model.last

    # Streams

    @property
    def streams(self) -> list[str]:
        """Names of the streams, in the order of their beginning."""
        return [model.name for model in self._streams]

    def clusters(self, stream: str) -> list[ClusterSnapshot]:
        """Return the present clusters of a stream as the bus describes them."""
        model = self._streams.named(stream)
        return [describe(model, self._texts_of(model), cluster) for cluster in model.engine.clusters()]

    @property
    def counts(self) -> Counts:
        """What was seen so far; may be asked for in another thread."""
        preparations = [model.preparation for model in self._streams.models()]
        return Counts(
            self._records,
            self._skipped,
            # Copied in one step: the thread that learns goes on meanwhile.
            Counter(self._dead.copy()),
            self._outvoted,
            len(preparations),
            sum(preparation.compared for preparation in preparations),
            sum(preparation.outside for preparation in preparations),
        )

    def _known_layout(self) -> Layout:
        if self._mapping.layout is None:
            raise RuntimeError("a stream begins before its features are known")
        return self._mapping.layout

    def _texts_of(self, model: StreamModel) -> StreamTexts:
        texts = self._texts.get(model.name)
        if texts is None:
            texts = self._texts[model.name] = StreamTexts(model.name, model.version, model.engine.depth)
        return texts

    # Dead letters

    def _key_fault(self, key: bytes | None) -> FaultError | None:
        limit = self._settings.limits.key_bytes
        if key is None:
            return FaultError("validate", "no_key", 'no key, and stream = "key" gives every key a model of its own')
        if len(key) > limit:
            text = f"a key of {len(key):,} bytes, limits.key_bytes allows {limit:,}; raise it, or send shorter keys"
            return FaultError("limit", "key_too_long", text)
        return None

    def _no_room(self, key: bytes | None) -> FaultError:
        limit = self._settings.limits.streams
        return FaultError(
            "limit",
            "too_many_streams",
            f"key {key!r} would begin a stream, and limits.streams = {limit:,} are there in this partition; raise it, "
            "or spread the keys over more partitions",
        )

    def _bury(self, records: Sequence[SourceRecord], faults: list[Fault], outputs: Outputs | None) -> None:
        """Make dead letters of the faults of a batch."""
        faults.sort(key=attrgetter("index"))
        (kind, count), before = self.dead_letter_run, -1
        for fault in faults:
            count = count + 1 if (fault.kind, fault.index) == (kind, before + 1) else 1
            kind, before = fault.kind, fault.index
            self._dead[kind] = self._dead.get(kind, 0) + 1
        self.dead_letter_run = (kind, count) if before == len(records) - 1 else ("", 0)
        if outputs is not None:
            outputs.dead_letters += [self._encoder.dead_letter(records[fault.index], fault) for fault in faults]

    # The first records, where they decide what a single feature path leads to

    def _probe(self, record: SourceRecord, outputs: Outputs | None) -> None:
        """Answer a record and hold it back until enough of them have shown the features.

        A restore that begins below the record that decided goes this way again, so that everything comes out as it
        did: streams that were snapshotted since skip their records, the others get theirs at the same moment.
        """
        if record.offset < self._first.end:
            return
        key = record.key if self._by_key else None
        try:
            probe = self._mapping.probe(record, None if record.offset < self._probed_until else self._mapping.layout)
            if probe is None:
                self._skipped += 1
                return
            if self._by_key and (error := self._key_fault(key)):
                raise error
            if errors := sizes.too_long(Origins.of_probe(record, probe), keyed=self._by_key):
                raise errors[0]
            begun = self._first.keys.union(self._streams.keys)
            if key not in begun and len(begun) >= self._settings.limits.streams:
                raise self._no_room(key)
            if not self._is_known(key, record.offset):
                self._hold(record, key, probe, outputs)
        except FaultError as error:
            self._bury([record], [error.at(0)], outputs)
            return
        self._bury([record], [], outputs)
        if self._mapping.layout is None:
            if len(self._first) == PROBED:
                self._decide()
                self._release(record, probe, outputs)
        elif record.offset >= self._probed_until - 1:
            self._release(record, probe, outputs)

    def _is_known(self, key: bytes | None, offset: int) -> bool:
        """Whether the model of a key contains a record already."""
        model = self._streams.get(key)
        return model is not None and offset < model.next

    def _hold(self, record: SourceRecord, key: bytes | None, probe: Probe, outputs: Outputs | None) -> None:
        """Hold a record back and answer it."""
        first = key not in self._first.keys
        self._first.hold(HeldRecord(record.offset, key, probe.shape, probe.row, len(record.value or b"")))
        if outputs is not None and (self._wanted == "all" or (self._wanted == "changes" and first)):
            texts = StreamTexts(self._streams.name_of(key), self._streams.first_version, 1)
            outputs.assignments += self._encoder.warming(texts, Origins.of_probe(record, probe))

    def _decide(self) -> None:
        """Take the features that most of the held records have; the first seen of those that are equally frequent."""
        shape, votes = self._first.majority()
        self._mapping.decide(shape)
        self._probed_until = self._first.end
        lost = "" if votes == PROBED else f"; the other {PROBED - votes} were answered warming_up and are not learned"
        _log.info(
            "%s[%d]: a record has %d features, as %d of the first %d usable ones%s",
            self.topic,
            self.partition,
            self._known_layout().dimension,
            votes,
            PROBED,
            lost,
        )

    def _release(self, deciding: SourceRecord, probe: Probe, outputs: Outputs | None) -> None:
        """Give the held records to their models; what they cause happens with the record that decided."""
        self._outvoted += len(self._first)
        cause = None if outputs is None else Origins.of_probe(deciding, probe)
        for key, released in self._first.release(self._known_layout().shape).items():
            self._outvoted -= len(released)
            held = [record for record in released if not self._is_known(key, record.offset)]
            if not held:
                continue
            model = self._streams.get(key) or self._begin(key)
            rows = np.array([record.row for record in held])
            offsets = [record.offset for record in held]
            _, messages = self._learn(model, rows, offsets, sum(record.size for record in held), cause)
            if outputs is not None:
                outputs.events += [message for _, message in messages]
            self._remember(model, Fed(warming=range(len(held))))

    # Snapshots

    @property
    def replay_from(self) -> int | None:
        """Lowest offset of a record that neither a snapshot nor `partition_state` contains; None when all are there."""
        offsets = [offset for offset in (self._streams.replay_from, self._first.replay_from) if offset is not None]
        return min(offsets, default=None)

    def due(self) -> list[str]:
        """Return the streams whose next snapshot is due, the longest dirty first."""
        return self._streams.due()

    def dirty(self) -> list[str]:
        """Return the streams that have learned since their snapshot, the longest dirty first."""
        return self._streams.dirty()

    def snapshot(self, stream: str) -> StreamSnapshot:
        """Return the state of a stream, which is clean then."""
        return self._streams.snapshot(stream, self._known_layout(), self._probed_until)

    def is_whole(self, position: int) -> bool:
        """Whether `states` and `partition_state` hold what the records below an offset left, and nothing else."""
        return self._first.replay_from is None and all(model.next <= position for model in self._streams)

    def states(self) -> Iterator[StreamSnapshot]:
        """Yield the state of every stream; none counts as snapshotted by that."""
        return self._streams.states(self._known_layout(), self._probed_until) if len(self._streams) else iter(())

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
        if self._mapping.layout is None and shape is not None:
            # Without a transaction a snapshot can stand there whose partition record was not written.
            self._mapping.decide(shape)
            self._probed_until = int(snapshot.header.get("probed_until", 0))
        self._streams.restore(snapshot, self._known_layout(), new_version=new_version)
        self._texts.pop(snapshot.stream, None)
        if not new_version:
            self._check_events(self._streams.named(snapshot.stream))

    @property
    def first_version(self) -> int:
        """Version of the models of streams that are new; can be set before the first record."""
        return self._streams.first_version

    @first_version.setter
    def first_version(self, version: int) -> None:
        self._streams.first_version = version

    def partition_state(self) -> bytes:
        """Return what the partition knows beside its streams, as JSON."""
        layout = self._mapping.layout
        shape = None if layout is None else shape_as_json(layout.shape)
        own = {"probed_until": self._probed_until, "first_version": self._streams.first_version}
        return orjson.dumps({"format": FORMAT, "shape": shape, **own, "first_records": self._first.state()})

    def restore_partition(self, state: bytes) -> None:
        """Continue from `partition_state`, before any stream is restored.

        Raises
        ------
        MismatchError
            It cannot be read, or a newer release wrote it.
        """
        where = f"{self.topic}[{self.partition}]"
        try:
            content = orjson.loads(state)
            if (found := int(content["format"])) > FORMAT:
                raise stops.newer_format(where, found, FORMAT)
            until, first_version = int(content["probed_until"]), int(content["first_version"])
            known = shape_from(content["shape"])
            if self._settings.features is None and "first_records" in content:
                self._first.restore(content["first_records"])
        except (ValueError, KeyError, TypeError, IndexError):
            raise stops.unreadable(where, "the state of the partition") from None
        self._streams.first_version = first_version
        if known is not None and self._mapping.layout is None:
            self._mapping.decide(known)
            self._probed_until = until


def _behind(group: Sequence[int], offsets: list[int], place: int) -> Sequence[int]:
    """Return the positions of a group whose records are not below an offset."""
    if offsets[group[0]] >= place:
        return group
    return group[bisect_left(group, place, key=offsets.__getitem__) :]


def _through(places: Sequence[int], positions: Sequence[int]) -> Sequence[int]:
    """Return the positions in a batch of places in a group of it."""
    if isinstance(positions, range) and positions.start == 0:
        return places
    return [positions[place] for place in places]


def _in_order(answers: list[tuple[Sequence[int], list[Message]]], count: int) -> list[Message]:
    """Join the answers of the streams in the order of the records."""
    if len(answers) == 1:
        return answers[0][1]
    slots: list[Message | None] = [None] * count
    for positions, messages in answers:
        for position, message in zip(positions, messages, strict=True):
            slots[position] = message
    return [message for message in slots if message is not None]


def _statuses(fed: Fed) -> list[tuple[str, int]]:
    """Return status and cluster of the answers to rows, in order."""
    statuses = [("warming_up", -1)] * len(fed.warming)
    if fed.step is not None:
        statuses += [("assigned", cluster) for cluster in fed.step.cluster[:, 0].tolist()]
    return statuses
