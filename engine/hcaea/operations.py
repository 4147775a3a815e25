"""What the root of a hierarchy asks of the models below its nodes, wherever they live."""

from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np
from resonance.engine.base import BoolArray, FloatArray, IntArray, Step

MAX_NODES = 2**53
"""Node ids stay below it: events hold them as floats on the way out of a kernel."""


@dataclass(frozen=True, slots=True, eq=False)
class Operations:
    """A list of m operations, in the order in which they must be carried out; those of one root node in order suffice.

    Attributes
    ----------
    node : ndarray of int64, shape (m,)
        Id of the root node whose subtree the operation is for.
    record : ndarray of int64, shape (m,)
        Position in the batch of the record that caused it; ascending.
    removed : ndarray of bool, shape (m,)
        The node is gone and its subtree goes with it; otherwise a vector is learned.
    answered : ndarray of bool, shape (m,)
        The vector is the record itself, which is answered; otherwise one that the node kept, or an orphan.
    label : ndarray of int64, shape (m,)
        Class of the vector, -1 for none.
    vector : ndarray of float64, shape (m, d)
        What is learned; zeros where a node is removed.
    """

    node: IntArray
    record: IntArray
    removed: BoolArray
    answered: BoolArray
    label: IntArray
    vector: FloatArray

    @classmethod
    def none(cls, dimension: int) -> Self:
        """Return an empty list."""
        empty, no = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
        return cls(empty, empty, no, no, empty, np.empty((0, dimension)))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.node)

    def take(self, where: IntArray) -> Self:
        """Return those at some positions."""
        return type(self)(*(getattr(self, each.name)[where] for each in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class RootStep(Step):
    """Answers of a root for a learned batch, and what follows for the models below.

    The columns of `cluster` and `path` behind the first are -1, and `events` are the root's own.

    Attributes
    ----------
    operations : Operations
        In order.
    """

    operations: Operations = field(default_factory=lambda: Operations.none(0))


@dataclass(frozen=True, slots=True, eq=False)
class SubtreeStep(Step):
    """Answers of a subtree for m operations: a row for each, of which those that answer no record hold nothing.

    The first column of `path` is the root node, that of `cluster` -1; `score` and `novel` are the root's to give (NaN
    and False here). `Event.index` is the `Operations.record` that caused the event.
    """
