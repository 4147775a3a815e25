"""Reads a batch of plain JSON records as columns, without a Python object for each number and name.

It knows the frequent layouts, numbers in one array or one object, or each a member of the record, and reads what
`pipeline.text.json_members` reads. All else is left to `json_records`, which finds the same in what both read.
"""

from collections.abc import Iterator
from typing import Final, Self

import numpy as np
import orjson
from resonance.engine.base import IntArray
from resonance.pipeline.columns import Texts, Times, behind
from resonance.pipeline.json_paths import Path
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.task.decode.dense import Layout
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.text import json_members
from resonance.pipeline.text.json_members import NOT_READ, Bytes, MemberColumns, Wanted
from resonance.pipeline.text.paste import read_only

_NULL: Final = np.frombuffer(b"null", np.uint8)


class PlainJson:
    """Reads the records of a layout; without a path there are no ids, times, or texts."""

    def __init__(self, wanted: Wanted, columns: int) -> None:
        self._wanted = wanted
        self._columns = columns
        self._has_ids = json_members.ID in wanted.roles
        self._has_texts = json_members.TEXT in wanted.roles

    @classmethod
    def of(cls, layout: Layout, id_path: Path, time_path: Path, *, text_path: Path = (), nulls: bool) -> Self | None:
        """Return what reads records of a layout; None for layouts that are not frequent."""
        if (group := layout.only_group) is None:
            return None
        container, keys, columns = group
        own: list[tuple[Path, int]] = [
            (path, role)
            for path, role in (
                (id_path, json_members.ID),
                (time_path, json_members.TIME),
                (text_path, json_members.TEXT),
            )
            if path
        ]
        second: list[tuple[str, int]] = []
        if not container:
            own += [((str(key),), column) for key, column in zip(keys, columns, strict=True)]
        elif layout.shape is not None and not layout.shape.names:
            own.append((container, json_members.NUMBERS))
        else:
            own.append((container, json_members.MEMBERS))
            second = [(str(key), column) for key, column in zip(keys, columns, strict=True)]
        if {len(path) for path, _ in own} != {1} or len({path for path, _ in own}) < len(own):
            return None
        members = [*((path[0], role) for path, role in own), *second]
        names = [name.encode() for name, _ in members]
        ends = np.cumsum([len(name) for name in names])
        text = np.frombuffer(b"".join(names), np.uint8)[np.newaxis]
        roles: IntArray = np.array([[role for _, role in members]])
        return cls(Wanted(text, ends[np.newaxis], roles, len(own), nulls=nulls), layout.dimension)

    def read(self, records: RecordColumns, largest: int) -> tuple[RecordBatch, list[int]]:
        """Read records of at most `largest` bytes, whose times are those of Kafka where they have no other.

        Return the batch, with room for the records that are left to others, and the positions of these.
        """
        text, found = read_only(records.text), np.empty((5, len(records)), np.int64)
        columns = MemberColumns(np.empty((len(records), self._columns)), found)
        flags = json_members.read_records(text[np.newaxis], records.ends, records.times, self._wanted, columns)
        begins, ends, times, *spans = found
        sizes = records.sizes
        if (too_large := sizes > largest).any():
            begins[too_large] = NOT_READ
            flags |= json_members.UNREAD
        if flags & json_members.BEYOND_ASCII and not _is_utf8(text):
            begins[[not _is_utf8(text[first:last]) for first, last in _spans(records.ends)]] = NOT_READ
            flags |= json_members.UNREAD
        unread = np.flatnonzero(begins == NOT_READ).tolist() if flags & json_members.UNREAD else []
        batch = RecordBatch(columns.numbers, Times(times), sizes.tolist(), index=range(len(records)))
        if self._has_texts:
            batch.texts = _texts(text, *spans)
        if not self._has_ids:
            return batch, unread
        if flags & json_members.WITHOUT_ID:
            absent = begins == ends
            begins[absent], ends[absent] = len(text), len(text) + len(_NULL)
            text = np.concatenate((text, _NULL))
        batch.ids = Texts(text, begins, ends)
        return batch, unread


def _texts(text: Bytes, begins: IntArray, ends: IntArray) -> list[str | None]:
    """Return the texts that stand at some places as JSON, None for those of no length."""
    present = begins < ends
    given = iter(orjson.loads(b"[%b]" % b",".join(Texts(text, begins[present], ends[present]))))
    return [next(given) if there else None for there in present.tolist()]


def _is_utf8(text: Bytes) -> bool:
    try:
        str(text.data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _spans(ends: IntArray) -> Iterator[tuple[int, int]]:
    return zip(behind(ends, 1).tolist(), ends.tolist(), strict=True)
