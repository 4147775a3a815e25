"""What is known of the records beside the models: their places, features and true classes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from resonance.engine.prepare.sparse import SparseRows, starts_of
from resonance.pipeline import exact_json
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, nearest
from resonance.pipeline.evaluate.source import Recording, shuffled
from resonance.pipeline.json_paths import ABSENT, Path, find, parse_path
from resonance.pipeline.records import MOST_ELEMENTS, Record, TopicPartition
from resonance.pipeline.task.decode.dense import Layout
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.json_objects import id_text
from resonance.pipeline.task.decode.mapping import make_mapping
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.schemas import Source
from resonance.schemas.common import place_of

UNKNOWN: Final = -1
"""Class of a record whose truth is not known."""

JOINED: Final = "+"
"""Between the labels of a record that has several, in the name of its class."""


@dataclass(slots=True)
class Dataset:
    """The records in the order of the evaluation."""

    logs: list[TopicPartition]
    log: NDArray[np.int32]
    """Number of each record's partition among `logs`."""
    offset: NDArray[np.int64]
    """Offsets; numbers of records that grow with them where messages have `many`."""
    features: tuple[str, ...]
    """Names of the features; none where records are sparse."""
    rows: NDArray[np.float64]
    """Features of each record, in the units of the input; NaN where a record is not usable."""
    truth: NDArray[np.int32]
    """Number of each record's class, `UNKNOWN` without one."""
    classes: list[str]
    labels: list[tuple[str, ...]]
    """True labels of each class where records have any number of them; empty otherwise."""
    sparse: SparseRows | None = None
    """The records where they are sparse; one that cannot be used has no entries."""
    remark: str = ""
    """What is to be known of the order."""

    many: bool = False
    """Whether messages have many records."""

    def source(self, record: int) -> Source:
        """Return where a record stands."""
        topic, partition = self.logs[self.log[record]]
        number = int(self.offset[record])
        return place_of(topic, partition, *(divmod(number, MOST_ELEMENTS) if self.many else (number,)))

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def has_truth(self) -> bool:
        """Whether the class of any record is known."""
        return bool(self.classes)

    def rearranged(self, seed: int) -> tuple["Dataset", NDArray[np.int64]]:
        """Return the records in a random order of each partition and which one takes each place."""
        order = shuffled(self.log, seed)
        sparse = None if self.sparse is None else self.sparse[order]
        return replace(self, rows=self.rows[order], truth=self.truth[order], sparse=sparse), order


def read(settings: Settings, source: Recording, truth: str | None) -> Dataset:
    """Read the records once.

    `truth` is the path of a member with the class, or the labels, of a record, or the topic of the labels. Raises
    `ConfigurationError` where no record has it, or it is a feature.
    """
    late = settings.labels.topic
    _check_path(settings, truth)
    reader = _Reader(settings, None if truth is None or truth == late else parse_path(truth), late)
    for batch in source.batches():
        reader.add(batch)
    return reader.dataset(source, truth)


def _check_path(settings: Settings, path: str | None) -> None:
    if path is None:
        return
    try:
        parts = parse_path(path)
    except ValueError as error:
        raise ConfigurationError(f"--truth {path}: {error}") from None
    given = settings.input.features
    places = [parse_path(place) for place in ([given] if isinstance(given, str) else given)] if given else []
    if settings.input.sparse is not None:
        places = [parse_path(settings.input.sparse)]
    if any(parts[: len(place)] == place for place in places):
        raise ConfigurationError(
            f"--truth {path} is a feature that the models learn, which says nothing of how good they are; leave it "
            "out of input.features"
        )


