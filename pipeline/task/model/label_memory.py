"""The records of a stream that can still be labelled, and the labels whose record has not come yet."""

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
from resonance.pipeline.config.checks import LABELS
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import RoutedRecord
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.labels import TEXT_BYTES, Labels, too_many

KIND: Final = "labels"
REVISION: Final = 1

ID_BYTES: Final = 1_000
"""Longest id of a record that is kept for late labels."""


class Waiting(NamedTuple):
    """Labels whose record has not come yet."""

    labels: Labels
    record: RoutedRecord
    """The message that carries them."""
    due: int
    """Value of `LabelMemory.seen` at which they are given up."""


class LabelMemory:
    """Remembers the newest records of a stream by their ids, with the features of those that have no labels yet.

    It remembers no record, and lets no label wait, until `bound` is called.
    """

    __slots__ = (
        "_labels",
        "_most",
        "_patience",
        "held",
        "held_at",
        "kept",
        "known",
        "learned",
        "seen",
        "unlabelled",
        "waiting",
    )

    def __init__(self) -> None:
        self._most = self._patience = 0
        self._labels = LABELS
        self.kept: OrderedDict[bytes, FloatArray | None] = OrderedDict()
        """Prepared features of the records that are remembered, by id; None for one that has its labels."""
        self.seen = self.learned = self.unlabelled = 0
        """Records taken and messages of labels so far; records learned with labels; records whose features are kept."""
        self.held: list[tuple[bytes | None, Labels | None]] = []
        """Id and labels of each record that the warm-up holds back; the labels of an entry can be set later."""
        self.held_at: dict[bytes, int] = {}
        """Position in `held` of the newest record of each id."""
        self.waiting: dict[bytes, Waiting] = {}
        """Labels by the id of the record that has not come."""
        self.known: set[str] = set()
        """Every label of the stream, learned or waiting to be learned."""

    def __len__(self) -> int:
        return len(self.kept)

    def bound(self, settings: Settings) -> None:
        """Set from now on how many records are kept at most, and how long labels wait for their records at most."""
        # Without a topic of labels no label comes late.
        self._most = settings.labels.buffer_records if settings.labels.topic else 0
        self._patience = settings.labels.wait_records
        self._labels = min(LABELS, settings.engine_parameters.get("max_labels", LABELS))
        self._forget()
        # Earlier settings may have let labels wait longer; capping them keeps `due` ascending in the order of arrival.
        last = self.seen + self._patience
        self.waiting = {own: label._replace(due=min(label.due, last)) for own, label in self.waiting.items()}

    def go_on(self, before: "LabelMemory") -> None:
        """Take over the waiting labels from the version before; `bound` limits how much longer they wait."""
        self.seen, self.waiting = before.seen, before.waiting

    def hold(self, own: bytes | None, labels: Labels | None) -> None:
        """Remember a record that the warm-up holds back."""
        if own is not None:
            self.held_at[own] = len(self.held)
        self.held.append((own, labels))

    def release(self) -> list[tuple[bytes | None, Labels | None]]:
        """Remove and return the records that the warm-up held back."""
        held, self.held, self.held_at = self.held, [], {}
        return held

    def keep(self, own: bytes | None, features: FloatArray | None) -> None:
        """Remember a record, and forget the oldest beyond the limit; `features` is None where it has its labels.

        A record without an id is not kept, because no message could name it; of several with the same id the newest
        counts.
        """
        if not self._most or own is None or len(own) > ID_BYTES:
            return
        self.unlabelled -= self.kept.pop(own, None) is not None
        self.kept[own] = None if features is None else features.copy()
        self.unlabelled += features is not None
        self._forget()

    def _forget(self) -> None:
        while len(self.kept) > self._most:
            _, oldest = self.kept.popitem(last=False)
            self.unlabelled -= oldest is not None

    def take_in(self, labels: Labels) -> None:
        """Add labels that will be learned to those of the stream; raise `FaultError` if it would have too many."""
        if not self.known.issuperset(labels):
            known = self.known.union(labels)
            if len(known) > self._labels:
                raise too_many(f"with these labels the stream would have {len(known):,}", self._labels)
            self.known = known

    def take(self, own: bytes) -> FloatArray | None:
        """Return the features of a record that gets its labels now; None where it already has labels."""
        features, self.kept[own] = self.kept[own], None
        self.unlabelled -= features is not None
        return features

    def wait(self, own: bytes, labels: Labels, record: RoutedRecord) -> bool:
        """Let labels wait for their record; return False where the settings let none wait."""
        if not self._patience:
            return False
        self.waiting[own] = Waiting(labels, record, self.seen + self._patience)
        return True

    def overdue(self) -> list[tuple[bytes, RoutedRecord]]:
        """Remove the labels that have waited long enough; return their ids and messages in the order of their topic."""
        if not self.waiting or next(iter(self.waiting.values())).due > self.seen:
            return []
        return self._given_up(
            [own for own, _ in takewhile(lambda entry: entry[1].due <= self.seen, self.waiting.items())]
        )

    def give_up(self) -> list[tuple[bytes, RoutedRecord]]:
        """Remove all labels that wait; return their ids and messages in the order of their topic."""
        return self._given_up(list(self.waiting))

    def _given_up(self, ids: list[bytes]) -> list[tuple[bytes, RoutedRecord]]:
        given_up = [(own, self.waiting.pop(own).record) for own in ids]
        return sorted(given_up, key=lambda entry: (entry[1].topic, entry[1].partition, entry[1].source_offset))

    def too_late(self, own: bytes) -> FaultError:
        """Return the fault of labels whose record is neither remembered nor expected any more."""
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
        """Return the canonical state (equal states, equal bytes); `columns` is the length of a prepared record."""
        waiting = [
            [_text(own), list(labels), due, record.topic, record.partition, record.offset, record.timestamp,
             _text(record.key), _text(record.value), [[name, _text(value)] for name, value in record.headers],
             _text(record.stream), record.source_offset]
            for own, (labels, record, due) in self.waiting.items()
        ]  # fmt: skip
        held = [[_text(own), None if labels is None else list(labels)] for own, labels in self.held]
        rows = [features for features in self.kept.values() if features is not None]
        ids, ends = _joined(list(self.kept))
        arrays: dict[str, NDArray[Any]] = {
            "ids": ids,
            "ends": ends,
            "labelled": np.array([features is None for features in self.kept.values()], np.uint8),
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
        """Continue from a `state`, which must fit the stream's model.

        A prepared record has `columns` features, the warm-up holds `held` records, and the engine has learned the
        labels `learned`.
        """
        header, arrays = unpack(data, KIND, REVISION)
        made = cls()
        try:
            made.seen, made.learned = int(header["seen"]), int(header["learned"])
            for own, labels in header["held"]:
                made.hold(_bytes(own), None if labels is None else _labels(labels))
            made.known = set(_labels(header["known"]))
            # The limit is checked against `known`; a label missing there would let the engine refuse one later.
            if not made.known.issuperset([*learned, *(text for _, labels in made.held for text in labels or ())]):
                raise ValueError(f"of {len(made.known)} labels some are missing that records were learned with")
            made.waiting = {_some(own): _waiting(rest) for own, *rest in header["waiting"]}
            dues = [label.due for label in made.waiting.values()]
            if dues != sorted(dues):
                raise ValueError("labels that wait in another order than they came")
            for own in made.waiting:
                own.decode()
            made.kept = _kept(arrays, columns)
            made.unlabelled = len(arrays["features"])
            if len(made.held) != held or made.seen < 0 or made.learned < 0:
                raise ValueError(f"{len(made.held)} of {held} records of the warm-up, {made.seen} records")
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise StateError(f"the labels of a stream cannot be read: {error!r}") from error
        return made


def shown(own: bytes) -> str:
    """Return an id cut to a length that fits into a message."""
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
    """Return the texts joined, and where each ends."""
    return np.frombuffer(b"".join(texts), np.uint8), np.array([*accumulate(map(len, texts))], np.int64)


def _text(data: bytes | None) -> str | None:
    """Return bytes as text for JSON, one character for each byte."""
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
