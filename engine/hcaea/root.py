"""The root of HCAEA alone: it learns as it does in the tree, and says what the models below its nodes must learn."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import Cluster, Prediction, check_batch
from resonance.engine.caea.batch import predict_batch
from resonance.engine.caea.block import CLUSTERS, K
from resonance.engine.caea.engine import rules_from
from resonance.engine.caea.reading import CRITERIA, stored_shapes
from resonance.engine.caea.state_checks import check_fault, opened
from resonance.engine.classes import MAX_CLASSES
from resonance.engine.errors import StateError
from resonance.engine.events import cluster_of, events_from
from resonance.engine.hcaea import root_step
from resonance.engine.hcaea.batch import pack_models, unpack_tree
from resonance.engine.hcaea.faults import tree_fault
from resonance.engine.hcaea.memory import ROOT
from resonance.engine.hcaea.model_tree import RootedTree
from resonance.engine.hcaea.operations import Operations, RootStep
from resonance.engine.hcaea.root_step import children_of, give_children, learn_root, room_for_operations
from resonance.engine.shell import filled_by_kernels, no_answers, no_prediction
from resonance.engine.state import pack, unpack


class HCAEARoot(RootedTree):
    """The first level of `HCAEA`, whose other levels live elsewhere.

    Together with one `HCAEASubtree` for each root node that has a child, which are given the operations of that node
    in order, it is HCAEA bit for bit: what a child learns never comes back to the root.

    Parameters
    ----------
    lambda_, age_max, grace, reading, tau, min_cluster_records, max_nodes, expire_records, bandwidth, renew, valley
        As for `CAEA`.
    max_depth, min_child_records, orphans, max_leaves
        As for `HCAEA`.

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
    revision: ClassVar[int] = 2

    def learn(self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None) -> RootStep:  # noqa: D102
        batch, marks = self._received(X, labels)
        answers = no_answers(len(batch), self.depth)
        cluster, score, novel, path = answers.cluster, answers.score, answers.novel, answers.path
        if not len(batch):
            return RootStep(cluster, score, novel, path, operations=Operations.none(self.dimension))
        rows, vectors = room_for_operations(len(batch) + 64, self.dimension)
        asked = learn_root(
            *self._memory,
            self._rules,
            self._factors,
            batch,
            marks,
            self._log,
            rows,
            vectors,
            *filled_by_kernels(answers),
        )
        row = rows[0][:asked]
        operations = Operations(
            node=row[:, root_step.O_NODE].copy(),
            record=row[:, root_step.O_RECORD].copy(),
            removed=row[:, root_step.O_REMOVED] == 1,
            answered=row[:, root_step.O_ANSWERED] == 1,
            label=row[:, root_step.O_LABEL].copy(),
            vector=vectors[0][:asked],
        )
        return RootStep(
            cluster, score, novel, path, events_from(self._log, self.dimension, CRITERIA), operations=operations
        )

    def predict(self, X: ArrayLike) -> Prediction:  # noqa: D102
        batch = check_batch(X, self.dimension)
        answer = no_prediction(len(batch), self.depth)
        if self.dimension and len(batch):
            floats, integers = self._floats[ROOT], self._integers[ROOT]
            predict_batch(floats, integers, self._rules, batch, answer.cluster, answer.score, answer.label)
        return answer

    def clusters(self) -> list[Cluster]:
        """Present confirmed clusters of the first level, by id, as last read."""
        if not self.dimension or not self._integers[ROOT][CLUSTERS]:
            return []
        shapes = stored_shapes(self._floats[ROOT], self._integers[ROOT], self._rules)
        return [cluster_of(row, (), self.dimension) for row in shapes]

    def state(self) -> bytes:  # noqa: D102
        header: dict[str, Any] = {"parameters": self._given, "dimension": self.dimension}
        if not self.dimension:
            return pack(self.name, self.revision, header, {})
        header["classes"] = self._classes
        floats, integers = pack_models(self._indexes[0], self._rules, np.array([ROOT]))
        arrays = {
            "children": children_of(self._indexes[0]),
            "floats": np.concatenate(list(floats)),
            "integers": np.concatenate(list(integers)),
        }
        return pack(self.name, self.revision, header, arrays)

    @classmethod
    def from_state(cls, data: bytes) -> Self:  # noqa: D102
        model, dimension, classes, floats, integers = opened(cls, data, MAX_CLASSES)
        if dimension:
            rules = rules_from({**model._given, "max_depth": model.depth}, dimension)
            check_fault(cls.name, *tree_fault(floats, integers, rules, classes, 0))
            model._begin(dimension)
            model._classes = classes
            unpack_tree(*model._memory, model._rules, classes, floats, integers, -1)
            _, arrays = unpack(data, cls.name, cls.revision)
            there = arrays.get("children", np.empty(0))
            fits = there.dtype == np.uint8 and there.shape == (model._integers[ROOT][K],) and not (there > 1).any()
            if len(model._integers) != ROOT + 1 or not fits:
                raise StateError(f"the state of {cls.name} does not have the children that it says it has")
            give_children(model._indexes[0], there)
        return model
