"""The streams of one partition: their models by key, how they end, and their snapshots."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import islice, takewhile
from typing import Any, NamedTuple

from resonance.engine import ENGINES, PARTS, ROOT
from resonance.engine.errors import ParameterError, StateError
from resonance.pipeline import mismatches
from resonance.pipeline.config.messages import configuration_error, prepared_setting
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.disk_map import DiskMap
from resonance.pipeline.errors import ConfigurationError, first_of
from resonance.pipeline.records import StoredStreams, StreamSnapshot
from resonance.pipeline.task.decode.dense import shape_as_json, shape_from
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.decode.stream_names import StreamNames
from resonance.pipeline.task.encode.cluster_description import emitted, present
from resonance.pipeline.task.expiry import Expiry, Life
from resonance.pipeline.task.feature_discovery import FeatureDiscovery
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.pipeline.task.model_store import ModelStore, StoredModel
from resonance.pipeline.task.partition_clock import PartitionClock
from resonance.pipeline.task.snapshot_schedule import Dirty, SnapshotSchedule
from resonance.schemas import ClusterSnapshot

FORMAT = 1
"""Format of snapshot headers."""


class _Ended(NamedTuple):
    """A stream that has ended, as long as a snapshot of it is kept."""

    end: Dirty
    """The record before which it ended."""
    dirty: Dirty
    """The lowest offset that its snapshot does not contain: that of the end, at most."""
    follows: bool
    """Whether its snapshot is of an earlier life."""


class Streams(ModelStore):
    """The models of a partition, in the order in which their streams began."""

    def __init__(self, settings: Settings, topic: str, partition: int, features: FeatureDiscovery) -> None:
        super().__init__(settings.limits.streams_in_memory)
        self.first_version = 1
        """Version that models of new streams start with, unless streams with this or a later one have ended.

        It is above 1 where streams that are no longer known may have used the ids of the versions below.
        """
        self.used = 0
        """Version above which a next version begins: those up to it may have been used, whatever the models say."""
        self.record_after = 0
        """Records after which the state beside the streams is written without them; 0: never."""
        self._settings = settings
        self._features = features
        self._topic = topic
        self._where = f"{topic}[{partition}]"
        self._called = StreamNames.of(settings, topic, partition)
        # Streams that have ended and whose snapshots are not deleted, in the order of their ends, and a heap of what
        # these snapshots do not contain.
        self._ended: dict[str, _Ended] = {}
        self._lowest_ended: list[Dirty] = []
        # Models with which streams ended and of which no snapshot is written, and the names of these streams.
        self._finals, self._unwritten = DiskMap(), dict[str, None]()
        # Lives that have ended, by stream, as long as a recovery may read them again.
        self._lives: dict[str, list[Life]] = {}
        needs_clock = settings.limits.stream_ttl > 0 or "silent" in settings.alert_rules
        self.clock = PartitionClock(active=needs_clock)
        """What the records' times say about the time."""
        self.expiry = Expiry(settings.limits.stream_ttl, self._seen_of, self.clock)
        """When streams end that have no records."""
        self._schedule = SnapshotSchedule(settings.snapshots, self.expiry.moment)
        self._headers: dict[int, dict[str, Any]] = {}

    @property
    def new_version(self) -> int:
        """Version with which the model of a stream starts that begins now: a stream that has ended had none so high."""
        return max(self.first_version, self.expiry.now.version + 1)

    @property
    def names(self) -> list[str]:
        """Names of the streams, in the order in which they began."""
        return [self.name_of(key) for key in self._began]

    def named(self, name: str) -> StreamModel:
        """Return the model of the stream with a name."""
        if (model := self.get(self.key_of(name))) is None:
            raise KeyError(name)
        return model

    def clusters(self, name: str) -> list[ClusterSnapshot]:
        """Return the present clusters of a stream as the outputs describe them."""
        return present(self.named(name))

    def name_of(self, key: bytes | None) -> str:
        """Return the name of a key's stream, unique in the deployment."""
        return self._called.name_of(key)

    def key_of(self, name: str) -> bytes | None:
        """Return the key of the stream with a name; None of the only stream of a partition."""
        return self._called.key_of(name)

    def begin(self, key: bytes | None) -> StreamModel:
        """Begin a stream and return its model.

        Raises `ConfigurationError` if the settings, or their engine, do not fit the features that the records turned
        out to have.
        """
        name = self.name_of(key)
        try:
            model = StreamModel(self._settings, name, self._features.layout.features, self.new_version)
        except ParameterError as error:
            raise self._unfit(error) from None
        if model.version > 1:
            model.ended = []
        self._put(key, model)
        return model

    def _unfit(self, error: ParameterError) -> ConfigurationError:
        """Return the error of settings that do not fit the features of the records."""
        names = self._features.layout.features
        records = f"the records of {self._where} have the features {first_of(names, 20)}"
        return configuration_error(prepared_setting(error), error.value, f"must be {error.allowed}", remedy=records)

    def learned(self, model: StreamModel, batch: RecordBatch, places: Sequence[int]) -> None:
        """Note that a model learned the records at some places of a batch."""
        model.next = batch.offsets[places[-1]] + 1
        self.touched(model, batch.offsets[places[0]])
        self._schedule.learned(len(places), sum(batch.sizes_at(places)))

    def touched(self, model: StreamModel, offset: int) -> None:
        """Note that a model's state changed with a record that need not be its own."""
        self._schedule.note(model.name, offset, is_new=not model.snapshot_bytes)

    def go_on_at(self, offset: int) -> None:
        """Let every stream continue at an offset, as if all its records so far stood below it."""
        self.clock.go_on_at(offset)
        self.expiry.go_on_at(offset)
        for name in self.names:
            model = self.named(name)
            model.next = offset
            if model.began is not None:
                model.began = min(model.began, offset)
            self.touched(model, offset)
            self.evict()
        self._furthest = offset
        self._schedule.go_on_at(offset)
        # No snapshot has them.
        self._ended, self._lowest_ended, self._unwritten, self._lives = {}, [], {}, {}

    @property
    def recovery_offset(self) -> int | None:
        """Lowest offset of a record that neither a snapshot nor the state beside the streams contains; None: all do."""
        found = self._recovery
        return None if found is None else found.offset

    @property
    def _recovery(self) -> Dirty | None:
        """The stream, living or not, whose snapshot lacks the lowest offset."""
        ended = self._lowest_ended
        while ended and ((each := self._ended.get(ended[0].name)) is None or each.dirty is not ended[0]):
            heappop(ended)
        return min(filter(None, (self._schedule.lowest, ended[0] if ended else None)), default=None)

    def times(self) -> dict[str, Any]:
        """Return the states of `expiry` and `clock` for a recovery, each as far as anything depends on it."""
        found, states = self._recovery, dict[str, Any]()
        if self.expiry.active or self.expiry.now.version:
            states["expiry"] = self.expiry.state(None if found is None else found.before)
        if self.clock.active:
            again = () if found is None else (found.offset, found.before.clock)
            states["clock"] = self.clock.state(*again)
        return states

    def restore_times(self, content: Any) -> None:
        """Continue from `times`; any other content is a `KeyError`, `TypeError` or `ValueError`."""
        for name, own in (("expiry", self.expiry), ("clock", self.clock)):
            if (found := content.get(name)) is not None:
                own.restore(found)

    def end(self, key: bytes | None, offset: int) -> None:
        """End a stream before the record at an offset; its model is in memory."""
        model, name = self._in_memory[key], self.name_of(key)
        # A recovery that begins below this record must find the stream as it was: its snapshot is deleted later.
        here = self._schedule.mark(name, offset)
        before, dirty = self._ended.pop(name, None), self._schedule.remove(name)
        if dirty is None:
            dirty = here
        else:
            self._finals.put(name.encode(), StoredModel.of(model).value())
            self._unwritten[name] = None
        if before is not None:
            dirty = min(dirty, before.dirty)
        self._ended[name] = _Ended(here, dirty, before is not None)
        heappush(self._lowest_ended, dirty)
        self._lives[name] = [*self._lives_of(name), Life(model.began or 0, offset, model.version)]
        self._drop(key)
        self.expiry.ended(model.version)

    def _lives_of(self, name: str) -> list[Life]:
        """Return the earlier lives of a stream that a recovery may read again."""
        lowest = self.recovery_offset
        if lowest is None:
            return []
        return [life for life in self._lives.get(name, ()) if life.end >= lowest]

    @property
    def has_expired(self) -> bool:
        """Whether the snapshot of a stream that has ended can be deleted."""
        lowest = self._schedule.lowest
        return any(lowest is None or each.end.offset < lowest.offset for each in islice(self._ended.values(), 1))

    def _ends(self) -> Iterator[tuple[str, StreamSnapshot | None]]:
        """Yield None for each stream that ended before all that a recovery reads again, and what others ended with."""
        found = self._schedule.lowest
        lowest = sys.maxsize if found is None else found.offset
        gone = takewhile(lambda name: self._ended[name].end.offset < lowest, list(self._ended))
        for name in gone:
            del self._ended[name]
            self._unwritten.pop(name, None)
            self._finals.pop(name.encode())
            self._lives.pop(name, None)
            yield name, None
        unwritten, self._unwritten = self._unwritten, {}
        for name in unwritten:
            if (value := self._finals.pop(name.encode())) is None or (ended := self._ended.get(name)) is None:
                continue
            if ended.follows:
                yield name, None
            final = StoredModel.parse(value)
            self._ended[name] = ended._replace(dirty=ended.end, follows=False)
            heappush(self._lowest_ended, ended.end)
            # The last of its lives is that of this state.
            yield (
                name,
                StreamSnapshot(name, final.next, self._header_with(final.version, self._lives[name][:-1]), final.state),
            )

    def pending(self, *, everything: bool = False) -> list[str]:
        """Return the streams whose next snapshot is due, or `everything` that lacks one, the longest dirty first."""
        if everything:
            return self._schedule.everything()
        return self._schedule.due(lambda name: self._snapshot_bytes(self.key_of(name)))

    def changes(self, streams: Iterable[str]) -> Iterator[tuple[str, StreamSnapshot | None]]:
        """Yield the snapshots of some streams, clean from then on, and None for each stream that ended meanwhile.

        Where a stream has begun again, both.
        """
        for stream in streams:
            if self._ended.pop(stream, None) is not None:
                # Where the new snapshot is damaged, one of an earlier life would not do.
                self._unwritten.pop(stream, None)
                yield stream, None
            yield stream, self.snapshot(stream)
        for stream in self.dropped():
            yield stream, None
        yield from self._ends()

    def dropped(self) -> list[str]:
        """Return the streams that ended since the last call; their snapshots must be deleted."""
        return []

    def snapshot(self, stream: str) -> StreamSnapshot:
        """Return the snapshot of a stream and mark it clean."""
        key = self.key_of(stream)
        snapshot = self._snapshot_of(key)
        if self._lives and (lives := self._lives_of(stream)):
            self._lives[stream] = lives
            snapshot = replace(snapshot, header=self._header_with(int(snapshot.header["version"]), lives))
        else:
            self._lives.pop(stream, None)
        self._set_snapshot_bytes(key, len(snapshot.body))
        self._schedule.written(stream, len(snapshot.body))
        return snapshot

    def states(self) -> Sequence[StreamSnapshot]:
        """Return the snapshots of all streams, each made when it is used, without marking any of them clean."""
        return StoredStreams(list(self._began), self._snapshot_of)

    def _snapshot_of(self, key: bytes | None) -> StreamSnapshot:
        model = self._in_memory.get(key)
        found = self._stored_at(key) if model is None else StoredModel.of(model)
        return StreamSnapshot(self.name_of(key), found.next, self._header(found.version), found.state)

    def _header_with(self, version: int, lives: Sequence[Life]) -> dict[str, Any]:
        return {**self._header(version), "lives": list(map(list, lives))}

    def _header(self, version: int) -> dict[str, Any]:
        layout, decided_at = self._features.layout, self._features.decided_at
        # An archive has the headers of all streams in memory, so they are one for each version.
        if (known := self._headers.get(version)) is None or known["decided_at"] != decided_at:
            if len(self._headers) > len(self) + 100:
                # Most are of versions that ended with their streams.
                self._headers.clear()
            known = self._headers[version] = {
                **self._settings_header(),
                "features": list(layout.features),
                "shape": shape_as_json(layout.shape),
                "version": version,
                "decided_at": decided_at,
            }
        return known

    def _settings_header(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "format": FORMAT,
            "pipeline": settings.name,
            "topic": self._topic,
            "engine": settings.engine.name,
            **({"hierarchy": settings.hierarchy} if settings.is_keyed else {}),
            "revision": [settings.engine_class.revision, settings.preparation_revision],
            "parameters": settings.engine_parameters,
            "prepare": settings.preparing,
        }

    def _check(self, snapshot: StreamSnapshot, kind: str, *, new_version: bool = False) -> str:
        """Refuse a snapshot that does not fit the settings; return what it is, as errors name it."""
        where = f"{self._where}, {kind} {snapshot.stream} at offset {snapshot.next}"
        if snapshot.header.get("format", FORMAT) > FORMAT:
            raise mismatches.other_format(where, snapshot.header["format"], FORMAT)
        # One look where nothing has changed, as in most of thousands of streams.
        own = {**self._header(0), "version": snapshot.header.get("version")}
        if snapshot.header != own and not new_version and (changed := differences_of(snapshot.header, own)):
            raise mismatches.settings_differ(where, changed)
        return where

    def restore(self, snapshot: StreamSnapshot, *, new_version: bool = False) -> None:
        """Continue a stream from a snapshot; see `PartitionTask.restore`."""
        # Without transactions there can be a snapshot whose partition record was not written.
        self._features.take(shape_from(snapshot.header.get("shape")), int(snapshot.header.get("decided_at", 0)))
        where = self._check(snapshot, "stream", new_version=new_version)
        settings, name, features = self._settings, snapshot.stream, self._features.layout.features
        try:
            engine = engine_of(snapshot.header) if new_version else settings.engine_class.name
            if engine not in ENGINES and engine not in PARTS:
                raise StateError(f"this release has no engine {engine}")
            model = self._from_state(engine, name, snapshot.body)
        except StateError as error:
            raise mismatches.unreadable(where, f"the state ({error})") from None
        if new_version:
            try:
                model = model.next_version(settings, features, emitted(model))
            except ParameterError as error:
                raise self._unfit(error) from None
            model.version = max(model.version, self.used + 1)
        self._put(self.key_of(name), model)
        self.expiry.restored(self.key_of(name), model)
        if (lives := snapshot.header.get("lives")) and not new_version:
            self._lives[name] = [Life(*map(int, life)) for life in lives]
            self.expiry.had_lives(self._lives[name])
        if new_version:
            # The changelog still holds only the old snapshot of this stream.
            self.touched(model, model.next)

    def replace(self, name: str, snapshot: StreamSnapshot | None) -> None:
        """Put the model of a snapshot in the place of a stream's, or remove it: of a task that only answers.

        Raises `StateError` where it cannot be read.
        """
        key = self.key_of(name)
        if snapshot is not None:
            self._features.take(shape_from(snapshot.header.get("shape")), 0)
            self._put(key, self._from_state(self._settings.engine_class.name, name, snapshot.body))
        elif self.get(key) is not None:
            self._drop(key)
        self.evict()

    def _from_state(self, engine: str, name: str, state: bytes) -> StreamModel:
        model = StreamModel.from_state(engine, name, state)
        if model.labels is not None:
            model.labels.bound(self._settings)
        model.observe(self._settings)
        return model

    def _read(self, key: bytes | None, stored: StoredModel) -> StreamModel:
        model = self._from_state(self._settings.engine_class.name, self.name_of(key), stored.state)
        model.snapshot_bytes = stored.snapshot_bytes
        return model


def engine_of(header: dict[str, Any]) -> str:
    """Return the name of the engine whose state a snapshot holds."""
    return ROOT if header.get("hierarchy") == "keyed" else str(header["engine"])


def differences_of(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return one phrase for each setting that differs between two snapshot headers and changes what a model learns."""
    sections = {"prepare": "prepare"}
    if then.get("engine") == now["engine"]:
        sections["parameters"] = "engine"
    flat = [
        {name: content.get(name) for name in ("engine", "features")}
        | {"hierarchy": content.get("hierarchy", "local")}
        | {f"{name}.{key}": value for part, name in sections.items() for key, value in content.get(part, {}).items()}
        for content in (then, now)
    ]
    return mismatches.differences(*flat)