class _Reader:
    def __init__(self, settings: Settings, truth: Path | None, late: str | None) -> None:
        self._settings, self._truth, self._late = settings, truth, late
        self._named: dict[tuple[str, ...] | str, int] = {}
        self._truths: list[int] = []
        self._places: list[tuple[TopicPartition, int, int]] = []
        self._rows: list[NDArray[np.float64]] = []
        self._sparse: list[SparseRows] = []
        self._mapping = make_mapping(settings)
        self._members: set[str] = set()
        # Of the topic of labels: the labels by record id, and the newest record with each id.
        self._id = parse_path(settings.input.id_path) if settings.input.id_path else None
        self._said: dict[bytes, tuple[str, ...]] = {}
        self._by_id: dict[bytes, int] = {}

    def add(self, batch: Sequence[Record]) -> None:
        own = []
        for record in batch:
            is_label = record.topic == self._late
            content = _parsed(record.value) if is_label or not self._settings.is_framed else self._read(record)
            if is_label:
                self._said[exact_json.dumps(content.get("id"))] = _texts(content.get("labels"))
                continue
            number = len(self._places)
            own.append(record)
            self._places.append(((record.topic, record.partition), record.offset, record.timestamp))
            if len(self._members) < 50:
                self._members.update(content)
            self._truths.append(UNKNOWN if self._truth is None else self._class_of(find(content, self._truth)))
            if self._id is not None and self._late is not None:
                self._by_id[id_text(find(content, self._id))] = number
        if own and self._settings.input.sparse is None:
            self._rows.append(self._rows_of(own))
        elif own:
            self._sparse.append(self._sparse_of(own))

    def _read(self, record: Record) -> dict[str, Any]:
        """Return a record that has a schema as an object, an empty one where it becomes a dead letter."""
        try:
            return self._mapping.parsed(record.value or b"")
        except FaultError:
            return {}

    def _class_of(self, value: Any) -> int:
        if isinstance(value, list):
            name: tuple[str, ...] | str | None = tuple(sorted(_texts(value)))
        else:
            name = _text(value)
        return UNKNOWN if name is None else self._named.setdefault(name, len(self._named))

    def _rows_of(self, records: Sequence[Record]) -> NDArray[np.float64]:
        if self._mapping.layout is None:
            self._discover(records)
        if not isinstance(self._mapping.layout, Layout):
            return np.empty((len(records), 0))
        decoded: RecordBatch = self._mapping.decode(records)
        rows = np.full((len(records), self._mapping.layout.dimension), np.nan)
        rows[decoded.index] = decoded.rows
        return rows

    def _sparse_of(self, records: Sequence[Record]) -> SparseRows:
        decoded: RecordBatch = self._mapping.decode(records)
        rows: SparseRows = decoded.rows
        counts, by_index = np.zeros(len(records), np.int64), np.zeros(len(records), np.bool_)
        counts[decoded.index], by_index[decoded.index] = np.diff(rows.indptr), rows.by_index
        return SparseRows(rows.codes, starts_of(counts), rows.data, by_index, rows.names)

    def _discover(self, records: Sequence[Record]) -> None:
        for record in records:
            try:
                shape = self._mapping.shape_of(record.value or b"")
            except FaultError:
                continue
            self._mapping.layout = Layout(self._settings, shape)
            return

    def dataset(self, source: Recording, truth: str | None) -> Dataset:
        for own, labels in self._said.items():
            if truth == self._late and own in self._by_id:
                self._truths[self._by_id[own]] = self._class_of(list(labels))
        if truth is not None and not self._named:
            raise self._missing(truth)
        logs = [at for at in source.logs if at[0] != self._late]
        numbers = {at: number for number, at in enumerate(logs)}
        log = np.array([numbers[at] for at, _, _ in self._places], dtype=np.int32)
        times = np.array([time for _, _, time in self._places], dtype=np.int64)
        offsets = np.array([offset for _, offset, _ in self._places], dtype=np.int64)
        order, remark = source.order(offsets, times, log)
        return Dataset(
            logs,
            log[order],
            offsets[order],
            *self._features(order),
            np.array(self._truths, dtype=np.int32)[order],
            [JOINED.join(name) if isinstance(name, tuple) else name for name in self._named],
            self._labels(),
            SparseRows.joined(self._sparse)[order] if self._sparse else None,
            remark,
        )

    def _features(self, order: NDArray[np.int64]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        layout = self._mapping.layout
        if self._settings.input.sparse is not None or not isinstance(layout, Layout):
            return (), np.empty((len(order), 0))
        # Batches before the features were known have no columns.
        parts = [part if part.shape[1] else np.full((len(part), layout.dimension), np.nan) for part in self._rows]
        return layout.features, np.concatenate(parts)[order]

    def _labels(self) -> list[tuple[str, ...]]:
        if not any(isinstance(name, tuple) for name in self._named) and not self._settings.takes_labels:
            return []
        return [name if isinstance(name, tuple) else (name,) for name in self._named]

    def _missing(self, path: str) -> ConfigurationError:
        listed = ", ".join(sorted(self._members)[:20])
        return ConfigurationError(
            f"--truth {path}: no record has a member there that says what it truly is{nearest(path, self._members)}; "
            f"records have {listed}"
        )


def _parsed(value: bytes | None) -> dict[str, Any]:
    """Return a record as an object, an empty one where it is none: it becomes a dead letter."""
    try:
        content = exact_json.loads(value or b"")
    except orjson.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) else {}


def _text(value: Any) -> str | None:
    """Return a class as text; None where there is none."""
    if value is ABSENT or value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return orjson.dumps(value).decode()


def _texts(value: Any) -> tuple[str, ...]:
    found = [_text(each) for each in value] if isinstance(value, list) else [_text(value)]
    return tuple(text for text in found if text is not None)


def class_counts(data: Dataset) -> dict[str, int]:
    """Return the number of records of each class, the most frequent first."""
    counted = Counter(data.truth[data.truth != UNKNOWN].tolist())
    return {data.classes[number]: count for number, count in counted.most_common()}
