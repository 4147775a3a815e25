"""What a stream knows of its records that can still be labelled, and of labels whose record has not come yet."""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from itertools import accumulate, pairwise, takewhile
from typing import Any, Final, NamedTuple, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE, FloatArray, Label
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.pipeline.config.label_checks import LABELS
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import RoutedRecord
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.labels import TEXT_BYTES, Labels, too_many

KIND: Final = "labels"
REVISION: Final = 1

ID_BYTES: Final = 1_000
"""A record with a longer id is not kept for late labels."""


class Waiting(NamedTuple):
    """Labels whose record has not come yet.

    Attributes
    ----------
    labels : tuple of str
        The labels.
    record : RoutedRecord
        The message that says them.
    due : int
        They are given up when the stream has had so many records and messages of labels.
    """

    labels: Labels
    record: RoutedRecord
    due: int


class LabelMemory:
    """Remembers the newest records of a stream by their ids, with the features of those that have no labels yet.

    It remembers nothing, and lets nothing wait, until it is told its `bound`.

    Attributes
    ----------
    seen : int
        Records and messages of labels that the stream has had.
    learned : int
        Records that were learned with labels.
    held : list of (bytes or None, tuple of str or None)
        Id and labels of each record that the warm-up holds back; the labels of one can be set.
    known : set of str
        Every label that the stream has, learned or waiting to be.
    unlabelled : int
        Records whose features are kept.
    waiting : dict of bytes to Waiting
        By the id of the record that has not come.
    """

    __slots__ = (
        "_held_at",
        "_kept",
        "_labels",
        "_most",
        "_patience",
        "held",
        "known",
        "learned",
        "seen",
        "unlabelled",
        "waiting",
    )

    def __init__(self) -> None:
        self._most = self._patience = 0
        self._labels = LABELS
        # The prepared features; None of a record that has its labels.
        self._kept: OrderedDict[bytes, FloatArray | None] = OrderedDict()
        self.seen = self.learned = self.unlabelled = 0
        self.held: list[tuple[bytes | None, Labels | None]] = []
        # The newest record of each id among them.
        self._held_at: dict[bytes, int] = {}
        self.waiting: dict[bytes, Waiting] = {}
        self.known: set[str] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def bound(self, settings: Settings) -> None:
        """Take from settings how many records are kept, and how long labels wait for theirs, from now on at most."""
        # Without a topic of labels none comes late.
        self._most = settings.labels.buffer_records if settings.labels.topic else 0
        self._patience = settings.labels.wait_records
        self._labels = min(LABELS, settings.engine_parameters.get("max_labels", LABELS))
        self._forget()
        # No label waits behind one that the settings of before let wait longer.
        last = self.seen + self._patience
        self.waiting = {own: label._replace(due=min(label.due, last)) for own, label in self.waiting.items()}

    def go_on(self, before: "LabelMemory") -> None:
        """Let the labels wait on that waited for records of the version before; `bound` says how long."""
        self.seen, self.waiting = before.seen, before.waiting

    def hold(self, own: bytes | None, labels: Labels | None) -> None:
        """Remember a record that the warm-up holds back, with its labels or without."""
        if own is not None:
            self._held_at[own] = len(self.held)
        self.held.append((own, labels))

    def held_at(self, own: bytes) -> int | None:
        """Return where in `held` the newest record with an id stands; None where there is none."""
        return self._held_at.get(own)

    def release(self) -> list[tuple[bytes | None, Labels | None]]:
        """Return the records that the warm-up held back; it holds none any more."""
        held, self.held, self._held_at = self.held, [], {}
        return held

    def keep(self, own: bytes | None, features: FloatArray | None) -> None:
        """Remember a record; the oldest is forgotten where there are too many.

        Parameters
        ----------
        own : bytes or None
            Its id; a record without one cannot be named later. Of several with the same id the newest counts.
        features : ndarray of shape (columns,) or None
            Its prepared features; None where it has its labels.
        """
        if not self._most or own is None or len(own) > ID_BYTES:
            return
        self.unlabelled -= self._kept.pop(own, None) is not None
        self._kept[own] = None if features is None else features.copy()
        self.unlabelled += features is not None
        self._forget()

    def _forget(self) -> None:
        while len(self._kept) > self._most:
            _, oldest = self._kept.popitem(last=False)
            self.unlabelled -= oldest is not None

    def take_in(self, labels: Labels) -> None:
        """Count labels that will be learned among those of the stream.

        Raises
        ------
        FaultError
            It would have too many.
        """
        if not self.known.issuperset(labels):
            known = self.known.union(labels)
            if len(known) > self._labels:
                raise too_many(f"with these labels the stream would have {len(known):,}", self._labels)
            self.known = known

    def knows(self, own: bytes) -> bool:
        """Whether a record is remembered."""
        return own in self._kept

    def is_labelled(self, own: bytes) -> bool:
        """Whether a record that is remembered has its labels."""
        return self._kept[own] is None

    def take(self, own: bytes) -> FloatArray | None:
        """Return the features of a record that gets its labels now; None where it has had them."""
        features, self._kept[own] = self._kept[own], None
        self.unlabelled -= features is not None
        return features

    def wait(self, own: bytes, labels: Labels, record: RoutedRecord) -> bool:
        """Let labels wait for their record; False where they do not."""
        if not self._patience:
            return False
        self.waiting[own] = Waiting(labels, record, self.seen + self._patience)
        return True

    def overdue(self) -> list[tuple[bytes, RoutedRecord]]:
        """Return id and message of labels that have waited long enough, as they stand; they wait no longer."""
        if not self.waiting or next(iter(self.waiting.values())).due > self.seen:
            return []
        return self._given_up(
            [own for own, _ in takewhile(lambda entry: entry[1].due <= self.seen, self.waiting.items())]
        )

    def give_up(self) -> list[tuple[bytes, RoutedRecord]]:
        """Return id and message of all labels that wait, as they stand on their topic; they wait no longer."""
        return self._given_up(list(self.waiting))

    def _given_up(self, ids: list[bytes]) -> list[tuple[bytes, RoutedRecord]]:
        given_up = [(own, self.waiting.pop(own).record) for own in ids]
        return sorted(given_up, key=lambda entry: (entry[1].topic, entry[1].partition, entry[1].source_offset))

    def too_late(self, own: bytes) -> FaultError:
        """Return the fault of labels for a record that is not remembered, and does not come."""
        problem = f"the record {shown(own)} is not among the last {self._most:,} of its stream"
        if self._patience:
            problem += f", and was not among the {self._patience:,} records and labels after this message"
        return FaultError(
            "label",
            "too_late",
            f"{problem}: it came longer ago, before the present version of the model, or not at all, or it is a dead "
            "letter itself; send labels sooner, or raise labels.buffer_records"
            + ("" if self._patience else ", or labels.wait_records where labels come before their records"),
        )

    def state(self, columns: int) -> bytes:
        """Return everything, canonical; `columns`: how many features a prepared record has."""
        waiting = [
            [_text(own), list(labels), due, record.topic, record.partition, record.offset, record.timestamp,
             _text(record.key), _text(record.value), [[name, _text(value)] for name, value in record.headers],
             _text(record.stream), record.source_offset]
            for own, (labels, record, due) in self.waiting.items()
        ]  # fmt: skip
        held = [[_text(own), None if labels is None else list(labels)] for own, labels in self.held]
        rows = [features for features in self._kept.values() if features is not None]
        ids, ends = _joined(list(self._kept))
        arrays: dict[str, NDArray[Any]] = {
            "ids": ids,
            "ends": ends,
            "labelled": np.array([features is None for features in self._kept.values()], np.uint8),
            "features": np.array(rows, np.float64).reshape(len(rows), columns),
        }
        header = {
            "seen": self.seen,
            "learned": self.learned,
            "known": sorted(self.known),
            "waiting": waiting,
            "held": held,
        }
        return pack(KIND, REVISION, header, arrays)

    @classmethod
    def from_state(cls, data: bytes, columns: int, held: int, learned: Collection[Label] = ()) -> Self:
        """Continue from a `state`.

        Parameters
        ----------
        data : bytes
            The state.
        columns : int
            Features of a prepared record.
        held : int
            Records that the warm-up has held back.
        learned : collection of str
            The labels that the stream's engine has learned.

        Raises
        ------
        StateError
            Damaged, of another stream, or written by a newer program.
        """
        header, arrays = unpack(data, KIND, REVISION)
        made = cls()
        try:
            made.seen, made.learned = int(header["seen"]), int(header["learned"])
            for own, labels in header["held"]:
                made.hold(_bytes(own), None if labels is None else _labels(labels))
            made.known = set(_labels(header["known"]))
            # What the engine would find to be one label too many must have been found here.
            if not made.known.issuperset([*learned, *(text for _, labels in made.held for text in labels or ())]):
                raise ValueError(f"of {len(made.known)} labels some are missing that records were learned with")
            made.waiting = {_some(own): _waiting(rest) for own, *rest in header["waiting"]}
            dues = [label.due for label in made.waiting.values()]
            if dues != sorted(dues):
                raise ValueError("labels that wait in another order than they came")
            for own in made.waiting:
                own.decode()
            made._kept = _kept(arrays, columns)
            made.unlabelled = len(arrays["features"])
            if len(made.held) != held or made.seen < 0 or made.learned < 0:
                raise ValueError(f"{len(made.held)} of {held} records of the warm-up, {made.seen} records")
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise StateError(f"the labels of a stream cannot be read: {error!r}") from error
        return made


