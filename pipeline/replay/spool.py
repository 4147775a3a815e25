"""A file of messages, which passes them from the process that makes them to the one that produces them."""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from resonance.pipeline.records import Message

_LENGTH: Final = struct.Struct("<q")
_NONE: Final = -1


def spool(path: Path, messages: Iterable[Message]) -> int:
    """Write messages, which have no headers, to a file and return their total bytes."""
    size = 0
    with path.open("wb") as file:
        for message in messages:
            for part in (message.key, message.value):
                file.write(_LENGTH.pack(_NONE if part is None else len(part)))
                file.write(part or b"")
                size += len(part or b"")
    return size


def unspool(path: Path) -> Iterator[Message]:
    """Yield the messages of a file, one at a time."""
    with path.open("rb") as file:
        while head := file.read(_LENGTH.size):
            key = _part(file, head)
            yield Message(key, _part(file, file.read(_LENGTH.size)), [])


def _part(file: BinaryIO, head: bytes) -> bytes | None:
    (length,) = _LENGTH.unpack(head)
    return None if length == _NONE else file.read(length)
