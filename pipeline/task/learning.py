"""Gives rows to their stream's model and writes the messages about its clusters and its drift."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from resonance.engine.prepare.rescaling import RangeChange
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Outputs
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.encode import message_sizes
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.pipeline.task.encode.cluster_description import emitted, present
from resonance.pipeline.task.encode.cluster_events import EventCause, EventEncoder
from resonance.pipeline.task.encode.drift_events import Change, describe_drift, kind_of
from resonance.pipeline.task.model.keywords import Keywords
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_drift import Marks, WatchedChange
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.model_health import ModelHealth
from resonance.pipeline.task.streams import Streams
from resonance.schemas import ClusterSnapshot

MIN_TEXTS: Final = 1_000
"""Least number of streams whose texts are kept, however few a partition may have."""


class StreamRows(NamedTuple):
    """Records of a stream, and where the messages about its clusters go."""

    batch: RecordBatch
    places: Sequence[int]
    """Where they stand in the batch."""
    outputs: Outputs | None
    """None: only the state is updated."""

    def cause(self, row: int) -> EventCause:
        """Return one of them as the cause of an event."""
        return EventCause(self.batch, self.places[row], self.outputs)


class Learner:
    """Gives rows to the models of a partition and writes their events; `health` receives what became of the rows.

    The `streams` note which models have learned something since their snapshot. The topics of the events and of the
    clusters take `event_bytes` in one message; with `to_source` these go to the partition number of the record that
    caused them.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        partition: int,
        streams: Streams,
        health: ModelHealth,
        event_bytes: int,
        *,
        to_source: bool = False,
    ) -> None:
        self._event_bytes = event_bytes
        self._topics = (settings.topic("cluster_events"), settings.topic("clusters"))
        self._grace = settings.output.clusters_grace
        self._where = f"{topic}[{partition}]"
        self.encoder = EventEncoder(settings, topic, partition, to_source=to_source)
        self._streams = streams
        self._health = health
        # They follow from stream, version and depth alone, so that losing them costs only time.
        most = settings.limits.streams_in_memory or settings.limits.streams
        self.texts = lru_cache(max(most, MIN_TEXTS))(StreamTexts)
        self.further_check: Callable[[StreamModel], None] | None = None
        """Refuses a stream for other reasons than its events, with a `ConfigurationError`."""

    def begin(self, key: bytes | None) -> StreamModel:
        """Begin a stream and return its model.

        Raises `ConfigurationError` if its events would not fit into their topic, or the settings do not fit its
        features.
        """
        model = self._streams.begin(key)
        self.check(model)
        return model

    def check(self, model: StreamModel) -> None:
        """Refuse features with which messages would not fit into their topics.

        The `ConfigurationError` names the topics and the size that they must take.
        """
        if len(self._streams) == 1:
            # All streams of a partition have the same features, so checking the first is enough.
            message_sizes.check_events(model, self._topics, self._event_bytes, self._where)
            if self.further_check is not None:
                self.further_check(model)

    def learn(self, model: StreamModel, rows: StreamRows, marks: Marks | None = None) -> LearnResult:
        """Give records to their stream's model and return what became of them.

        `marks` has their places and times.
        """
        if model.ended is not None or model.listing is not None:
            self._open(model, rows.cause(0))
        if model.keywords is not None:
            self._describe(model, model.keywords, rows.cause(0))
        result = model.process(*rows.batch.given(rows.places), marks)
        self._health.learned(model, result, emitted=rows.outputs is not None)
        looked = 0
        for at, event in result.events:
            cause = rows.cause(at)
            self._look(model, result, rows, looked, at + 1)
            looked = at + 1
            texts = self.texts_of(model)
            name = texts.cluster_id(event.path, event.cluster)
            began = event.kind in ("emerged", "split")
            if began:
                model.lifetimes.since[name] = cause.time
            if not event.path:
                ended = event.other if event.kind == "split" else event.cluster
                if model.examples is not None and ended is not None and event.kind != "emerged":
                    model.examples.drop(ended)
                if model.keywords is not None:
                    model.keywords.follow(event)
            self.encoder.event(model, texts, event, cause)
            if not began:
                self._end(model, [name], cause)
            model.seq += 1
        self._look(model, result, rows, looked, len(rows.places))
        for at, change in result.drift:
            self._drift(model, change, rows.cause(at))
        self._streams.learned(model, rows.batch, rows.places)
        return result

    def _look(self, model: StreamModel, result: LearnResult, rows: StreamRows, start: int, stop: int) -> None:
        """Take what was answered from one row to another as examples, and write the tombstones that are due there."""
        batch, places, outputs = rows
        if model.examples is not None and result.step is not None:
            model.examples.take(result.step, result.learned, batch, places, start, stop)
        if model.keywords is not None and batch.texts is not None and result.step is not None:
            model.keywords.take(result.step, result.learned, batch.texts, places, start, stop)
        if model.lifetimes:
            before = batch.offsets[places[start - 1]] if start else model.next - 1
            for at, cluster in model.lifetimes.due(batch.times, batch.offsets, places[start:stop], before):
                self.encoder.tombstone(cluster, EventCause(batch, at, outputs))

    def _describe(self, model: StreamModel, keywords: Keywords, cause: EventCause) -> None:
        """Find keywords anew before a record, where that is due, and write which clusters have others.

        What is written of the records before does not depend on where they were cut.
        """
        changed = keywords.look()
        there = {cluster.id: cluster for cluster in model.engine.clusters() if not cluster.path} if changed else {}
        for number, (before, after) in changed.items():
            if number in there:
                self.encoder.described(model, self.texts_of(model), there[number], (before, after), cause)
                model.seq += 1
                if cause.outputs is not None:
                    self._health.events["described"] += 1

    def _drift(self, model: StreamModel, change: Change, cause: EventCause) -> None:
        """Give a drift event its number, and write it where it is emitted."""
        links = None
        if isinstance(change, RangeChange):
            self._health.ranges.changed(model.name, change.feature, cause.time)
        if isinstance(change, WatchedChange) and model.drift is not None:
            links = model.drift.number(change, model.drifts)
        if cause.outputs is not None:
            kind = kind_of(change)
            self.encoder.drift(model, kind, describe_drift(model, self.texts_of(model), change, links), cause)
            self._health.drifts[kind] += 1
        model.drifts += 1

    def _open(self, model: StreamModel, cause: EventCause) -> None:
        """Emit the lists of clusters that are still owed from before, with the first of some records."""
        if model.ended is not None:
            ended, model.ended = model.ended, None
            self._start(model, model.seq, ended, [], cause)
            model.seq += 1
        elif model.listing is not None:
            ended, model.listing = model.listing, None
            self._start(model, model.seq - 1, ended, present(model), cause)

    def end(self, key: bytes | None, model: StreamModel, cause: EventCause) -> None:
        """Write that a stream has ended, and the tombstones of its clusters: no later record will bring them."""
        self._health.ended(model)
        if cause.outputs is None:
            return
        clusters = emitted(model)
        self.encoder.stream_ended(model, key, clusters, cause)
        self._health.events["stream_ended"] += 1
        for cluster in (*model.lifetimes.all_ended(), *(cluster["id"] for cluster in clusters)):
            self.encoder.tombstone(cluster, cause)

    def _start(
        self,
        model: StreamModel,
        seq: int,
        ended: Sequence[ClusterSnapshot],
        begun: Sequence[ClusterSnapshot],
        cause: EventCause,
    ) -> None:
        self.encoder.version_started(model, seq, ended, begun, cause)
        if cause.outputs is not None:
            self._health.events["version_started"] += 1
        self._end(model, [cluster["id"] for cluster in ended], cause)

    def _end(self, model: StreamModel, clusters: Sequence[str], cause: EventCause) -> None:
        """Note that clusters ended; if too many wait for their tombstones, the oldest get theirs now."""
        for cluster in clusters:
            model.lifetimes.end(cluster, cause.time, self._grace)
        for cluster in model.lifetimes.overdue():
            self.encoder.tombstone(cluster, cause)

    def texts_of(self, model: StreamModel) -> StreamTexts:
        """Return the message texts of a stream's present version."""
        return self.texts(model.stream, model.version, model.engine.depth)
