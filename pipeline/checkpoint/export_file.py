"""Export snapshots to a file of self-describing JSON lines, to keep and to import.

The first line names format and deployment. A line for each input partition follows, and behind it one for each of its
streams, with the state as Base64 and its checksum. The last line has the checksum of everything before it. Nothing in
the file can run code. Its bytes are a function of what was exported, except for the time in the first line.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
from resonance.pipeline.checkpoint.changelog_records import UNREADABLE, PartitionRecord, typed
from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint, StoredStreams
from resonance.pipeline.errors import ConfigurationError, InputFileError, MismatchError
from resonance.pipeline.records import StreamSnapshot

KIND: Final = "resonance-snapshots"
FORMAT: Final = 2
"""Raised with every change that an older release would read wrongly."""


def write_file(path: Path, name: str, created: str, partitions: Sequence[PartitionCheckpoint]) -> int:
    """Write a file and return its size; an existing file is never overwritten.

    Parameters
    ----------
    name : str
        Name of the deployment.
    created : str
        Time of the export.

    Raises
    ------
    ConfigurationError
        The file exists, or cannot be written.
    """
    digest = hashlib.sha256()
    try:
        file = path.open("xb")
    except FileExistsError:
        raise ConfigurationError(f"{path}: there is such a file; name another one, or remove it first") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with file:
            for line in _lines(name, created, partitions):
                digest.update(line)
                file.write(line)
            file.write(orjson.dumps({"end": digest.hexdigest()}) + b"\n")
    except BaseException as error:
        # The next try would refuse to overwrite half a file.
        path.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    return path.stat().st_size


def _lines(name: str, created: str, partitions: Sequence[PartitionCheckpoint]) -> Iterator[bytes]:
    yield orjson.dumps({"kind": KIND, "format": FORMAT, "name": name, "created": created}) + b"\n"
    for partition in partitions:
        own = {"topic": partition.at[0], "partition": partition.at[1]}
        yield orjson.dumps(own | {"record": orjson.Fragment(partition.record.value())}) + b"\n"
        for snapshot in partition.streams:
            body = {
                "size": len(snapshot.body),
                "sha256": hashlib.sha256(snapshot.body).hexdigest(),
                "body": base64.b64encode(snapshot.body).decode("ascii"),
            }
            header = {"stream": snapshot.stream, "next": snapshot.next, "header": snapshot.header}
            yield orjson.dumps(header | body) + b"\n"


def read_file(path: Path) -> list[PartitionCheckpoint]:
    """Return the partitions that a file holds; their streams are read again when they are used.

    Raises InputFileError where it cannot be read, is no export, is cut off or damaged, or is of a newer release.
    """
    digest = hashlib.sha256()
    found: list[PartitionCheckpoint] = []
    places: list[int] = []
    ended, at = False, 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                if ended:
                    raise InputFileError(f"{path}: something stands behind its end; export it again")
                data = orjson.loads(line)
                if number == 0:
                    _check_first(path, data)
                elif "end" in data:
                    ended = data["end"] == digest.hexdigest()
                    if not ended:
                        raise InputFileError(f"{path} is damaged: its checksum does not fit; export it again")
                elif "record" in data:
                    places = []
                    found.append(_partition(path, data, places))
                else:
                    _snapshot(path, data)
                    places.append(at)
                digest.update(line)
                at += len(line)
    except OSError as error:
        raise InputFileError(f"{path} cannot be read: {error.strerror}") from error
    except MismatchError as error:
        raise InputFileError(error.problem) from None
    except (*UNREADABLE, IndexError):
        raise InputFileError(f"{path} is no file that `resonance snapshots export` wrote, or it is damaged") from None
    if not ended:
        raise InputFileError(f"{path} is cut off: its last line is missing; export it again")
    return found


def _check_first(path: Path, data: Any) -> None:
    if data["kind"] != KIND:
        raise InputFileError(f"{path} is no file that `resonance snapshots export` wrote")
    if data["format"] != FORMAT:
        raise InputFileError(
            f"{path} has format {data['format']}, this release reads format {FORMAT}: use the release that wrote it"
        )


def _partition(path: Path, data: Any, places: list[int]) -> PartitionCheckpoint:
    record = PartitionRecord.parse(orjson.dumps(data["record"]), str(path))
    at = (record.identity.topic, data["partition"])
    if data["topic"] != at[0] or type(data["partition"]) is not int:
        raise TypeError(data["topic"])
    return PartitionCheckpoint(at, record, StoredStreams(places, partial(_snapshot_at, path)))


def _snapshot_at(path: Path, place: int) -> StreamSnapshot:
    """Return the stream whose line begins at a place of a file that was read before."""
    with path.open("rb") as file:
        file.seek(place)
        return _snapshot(path, orjson.loads(file.readline()))


def _snapshot(path: Path, data: Any) -> StreamSnapshot:
    body = base64.b64decode(data["body"], validate=True)
    if hashlib.sha256(body).hexdigest() != data["sha256"]:
        raise InputFileError(f"{path} is damaged: the checksum of stream {data['stream']} does not fit")
    return typed(StreamSnapshot(data["stream"], data["next"], data["header"], body))
