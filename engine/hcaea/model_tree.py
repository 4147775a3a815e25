"""What HCAEA and its two parts have in common: the parameters, and the memory that a tree of models lies in."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numba.typed import List
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import Cluster, Engine, FloatArray, IntArray, check_batch
from resonance.engine.caea.block import CAPACITY, CHILD, CLUSTERS, ID, K, at_field
from resonance.engine.caea.engine import PAPER, PARAMETERS, check_room, rules_from, with_classes
from resonance.engine.caea.packed_facts import state_facts
from resonance.engine.caea.reading import stored_shapes
from resonance.engine.classes import record_labels
from resonance.engine.correntropy import bandwidth_factors
from resonance.engine.events import cluster_of
from resonance.engine.facts import ModelFacts, Path
from resonance.engine.hcaea.batch import FLOATS, INDEX, INTEGERS
from resonance.engine.hcaea.kept_records import new_pool
from resonance.engine.hcaea.memory import ROOT, add, address, new_model
from resonance.engine.parameters import MAX, Parameter, Parametrised

NO_LIMIT = 64
"""Levels that a tree without `max_depth` may have: more than any stream has reached."""


class ModelTree(Parametrised):
    """The parameters of HCAEA and an empty tree; see `HCAEA`.

    Attributes
    ----------
    depth : int
        Levels in all, the root included.
    dimension : int
        Features of a record; 0 before the first batch.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (
        *PARAMETERS,
        Parameter("max_depth", int, 3, "levels, the root included", 1, NO_LIMIT, optional=True),
        Parameter(
            "min_child_records",
            int,
            None,
            "records that a node needs before it gets a child model; by default d + 1",
            1,
            MAX,
            optional=True,
        ),
        Parameter(
            "orphans", str, "nearest", "where the last records of a removed node go", choices=("nearest", "drop")
        ),
        Parameter("max_leaves", int, 1000, "leaves of the subtree of each root node", 2, MAX),
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": PAPER}

    depth: int
    dimension: int = 0

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        check_room(self._given)
        self.depth = self._given["max_depth"] or NO_LIMIT

    def _begin(self, dimension: int) -> None:
        """Take the dimension of the first batch."""
        self.dimension = dimension
        self._rules = rules_from({**self._given, "max_depth": self.depth}, dimension)
        self._factors = bandwidth_factors(dimension, self._rules.h)
        self._classes = 0
        self._floats = List.empty_list(FLOATS)
        self._integers = List.empty_list(INTEGERS)
        self._indexes = List.empty_list(INDEX)
        add(*self._memory, *new_pool(dimension, 64))
        self._log = List.empty_list(FLOATS)

    @property
    def _memory(self) -> tuple[List, List, List]:
        """What a tree lies in, as kernels take it; see `memory`."""
        return self._floats, self._integers, self._indexes

    def _make_room_for_labels(self, classes: int) -> None:
        if classes <= self._classes:
            return
        for m in range(ROOT, len(self._integers)):
            head = self._integers[m]
            if len(head) > 1:  # not an unused entry
                self._floats[m], self._integers[m] = with_classes(
                    self._floats[m], head, self.dimension, self._rules.h, classes
                )
        address(*self._memory)
        self._classes = classes

    def _collect(self, m: int, path: tuple[int, ...], found: list[Cluster]) -> None:
        """Add the clusters of a model and of all below it."""
        head = self._integers[m]
        if head[CLUSTERS]:
            shapes = stored_shapes(self._floats[m], head, self._rules)
            found.extend(cluster_of(row, path, self.dimension) for row in shapes)
        capacity, k = int(head[CAPACITY]), int(head[K])
        names = head[at_field(ID, capacity) : at_field(ID, capacity) + k]
        children = head[at_field(CHILD, capacity) : at_field(CHILD, capacity) + k]
        for node in np.flatnonzero(children >= 0):
            self._collect(int(children[node]), (*path, int(names[node])), found)


class RootedTree(ModelTree, Engine):
    """A tree with a root, which records come to."""

    def _received(self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None) -> tuple[FloatArray, IntArray]:
        """Return a batch and its labels, checked; the tree has begun then, and has room for them."""
        batch = check_batch(X, self.dimension)
        marks = record_labels(labels, len(batch))
        if len(batch):
            if not self.dimension:
                self._begin(batch.shape[1])
                new_model(*self._memory, self._rules, -1, -1, 0, 0)
            self._make_room_for_labels(int(marks.max()) + 1)
        return batch, marks

    def models(self) -> dict[Path, ModelFacts]:  # noqa: D102
        return state_facts(self.state(), self.name, self.revision)

    @classmethod
    def compile(cls) -> None:  # noqa: D102
        model = cls(lambda_=3, min_child_records=2)
        model.learn(np.arange(48.0).reshape(24, 2) % 7.0, labels=[0] * 24)
        model.predict(np.zeros((1, 2)))
        cls.from_state(model.state())
