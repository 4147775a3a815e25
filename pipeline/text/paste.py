"""Texts of a whole batch made of columns of pieces, as Unix's paste does it with the lines of files.

Eight bytes are copied at once, and with them the search for the zero byte that ends a piece (H. S. Warren, "Hacker's
Delight", 2nd edition, 6-1): a loop over the bytes of short pieces takes four times as long.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from resonance.engine.base import IntArray
from resonance.kernels.arithmetic import inline, jit
from resonance.kernels.borrowed import row
from resonance.pipeline.text.json_members import Bytes

_WORD: Final = 8
"""Bytes that are copied at once, so that this much room must be behind every text."""

_LOW, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)


def _word(context: Any, builder: Any, text: Any, place: Any) -> Any:
    """Return a pointer to the word at a place of a text."""
    return builder.bitcast(builder.gep(text, [place]), ir.IntType(64).as_pointer())


@intrinsic
def _read(typingctx, text, place):
    """Return eight bytes of a text, the first one lowest."""

    def codegen(context, builder, signature, args):
        return builder.load(_word(context, builder, *args), align=1)

    return types.uint64(text, types.int64), codegen


@intrinsic
def _write(typingctx, text, place, word):
    """Write eight bytes into a text."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], _word(context, builder, *args[:2]), align=1)
        return context.get_dummy_value()

    return types.void(text, types.int64, types.uint64), codegen


@intrinsic
def _zeros_behind(typingctx, a):
    """Return the zero bits behind the last one of a uint64."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.IntType(1)(1))

    return types.int64(types.uint64), codegen


@inline
def _copy(source, p, target, end):
    """Copy the piece at a position; return its length."""
    first = p
    while True:
        word = _read(source, p)
        _write(target, end, word)
        zero = (word - _LOW) & ~word & _HIGH
        if zero != 0:
            return p - first + (_zeros_behind(zero) >> 3)
        p, end = p + _WORD, end + _WORD


@jit
def _paste(text, places, repeats, pasted, ends):
    """Write each row; say whether every column had as many pieces as there are rows.

    `places` has where each column begins, and the end of the last one; it is changed.
    """
    source, target, columns, end = row(text, 0), row(pasted, 0), len(repeats), np.int64(0)
    begins = places.copy()
    for t in range(len(ends)):
        for column in range(columns):
            p = places[column]
            if p >= begins[column + 1]:
                return False
            length = _copy(source, p, target, end)
            end += length
            if not repeats[column]:
                places[column] = p + length + 1
        ends[t] = end
    left = 0
    for column in range(columns):
        left += 0 if repeats[column] else begins[column + 1] - places[column]
    return left == 0


def paste(count: int, columns: Sequence[bytes]) -> tuple[Bytes, IntArray]:
    """Return the text of `count` rows, and where each of them ends in it.

    A column has a piece for each row, with a zero byte behind it; a column without any zero byte is a piece of every
    row. Raises `ValueError` where a column has more or fewer pieces than there are rows.
    """
    repeats = [not column.endswith(b"\0") for column in columns]
    places, room, parts = [0], _WORD, []
    for column, repeated in zip(columns, repeats, strict=True):
        # A zero byte ends the pieces of every row, too.
        parts.append(column + b"\0" if repeated else column)
        places.append(places[-1] + len(parts[-1]))
        room += len(column) * count if repeated else len(column)
    text = np.frombuffer(b"".join((*parts, bytes(_WORD))), np.uint8)
    ends: IntArray = np.empty(count, np.int64)
    pasted = np.empty(room, np.uint8)
    if not _paste(text[np.newaxis], np.array(places), np.array(repeats), pasted[np.newaxis], ends):
        raise ValueError(f"{count} rows have columns of {[column.count(0) for column in columns]} pieces")
    return pasted[: ends[-1] if count else 0], ends


@jit
def _copy_pieces(text, begins, ends, pieces):
    """Copy parts of a text, each with a zero byte behind it."""
    end = 0
    for t in range(len(ends)):
        for at in range(begins[t], ends[t]):
            pieces[end] = text[at]
            end += 1
        pieces[end] = 0
        end += 1


def pieces_of(text: Bytes, begins: IntArray, ends: IntArray) -> bytes:
    """Return parts of a text as a column to `paste`: with a zero byte behind each."""
    pieces = np.empty(int((ends - begins).sum()) + len(ends), np.uint8)
    _copy_pieces(read_only(text), begins, ends, pieces)
    return pieces.tobytes()


def read_only(text: Bytes) -> Bytes:
    """Return the same text without the right to write: kernels are compiled for one of the two."""
    if text.flags.writeable:
        text = text.view()
        text.flags.writeable = False
    return text


def compile() -> None:
    """Compile the kernels, or load them from the cache."""
    paste(1, [b"a", b"b\0"])
    pieces_of(np.frombuffer(b"a", np.uint8), np.array([0]), np.array([1]))
