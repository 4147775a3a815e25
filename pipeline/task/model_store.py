"""The models of a partition: the most recently used ones in memory, the others as states in a temporary file.

A state holds everything that the next answer depends on, so no output and no stored byte shows which models were in
memory. The file is a cache: after a crash the models come from their snapshots and from the log, as without it.
"""

import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple, Self

from resonance.pipeline.disk_map import DiskMap
from resonance.pipeline.task.counts import Totals
from resonance.pipeline.task.model.stream_model import StreamModel

_HEAD: Final = struct.Struct("<4q")

_UNSEEN: Final = -(2**63)


def _numbers(model: StreamModel) -> tuple[int, ...]:
    """Return what a model adds to `Totals`."""
    preparation, labels, drift = model.preparation, model.labels, model.drift
    crowded = int(model.engine.crowded)
    if labels is None and drift is None and preparation.ready:
        return preparation.compared, preparation.outside, model.snapshot_bytes, 0, 0, 0, 0, 0, 0, 0, 0, 0, crowded
    warm_up = (0, 0, 0) if preparation.ready else (1, preparation.held, preparation.held + preparation.wanted)
    of_labels = (0, 0, 0, 0) if labels is None else (labels.learned, len(labels.waiting), labels.unlabelled, 1)
    of_drift = (0, 0) if drift is None else (int(drift.open_since is not None), 1)
    of_preparation = preparation.compared, preparation.outside
    return *of_preparation, model.snapshot_bytes, *of_labels, *of_drift, *warm_up, crowded


class StoredModel(NamedTuple):
    """A model that is not in memory."""

    next: int
    version: int
    snapshot_bytes: int
    seen: int | None
    state: bytes

    @classmethod
    def of(cls, model: StreamModel) -> Self:
        """Return what is stored of a model."""
        return cls(model.next, model.version, model.snapshot_bytes, model.seen, model.state())

    def value(self) -> bytes:
        """Return it as bytes."""
        seen = _UNSEEN if self.seen is None else self.seen
        return _HEAD.pack(self.next, self.version, self.snapshot_bytes, seen) + self.state

    @classmethod
    def parse(cls, value: bytes) -> Self:
        """Read `value`."""
        next_, version, snapshot_bytes, seen = _HEAD.unpack_from(value)
        return cls(next_, version, snapshot_bytes, None if seen == _UNSEEN else seen, value[_HEAD.size :])


class ModelStore:
    """Models by the keys of their streams; `evict` leaves `limit` of them in memory, 0 for all.

    A reference to a model is good until it is called.
    """

    def __init__(self, limit: int) -> None:
        self.loads = 0
        """Models that were read from the file."""
        self.loaded: list[Callable[[StreamModel], None]] = []
        """Called with a model that has come back into memory."""
        self.evicted: list[Callable[[StreamModel], None]] = []
        """Called with a model that leaves memory."""
        self._limit = limit
        # The keys of all streams in the order in which these began; the only stream of a partition has the key None.
        self._began: dict[bytes | None, None] = {}
        # The least recently used model comes first; what is stored of these models is of no use.
        self._in_memory: dict[bytes | None, StreamModel] = {}
        self._stored = DiskMap()
        self.totals = Totals()
        """Sums over all models as of the last `evict`; any thread may read them."""
        # What each model in memory counts for in them, and the keys of those that may have changed since. Other threads
        # read the sums every second, however many models there are.
        self._counted: dict[bytes | None, tuple[int, ...]] = {}
        self._used: set[bytes | None] = set()
        # Every stored model continues at or below this offset.
        self._furthest = 0

    def __len__(self) -> int:
        return len(self._began)

    def __iter__(self) -> Iterator[StreamModel]:
        """Yield every model, to be read: changes of one that is not in memory are lost."""
        for key in self._began:
            model = self._in_memory.get(key)
            yield self._read(key, self._stored_at(key)) if model is None else model

    @property
    def loaded_models(self) -> int:
        """Number of models in memory; any thread may read it."""
        return len(self._in_memory)

    @property
    def furthest(self) -> int:
        """Offset at or below which every model continues."""
        return max([self._furthest, *(model.next for model in self._in_memory.values())])

    def get(self, key: bytes | None) -> StreamModel | None:
        """Return the model of a key, which comes into memory; None where there is no such stream."""
        model = self._in_memory.get(key)
        if model is None:
            return self._load(key) if key in self._began else None
        self._used.add(key)
        if self._limit:
            self._in_memory[key] = self._in_memory.pop(key)
        return model

    def evict(self) -> None:
        """Store the least recently used models beyond the limit, and count what the others have learned."""
        self._count(self._used)
        self._used = set()
        while 0 < self._limit < len(self._in_memory):
            key, model = next(iter(self._in_memory.items()))
            self._stored.put(_key(key), StoredModel.of(model).value())
            self._furthest = max(self._furthest, model.next)
            del self._in_memory[key], self._counted[key]
            for call in self.evicted:
                call(model)

    def _load(self, key: bytes | None) -> StreamModel:
        model = self._read(key, self._stored_at(key))
        self._in_memory[key] = model
        self._counted[key] = _numbers(model)
        self._used.add(key)
        self.loads += 1
        for call in self.loaded:
            call(model)
        return model

    def _count(self, keys: Collection[bytes | None]) -> None:
        """Bring the sums up to date with models that are in memory, or gone."""
        models, counted = self._in_memory, self._counted
        now = {key: _numbers(models[key]) for key in keys if key in models}
        before = [counted.pop(key) for key in keys if key in counted]
        counted.update(now)
        # Column by column: of thousands of streams each may have a record in every batch.
        sums: Sequence[int] = self.totals
        for sign, rows in ((1, now.values()), (-1, before)):
            if rows:
                sums = [own + sign * each for own, each in zip(sums, map(sum, zip(*rows, strict=True)), strict=True)]
        self.totals = Totals(*sums)

    def _stored_at(self, key: bytes | None) -> StoredModel:
        value = self._stored.get(_key(key))
        if value is None:
            raise KeyError(key)
        return StoredModel.parse(value)

    def _read(self, key: bytes | None, stored: StoredModel) -> StreamModel:
        """Return the model of a stored state."""
        raise NotImplementedError

    def _put(self, key: bytes | None, model: StreamModel) -> None:
        """Take a model, in place of another one of its stream."""
        self.get(key)
        self._began[key] = None
        self._in_memory[key] = model
        self._used.add(key)

    def _drop(self, key: bytes | None) -> None:
        """Give up a model that is in memory."""
        del self._began[key]
        self._stored.pop(_key(key))
        del self._in_memory[key]
        self._used.add(key)

    def _seen_of(self, key: bytes | None) -> int | None:
        """Return the clock at the last record of a stream, as far as it is known; KeyError where there is no stream."""
        model = self._in_memory.get(key)
        return self._stored_at(key).seen if model is None else model.seen

    def _snapshot_bytes(self, key: bytes | None) -> int:
        model = self._in_memory.get(key)
        return (self._stored_at(key) if model is None else model).snapshot_bytes

    def _set_snapshot_bytes(self, key: bytes | None, size: int) -> None:
        """Note the size of a model's newest snapshot."""
        if (model := self._in_memory.get(key)) is not None:
            model.snapshot_bytes = size
            self._count((key,))
            return
        stored = self._stored_at(key)
        self._stored.put(_key(key), stored._replace(snapshot_bytes=size).value())
        total = self.totals.snapshot_bytes + size - stored.snapshot_bytes
        self.totals = self.totals._replace(snapshot_bytes=total)


def _key(key: bytes | None) -> bytes:
    return b"" if key is None else key
