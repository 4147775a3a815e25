"""Records of the archive topic: their keys and values.

An archive holds everything that one input partition had learned at one offset, its position. Its records stand in the
archive topic's partition of the same number, in this order:

=============================================  =======================================================================
key                                            value
=============================================  =======================================================================
``["chunk", topic, position, stream, i]``      bytes of part i of the state of a stream
``["streams", topic, position, i]``            bytes of part i of the list of the streams
``["archive", topic, position]``               the manifest: identity of the archive, and what belongs to it
=============================================  =======================================================================

Every key contains the position, so a binary search finds an archive. A reset or a resume moves positions back and so
begins a new lineage; its number, the epoch, is the last member of every key. Within a lineage positions only grow. The
list of the streams has parts of its own because that of 10,000 streams is larger than a message. The manifest is
written last; records without a manifest do not count.
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
    """Return a key; in the first lineage it has no epoch, as in releases without lineages."""
    return orjson.dumps([*members, epoch] if epoch else members)


class ArchiveKey(NamedTuple):
    """The parts of a key that every kind of record has."""

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
    """Bytes that are split over several messages."""

    chunks: int
    size: int
    sha256: str

    @classmethod
    def of(cls, body: bytes, chunk_bytes: int) -> Self:
        """Describe `body` in chunks of at most `chunk_bytes`."""
        return cls(-(-len(body) // chunk_bytes), len(body), hashlib.sha256(body).hexdigest())

    def join(self, keys: Sequence[bytes], found: Mapping[bytes, bytes]) -> bytes | None:
        """Return the bytes; None where some are missing or damaged."""
        body = b"".join(found.get(key, b"") for key in keys)
        return body if len(body) == self.size and hashlib.sha256(body).hexdigest() == self.sha256 else None


@dataclass(frozen=True, slots=True)
class ArchivedStream:
    """One stream of an archive; `stream`, `next` and `header` are as in `StreamSnapshot`."""

    stream: str
    next: int
    header: dict[str, Any]
    parts: Parts
    """The stream's state."""

    def keys(self, topic: str, position: int, epoch: int = 0) -> list[bytes]:
        """Return the keys of its chunks, in order."""
        return [_key(epoch, "chunk", topic, position, self.stream, number) for number in range(self.parts.chunks)]


def list_of(streams: Sequence[ArchivedStream]) -> bytes:
    """Return the list of the streams, before it is split; each header stands in it once."""
    places: dict[bytes, int] = {}
    rows = []
    for stream in streams:
        place = places.setdefault(orjson.dumps(stream.header, option=orjson.OPT_SORT_KEYS), len(places))
        rows.append([stream.stream, stream.next, place, *asdict(stream.parts).values()])
    return orjson.dumps({"headers": [orjson.loads(header) for header in places], "streams": rows})


def streams_of(body: bytes) -> list[ArchivedStream]:
    """Read what `list_of` wrote; any other bytes raise one of `UNREADABLE`, or IndexError."""
    data = orjson.loads(body)
    return [
        ArchivedStream(name, next_, dict(data["headers"][place]), Parts(chunks, size, sha256))
        for name, next_, place, chunks, size, sha256 in data["streams"]
    ]


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """The identity of an archive, and what belongs to it."""

    identity: Identity
    """Pipeline, log and settings of the models."""
    position: int
    """The archive contains every record below this offset, and no other."""
    timestamp: int
    """Kafka timestamp of the newest of these records, in milliseconds; -1 where it is not known."""
    state: bytes
    """What the partition knows beside its streams."""
    records: int
    """Messages of the archive before the manifest."""
    streams: Parts
    """The list of the streams."""
    epoch: int = 0
    """Its lineage; 0 in manifests of releases without lineages."""

    def key(self) -> bytes:
        """Return the key of the manifest."""
        return _key(self.epoch, "archive", self.identity.topic, self.position)

    def list_keys(self) -> list[bytes]:
        """Return the keys of the parts of the list."""
        topic, position = self.identity.topic, self.position
        return [_key(self.epoch, "streams", topic, position, number) for number in range(self.streams.chunks)]

    def value(self) -> bytes:
        """Return the manifest as it is stored."""
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
