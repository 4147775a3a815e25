"""Classes of records, which engines count beside their clusters and which never influence these."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from resonance.engine.arithmetic import jit
from resonance.engine.base import IntArray
from resonance.engine.errors import RecordError

MAX_CLASSES = 1000
"""Classes of labels; every node has a count for each of those that have come to its model."""


@jit
def room_for_classes(room, classes):
    """Return room for at least so many classes: at least twice as much where there is too little."""
    return room if classes <= room else min(max(2 * room, classes), MAX_CLASSES)


def record_labels(labels: Sequence[int] | NDArray[np.int64] | None, count: int) -> IntArray:
    """Return one label for each of `count` records, -1 for none.

    Raises
    ------
    RecordError
        Fewer or more labels than records, or one that is no class number.
    """
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
