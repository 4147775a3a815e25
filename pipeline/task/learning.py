"""Gives rows to their stream's model and writes the messages about its clusters and its drift."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from resonance.engine.base import FloatArray
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Message
from resonance.pipeline.task.decode.json_records import AnyLayout
from resonance.pipeline.task.decode.labels import Taught
from resonance.pipeline.task.decode.sparse import SparseRows
from resonance.pipeline.task.encode import message_sizes
from resonance.pipeline.task.encode.assignments import LatestTexts, StreamTexts, describe
from resonance.pipeline.task.encode.cluster_events import EventCause, EventEncoder, EventMessages
from resonance.pipeline.task.encode.origins import Origins
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.model_health import ModelHealth
from resonance.pipeline.task.streams import Streams
from resonance.schemas import ClusterSnapshot


class EmitMode(Enum):
    """Whether outputs are produced for the records that are learned."""

    EMIT = "emit"
    """Normal processing."""
    RECOVER = "recover"
    """The records were processed before: only the state is updated."""
    SUPPRESS = "suppress"
    """Before `emit_from`: the first record that is emitted announces the current clusters."""


@dataclass(slots=True, eq=False)
class Learned:
    """What became of rows, and the messages about it, each with the position of the row that caused it."""

    result: LearnResult
    events: list[tuple[int, Message]] = field(default_factory=list)
    """Events of clusters."""
    clusters: list[tuple[int, Message]] = field(default_factory=list)
    """Messages for the compacted topic."""
    drifts: list[tuple[int, Message]] = field(default_factory=list)
    """Drift events: changes of the data themselves."""

    def emit(self, at: int, emitted: EventMessages) -> None:
        """Add the messages about an event that the row at a position caused."""
        self.events += [(at, message) for message in emitted.events]
        self.clusters += [(at, message) for message in emitted.clusters]


class Learner:
    """Gives rows to the models of a partition and writes their events.

    Parameters
    ----------
    streams : Streams
        The models; notes which of them have learned something since their snapshot.
    health : ModelHealth
        Receives what became of the rows.
    """

    def __init__(self, settings: Settings, topic: str, partition: int, streams: Streams, health: ModelHealth) -> None:
        self.event_bytes = message_sizes.EVENT_BYTES
        """Bytes that the topics of the events and of the clusters take in one message."""
        self._topics = (settings.topic("cluster_events"), settings.topic("clusters"))
        self._grace = settings.output.clusters_grace
        self._where = f"{topic}[{partition}]"
        self._encoder = EventEncoder(settings, topic, partition)
        self._streams = streams
        self._health = health
        self.texts = LatestTexts(settings.limits.streams)
        self.further_check: Callable[[StreamModel], None] | None = None
        """Refuses a stream for other reasons than its events, with a `ConfigurationError`."""

    def begin(self, key: bytes | None, layout: AnyLayout) -> StreamModel:
        """Begin a stream and return its model.

        Raises `ConfigurationError` if its events would not fit into their topic, or the settings do not fit its
        features.
        """
        model = self._streams.begin(key, layout)
        self.check(model)
        return model

    def check(self, model: StreamModel) -> None:
        """Refuse features with which messages would not fit into their topics.

        The `ConfigurationError` names the topics and the size that they must take.
        """
        if len(self._streams) == 1:
            # All streams of a partition have the same features, so checking the first is enough.
            message_sizes.check_events(model, self._topics, self.event_bytes, self._where)
            if self.further_check is not None:
                self.further_check(model)

    def learn(
        self,
        model: StreamModel,
        rows: FloatArray | SparseRows,
        offsets: list[int],
        size: int,
        own: Origins,
        mode: EmitMode,
        taught: Sequence[Taught] = (),
    ) -> Learned:
        """Give rows to a stream's model and return what became of them, with the messages about its clusters.

        Parameters
        ----------
        model : StreamModel
            A model that has seen none of the rows.
        rows : ndarray of shape (n, features), or SparseRows
            Rows in offset order.
        offsets : list of int
            Offsets of the rows' records.
        size : int
            Bytes of the values of these records.
        own : Origins
            The records that the messages name as causes: one for each row, or one for all.
        mode : EmitMode
            Whether messages are written.
        taught : sequence of Taught
            Id and labels of each row, where the engine is taught by labels.
        """
        texts = self.texts_of(model)
        learned = Learned(LearnResult())
        if model.ended is not None or model.listing is not None or model.unlisted:
            self._open(model, EventCause(own, 0), mode, learned)
        learned.result = model.process(rows, taught)
        self._health.learned(model, learned.result, emitted=mode is EmitMode.EMIT)
        for change in learned.result.rescaled:
            if mode is EmitMode.EMIT:
                learned.drifts.append((0, self._encoder.rescaled(model, change, EventCause(own, 0))))
            model.drifts += 1
        looked = 0
        for at, event in learned.result.events:
            cause = EventCause(own, at if len(own.offsets) == len(rows) else 0)
            if model.lifetimes:
                self._remove(model, own, looked, cause.position + 1, mode, learned)
            looked = cause.position + 1
            since, name = model.lifetimes.since, texts.cluster_id(event.path, event.cluster)
            began = event.kind in ("emerged", "split")
            if began:
                since[name] = cause.time
            if mode is EmitMode.EMIT:
                learned.emit(at, self._encoder.event(model, texts, event, cause, since))
            elif mode is EmitMode.SUPPRESS and model.listing is None:
                model.listing = []
            if not began:
                self._end(model, [name], cause, mode, learned)
            model.seq += 1
        if model.lifetimes:
            self._remove(model, own, looked, len(own.offsets), mode, learned)
        for at, regrouping in learned.result.groups:
            if mode is EmitMode.EMIT:
                cause = EventCause(own, at if len(own.offsets) == len(rows) else 0)
                learned.drifts.append((at, self._encoder.regrouped(model, regrouping, cause)))
            model.drifts += 1
        self._streams.learned(model, offsets, size)
        return learned

    def _open(self, model: StreamModel, cause: EventCause, mode: EmitMode, learned: Learned) -> None:
        """Emit the lists of clusters that are still owed from before, with the first of some records."""
        if model.ended is not None:
            ended, model.ended = model.ended, None
            if mode is EmitMode.SUPPRESS:
                model.listing = [*(model.listing or ()), *ended]
            else:
                self._start(model, model.seq, ended, [], cause, mode, learned)
                # The new version has no clusters yet, so the compacted topic misses none.
                model.unlisted = model.unlisted and mode is not EmitMode.EMIT
            model.seq += 1
        elif model.listing is not None and mode is not EmitMode.SUPPRESS:
            ended, model.listing = model.listing, None
            self._start(model, model.seq - 1, ended, self._present(model), cause, mode, learned)
            model.unlisted = False
        elif model.unlisted and mode is EmitMode.EMIT:
            present = self._encoder.present(model, self._present(model), cause, model.lifetimes.since)
            learned.clusters += [(0, message) for message in present]
            model.unlisted = False

    def _start(
        self,
        model: StreamModel,
        seq: int,
        ended: Sequence[ClusterSnapshot],
        present: Sequence[ClusterSnapshot],
        cause: EventCause,
        mode: EmitMode,
        learned: Learned,
    ) -> None:
        if mode is EmitMode.EMIT:
            since = model.lifetimes.since
            learned.emit(0, self._encoder.version_started(model, seq, ended, present, cause, since))
            self._health.count("version_started")
        self._end(model, [cluster["id"] for cluster in ended], cause, mode, learned)

    def _present(self, model: StreamModel) -> list[ClusterSnapshot]:
        texts = self.texts_of(model)
        return [describe(model, texts, cluster) for cluster in model.engine.clusters()]

    def _end(
        self, model: StreamModel, clusters: Sequence[str], cause: EventCause, mode: EmitMode, learned: Learned
    ) -> None:
        """Note that clusters ended; if too many wait for their tombstones, the oldest get theirs now."""
        for cluster in clusters:
            model.lifetimes.end(cluster, cause.time, self._grace)
        for cluster in model.lifetimes.overdue():
            if mode is EmitMode.EMIT:
                learned.clusters.append((cause.position, self._encoder.tombstone(cluster, cause)))

    def _remove(
        self, model: StreamModel, own: Origins, start: int, stop: int, mode: EmitMode, learned: Learned
    ) -> None:
        """Write the tombstones that are due with the records from one position to another."""
        before = own.offsets[start - 1] if start else model.next - 1
        for at, cluster in model.lifetimes.due(own.times, own.offsets, start, stop, before):
            if mode is EmitMode.EMIT:
                learned.clusters.append((at, self._encoder.tombstone(cluster, EventCause(own, at))))

    def texts_of(self, model: StreamModel) -> StreamTexts:
        """Return the message texts of a stream's present version."""
        return self.texts.of(model.stream, model.version, model.engine.depth)
