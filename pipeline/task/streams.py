"""The streams of one partition: their models by key, and when each needs its next snapshot."""

from collections.abc import Iterable, Iterator, KeysView
from typing import Any

from resonance.engine import ENGINES, PARTS, ROOT
from resonance.engine.errors import ParameterError, StateError
from resonance.pipeline import mismatches
from resonance.pipeline.config.messages import configuration_error, prepared_setting
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.records import StreamSnapshot
from resonance.pipeline.task.decode.dense import shape_as_json, shape_from
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.decode.stream_names import StreamNames
from resonance.pipeline.task.encode.assignments import present
from resonance.pipeline.task.feature_discovery import FeatureDiscovery
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.schemas import ClusterSnapshot

FORMAT = 1
"""Format of snapshot headers."""

FIRST_RECORDS = 500
"""Records of the partition after which a stream gets its first snapshot, so that it can be inspected."""

USUAL_BYTES = 20_000
"""Expected bytes of a snapshot, before the partition has written one."""


class Streams:
    """The models of a partition, in the order in which their streams began."""

    def __init__(self, settings: Settings, topic: str, partition: int, features: FeatureDiscovery) -> None:
        self.first_version = 1
        """Version that models of new streams start with.

        It is above 1 where streams that are no longer known may have used the ids of the versions below.
        """
        self.record_after = 0
        """Records after which the state beside the streams is written without them; 0: never."""
        self._settings = settings
        self._features = features
        self._topic = topic
        self._where = f"{topic}[{partition}]"
        self._called = StreamNames.of(settings, topic, partition)
        # The only stream of a partition has the key None.
        self._models: dict[bytes | None, StreamModel] = {}
        self._names: dict[str, StreamModel] = {}
        # Of each dirty stream the lowest offset that its last snapshot does not contain.
        self._dirty: dict[str, int] = {}
        # How many records the partition had seen when each of these became dirty.
        self._dirty_at: dict[str, int] = {}
        # The same for streams without any snapshot.
        self._new_at: dict[str, int] = {}
        self._seen = 0
        # Input bytes that are still missing to pay for the snapshots written so far.
        self._owed = 0.0
        self._usual_bytes = USUAL_BYTES

    def __len__(self) -> int:
        return len(self._models)

    def __iter__(self) -> Iterator[StreamModel]:
        return iter(self._models.values())

    def all(self) -> list[StreamModel]:
        """Return the models, copied in one step so that another thread can call it."""
        return list(self._models.values())

    @property
    def names(self) -> list[str]:
        """Names of the streams, in the order in which they began."""
        return [model.name for model in self]

    @property
    def keys(self) -> KeysView[bytes | None]:
        """Keys of the streams."""
        return self._models.keys()

    def get(self, key: bytes | None) -> StreamModel | None:
        """Return the model of a key, or None."""
        return self._models.get(key)

    def named(self, name: str) -> StreamModel:
        """Return the model of the stream with a name."""
        return self._names[name]

    def clusters(self, name: str) -> list[ClusterSnapshot]:
        """Return the present clusters of a stream as the outputs describe them."""
        return present(self._names[name])

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
            model = StreamModel(self._settings, name, self._features.layout.features, self.first_version)
        except ParameterError as error:
            raise self._unfit(error) from None
        if self.first_version > 1:
            model.ended = []
        self._models[key] = self._names[name] = model
        return model

    def _unfit(self, error: ParameterError) -> ConfigurationError:
        """Return the error of settings that do not fit the features of the records."""
        names = self._features.layout.features
        features = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        records = f"the records of {self._where} have the features {features}"
        return configuration_error(prepared_setting(error), error.value, f"must be {error.allowed}", remedy=records)

    def learned(self, model: StreamModel, batch: RecordBatch) -> None:
        """Note that a model learned records."""
        model.next = batch.offsets[-1] + 1
        self._note_dirty(model.name, batch.offsets[0])
        self._seen += len(batch)
        self._owed -= sum(batch.sizes)

    def touched(self, model: StreamModel, offset: int) -> None:
        """Note that a model's state changed with a record that need not be its own."""
        self._note_dirty(model.name, offset)

    def go_on_at(self, offset: int) -> None:
        """Let every stream continue at an offset, as if all its records so far stood below it."""
        for model in self._models.values():
            model.next = offset
            self._note_dirty(model.name, offset)
        self._dirty = dict.fromkeys(self._dirty, offset)

    def _note_dirty(self, name: str, offset: int) -> None:
        if name in self._dirty:
            # A record of another stream may have changed it before its own in the same batch.
            self._dirty[name] = min(self._dirty[name], offset)
        else:
            self._dirty[name] = offset
            self._dirty_at[name] = self._seen
            if not self._names[name].snapshot_bytes:
                self._new_at[name] = self._seen

    @property
    def recovery_offset(self) -> int | None:
        """Lowest offset of a record that neither a snapshot nor the state beside the streams contains; None: all do."""
        # The first entry may not be the lowest: streams restored at different offsets become dirty in any order.
        return min(self._dirty.values(), default=None)

    def pending(self, *, everything: bool = False) -> list[str]:
        """Return the streams whose next snapshot is due, or `everything` that lacks one, the longest dirty first.

        A stream's turn comes by the records of its partition, not by its own. Otherwise a silent stream would hold back
        the offset where a recovery begins, until the broker deletes the records there. After each snapshot,
        `snapshots.ratio` times its size in input must come before the next one is written. This spreads the work
        evenly, and all streams are written once for `ratio` times their total size in input. A stream without a
        snapshot gets its first one earlier, from the input that the others leave over.
        """
        if everything:
            return sorted(self._dirty, key=self._dirty.__getitem__)
        limits = self._settings.snapshots
        chosen: dict[str, None] = {}
        left = -self._owed
        for waiting, records in ((self._dirty_at, limits.records), (self._new_at, min(limits.records, FIRST_RECORDS))):
            for name, begun in waiting.items():
                if self._seen - begun < records:
                    break
                if name in chosen:
                    continue
                if left < 0:
                    return list(chosen)
                chosen[name] = None
                left -= limits.ratio * (self._names[name].snapshot_bytes or self._usual_bytes)
        # Nothing else is due, and input left over must not pay for a burst later.
        self._owed = max(self._owed, 0.0)
        return list(chosen)

    def changes(self, streams: Iterable[str]) -> Iterator[tuple[str, StreamSnapshot | None]]:
        """Yield the snapshots of some streams, clean from then on, and None for each stream that ended meanwhile."""
        for stream in streams:
            yield stream, self.snapshot(stream)
        for stream in self.dropped():
            yield stream, None

    def dropped(self) -> list[str]:
        """Return the streams that ended since the last call; their snapshots must be deleted."""
        return []

    def snapshot(self, stream: str) -> StreamSnapshot:
        """Return the snapshot of a stream and mark it clean."""
        model = self._names[stream]
        snapshot = self._snapshot_of(model)
        model.snapshot_bytes = self._usual_bytes = len(snapshot.body)
        self._owed += self._settings.snapshots.ratio * len(snapshot.body)
        self._note_clean(stream)
        return snapshot

    def _note_clean(self, stream: str) -> None:
        for book in (self._dirty, self._dirty_at, self._new_at):
            book.pop(stream, None)

    def states(self) -> Iterator[StreamSnapshot]:
        """Yield the snapshot of every stream without marking any of them clean."""
        return map(self._snapshot_of, self._models.values())

    def _snapshot_of(self, model: StreamModel) -> StreamSnapshot:
        return StreamSnapshot(model.name, model.next, self._header(model.version), model.state())

    def _header(self, version: int) -> dict[str, Any]:
        layout = self._features.layout
        return {
            **self._settings_header(),
            "features": list(layout.features),
            "shape": shape_as_json(layout.shape),
            "version": version,
            "decided_at": self._features.decided_at,
        }

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
            raise mismatches.newer_format(where, snapshot.header["format"], FORMAT)
        if not new_version and (changed := differences_of(snapshot.header, self._header(0))):
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
            model = StreamModel.from_state(engine, name, snapshot.body)
        except StateError as error:
            raise mismatches.unreadable(where, f"the state ({error})") from None
        if model.labels is not None:
            model.labels.bound(settings)
        model.watch_drift(settings)
        if new_version:
            # A version whose start was never emitted still owes the end of the clusters before it. The present clusters
            # of one that learned silently were never emitted, so they need no end.
            ended = [*(model.ended or ()), *(present(model) if model.listing is None else model.listing)]
            try:
                model = model.next_version(settings, features, ended)
            except ParameterError as error:
                raise self._unfit(error) from None
        self._models[self.key_of(name)] = self._names[name] = model
        if new_version:
            # The changelog still holds only the old snapshot of this stream.
            self._note_dirty(name, model.next)


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
