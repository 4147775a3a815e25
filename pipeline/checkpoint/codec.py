"""Checkpoints as a stream of bytes: what a file holds, and cut into messages what an archive holds.

The first line names kind and format. A line for each partition follows, and behind it one for each of its streams, with
the bytes of the stream's state behind that line. The last line has the checksum of everything before it. Nothing there
can run code, and the bytes are a function of the checkpoints alone.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, PartitionRecord, typed
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.disk_map import DiskMap
from resonance.pipeline.errors import ConfigurationError, InputFileError, MismatchError
from resonance.pipeline.records import StoredStreams, StreamSnapshot

KIND: Final = "resonance-snapshots"
FORMAT: Final = 4
"""Raised with every change of these bytes."""


def encoded(checkpoints: Iterable[PartitionCheckpoint]) -> Iterator[bytes]:
    """Yield the bytes of checkpoints; a stream is read when its turn comes."""
    digest = hashlib.sha256()
    for piece in _pieces(checkpoints):
        digest.update(piece)
        yield piece
    yield orjson.dumps({"end": digest.hexdigest()}) + b"\n"


def _pieces(checkpoints: Iterable[PartitionCheckpoint]) -> Iterator[bytes]:
    yield orjson.dumps({"kind": KIND, "format": FORMAT}) + b"\n"
    for checkpoint in checkpoints:
        record = orjson.Fragment(checkpoint.record.value())
        yield orjson.dumps({"timestamp": checkpoint.timestamp, "record": record}) + b"\n"
        for one in checkpoint.streams:
            own = {"stream": one.stream, "next": one.next, "header": one.header, "size": len(one.body)}
            yield orjson.dumps(own) + b"\n"
            yield one.body


def decode(file: BinaryIO) -> list[PartitionCheckpoint]:
    """Return the checkpoints that a stream of bytes holds, read up to its last line; the states are on the disk.

    Raises InputFileError, without the name of the file, where it is none of these, is cut off or damaged, or is of
    another release.
    """
    digest, stored, numbers = hashlib.sha256(), DiskMap(), count()
    found: list[PartitionCheckpoint] = []
    streams: list[bytes] = []
    try:
        first = orjson.loads(line := file.readline() or b"null")
        if first["kind"] != KIND:
            raise ValueError(first["kind"])
        if first["format"] != FORMAT:
            raise InputFileError(f"has format {first['format']}, this release reads format {FORMAT}")
        digest.update(line)
        while line := file.readline():
            data = orjson.loads(line)
            if "end" in data:
                if data["end"] != digest.hexdigest():
                    raise InputFileError("is damaged: its checksum does not fit")
                return found
            if "record" in data:
                streams = []
                record = PartitionRecord.parse(orjson.dumps(data["record"]), "its record")
                snapshots = StoredStreams(streams, lambda key: _snapshot(stored[key]))
                found.append(typed(PartitionCheckpoint(record, snapshots, data["timestamp"])))
            else:
                line += file.read(max(data["size"], 0))
                _snapshot(line)
                streams.append(b"%d" % next(numbers))
                stored.put(streams[-1], line)
            digest.update(line)
    except MismatchError as error:
        raise InputFileError(f"is of another release: {error.problem}") from None
    except (*UNREADABLE, IndexError, MemoryError):
        raise InputFileError("holds no snapshots that `resonance` wrote, or is damaged") from None
    raise InputFileError("is cut off: its last line is missing")


def _snapshot(stored: bytes) -> StreamSnapshot:
    line, _, body = stored.partition(b"\n")
    data: dict[str, Any] = orjson.loads(line)
    if len(body) != data["size"]:
        raise InputFileError("is cut off: its last line is missing")
    return typed(StreamSnapshot(data["stream"], data["next"], data["header"], body))


def write_file(path: Path, partitions: Sequence[PartitionCheckpoint]) -> int:
    """Write a file and return its size; an existing file is never overwritten.

    Raises ConfigurationError where the file exists, or cannot be written.
    """
    try:
        file = path.open("xb")
    except FileExistsError:
        raise ConfigurationError(f"{path}: there is such a file; name another one, or remove it first") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with file:
            file.writelines(encoded(partitions))
    except BaseException as error:
        # The next try would refuse to overwrite half a file.
        path.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    return path.stat().st_size


def read_file(path: Path) -> list[PartitionCheckpoint]:
    """Return the partitions that a file holds.

    Raises InputFileError where it cannot be read, is no export, is cut off or damaged, or is of another release.
    """
    try:
        with path.open("rb") as file:
            found = decode(file)
            if file.read(1):
                raise InputFileError("has something behind its end")
    except OSError as error:
        raise InputFileError(f"{path} cannot be read: {error.strerror}") from error
    except InputFileError as error:
        raise InputFileError(f"{path} {error}; export it again, or use the release that wrote it") from None
    return found
