"""The container in which engines and preparations keep their state: versioned, checksummed, canonical.

Layout, all numbers little endian::

    magic "RESO" | format u16 | length of the header u32 | header | arrays, one behind the other | sha256 of all before

The header is canonical JSON: the kind, its revision, the owner's own members, and name, type and shape of each array
in the order of the names. Integers have 32 bits where all of an array fit, else 64. Equal contents give equal bytes on
every machine; nothing in it can run code.
"""

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine.errors import StateError

FORMAT = 2
"""Raised when the layout changes; older formats stay readable. In the first one all integers had 64 bits."""

_MAGIC = b"RESO"
_PREFIX = struct.Struct("<4sHI")
_DIGEST = hashlib.sha256().digest_size
_TYPES: dict[str, np.dtype[Any]] = {code: np.dtype(f"<{code}") for code in ("f8", "i8", "i4", "u1")}
_NATIVE = {"f8": np.float64, "i8": np.int64, "i4": np.int64, "u1": np.uint8}
"""The types as which arrays are read: integers are short only where they are kept."""
_SHORT = np.iinfo(np.int32)


def pack(kind: str, revision: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes that `unpack` reads.

    Parameters
    ----------
    kind : str
        Whose state this is, such as ``caea``.
    revision : int
        Revision of the code that wrote it.
    header : mapping
        Small values that JSON can hold: finite numbers, text, bool, None, lists, mappings with text as keys. Tuples
        come back as lists.
    arrays : mapping of str to ndarray
        float64, int64 or uint8, of any shape.

    Raises
    ------
    TypeError, ValueError
        A value that the container cannot hold; a fault of the caller, never of the data.
    """
    names = sorted(arrays)
    shapes: list[list[Any]] = []
    parts: list[bytes] = []
    for name in names:
        array = np.asarray(arrays[name])
        code = f"{array.dtype.kind}{array.dtype.itemsize}"
        if code not in _TYPES or code == "i4":
            raise TypeError(f"array {name!r} is {array.dtype}: a state holds float64, int64 and uint8")
        if code == "i8" and (not array.size or (array.min() >= _SHORT.min and array.max() <= _SHORT.max)):
            code = "i4"
        shapes.append([name, code, list(array.shape)])
        parts.append(array.astype(_TYPES[code], order="C", copy=False).tobytes())
    content = {"kind": kind, "revision": revision, "header": dict(header), "arrays": shapes}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    body = b"".join([_PREFIX.pack(_MAGIC, FORMAT, len(text)), text, *parts])
    return body + hashlib.sha256(body).digest()


def unpack(data: bytes, kind: str, revision: int, oldest: int = 1) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays that `pack` was given; the arrays are writable copies.

    Parameters
    ----------
    data : bytes
        What `pack` returned.
    kind : str
        The kind that the caller can read.
    revision : int
        The caller's revision; a state of an older one is read, of a newer one refused.
    oldest : int
        The oldest revision whose states the caller can read.

    Raises
    ------
    StateError
        Damaged, of another kind, or written by a newer program or by one too old.
    """
    if len(data) < _PREFIX.size + _DIGEST:
        raise StateError(f"the state of {kind} is cut off after {len(data)} bytes")
    magic, form, length = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise StateError(f"these bytes are no state: they begin with {magic!r}, not {_MAGIC!r}")
    # Before the checksum: a newer format may keep its checksum elsewhere.
    if form > FORMAT:
        raise StateError(f"the state of {kind} has format {form}, this program reads up to {FORMAT}: use a newer one")
    end = len(data) - _DIGEST
    if hashlib.sha256(memoryview(data)[:end]).digest() != data[end:]:
        raise StateError(f"the state of {kind} is damaged: its checksum does not fit")
    try:
        content = json.loads(data[_PREFIX.size : _PREFIX.size + length])
        found, written, header = str(content["kind"]), int(content["revision"]), dict(content["header"])
        arrays = _arrays(data, _PREFIX.size + length, end, content["arrays"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise StateError(f"the state of {kind} cannot be read: {error!r}") from error
    if found != kind:
        raise StateError(f"this is a state of {found!r}, not of {kind!r}")
    if written > revision:
        raise StateError(f"the state of {kind} has revision {written}, this program {revision}: use a newer one")
    if written < oldest:
        raise StateError(
            f"the state of {kind} has revision {written}, this program reads {oldest} and later: "
            "learn the records again"
        )
    return header, arrays


def _arrays(data: bytes, start: int, end: int, shapes: list[list[Any]]) -> dict[str, NDArray[Any]]:
    """Cut the arrays out of ``data[start:end]``; ValueError where shapes and bytes do not agree."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, code, shape in shapes:
        count = math.prod(shape)
        size = count * _TYPES[code].itemsize
        if size < 0 or size > end - start:
            raise ValueError(f"array {name!r} of shape {shape} goes beyond the end")
        array: NDArray[Any] = np.frombuffer(data, _TYPES[code], count, start).reshape(shape)
        # A copy in native byte order: writable, aligned, and the caller's own.
        arrays[name] = array.astype(_NATIVE[code])
        start += size
    if start != end:
        raise ValueError(f"{end - start} bytes belong to no array")
    return arrays