def shown(own: bytes) -> str:
    """Return an id as a sentence can hold it."""
    text = own.decode()
    return text if len(text) <= 100 else f"{text[:100]}..."


def _kept(arrays: Mapping[str, NDArray[Any]], columns: int) -> "OrderedDict[bytes, FloatArray | None]":
    joined, labelled, features = arrays["ids"].tobytes(), arrays["labelled"], arrays["features"]
    ids = [joined[start:end] for start, end in pairwise([0, *arrays["ends"].tolist()])]
    open_ = np.flatnonzero(labelled == 0)
    if (
        len(ids) != len(labelled)
        or features.shape != (len(open_), columns)
        or not (np.abs(features) <= MAGNITUDE).all()
    ):
        raise ValueError(f"{len(ids)} records, {len(labelled)} marks and features of shape {features.shape}")
    kept: OrderedDict[bytes, FloatArray | None] = OrderedDict.fromkeys(ids)
    if len(kept) != len(ids) or sum(map(len, ids)) != len(joined) or max(map(len, ids), default=0) > ID_BYTES:
        raise ValueError("ids that do not belong together")
    for row, place in enumerate(open_.tolist()):
        kept[ids[place]] = features[row]
    return kept


def _waiting(content: list[Any]) -> Waiting:
    labels, due, topic, partition, offset, timestamp, key, value, headers, stream, source_offset = content
    record = RoutedRecord(
        str(topic),
        int(partition),
        int(offset),
        int(timestamp),
        _bytes(key),
        _bytes(value),
        [(str(name), _bytes(text)) for name, text in headers],
        _some(stream),
        int(source_offset),
    )
    if record.partition < 0:
        raise ValueError(f"labels from partition {partition}")
    return Waiting(_labels(labels), record, int(due))


def _joined(texts: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return texts one behind the other, and where each ends."""
    return np.frombuffer(b"".join(texts), np.uint8), np.array([*accumulate(map(len, texts))], np.int64)


def _text(data: bytes | None) -> str | None:
    """Return bytes as JSON can hold them: a byte is a character."""
    return None if data is None else data.decode("latin-1")


def _bytes(text: Any) -> bytes | None:
    return None if text is None else str(text).encode("latin-1")


def _some(text: Any) -> bytes:
    return str(text).encode("latin-1")


def _labels(content: Any) -> Labels:
    labels = tuple(content)
    if len(labels) > LABELS or any(
        type(text) is not str or len(orjson.dumps(text)) - 2 > TEXT_BYTES for text in labels
    ):
        raise ValueError(f"{len(labels)} labels that no record can have")
    return labels
