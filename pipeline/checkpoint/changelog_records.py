"""The records of the snapshots topic, their keys and their values.

Records of a partition of the snapshots topic (keys are JSON arrays, so that no two of them can be confused):

=========================================  ===========================================================================
key                                        value
=========================================  ===========================================================================
``["chunk", stream, next, i]``             bytes of part i of the state that contains the records below ``next``
``["manifest", stream]``                   which chunks make up the newest version and the one before, checksum, header
``["partition", topic]``                   where a rebuild of the models of an input partition begins, and for whom
=========================================  ===========================================================================

A manifest describes the version before the newest as well, because compaction keeps only the newest manifest and its
chunks may turn out to be damaged.
"""

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import UnionType
from typing import Any, Final, Self, TypeVar, get_origin

import orjson
from resonance.pipeline import mismatches

FORMAT: Final = 1
"""Raised with every change that an older release would read wrongly."""

UNREADABLE: Final = (ValueError, KeyError, TypeError)
"""What parsing a record raises that another program wrote under one of our keys."""

RecordT = TypeVar("RecordT")


def typed(record: RecordT) -> RecordT:
    """Return a dataclass that was read, if each of its fields is what it is declared to be.

    Raises
    ------
    TypeError
        One is not; taken as it is it would end a worker wherever it is used first.
    """
    for entry in fields(record):  # type: ignore[arg-type]
        kind: Any = entry.type if isinstance(entry.type, UnionType) else get_origin(entry.type) or entry.type
        value = getattr(record, entry.name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{entry.name} = {value!r}")
    return record


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose snapshots they are, and of which log.

    Attributes
    ----------
    pipeline : str
        Name of the pipeline.
    inputs : tuple of str
        All its input topics.
    topic : str
        The input topic concerned.
    topic_id : str
        Kafka's id of it; ``""`` where there is none.
    partitions : int
        Partitions of it.
    engine : str
        Name of the engine.
    revision : str
        Its revision, and that of everything else that decides bits.
    settings : mapping of str to object
        Everything else on which the models depend besides the log.
    limits : mapping of str to object
        Settings that decide which records are learned at all; they may change where nothing has to be learned again.
    """

    pipeline: str
    inputs: tuple[str, ...]
    topic: str
    topic_id: str
    partitions: int
    engine: str
    revision: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Read it out of a record; raises what `UNREADABLE` lists."""
        found = cls(**{entry.name: data[entry.name] for entry in fields(cls)} | {"inputs": tuple(data["inputs"])})
        if not all(isinstance(topic, str) for topic in found.inputs):
            raise TypeError(f"inputs = {found.inputs!r}")
        return typed(found)


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """Where a rebuild of the models of an input partition begins.

    Attributes
    ----------
    identity : Identity
        Who wrote it, for which log.
    recovery_offset : int
        Lowest offset of a record that no snapshot contains.
    position : int
        Every record below this offset was answered when the record was written.
    committed : int
        The group's committed offset was at least this; -1 when it had none.
    state : bytes
        What the partition knows beside its streams, at `position`.
    epoch : int
        Number of the owner that wrote it.
    began : int
        Offset from which on everything was learned under this identity, with one version of each stream; -1 where
        something was learned otherwise.
    """

    identity: Identity
    recovery_offset: int
    position: int
    committed: int
    state: bytes
    epoch: int = 0
    began: int = -1

    def value(self) -> bytes:
        """Return the record as it stands on the bus."""
        names = ("position", "committed", "epoch", "began")
        own = {"replay_from": self.recovery_offset, **{name: getattr(self, name) for name in names}}
        state = base64.b64encode(self.state).decode("ascii")
        return orjson.dumps({"format": FORMAT, **own, **asdict(self.identity), "state": state})

    @classmethod
    def parse(cls, value: bytes, where: str) -> Self:
        """Read `value`; `where` names the partition of the snapshots topic for errors."""
        data = orjson.loads(value)
        if data["format"] > FORMAT:
            raise mismatches.newer_format(where, data["format"], FORMAT)
        state = base64.b64decode(data["state"])
        places = data["replay_from"], data["position"], data["committed"]
        return typed(cls(Identity.of(data), *places, state, data["epoch"], data.get("began", -1)))


@dataclass(frozen=True, slots=True)
class Version:
    """One snapshot of a stream, as its manifest describes it."""

    next: int
    chunks: int
    size: int
    sha256: str
    header: dict[str, Any]

    def keys(self, stream: str) -> list[bytes]:
        """Keys of its chunks, in order."""
        return [chunk_key(stream, self.next, number) for number in range(self.chunks)]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The newest snapshot of a stream and the one before."""

    topic: str
    current: Version
    previous: Version | None
    epoch: int = 0

    def value(self) -> bytes:
        """Return the manifest as it stands on the bus."""
        return orjson.dumps({"format": FORMAT, **asdict(self)})

    @classmethod
    def parse(cls, value: bytes, where: str) -> Self:
        """Read `value`; `where` names the stream for errors."""
        data = orjson.loads(value)
        if data["format"] > FORMAT:
            raise mismatches.newer_format(where, data["format"], FORMAT)
        current = typed(Version(**data["current"]))
        previous = typed(Version(**data["previous"])) if data["previous"] else None
        return typed(cls(data["topic"], current, previous, data["epoch"]))


def chunk_key(stream: str, next_: int, number: int) -> bytes:
    """Key of part `number` of the state of `stream` that contains the records below `next_`."""
    return orjson.dumps(["chunk", stream, next_, number])


def manifest_key(stream: str) -> bytes:
    """Key of the manifest of `stream`."""
    return orjson.dumps(["manifest", stream])


def partition_key(topic: str) -> bytes:
    """Key of the partition record of an input topic."""
    return orjson.dumps(["partition", topic])
