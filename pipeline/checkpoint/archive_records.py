"""The records of the archive topic, their keys and their values.

An archive holds all that one input partition had learned at one offset, its position. Of each one there are, in this
order, in the partition of that number:

=============================================  =======================================================================
key                                            value
=============================================  =======================================================================
``["chunk", topic, position, stream, i]``      bytes of part i of the state of a stream
``["streams", topic, position, i]``            bytes of part i of the list of the streams
``["archive", topic, position]``               the manifest: whose archive it is, and what belongs to it
=============================================  =======================================================================

Every key has the position, so that an archive is found by halving. After a reset or a resume positions go back: then a
new line of archives begins, its number, the epoch, stands at the end of every key, and within a line positions go up.
The list has parts of its own because that of 10,000 streams is larger than a message. A manifest stands behind
everything it names; what has none does not count.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, Self

import orjson
from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, Identity, typed
from resonance.pipeline.records import StreamSnapshot

FORMAT: Final = 1
"""Raised with every change that an older release would read wrongly."""


_PLACE: Final = {"chunk": 2, "streams": 1, "archive": 0}
"""Members of a key between the position and the epoch."""


def _key(epoch: int, *members: Any) -> bytes:
    """Return a key; the first line of archives has those of releases that know of no other."""
    return orjson.dumps([*members, epoch] if epoch else members)


class ArchiveKey(NamedTuple):
    """What the key of a record says."""

    kind: str
    topic: str
    position: int
    epoch: int = 0

    @classmethod
    def of(cls, key: bytes | None) -> "ArchiveKey | None":
        """Read a key; None where another program wrote it."""
        try:
            kind, topic, position, *more = orjson.loads(key or b"")
            epoch = more[_PLACE[kind]] if len(more) > _PLACE[kind] else 0
        except UNREADABLE:
            return None
        if not isinstance(topic, str) or type(position) is not int or type(epoch) is not int:
            return None
        return cls(kind, topic, position, epoch)


@dataclass(frozen=True, slots=True)
class Parts:
    """Bytes that stand in several messages."""

    chunks: int
    size: int
    sha256: str

    @classmethod
    def of(cls, body: bytes, chunk_bytes: int) -> Self:
        """Describe `body` in chunks of at most `chunk_bytes`."""
        return cls(-(-len(body) // chunk_bytes), len(body), hashlib.sha256(body).hexdigest())

    def join(self, keys: Sequence[bytes], found: Mapping[bytes, bytes]) -> bytes | None:
        """Return the bytes, None where some are missing or damaged."""
        body = b"".join(found.get(key, b"") for key in keys)
        return body if len(body) == self.size and hashlib.sha256(body).hexdigest() == self.sha256 else None


@dataclass(frozen=True, slots=True)
class ArchivedStream:
    """One stream of an archive.

    Attributes
    ----------
    stream, next, header
        As in `StreamSnapshot`.
    parts : Parts
        Its state.
    """

    stream: str
    next: int
    header: dict[str, Any]
    parts: Parts

    def keys(self, topic: str, position: int, epoch: int = 0) -> list[bytes]:
        """Keys of its chunks, in order."""
        return [_key(epoch, "chunk", topic, position, self.stream, number) for number in range(self.parts.chunks)]


def list_of(streams: Sequence[ArchivedStream]) -> bytes:
    """Return the list of the streams as it is cut into parts; each header stands there once."""
    places: dict[bytes, int] = {}
    rows = []
    for stream in streams:
        place = places.setdefault(orjson.dumps(stream.header, option=orjson.OPT_SORT_KEYS), len(places))
        rows.append([stream.stream, stream.next, place, *asdict(stream.parts).values()])
    return orjson.dumps({"headers": [orjson.loads(header) for header in places], "streams": rows})


def streams_of(body: bytes) -> list[ArchivedStream]:
    """Read what `list_of` wrote.

    Raises
    ------
    ValueError, KeyError, TypeError, IndexError
        It did not write this.
    """
    data = orjson.loads(body)
    return [
        ArchivedStream(name, next_, dict(data["headers"][place]), Parts(chunks, size, sha256))
        for name, next_, place, chunks, size, sha256 in data["streams"]
    ]


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """What belongs to an archive.

    Attributes
    ----------
    identity : Identity
        Who wrote it, for which log.
    position : int
        It holds what every record below this offset left, and nothing else.
    timestamp : int
        Kafka timestamp of the newest of these records, in milliseconds; -1 where it is not known.
    state : bytes
        What the partition knows beside its streams.
    records : int
        Messages of the archive before this one.
    streams : Parts
        The list of the streams.
    epoch : int
        Its line of archives; 0 where a release wrote it that knew of one only.
    """

    identity: Identity
    position: int
    timestamp: int
    state: bytes
    records: int
    streams: Parts
    epoch: int = 0

    def key(self) -> bytes:
        """Return the key of the manifest."""
        return _key(self.epoch, "archive", self.identity.topic, self.position)

    def list_keys(self) -> list[bytes]:
        """Keys of the parts of the list."""
        topic, position = self.identity.topic, self.position
        return [_key(self.epoch, "streams", topic, position, number) for number in range(self.streams.chunks)]

    def value(self) -> bytes:
        """Return the manifest as it stands on the bus."""
        own = {"position": self.position, "timestamp": self.timestamp, "records": self.records}
        own |= {"epoch": self.epoch} if self.epoch else {}
        state = base64.b64encode(self.state).decode("ascii")
        streams = asdict(self.streams)
        return orjson.dumps({"format": FORMAT, **asdict(self.identity), **own, "state": state, "streams": streams})

    @classmethod
    def parse(cls, value: bytes, where: str) -> Self:
        """Read `value`; `where` names the partition of the archive topic for errors."""
        data = orjson.loads(value)
        if data["format"] > FORMAT:
            raise mismatches.newer_format(where, data["format"], FORMAT)
        state, streams = base64.b64decode(data["state"]), typed(Parts(**data["streams"]))
        places = data["position"], data["timestamp"]
        return typed(cls(Identity.of(data), *places, state, data["records"], streams, data.get("epoch", 0)))


def snapshot_of(stream: ArchivedStream, body: bytes) -> StreamSnapshot:
    """Return a stream's snapshot from its entry and its bytes."""
    return StreamSnapshot(stream.stream, stream.next, stream.header, body)
