"""Decodes the messages of input topics into rows of numbers, a batch at a time.

orjson parses each record; everything else handles the batch as a whole. A batch with anything unusual in it is cut into
small parts. Only a part that holds a fault is decoded record by record, which shows what is wrong.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from resonance.engine.base import FloatArray, IntArray
from resonance.pipeline import exact_json
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.exact_json import Digits
from resonance.pipeline.json_paths import ABSENT, Path, find, parse_path, path_name
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import SourceRecord
from resonance.pipeline.task.decode.dense import Layout, Shape, feature_shape, kind_of
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.json_objects import JsonParser, id_text, is_as_written, members, parsed_json
from resonance.pipeline.task.decode.labels import Labels, RowLabels, labels_of
from resonance.pipeline.task.decode.plain_json import PlainJson
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.decode.sparse import SparseLayout
from resonance.pipeline.text.messages import NULL_VALUE
from resonance.pipeline.timestamps import TimeTexts

REVISION: Final = 1
"""Increased with every change in what a record is decoded to, or in which records are dead letters."""

_PART = 64
"""Records in one part of an unusual batch."""

AnyLayout = Layout | SparseLayout


class Decoded(NamedTuple):
    """One usable record."""

    row: Any
    id: bytes | None
    """As JSON; None without one."""
    time: str
    labels: Labels | None = None
    included: str = ""
    text: str | None = None


class InputMapping:
    """Decodes the records of one partition."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limit = settings.limits.record_bytes
        self._id_path = _path(settings.input.id_path)
        self._has_ids = bool(self._id_path)
        self._time_path = _path(settings.input.time_path)
        self._label_path = _path(settings.input.label_path)
        self._text_path = _path(settings.input.text_path)
        self._takes_labels = settings.takes_labels
        self._is_json = settings.input.format == "json" or settings.has_many
        self._accepts_missing = settings.prepare.missing != "reject"
        self._include = [(path_name(text), parse_path(text)) for text in settings.output.include]
        self._texts = TimeTexts()
        # What reads plain records of a layout, as soon as that is known.
        self._plain: tuple[AnyLayout | None, PlainJson | None] = (None, None)
        self._parser = JsonParser()
        self.layout: AnyLayout | None = None
        """Where the features stand; None until the first usable record has shown it."""
        if settings.input.sparse is not None:
            self.layout = SparseLayout(settings)
        elif not isinstance(settings.input.features, str):
            self.layout = Layout(settings)
        elif settings.input.dimension is not None:
            self.layout = Layout(settings, Shape(settings.input.dimension, ()))

    def decode(self, records: Sequence[SourceRecord]) -> RecordBatch:
        """Decode a batch in offset order."""
        if self.layout is None:
            raise RuntimeError("the layout of the features is not decided")
        records = RecordColumns.of(records)
        plain = self._plain_json(self.layout)
        if plain is None:
            return self._decoded(records, self.layout).place(records)
        batch, unread = plain.read(records, self._limit)
        if len(unread) == len(records):
            return self._decoded(records, self.layout).place(records)
        if unread:
            others = self._decoded(RecordColumns.of([records[at] for at in unread]), self.layout)
            batch = batch.completed(others, unread)
        return batch.place(records)

    def _decoded(self, records: RecordColumns, layout: AnyLayout) -> RecordBatch:
        """Decode records by a library, in smaller parts where one of them has a fault."""
        try:
            return self._whole(records, layout)
        except (KeyError, TypeError, ValueError, IndexError):
            # orjson's error is a ValueError.
            pass
        parts: list[RecordBatch] = []
        for start in range(0, len(records), _PART):
            part = records[start : start + _PART]
            try:
                decoded = self._whole(part, layout)
                decoded.index = range(start, start + len(part))
            except (KeyError, TypeError, ValueError, IndexError):
                decoded = self._one_by_one(part, layout, start)
            parts.append(decoded)
        return self._joined(parts, layout)

    def shape_of(self, value: bytes) -> Shape:
        """Return what the single feature path leads to in a record; a `FaultError` says why there is nothing."""
        return feature_shape(self.parsed(value), self._settings)

    def decode_one(self, record: SourceRecord, layout: Layout) -> RecordBatch:
        """Decode a record that has a value; a `FaultError` says why it is not usable."""
        alone = RecordColumns.of([record])
        decoded = self._one_by_one(alone, layout, 0)
        for fault in decoded.faults:
            raise FaultError(fault.stage, fault.kind, fault.message)
        return decoded.place(alone)

    def _whole(self, records: RecordColumns, layout: AnyLayout) -> RecordBatch:
        """Decode a batch without any fault; a fault raises one of several exceptions."""
        if records.has_null(NULL_VALUE):
            raise TypeError("no value")
        sizes = records.sizes.tolist()
        if max(sizes, default=0) > self._limit:
            raise ValueError("too large")
        count = len(records)
        values: list[Any] = records.values().items
        objects = self._objects(values, layout.openings)
        if objects and set(map(type, objects)) != {dict}:
            raise TypeError("not objects")
        rows = layout.rows(objects) if objects else layout.joined([])
        times = self._times(objects, records.times)
        ids = self._ids(objects, values) if self._id_path else None
        included = None
        if self._include:
            long = self._may_lose(values)
            included = [self._included(parsed, value, long=long) for parsed, value in zip(objects, values, strict=True)]
        row_labels = self._row_labels(objects, values, ids) if self._takes_labels else []
        batch = RecordBatch(rows, times, sizes, ids=ids, included=included, labels=row_labels, index=range(count))
        if self._text_path:
            texts = members(objects, self._text_path)
            if not set(map(type, texts)) <= {str, type(None), type(ABSENT)}:
                raise TypeError("not texts")
            batch.texts = [None if text is ABSENT else text for text in texts]
        return batch

    def _has_unusable(self, numbers: FloatArray, *, sparse: bool = False) -> bool:
        """Whether any number is infinite, or none where one must be: JSON has neither."""
        with np.errstate(over="ignore", invalid="ignore"):
            # Finite only where all numbers are.
            if np.isfinite(numbers.sum()):
                return False
        if sparse or not self._accepts_missing:
            return not np.isfinite(numbers).all()
        return bool(np.isinf(numbers).any())

    def _plain_json(self, layout: AnyLayout) -> PlainJson | None:
        """Return what reads plain records, where these need nothing of their objects but features, ids and times."""
        if self._plain[0] is not layout:
            made = None
            if isinstance(layout, Layout) and self._is_json and not self._include and not self._takes_labels:
                paths = self._id_path, self._time_path
                made = PlainJson.of(layout, *paths, text_path=self._text_path, nulls=self._accepts_missing)
            self._plain = layout, made
        return self._plain[1]

    def _objects(self, values: list[bytes], openings: int) -> list[Any]:
        """Parse a batch of values, in each of which at least `openings` objects and arrays begin."""
        return self._parser.objects(values, openings)

    def _times(self, objects: list[dict[str, Any]], kafka: IntArray) -> list[str]:
        stamps: list[Any] = kafka.tolist()
        if self._time_path:
            given = members(objects, self._time_path)
            if not set(map(type, given)) <= {str, int, float, type(None), type(ABSENT)}:
                raise TypeError("not times")
            stamps = [s if g is None or g is ABSENT else g for g, s in zip(given, stamps, strict=True)]
        return list(map(self._texts.__getitem__, stamps))

    def _ids(self, objects: list[dict[str, Any]], values: list[bytes]) -> list[bytes]:
        ids = members(objects, self._id_path)
        kinds = set(map(type, ids))
        if kinds == {str}:
            joined = orjson.dumps(ids)
            if b"\\" not in joined:
                # Without escapes every quote begins or ends a text, and a JSON text holds no bare line break.
                return joined[1:-1].replace(b'","', b'"\n"').split(b"\n")
        if not kinds <= {str, int, float, type(None), type(ABSENT)}:
            raise TypeError("not ids")
        if float in kinds and self._may_lose(values):
            ids = [self._member(*each, self._id_path) for each in zip(objects, values, strict=True)]
        return list(map(id_text, ids))

    def _member(self, parsed: dict[str, Any], value: bytes, path: Path) -> Any:
        """Return a member that is only passed through, with all its digits."""
        found = find(parsed, path)
        if type(found) not in (float, list) or is_as_written(value, path, found):
            return found
        return find(self._exact(value, parsed), path)

    def _may_lose(self, values: list[bytes]) -> bool:
        """Return whether a record of a batch may have a number that lost digits as it was parsed."""
        return not self._is_json or exact_json.has_long(b" ".join(values))

    def _exact(self, value: bytes, parsed: Any) -> Any:
        """Return a record that was read, with the digits of its numbers."""
        return exact_json.exact(value, parsed)

    def _row_labels(
        self, objects: list[dict[str, Any]], values: list[bytes], ids: list[bytes] | None
    ) -> list[RowLabels]:
        try:
            labels: Iterable[Labels | None] = map(self._labels, objects, values) if self._label_path else repeat(None)
            return [
                RowLabels(None if own == b"null" else own, given)
                for own, given in zip(ids or repeat(None, len(objects)), labels, strict=False)
            ]
        except FaultError:
            raise TypeError("not labels") from None

    def _included(self, parsed: dict[str, Any], value: bytes, *, long: bool = True) -> str:
        """Return the copied members as a JSON object; without `long` numbers nothing is lost."""
        present: dict[str, Any] = {}
        exact: Any = None
        for name, path in self._include:
            found = find(parsed, path)
            is_plain = not long or type(found) not in (float, dict, list)
            if not is_plain and not is_as_written(value, path, found):
                exact = self._exact(value, parsed) if exact is None else exact
                found = find(exact, path)
            if found is not ABSENT:
                present[name] = found
        return exact_json.dumps(present).decode()

    def _one_by_one(self, records: RecordColumns, layout: AnyLayout, start: int) -> RecordBatch:
        rows, times, ids, index = list[Any](), list[str](), list[bytes](), list[int]()
        included, texts = list[str](), list[str | None]()
        decoded = RecordBatch(None, times, [], index=index)
        for at, record in enumerate(records, start):
            if record.value is None:
                decoded.skipped += 1
                continue
            try:
                found = self._one(record, record.value, layout)
            except FaultError as error:
                decoded.faults.append(error.at(at))
                continue
            index.append(at)
            decoded.sizes.append(len(record.value))
            rows.append(found.row)
            times.append(found.time)
            if self._takes_labels:
                decoded.labels.append(RowLabels(found.id, found.labels))
            ids.append(found.id or b"null")
            included.append(found.included)
            texts.append(found.text)
        decoded.rows, decoded.ids = layout.stacked(rows), ids if self._has_ids else None
        decoded.included, decoded.texts = included if self._include else None, texts if self._text_path else None
        return decoded

    def _one(self, record: SourceRecord, value: bytes, layout: AnyLayout) -> Decoded:
        """Decode the value of one record; a `FaultError` says why it is not usable."""
        parsed = self.parsed(value)
        row = layout.row(parsed)
        id_, time = self._id(parsed, value), self._time(parsed, record.timestamp)
        labels = self._labels(parsed, value)
        included = self._included(parsed, value) if self._include else ""
        return Decoded(row, id_, time, labels, included, self._text(parsed))

    def _joined(self, parts: list[RecordBatch], layout: AnyLayout) -> RecordBatch:
        rows: list[Any] = [part.rows for part in parts]

        def all_of(columns: Iterable[Iterable[Any] | None]) -> list[Any]:
            return [*chain.from_iterable(column or () for column in columns)]

        return RecordBatch(
            layout.joined(rows),
            all_of(part.times for part in parts),
            all_of(part.sizes for part in parts),
            ids=all_of(part.ids for part in parts) if self._has_ids else None,
            included=all_of(part.included for part in parts) if self._include else None,
            labels=all_of(part.labels for part in parts),
            texts=all_of(part.texts for part in parts) if self._text_path else None,
            index=all_of(part.index for part in parts),
            faults=all_of(part.faults for part in parts),
            skipped=sum(part.skipped for part in parts),
        )

    def check_size(self, value: bytes) -> None:
        """Raise `FaultError` for a value longer than ``limits.record_bytes``."""
        if len(value) > self._limit:
            raise FaultError(
                "limit",
                "record_too_large",
                f"{len(value):,} bytes, limits.record_bytes allows {self._limit:,}; send less or raise it",
            )

    def parsed(self, value: bytes) -> dict[str, Any]:
        """Return a record as an object, or raise `FaultError` if it is none, too large, or nested too deep."""
        self.check_size(value)
        return parsed_json(value)

    def document(self, value: bytes) -> tuple[Any, bool]:
        """Return what a message holds, an object or not, and whether it can be written without loss by orjson alone."""
        try:
            found = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            if "infinity" in str(error) and (exact := exact_json.beyond(value)) is not None:
                return exact, False
            # Raises what is wrong.
            return parsed_json(value), True
        exact = self._exact(value, found)
        return exact, exact is found

    def member(self, value: bytes, path: Path) -> Any:
        """Return a member of a record that `parsed` reads, whatever its nesting: a router looks at one member."""
        return self._member(self._members(value), value, path)

    def _members(self, value: bytes) -> dict[str, Any]:
        try:
            found = orjson.loads(value)
        except orjson.JSONDecodeError:
            found = None
        # The other way raises the error that says what is wrong.
        return found if isinstance(found, dict) else self.parsed(value)

    def _id(self, parsed: dict[str, Any], value: bytes) -> bytes | None:
        """Return the id as JSON, or None."""
        if not self._id_path:
            return None
        found = self._member(parsed, value, self._id_path)
        if found is ABSENT or found is None:
            return None
        if type(found) not in (str, int, float, Digits):
            where = self._settings.input.id_path
            raise FaultError("validate", "wrong_type", f"{where} is {kind_of(found)}; an id is text or a number")
        return id_text(found)

    def _labels(self, parsed: dict[str, Any], value: bytes) -> Labels | None:
        """Return the labels, or None if there are none to learn."""
        path = self._label_path
        return labels_of(self._member(parsed, value, path), str(self._settings.input.label_path)) if path else None

    def _text(self, parsed: dict[str, Any]) -> str | None:
        found = find(parsed, self._text_path) if self._text_path else None
        if found is ABSENT or found is None:
            return None
        if type(found) is not str:
            where = self._settings.input.text_path
            raise FaultError("validate", "wrong_type", f"{where} is {kind_of(found)}; it must be text")
        return found

    def stamp(self, record: SourceRecord) -> str:
        """Return Kafka's timestamp as the time of a record without a time of its own.

        Raises `FaultError` if the timestamp is beyond the years that a time can have.
        """
        return self._time({}, record.timestamp)

    def _time(self, parsed: dict[str, Any], timestamp: int) -> str:
        value = find(parsed, self._time_path) if self._time_path else None
        where = self._settings.input.time_path
        if value is ABSENT or value is None:
            value, where = timestamp, "Kafka's timestamp"
        if type(value) not in (str, int, float):
            raise FaultError(
                "validate", "bad_time", f"{where} is {kind_of(value)}; a time is RFC 3339 text or milliseconds"
            )
        try:
            return self._texts[value]
        except ValueError as error:
            raise FaultError("validate", "bad_time", f"{where}: {error}") from None


def _path(text: str | None) -> Path:
    return parse_path(text) if text else ()
