"""Labels of records: classes, which engines count, and sets, which some engines learn from."""

import abc
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import Engine, IntArray, Label, Step
from resonance.engine.errors import RecordError
from resonance.kernels.arithmetic import jit

LabelSet = Collection[Label]
"""The labels of one record, in no order; a label that comes twice counts once."""

MAX_CHARACTERS = 1000
"""Length of a label that is text."""


MAX_CLASSES = 1000
"""Classes of labels; every node has a count for each of those that have come to its model."""


@jit
def room_for_classes(room, classes):
    """Return room for at least so many classes: at least twice as much where there is too little."""
    return room if classes <= room else min(max(2 * room, classes), MAX_CLASSES)


def record_labels(labels: Sequence[int] | NDArray[np.int64] | None, count: int) -> IntArray:
    """Return one label for each of `count` records, -1 for none, or say which record has none that is one."""
    if labels is None:
        return np.full(count, -1, dtype=np.int64)
    array = np.ascontiguousarray(labels)
    if array.shape != (count,):
        raise RecordError(0, f"{count} records have labels of shape {array.shape}")
    if count and not np.issubdtype(array.dtype, np.integer):
        raise RecordError(0, f"labels are integers, not {array.dtype}")
    wrong = np.flatnonzero((array < -1) | (array >= MAX_CLASSES))
    if len(wrong):
        raise RecordError(int(wrong[0]), f"a label is a class number from 0 to {MAX_CLASSES - 1}, or -1 for none")
    return array.astype(np.int64)  # a copy: the kernels are compiled for arrays that may be written to


@jit
def majority_label(counts):
    """Return the class with the most counts; -1 where there are none or the majority is a tie."""
    most, found = np.int64(0), np.int64(-1)
    for c in range(len(counts)):
        if counts[c] > most:
            most, found = counts[c], np.int64(c)
        elif counts[c] == most:
            found = -1
    return found


@jit
def majority_labels(counts, count):
    """Return the class with the most counts of each of the first `count` nodes, as `majority_label` does."""
    found = np.empty(count, dtype=np.int64)
    for node in range(count):
        found[node] = majority_label(counts[node])
    return found


class LabelEngine(Engine):
    """An engine that learns from records with labels, and tells how probable each label is for any record.

    New labels may come at any time. A record without a label set is answered, and changes nothing.
    """

    # What tells labels apart may vary less than anything else: which features count is for the engine to learn.
    projects: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def labels(self) -> tuple[Label, ...]:
        """Labels that the model knows, in the order in which they came."""

    @abc.abstractmethod
    def learn(
        self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | Sequence[LabelSet | None] | None = None
    ) -> Step:
        """Answer for a batch, and learn those of its records that have labels, in order.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Prepared records: finite, at most `MAGNITUDE` in absolute value.
        labels : sequence, optional
            For each record its set of labels, or None where it has none to learn from; an empty set teaches that the
            record has none of the labels. Or, as of other engines, the number of its class: c >= 0 is the set {c}, -1
            is none.

        Returns
        -------
        Step
            `Step.labels` holds the probabilities, each record's as of before it was learned. Of a record that was not
            learned `Step.path` is -1.

        Raises
        ------
        RecordError
            Naming the first record that cannot be learned; nothing of the batch was.
        """


def label_sets(labels: Any, count: int) -> list[tuple[Label, ...] | None]:
    """Return the labels of each of `count` records, without repeats and in one order; None of one without a label set.

    Integers come before text, each in ascending order: a set has no order that two runs of a program share. What is
    neither a set of labels nor the number of a class is a `RecordError`.
    """
    if labels is None:
        return [None] * count
    if not isinstance(labels, np.ndarray):
        labels = list(labels)
        if any(given is None or isinstance(given, Collection) for given in labels):
            if len(labels) != count:
                raise RecordError(0, f"{count} records have {len(labels)} label sets")
            return [None if given is None else _one_set(index, given) for index, given in enumerate(labels)]
    return [(int(number),) if number >= 0 else None for number in record_labels(labels, count)]


def _one_set(index: int, given: Any) -> tuple[Label, ...]:
    """Return the labels of one record in their order."""
    if not isinstance(given, Collection) or isinstance(given, str | bytes | bytearray | Mapping):
        raise RecordError(index, f"{given!r} is no set of labels")
    found = {checked_label(index, label) for label in given}
    return tuple(sorted(found, key=lambda label: (isinstance(label, str), label)))


def checked_label(index: int, label: object) -> Label:
    """Return a label of record `index` as plain text or integer, or raise `RecordError`."""
    if isinstance(label, str):
        if len(label) > MAX_CHARACTERS:
            raise RecordError(
                index, f"a label of {len(label):,} characters begins {label[:20]!r}: {MAX_CHARACTERS:,} at most"
            )
        return str(label)
    if not isinstance(label, int | np.integer) or isinstance(label, bool) or not -(2**63) <= label < 2**63:
        raise RecordError(index, f"{label!r} is no label: labels are text, or integers of 64 bits")
    return int(label)
