"""Records of the snapshots topic, the changelog of the models: their keys and values.

Keys are JSON arrays, so that no two of them can be confused:

=========================================  ===========================================================================
key                                        value
=========================================  ===========================================================================
``["chunk", stream, next, i]``             bytes of part i of the state that contains the records below ``next``
``["manifest", stream]``                   the newest snapshot: its offset, number of chunks, checksum, header
``["partition", topic]``                   where recovery of the models of an input partition begins, and its identity
``["archives", topic]``                    where the archives of an input partition stand, and when they were written
=========================================  ===========================================================================
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import UnionType
from typing import Any, Final, NamedTuple, Self, TypeVar, get_origin

import orjson
from resonance.pipeline import mismatches
from resonance.pipeline.disk_map import DiskMap

FORMAT: Final = 3
"""Raised with every change of what stands there."""

MAX_ARCHIVES: Final = 4_000
"""Archives that an index lists: about 200 kB, those of an hour each for half a year."""

UNREADABLE: Final = (ValueError, KeyError, TypeError)
"""Errors of parsing a record that another program wrote under one of this program's keys."""

RecordT = TypeVar("RecordT")


def typed(record: RecordT) -> RecordT:
    """Return a dataclass that was read; TypeError where a field is not what it is declared to be.

    Unchecked, such a field would end a worker wherever it is used first.
    """
    for entry in fields(record):  # type: ignore[arg-type]
        kind: Any = entry.type if isinstance(entry.type, UnionType) else get_origin(entry.type) or entry.type
        value = getattr(record, entry.name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{entry.name} = {value!r}")
    return record


@dataclass(frozen=True, slots=True)
class Identity:
    """The pipeline, log, engine and settings that snapshots belong to."""

    pipeline: str
    inputs: tuple[str, ...]
    """All input topics of the pipeline."""
    topic: str
    """The input topic that the snapshots are of."""
    topic_id: str
    """Kafka's id of `topic`; ``""`` where there is none."""
    partitions: int
    """Partition count of `topic`."""
    engine: str
    revision: str
    """Revision of the engine, and of everything else in the program that decides bits."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Everything else on which the models depend besides the log."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Settings that decide which records are learned; they may change where nothing has to be learned again."""

    @property
    def values(self) -> dict[str, Any]:
        """Everything that decides outputs besides the log, by the name of the setting."""
        return {"engine": self.engine, "revision of the engine": self.revision, **self.settings, **self.limits}

    @property
    def digest(self) -> str:
        """A short text that is the same for the same `values`."""
        return hashlib.sha256(orjson.dumps(self.values, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Read it from a parsed record; raises one of `UNREADABLE` where a member is missing or wrong."""
        found = cls(**{entry.name: data[entry.name] for entry in fields(cls)} | {"inputs": tuple(data["inputs"])})
        if not all(isinstance(topic, str) for topic in found.inputs):
            raise TypeError(f"inputs = {found.inputs!r}")
        return typed(found)


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """Where recovery of the models of an input partition begins."""

    identity: Identity
    partition: int
    """Number of the input partition."""
    recovery_offset: int
    """Lowest offset of a record that no snapshot contains."""
    position: int
    """The outputs of every record below this offset were delivered when this was written."""
    committed: int
    """Lower bound of the group's committed offset; -1 when it had none."""
    state: bytes
    """What the partition knows beside its streams, at `position`."""
    began: int = -1
    """Offset from which all was learned under this identity, with one version of each stream; -1 otherwise."""

    def value(self) -> bytes:
        """Return the record as it is stored."""
        names = ("partition", "position", "committed", "began")
        own = {"replay_from": self.recovery_offset, **{name: getattr(self, name) for name in names}}
        state = base64.b64encode(self.state).decode("ascii")
        return orjson.dumps({"format": FORMAT, **own, **asdict(self.identity), "state": state})

    @classmethod
    def parse(cls, value: bytes, where: str) -> Self:
        """Read `value`; `where` names the partition of the snapshots topic for errors."""
        data = _of_format(value, where)
        state = base64.b64decode(data["state"])
        places = data["partition"], data["replay_from"], data["position"], data["committed"]
        return typed(cls(Identity.of(data), *places, state, data["began"]))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The newest snapshot of a stream; what it is of is compared when it is read."""

    topic: str
    topic_id: str
    partition: int
    stream: str
    next: int
    """As in `StreamSnapshot`, and so is the header."""
    chunks: int
    size: int
    sha256: str
    header: dict[str, Any]
    begin: int = 0
    """Number of the first chunk: not 0 where those from 0 on are of another snapshot at the same offset."""
    written: int = field(default=-1, compare=False)
    """When it was written, in milliseconds since 1970; -1 where it is not known. It is no part of the record."""

    @property
    def keys(self) -> list[bytes]:
        """The keys of its chunks, in order."""
        return [chunk_key(self.stream, self.next, self.begin + number) for number in range(self.chunks)]

    def value(self) -> bytes:
        """Return the manifest as it is stored."""
        data = {"format": FORMAT, **asdict(self)}
        del data["written"]
        if not self.begin:
            del data["begin"]
        return orjson.dumps(data)

    @classmethod
    def parse(cls, value: bytes, where: str, written: int = -1) -> Self:
        """Read `value`; `where` names the stream for errors."""
        data = {"begin": 0, **_of_format(value, where), "written": written}
        return typed(cls(**{entry.name: data[entry.name] for entry in fields(cls)}))


class ArchiveEntry(NamedTuple):
    """An archive in the list of its partition."""

    position: int
    """Offset at which it stands."""
    written: int
    """Time at which writing it began, in milliseconds since 1970."""
    digest: str
    """That of the identity of its models."""


@dataclass(frozen=True, slots=True)
class ArchiveIndex:
    """The archives of an input partition, by position."""

    topic_id: str
    partition: int
    entries: tuple[ArchiveEntry, ...] = ()
    used: int = 0
    """No version up to this one may begin on request: a state that was given up may have used it."""

    def until(self, position: int) -> tuple[ArchiveEntry, ...]:
        """Return the archives at or before an offset."""
        return tuple(entry for entry in self.entries if entry.position <= position)

    def plus(self, entry: ArchiveEntry) -> "ArchiveIndex":
        """Return the index with one archive more; those behind it were of models that are given up."""
        entries = (*self.until(entry.position - 1), entry)
        if len(entries) > MAX_ARCHIVES:
            # The older half is thinned: an older start stays possible, with more to learn again.
            entries = (*entries[: MAX_ARCHIVES // 2 : 2], *entries[MAX_ARCHIVES // 2 :])
        return replace(self, entries=entries)

    def value(self) -> bytes:
        """Return the index as it is stored."""
        origin = {"topic_id": self.topic_id, "partition": self.partition}
        used = {"used": self.used} if self.used else {}
        return orjson.dumps({"format": FORMAT, **origin, "archives": list(map(list, self.entries)), **used})

    @classmethod
    def parse(cls, value: bytes, where: str) -> Self:
        """Read `value`; `where` names the partition of the snapshots topic for errors."""
        data = _of_format(value, where)
        entries = tuple(ArchiveEntry(*entry) for entry in data["archives"])
        for position, written, digest in entries:
            if type(position) is not int or type(written) is not int or type(digest) is not str:
                raise TypeError(f"archives = {entries!r}")
        return typed(cls(data["topic_id"], data["partition"], entries, data.get("used", 0)))


def _of_format(value: bytes, where: str) -> dict[str, Any]:
    data: dict[str, Any] = orjson.loads(value)
    if data["format"] != FORMAT:
        raise mismatches.other_format(where, data["format"], FORMAT)
    return data


def archives_key(topic: str) -> bytes:
    """Return the key of the index of the archives of an input topic."""
    return orjson.dumps(["archives", topic])


def chunk_key(stream: str, next_: int, number: int) -> bytes:
    """Return the key of part `number` of the state of `stream` that contains the records below `next_`."""
    return orjson.dumps(["chunk", stream, next_, number])


def manifest_key(stream: str) -> bytes:
    """Return the key of the manifest of `stream`."""
    return orjson.dumps(["manifest", stream])


def partition_key(topic: str) -> bytes:
    """Return the key of the partition record of an input topic."""
    return orjson.dumps(["partition", topic])


class Manifests:
    """Manifests by stream."""

    def __init__(self) -> None:
        self._rows = DiskMap()

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the streams, sorted."""
        return (name.decode() for name in self._rows)

    def get(self, stream: str) -> Manifest | None:
        """Return the manifest of a stream; None where it has none."""
        if (value := self._rows.get(stream.encode())) is None:
            return None
        written, _, manifest = value.partition(b" ")
        return Manifest.parse(manifest, stream, int(written))

    def stream_with(self, topic_id: str) -> str:
        """Return a stream whose manifest names a topic id, which one of them does."""
        return next(stream for stream in self if (found := self.get(stream)) and found.topic_id == topic_id)

    def put(self, stream: str, manifest: Manifest) -> None:
        """Replace the manifest of a stream."""
        self._rows.put(stream.encode(), b"%d " % manifest.written + manifest.value())

    def pop(self, stream: str) -> Manifest | None:
        """Remove the manifest of a stream and return it; None where it has none."""
        found = self.get(stream)
        if found is not None:
            self._rows.pop(stream.encode())
        return found
