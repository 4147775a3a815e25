"""Where the elements of a JSON array begin and end, whatever they are: whether they are JSON is for others to see."""

from typing import Final

import numpy as np
from resonance.engine.base import IntArray
from resonance.kernels.arithmetic import jit
from resonance.pipeline.text.json_members import Bytes

_QUOTE: Final = ord('"')
_ESCAPE: Final = ord("\\")
_COMMA: Final = ord(",")
_OPEN: Final = (ord("["), ord("{"))
_CLOSE: Final = (ord("]"), ord("}"))
_SPACE: Final = ord(" ")


@jit
def _split(text, at, spans):
    """Write the spans of elements from a place on; return how many there are, and where the array is closed, or -1.

    No more are written than there is room for.
    """
    found, depth, quoted, begin, end = 0, 0, False, at, at
    while at < len(text):
        byte = text[at]
        if quoted:
            if byte == _ESCAPE:
                at += 1
            elif byte == _QUOTE:
                quoted = False
        elif byte == _QUOTE:
            quoted = True
        elif byte in _OPEN:
            depth += 1
        elif (byte in _CLOSE or byte == _COMMA) and depth == 0:
            if (byte == _COMMA or found or end > begin) and found < len(spans):
                spans[found, 0], spans[found, 1] = begin, end
            found += byte == _COMMA or found > 0 or end > begin
            if byte != _COMMA:
                return found, at
            begin = end = at + 1
            at += 1
            continue
        elif byte in _CLOSE:
            depth -= 1
        if quoted or byte > _SPACE:
            end = at + 1
        elif end == begin:
            begin = end = at + 1
        at += 1
    return found, -1


def spans_of(text: Bytes, begin: int, room: IntArray) -> tuple[IntArray, int]:
    """Return where the elements of an array begin and end, and where it is closed, or -1.

    `text` can only be read, and has the array from `begin` on, behind its bracket. The spans, as many as fit, are
    written into `room`, of shape (most, 2).
    """
    found, close = _split(text, begin, room)
    return room[:found], close


def compile() -> None:
    """Compile the kernel, or load it from the cache."""
    spans_of(np.frombuffer(b"[1]", np.uint8), 1, np.empty((2, 2), np.int64))
