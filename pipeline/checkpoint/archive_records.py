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

The archives of a partition are listed in its changelog (`changelog_records.ArchiveIndex`), with the time from which on
their records were written. The list of the streams has parts of its own because that of 10,000 streams is larger than a
message. The manifest is written last: it says how many records precede it.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, Self

import orjson
from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, Identity, typed
from resonance.pipeline.disk_map import DiskMap

FORMAT: Final = 1
"""Raised with every change that an older release would read wrongly."""


class ArchiveKey(NamedTuple):
    """The parts of a key that every kind of record has."""

    kind: str
    topic: str
    position: int

    @classmethod
    def of(cls, key: bytes | None) -> "ArchiveKey | None":
        """Read a key; None where another program wrote it."""
        try:
            kind, topic, position, *_ = orjson.loads(key or b"")
        except UNREADABLE:
            return None
        is_one = kind in ("chunk", "streams", "archive") and isinstance(topic, str) and type(position) is int
        return cls(kind, topic, position) if is_one else None


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

    def join(self, keys: Sequence[bytes], found: DiskMap) -> bytes | None:
        """Return the bytes; None where some are missing or damaged."""
        body = b"".join(found.get(key) or b"" for key in keys)
        return body if len(body) == self.size and hashlib.sha256(body).hexdigest() == self.sha256 else None


@dataclass(frozen=True, slots=True)
class ArchivedStream:
    """One stream of an archive; `stream`, `next` and `header` are as in `StreamSnapshot`."""

    stream: str
    next: int
    header: dict[str, Any]
    parts: Parts
    """The stream's state."""

    def keys(self, topic: str, position: int) -> list[bytes]:
        """Return the keys of its chunks, in order."""
        return [orjson.dumps(["chunk", topic, position, self.stream, number]) for number in range(self.parts.chunks)]


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
    headers = list(map(dict, data["headers"]))
    return [
        ArchivedStream(name, next_, headers[place], Parts(chunks, size, sha256))
        for name, next_, place, chunks, size, sha256 in data["streams"]
    ]


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """The identity of an archive, and what belongs to it."""

    identity: Identity
    """Pipeline, log and settings of the models."""
    partition: int
    """Number of the input partition."""
    position: int
    """The archive contains every record below this offset, and no other."""
    written: int
    """As in its `ArchiveEntry`: two archives of one position differ in it."""
    timestamp: int
    """Kafka timestamp of the newest of these records, in milliseconds; -1 where it is not known."""
    state: bytes
    """What the partition knows beside its streams."""
    records: int
    """Messages of the archive before the manifest."""
    streams: Parts
    """The list of the streams."""

    def key(self) -> bytes:
        """Return the key of the manifest."""
        return orjson.dumps(["archive", self.identity.topic, self.position])

    def list_keys(self) -> list[bytes]:
        """Return the keys of the parts of the list."""
        topic, position = self.identity.topic, self.position
        return [orjson.dumps(["streams", topic, position, number]) for number in range(self.streams.chunks)]

    def value(self) -> bytes:
        """Return the manifest as it is stored."""
        own = {name: getattr(self, name) for name in ("partition", "position", "written", "timestamp", "records")}
        state = base64.b64encode(self.state).decode("ascii")
        streams = asdict(self.streams)
        return orjson.dumps({"format": FORMAT, **asdict(self.identity), **own, "state": state, "streams": streams})

    @classmethod
    def parse(cls, value: bytes, where: str) -> Self:
        """Read `value`; `where` names the partition of the archive topic for errors."""
        data = orjson.loads(value)
        if data["format"] > FORMAT:
            raise mismatches.other_format(where, data["format"], FORMAT)
        state, streams = base64.b64decode(data["state"]), typed(Parts(**data["streams"]))
        own = {name: data[name] for name in ("partition", "position", "written", "timestamp", "records")}
        return typed(cls(Identity.of(data), state=state, streams=streams, **own))
