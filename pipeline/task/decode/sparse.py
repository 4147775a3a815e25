"""Extracts sparse records from parsed messages, a batch at a time and without making them dense.

A record has its features as ``{"indices": [3, 7], "values": [0.5, 1.0]}`` or as an object name -> number. An object
with exactly these two members, both arrays, has the first form; any other object has the second.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain, count
from operator import itemgetter
from typing import Any

import numpy as np
from resonance.engine.base import IntArray
from resonance.engine.prepare.sparse import SparseRows, starts_of
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.json_paths import ABSENT, find, parse_path
from resonance.pipeline.task.decode.dense import Shape, as_floats, kind_of, number_of
from resonance.pipeline.task.decode.faults import FaultError

INDICES, VALUES = "indices", "values"

_both = itemgetter(INDICES, VALUES)


class SparseLayout:
    """Extracts sparse records from parsed ones, as `Layout` does for dense ones."""

    features: tuple[str, ...] = ()
    """Empty, because each stream finds out its own features."""
    shape: Shape | None = None
    """None, because the first records decide nothing."""

    def __init__(self, settings: Settings) -> None:
        self._where = str(settings.input.sparse)
        self._path = parse_path(self._where)
        self._may_be_empty = settings.learns_zeros
        self.openings = 1 + len(self._path)
        """Fewest objects and arrays that a record opens."""

    def rows(self, objects: list[dict[str, Any]]) -> SparseRows:
        """Return the records of a batch, which must all be usable and of one form.

        Otherwise `KeyError`, `TypeError` or `ValueError` is raised, and `row` says what is wrong with a single record.
        """
        found: list[Any] = objects
        for name in self._path:
            found = list(map(itemgetter(name), found))
        if set(map(type, found)) != {dict}:
            raise TypeError("not objects")
        if not self._may_be_empty and not all(found):
            raise ValueError("a record without any feature")
        return self._by_index(found) if _is_by_index(found[0]) else self._by_name(found)

    def _by_name(self, found: list[dict[str, Any]]) -> SparseRows:
        values = list(chain.from_iterable(map(dict.values, found)))
        data = as_floats(values)
        listed = list(chain.from_iterable(found))
        names = list(dict.fromkeys(listed))
        code = dict(zip(names, count(), strict=False))
        codes = np.fromiter(map(code.__getitem__, listed), np.int64, len(listed))
        return SparseRows(codes, _record_starts(found), data, np.zeros(len(found), np.bool_), names)

    def _by_index(self, found: list[dict[str, Any]]) -> SparseRows:
        if set(map(len, found)) != {2}:
            raise ValueError("of both forms")
        pairs = list(map(_both, found))
        indices, values = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if set(map(type, indices)) | set(map(type, values)) != {list}:
            raise TypeError("not arrays")
        if list(map(len, indices)) != list(map(len, values)) or not (self._may_be_empty or all(values)):
            raise ValueError("arrays of different lengths, or empty ones")
        flat, numbers = list(chain.from_iterable(indices)), list(chain.from_iterable(values))
        if not set(map(type, flat)) <= {int}:
            raise TypeError("not places")
        data = as_floats(numbers)
        try:
            codes = np.fromiter(flat, np.int64, len(flat))
        except OverflowError as error:
            raise ValueError("an index beyond int64") from error
        indptr = _record_starts(values)
        if len(codes) and (codes.min() < 0 or has_twice(codes, indptr)):
            raise ValueError("a negative index, or one that comes twice")
        return SparseRows(codes, indptr, data, np.ones(len(found), np.bool_), [])

    def row(self, record: dict[str, Any]) -> SparseRows:
        """Return one record as a batch; a `FaultError` says what is wrong with it."""
        value, where = find(record, self._path), self._where
        if value is ABSENT or value is None:
            text = f"{where} is {kind_of(value)}; it is where input.sparse looks for the features"
            raise FaultError("validate", "missing_feature", text)
        if not isinstance(value, dict):
            text = f'{where} is {kind_of(value)}, neither {{"indices": [...], "values": [...]}} nor name -> number'
            raise FaultError("validate", "wrong_type", text)
        if _is_by_index(value):
            entries = self._checked_pairs(*_both(value))
        else:
            entries = [(name, f"{where}.{name}", each) for name, each in value.items()]
        if not entries and not self._may_be_empty:
            raise FaultError("validate", "wrong_dimension", f"{where} is empty: a record has at least one feature")
        for _, place, each in entries:
            if each is None:
                text = f"{place} is null; leave it out: a feature that is not there is 0"
                raise FaultError("validate", "missing_feature", text)
            number_of(each, place)
        return self.rows([record])

    def _checked_pairs(self, indices: list[Any], values: list[Any]) -> list[tuple[Any, str, Any]]:
        """Return (index, place, value) of each entry of a record, after a check of the indices."""
        where = self._where
        if len(indices) != len(values):
            text = f"{where} has {len(indices):,} indices and {len(values):,} values; each value needs its index"
            raise FaultError("validate", "wrong_dimension", text)
        for place, index in enumerate(indices):
            if type(index) is not int:
                text = f"{where}.indices[{place}] is {kind_of(index)}, not an integer from 0 on"
                raise FaultError("validate", "wrong_type", text)
            if not 0 <= index < 2**63:
                raise FaultError(
                    "validate", "wrong_dimension", f"{where}.indices[{place}] is {index}: features count from 0"
                )
        if len(set(indices)) < len(indices):
            twice = Counter(indices).most_common(1)[0][0]
            text = f"{where} has feature {twice} twice; send each of them once"
            raise FaultError("validate", "wrong_dimension", text)
        pairs = enumerate(zip(indices, values, strict=True))
        return [(index, f"{where}.values[{place}]", value) for place, (index, value) in pairs]

    @staticmethod
    def joined(parts: Sequence[SparseRows]) -> SparseRows:
        """Return the records of several batches as one batch."""
        return SparseRows.joined(parts)

    stacked = joined
    """Of records from `row`, which are batches of one."""


def has_twice(codes: IntArray, indptr: IntArray) -> bool:
    """Whether any record has a feature twice."""
    record = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    inside = record[1:] == record[:-1]
    if (np.diff(codes)[inside] > 0).all():
        return False
    order = np.lexsort((codes, record))
    return bool(((np.diff(codes[order]) == 0) & (np.diff(record[order]) == 0)).any())


def _is_by_index(value: dict[str, Any]) -> bool:
    return (
        len(value) == 2
        and INDICES in value
        and VALUES in value
        and isinstance(value[INDICES], list)
        and isinstance(value[VALUES], list)
    )


def _record_starts(records: Sequence[Any]) -> IntArray:
    return starts_of(np.fromiter(map(len, records), np.int64, len(records)))
