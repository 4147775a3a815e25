"""The root of HCAEA alone, which says what models below its nodes must learn, and what lies below one node."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import FloatArray, Path, Prediction, check_batch
from resonance.engine.caea.learn import predict_batch
from resonance.engine.caea.model import Rules
from resonance.engine.caea.reading import CRITERIA
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.events import drained, events_from
from resonance.engine.hcaea.engine import ModelTree, RootedTree
from resonance.engine.hcaea.learn import TOP, add_placeholder_root, learn_batch
from resonance.engine.hcaea.memory import ROOT, new_model, remove_model
from resonance.engine.hcaea.operations import MAX_NODES, Operations, RootStep, SubtreeStep
from resonance.engine.hcaea.tree import O_HEAD, THERE
from resonance.engine.labels import record_labels
from resonance.engine.shell import arrays_of, empty_step
from resonance.kernels.lists import entry, length
from resonance.kernels.table import require


class HCAEARoot(RootedTree):
    """The first level of `HCAEA`, whose other levels live elsewhere.

    Together with one `HCAEASubtree` for each root node that has a child, which are given the operations of that node
    in order, it is HCAEA bit for bit: what a child learns never comes back to the root.

    Notes
    -----
    `Step.cluster` and `Step.path` have all levels, of which only the first is filled here. What `learn` returns is a
    `RootStep`.

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import HCAEARoot, HCAEASubtree
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2)) * 0.05 + rng.integers(0, 3, size=(1000, 1))
    >>> root, subtrees = HCAEARoot(), {}
    >>> operations = root.learn(X).operations
    >>> for node in dict.fromkeys(operations.node.tolist()):
    ...     subtrees[node] = HCAEASubtree.below(node, {})
    ...     step = subtrees[node].follow(operations.take(np.flatnonzero(operations.node == node)))
    """

    name: ClassVar[str] = "hcaea-root"

    def learn(self, X: ArrayLike, labels: Any = None) -> RootStep:  # noqa: D102
        step = super().learn(X, labels)
        rows = drained(self._operations)[0].reshape(-1, O_HEAD + self.dimension)
        node, record, removed, answered, label = rows[:, :O_HEAD].astype(np.int64).T.copy()
        operations = Operations(node, record, removed == 1, answered == 1, label, rows[:, O_HEAD:].copy())
        return RootStep(*arrays_of(step), step.events, operations=operations)

    def _rules_for(self, dimension: int) -> Rules:
        return super()._rules_for(dimension)._replace(remote=True)

    def _predict(self, batch: FloatArray, answer: Prediction) -> None:
        given = self._model(ROOT), self._rules, batch
        predict_batch(*given, answer.cluster, answer.score, answer.novel, answer.label)

    def _packed(self) -> dict[str, NDArray[Any]]:
        root = self._model(ROOT)
        return {**super()._packed(), "children": (root.child[: root.nodes] >= 0).astype(np.uint8)}

    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(dimension, header, arrays)
        there, root = arrays["children"], self._model(ROOT)
        alone = length(self._memory[0]) == ROOT + 1 and there.dtype == np.uint8 and there.shape == (root.nodes,)
        require(alone and not (there > 1).any(), "its children")
        root.child[: root.nodes] = np.where(there, THERE, -1)


class HCAEASubtree(ModelTree):
    """The subtree of one root node of `HCAEA`, which may live anywhere.

    It carries out the operations of `HCAEARoot` on that node, in order, and is what the tree has below the node, bit
    for bit: a child model depends only on the vectors that it is given. `max_leaves` bounds it.

    Attributes
    ----------
    node : int
        Id of the root node.
    ended : bool
        The node was removed, and nothing is left of the subtree.
    """

    name: ClassVar[str] = "hcaea-subtree"

    node: int
    ended: bool

    @classmethod
    def below(cls, node: int, parameters: Mapping[str, Any]) -> Self:
        """Return an empty subtree.

        Parameters
        ----------
        node : int
            Id of the root node.
        parameters : mapping of str to object
            Those of HCAEA, by the names that settings use.

        Raises
        ------
        ParameterError
            An unknown parameter, a value outside its range, or a `max_depth` that leaves no level below the root.
        """
        subtree = cls.make(parameters)
        subtree.node = node
        return subtree

    @classmethod
    def make(cls, parameters: Mapping[str, Any]) -> Self:
        """Return an empty subtree of the first node there ever was; raises as `below` does."""
        subtree = super().make(parameters)
        if subtree.depth == 1:
            raise ParameterError("max_depth", 1, "at least 2 where there are models below the root's nodes")
        subtree.node, subtree.ended = 0, False
        return subtree

    def _begin(self, dimension: int) -> None:
        super()._begin(dimension)
        add_placeholder_root(*self._memory, self._rules, self.node)

    def follow(self, operations: Operations) -> SubtreeStep:
        """Carry out operations in order.

        Parameters
        ----------
        operations : Operations
            Of this root node. A removal is the last one that there ever is.

        Raises
        ------
        StateError
            One for another node, or after the removal; nothing was carried out.
        RecordError
            A vector that cannot be learned; nothing was carried out.
        """
        count = len(operations)
        if (operations.node != self.node).any():
            raise StateError(f"an operation is not for root node {self.node}")
        gone = np.flatnonzero(operations.removed)
        if count and (self.ended or (len(gone) and gone[0] != count - 1)):
            raise StateError(f"root node {self.node} was removed: nothing can follow")
        learned = count - len(gone)
        batch = check_batch(operations.vector[:learned], self.dimension)
        labels = record_labels(operations.label[:learned], learned)
        cluster, score, novel, path = arrays_of(empty_step(count, self.depth))
        path[operations.answered, 0] = self.node
        if learned:
            if not self.dimension:
                self._begin(batch.shape[1])
                new_model(*self._memory, self._rules, ROOT, self.node, 1)
            self._classes = max(self._classes, int(labels.max()) + 1)
            marked = operations.record[:learned], operations.answered[:learned]
            given = *self._memory, self._rules, self._factors, TOP, np.array([self.node]), batch, labels, *marked
            learn_batch(*given, self._log, self._operations, (cluster, score, novel, path))
        self.ended = self.ended or len(gone) > 0
        if len(gone) and self.dimension:
            blocks, indexes = self._memory
            remove_model(blocks, entry(indexes, 0), self._rules, TOP, int(operations.record[-1]), self._log)
        return SubtreeStep(cluster, score, novel, path, events_from(self._log, self.dimension, CRITERIA))

    @property
    def _top(self) -> tuple[int, Path]:
        return TOP, (self.node,)

    def _models(self) -> Iterator[tuple[int, Path]]:
        return iter(()) if self.ended else super()._models()

    def state(self) -> bytes:
        """Return everything the next operation depends on; `StateError` where the node was removed."""
        if self.ended:
            raise StateError(f"root node {self.node} was removed: there is nothing to go on with")
        return super().state()

    def _whole_header(self) -> dict[str, Any]:
        return {**super()._whole_header(), "node": self.node}

    @classmethod
    def _made(cls, header: Mapping[str, Any]) -> Self:
        node = header["node"]
        require(type(node) is int and 0 <= node < MAX_NODES, f"a root node {node!r}")
        return cls.below(node, header["parameters"])

    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(dimension, header, arrays)
        require(self._model(TOP).parent_id == self.node, f"what is below root node {self.node}")

    @classmethod
    def compile(cls) -> None:
        """Compile every kernel, or load it from the cache, before the first record comes."""
        model = cls.below(0, {"lambda": 3, "min_child_records": 2})
        count = 24
        marks = np.ones(count, dtype=np.bool_)
        numbers = np.zeros(count, dtype=np.int64)
        model.follow(Operations(numbers, numbers, ~marks, marks, numbers, np.arange(48.0).reshape(count, 2) % 7.0))
        copy = cls.from_state(model.state())
        copy.follow(Operations(numbers[:1], numbers[:1], marks[:1], ~marks[:1], numbers[:1], np.zeros((1, 2))))
