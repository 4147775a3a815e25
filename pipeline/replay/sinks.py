"""Sinks for the outputs of a replay: a folder of JSONL files, topics, or nothing."""

import base64
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson
from resonance.pipeline.bounded_cache import BoundedCache
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.producer import Batch, Outlet, producer_settings
from resonance.pipeline.records import Message, Outputs
from resonance.pipeline.task.encode.cluster_description import present
from resonance.pipeline.task.model.stream_model import StreamModel

KINDS: Final[tuple[str, ...]] = ("assignments", "cluster_events", "dead_letters", "drift_events", "alerts")
"""Kinds of outputs that a folder takes as they come."""

TOPICS: Final[tuple[str, ...]] = (*KINDS, "clusters")
"""Kinds of outputs that topics take; of clusters a folder has those of the end."""

FILES: Final[Mapping[str, str]] = {kind: f"{kind.replace('_', '-')}.jsonl" for kind in TOPICS}
"""Kind of topic -> file name in the folder."""

SEND_SECONDS: Final = 60.0

_BUFFER: Final = 1024 * 1024


class Sink:
    """Takes the outputs of one partition, in order; this one discards them, for replays that only count them."""

    def write(self, outputs: Outputs) -> None:
        """Write the outputs of a batch."""

    def close(self, models: Iterable[StreamModel] = ()) -> None:
        """Ensure that everything is stored; `models` are those of the partition, as they are at the end."""


class FolderSink(Sink):
    """Writes the outputs of one partition to part files in an existing folder; `join_parts` concatenates them.

    `part` is the number of this partition among all that are replayed; outputs of other `kinds` are left out.
    """

    def __init__(self, folder: Path, part: int, kinds: Iterable[str] = TOPICS) -> None:
        self._files: dict[str, BinaryIO] = {}
        for kind in kinds:
            self._files[kind] = part_of(folder, kind, part).open("wb", buffering=_BUFFER)
        self._keys = BoundedCache(lambda key: orjson.dumps(as_text(key)))

    def __del__(self) -> None:
        """Close what a failure left open: Python 3.14 would report once more that it cannot be written."""
        for file in self._files.values():
            with suppress(OSError):
                file.close()

    def write(self, outputs: Outputs) -> None:
        """Write the outputs of a batch."""
        for kind, file in self._files.items():
            if messages := outputs.of(kind) if kind != "clusters" else ():
                form = _dead_letter if kind == "dead_letters" else self._line
                file.write(b"".join(map(form, messages)))

    def _line(self, message: Message) -> bytes:
        return b'{"key":%b,"value":%b}\n' % (self._keys[message.key], message.value or b"null")

    def close(self, models: Iterable[StreamModel] = ()) -> None:
        """Write the clusters of the models and what is buffered, and close the files."""
        for model in models if "clusters" in self._files else ():
            for cluster in present(model):
                value = {"stream": model.stream, "version": model.version, **cluster}
                line = orjson.dumps({"key": cluster["id"], "value": value}, option=orjson.OPT_APPEND_NEWLINE)
                self._files["clusters"].write(line)
        for file in self._files.values():
            file.close()


def part_of(folder: Path, kind: str, part: int) -> Path:
    """Return the part file for the outputs of one kind and partition."""
    return folder / f".{FILES[kind]}.{part}"


def open_folder(folder: Path) -> None:
    """Create a folder with empty result files.

    Raises ConfigurationError where the folder cannot be written; the remedy is another folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES.values():
            (folder / name).open("wb").close()
    except OSError as error:
        raise ConfigurationError(f"--output {folder}: cannot be written ({error.strerror}); name another") from error


def join_parts(folder: Path, parts: int) -> None:
    """Concatenate the part files of a folder, in their order."""
    for kind, name in FILES.items():
        with (folder / name).open("wb") as whole:
            for part in range(parts):
                path = part_of(folder, kind, part)
                if path.exists():
                    with path.open("rb") as piece:
                        shutil.copyfileobj(piece, whole, _BUFFER)
                    path.unlink()


def lines(folder: Path, kind: str) -> Iterator[Any]:
    """Yield the values in a file of a folder; none where the folder has no such file."""
    path = folder / FILES[kind]
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                yield orjson.loads(line)["value"]


class TopicSink(Sink):
    """Produces outputs to one partition of each topic, with the same bytes as a worker.

    `topics` maps each kind to its topic; `client` is the librdkafka configuration of the connection.
    """

    def __init__(self, client: Mapping[str, Any], topics: Mapping[str, str], partition: int) -> None:
        self._topics = topics
        self._partition = partition
        self._outlet = Outlet(producer_settings(client), SEND_SECONDS, reports=True)

    def write(self, outputs: Outputs) -> None:
        """Write the outputs of a batch."""
        for kind in TOPICS:
            if messages := outputs.of(kind):
                self._outlet.send(Batch(self._topics[kind], self._partition, messages))

    def close(self, models: Iterable[StreamModel] = ()) -> None:
        """Wait until everything is stored; raise DeliveryError where something is not."""
        self._outlet.flush()


def as_text(data: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as JSON: as text, or as an object with their base64 where they are not UTF-8."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _dead_letter(message: Message) -> bytes:
    headers = [[name, as_text(value)] for name, value in message.headers]
    content = {"key": as_text(message.key), "value": as_text(message.value), "headers": headers}
    return orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)
