"""HCAEA: a tree of CAEA models; its parameters and the memory that it lies in, which its two parts have, too."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numba.typed import List
from numpy.typing import NDArray
from resonance.engine.base import Cluster, FloatArray, IntArray, ModelFacts, Path, Prediction, Step
from resonance.engine.caea.engine import PAPER, PARAMETERS, check_room, facts_of, rules_from
from resonance.engine.caea.faults import check_fault, checked_arrays
from resonance.engine.caea.model import Model, Rules
from resonance.engine.caea.reading import CRITERIA, stored_shapes
from resonance.engine.correntropy import bandwidth_factors
from resonance.engine.errors import StateError
from resonance.engine.events import NO_PATH, cluster_of, new_log
from resonance.engine.hcaea.learn import (
    learn_batch,
    new_lists,
    pack_tree,
    predict_clusters,
    predict_labels,
    unpack_tree,
)
from resonance.engine.hcaea.memory import POOL, ROOT, add, new_model, new_pool, tree_fault
from resonance.engine.labels import majority_label
from resonance.engine.parameters import MAX, Parameter
from resonance.engine.shell import KernelEngine, Stored, arrays_of
from resonance.kernels.lists import entry

NO_LIMIT = 64
"""Levels that a tree without `max_depth` may have: more than any stream has reached."""


class ModelTree(Stored):
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
            "records of a node until it gets a child model; else d + 1",
            1,
            MAX,
            optional=True,
        ),
        Parameter("orphans", str, "nearest", "where a removed node's last records go", choices=("nearest", "drop")),
        Parameter("max_leaves", int, 1000, "most leaves below a root node", 2, MAX),
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": PAPER}

    revision: ClassVar[int] = 2

    depth: int
    _memory: tuple[List, List]
    """What a tree lies in, as kernels take it; see `memory`."""

    @property
    def crowded(self) -> bool:
        """Whether it has fewer nodes than the clusters need; a tree grows below its nodes."""
        return False

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        check_room(self._given)
        self.depth = self._given["max_depth"] or NO_LIMIT

    @cached_property
    def _operations(self) -> Any:
        return new_log()

    def _begin(self, dimension: int) -> None:
        """Take the dimension of the first batch."""
        self.dimension = dimension
        self._rules = self._rules_for(dimension)
        self._factors = bandwidth_factors(dimension, self._rules.h)
        self._memory = new_lists()
        add(*self._memory, new_pool(dimension, 64))

    def _rules_for(self, dimension: int) -> Rules:
        return rules_from({**self._given, "max_depth": self.depth}, dimension)

    @property
    def _top(self) -> tuple[int, Path]:
        """Entry and path of the model that all others are below."""
        return ROOT, ()

    def _model(self, m: int) -> Model:
        """Return the model at an entry: good until the tree learns."""
        return Model(entry(self._memory[0], m))

    def _models(self) -> Iterator[tuple[int, Path]]:
        """Yield entry and path of each model, depth first in node order."""
        left = [self._top] if self.dimension else []
        while left:
            m, path = left.pop()
            yield m, path
            model = self._model(m)
            for node in np.flatnonzero(model.child[: model.nodes] > POOL)[::-1]:
                left.append((int(model.child[node]), (*path, int(model.id[node]))))

    def models(self) -> dict[Path, ModelFacts]:
        """Return what is known of each model of the tree, by its path."""
        return {path: facts_of(self._model(m), path) for m, path in self._models()}

    def clusters(self) -> list[Cluster]:
        """Present confirmed clusters, by path and id, as last read."""
        found: list[Cluster] = []
        for m, path in self._models():
            found.extend(cluster_of(row, path, self.dimension) for row in stored_shapes(self._model(m)))
        return sorted(found, key=lambda cluster: (cluster.path, cluster.id))

    def _header(self) -> dict[str, Any]:
        return {"classes": self._classes}

    def _packed(self) -> dict[str, NDArray[Any]]:
        floats, integers = pack_tree(self._memory[1], self._top[0])
        return {"floats": floats, "integers": integers}

    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        classes, floats, integers = checked_arrays(self.name, dimension, header, arrays)
        level = len(self._top[1])
        check_fault(self.name, *tree_fault(floats, integers, self._rules_for(dimension), classes, level))
        self._begin(dimension)
        self._classes = classes
        if not unpack_tree(*self._memory, self._rules, floats, integers, ROOT if level else -1):
            raise StateError(f"the state of {self.name} does not hold the tree that it says it holds")


class RootedTree(ModelTree, KernelEngine):
    """A tree with a root, which records come to."""

    criteria = CRITERIA
    tried: ClassVar[Mapping[str, Any]] = {"lambda": 3, "min_child_records": 2}

    def _begin_with(self, batch: FloatArray) -> None:
        super()._begin_with(batch)
        new_model(*self._memory, self._rules, -1, -1, 0)

    def _learn(self, batch: FloatArray, labels: IntArray, step: Step) -> None:
        places, every = np.arange(len(batch)), np.ones(len(batch), dtype=np.bool_)
        given = *self._memory, self._rules, self._factors, ROOT, NO_PATH, batch, labels, places, every
        learn_batch(*given, self._log, self._operations, arrays_of(step))


class HCAEA(RootedTree):
    """Hierarchical divisive clustering: a CAEA whose nodes have CAEA models of their own.

    A record is learned by the root, then by the child model of the node it was given to, and so on; the tree is the
    one that the paper's layer-by-layer training gives, but built online. A node that is removed takes its subtree
    with it, and its last records go to its neighbours.

    Notes
    -----
    A child model with 2 nodes or fewer is not valid: it goes on learning, and its parent's node counts as a leaf.
    Every model reads its own clusters; `Step.cluster` has one for each level of a record's path. With
    ``reading="valley"`` what is one blob has no clusters within it: a model below the root has two of them or none.

    References
    ----------
    N. Masuyama, N. Amako, Y. Yamada, Y. Nojima, H. Ishibuchi, "Adaptive resonance theory-based topological
    clustering with a divisive hierarchical structure capable of continual learning", IEEE Access, 2022.
    Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import HCAEA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2)) * 0.05 + rng.integers(0, 3, size=(1000, 1))
    >>> step = HCAEA().learn(X)
    >>> step.path.shape
    (1000, 3)
    """

    name: ClassVar[str] = "hcaea"

    def _leaves(self, m: int) -> Iterator[tuple[Model, int]]:
        """Yield model and position of each leaf at and below a model, depth first in node order."""
        model = self._model(m)
        for at, child in enumerate(model.child[: model.nodes].tolist()):
            if child >= 0 and self._model(child).nodes > 2:
                yield from self._leaves(child)
            else:
                yield model, at

    def _predict(self, batch: FloatArray, answer: Prediction) -> None:
        predict_clusters(self._memory[1], self._rules, batch, answer.cluster, answer.score, answer.novel)
        # All leaves are described for their labels alone.
        leaves = list(self._leaves(ROOT)) if self._classes else []
        if total := len(leaves):
            stride = (total + 7) // 8 * 8
            weights = np.zeros((self.dimension, stride))
            weights[:, :total] = np.stack([model.weight[:, at] for model, at in leaves], axis=1)
            sigma = np.array([model.sigma[at] for model, at in leaves])
            label = np.array([majority_label(model.labels[at]) for model, at in leaves], dtype=np.int64)
            predict_labels(weights.ravel(), stride, total, sigma, label, batch, answer.label)
