"""The root of HCAEA alone: it learns as it does in the tree, and says what the models below its nodes must learn."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import Prediction, check_batch
from resonance.engine.caea.batch import predict_batch
from resonance.engine.caea.block import K
from resonance.engine.caea.reading import CRITERIA
from resonance.engine.events import events_from
from resonance.engine.hcaea import root_step
from resonance.engine.hcaea.memory import ROOT
from resonance.engine.hcaea.model_tree import RootedTree
from resonance.engine.hcaea.operations import Operations, RootStep
from resonance.engine.hcaea.root_step import children_of, give_children, learn_root, room_for_operations
from resonance.engine.shell import filled_by_kernels, no_answers, no_prediction


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

    def learn(self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None) -> RootStep:  # noqa: D102
        batch, marks = self._received(X, labels)
        answers = filled_by_kernels(no_answers(len(batch), self.depth))
        if not len(batch):
            return RootStep(*answers, operations=Operations.none(self.dimension))
        rows, vectors = room_for_operations(len(batch) + 64, self.dimension)
        fixed = self._rules, self._factors, batch, marks, self._log
        count = learn_root(*self._memory, *fixed, rows, vectors, *answers)
        row = rows[0][:count]
        operations = Operations(
            node=row[:, root_step.O_NODE].copy(),
            record=row[:, root_step.O_RECORD].copy(),
            removed=row[:, root_step.O_REMOVED] == 1,
            answered=row[:, root_step.O_ANSWERED] == 1,
            label=row[:, root_step.O_LABEL].copy(),
            vector=vectors[0][:count],
        )
        return RootStep(*answers, events_from(self._log, self.dimension, CRITERIA), operations=operations)

    def predict(self, X: ArrayLike) -> Prediction:  # noqa: D102
        batch = check_batch(X, self.dimension)
        answer = no_prediction(len(batch), self.depth)
        if self.dimension and len(batch):
            floats, integers = self._floats[ROOT], self._integers[ROOT]
            predict_batch(floats, integers, self._rules, batch, answer.cluster, answer.score, answer.label)
        return answer

    def _further(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"children": children_of(self._indexes[0])} if self.dimension else {}

    def _fits(self, arrays: Mapping[str, NDArray[Any]]) -> bool:
        there = arrays.get("children", np.empty(0))
        if len(self._integers) > ROOT + 1 or there.dtype != np.uint8 or there.shape != (self._integers[ROOT][K],):
            return False
        give_children(self._indexes[0], there)
        return not (there > 1).any()
